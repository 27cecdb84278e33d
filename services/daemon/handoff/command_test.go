package handoff

import (
	"os/exec"
	"strings"
	"testing"
)

func TestClosed(t *testing.T) {
	for command, want := range map[string]bool{
		`make`: true, `echo "it's"`: true, `echo 'a"b'`: true, `echo it\'s`: true, `echo "a\"b"`: true, `echo '\'`: true,
		`make # don't`: true, "make # don't\necho 'x'": true, `echo a#'`: false, `echo $#`: true,
		"echo `date`": true, "echo `date": false, `echo "`: false, `echo '`: false, `echo \`: false, `echo "a\"`: false,
		"cat <<E\ndon't\nE": true, `echo "$(ls 'x')"`: true,
	} {
		if got := closed(command); got != want {
			t.Errorf("closed(%q) = %v", command, got)
		}
	}
}

// TestClosedToShell checks with sh that a closed command does not include the line
// after it.
func TestClosedToShell(t *testing.T) {
	for _, command := range []string{
		`true "it's"`, `true 'a"b'`, `true it\'s`, `true "a\"b"`, `true '\'`, `true # don't`, `true $#`, "true `true`", "true <<E\ndon't\nE",
		commandOf("execute_python3", object{"code": []byte(`"print('it''s')"`)}),
	} {
		if !pasteable(command) {
			t.Errorf("%q is not pasteable", command)
		}
		out, err := exec.Command("sh", "-c", "python3() { :; }\n"+command+"\necho behind").CombinedOutput()
		if err != nil || string(out) != "behind\n" {
			t.Errorf("%q: %q, %v", command, out, err)
		}
	}
}

func TestWithoutRoot(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "/w/p": ".", "/w/p/": "./", "see /w/p/a and /w/p.": "see ./a and ./.", "`/w/p/a`": "`./a`", "(/w/p)": "(.)",
		"/w/px /w/p.go /w/p-a /w/p_": "/w/px /w/p.go /w/p-a /w/p_", "/mnt/w/p /w//w/p": "/mnt/w/p /w//w/p",
		"PATH=/w/p/bin:/w/p/sbin": "PATH=./bin:./sbin", "--out=/w/p -L/w/p": "--out=. -L.", "file:///w/p": "file:///w/p",
		"/w/p/w/p/x": "./w/p/x", "/mnt/w/p/w/p": "/mnt/w/p/w/p", "/w/pw/w/p /w/p": "/w/pw/w/p .",
		"/w/p\n/w/p": ".\n.", "/w/pé": "/w/pé", "\"/w/p\"": "\".\"",
	} {
		p := places{root: "/w/p"}
		if got := p.withoutRoot(text); got != want {
			t.Errorf("withoutRoot(%q) = %q, want %q", text, got, want)
		}
	}
	for _, root := range []string{"", "/"} {
		p := places{root: root}
		if got := p.withoutRoot("/a / b"); got != "/a / b" {
			t.Errorf("root %q: %q", root, got)
		}
	}
}

func TestText(t *testing.T) {
	for text, want := range map[string]string{
		"a\tb\nc": "a\tb\nc", "a\r\nb": "a\nb", "a\rb": "a^Mb", "\x1b[2J": "^[[2J", "\u009b1m": "\\u009b1m", "a\u202eb": "a\\u202eb",
		"a\u2028b": "a\\u2028b", "a\xffb": "a\ufffdb", "é\x00": "é^@",
	} {
		if got := printable(text); got != want {
			t.Errorf("printable(%q) = %q, want %q", text, got, want)
		}
	}
	if got := clip("aéb", 2); got != "a…" {
		t.Errorf("clip: %q", got)
	}
	if got := middle(strings.Repeat("é", 30), 30); got != "éééééééééé\n[… 30 bytes left out …]\nééééé" {
		t.Errorf("middle: %q", got)
	}
}

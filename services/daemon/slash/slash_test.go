package slash

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"zino/pkg/zinotest"
)

// newHost runs commands in a directory, and reads files of it.
func newHost(t *testing.T, dir string) Host {
	return Host{
		Run: func(_ context.Context, command string) (string, string, error) {
			cmd := exec.Command("sh", "-c", command)
			cmd.Dir = dir
			out, err := cmd.CombinedOutput()
			if err != nil {
				return string(out), strings.Replace(err.Error(), "exit status", "exit", 1), nil
			}
			return string(out), "", nil
		},
		Read: func(_ context.Context, path string) (string, bool, error) {
			b, err := os.ReadFile(filepath.Join(dir, path))
			return string(b), err == nil, nil
		},
	}
}

func TestExpand(t *testing.T) {
	dir := zinotest.Dir(t)
	zinotest.Write(t, filepath.Join(dir, "a.txt"), "hello !`touch evil` @b.txt\n")
	zinotest.Write(t, filepath.Join(dir, "b c.txt"), "blank")
	for _, tt := range []struct{ body, arguments, want string }{
		{"Fix issue $1 with $2.", `12 "high prio" x`, "Fix issue 12 with high prio."},
		{"All: $ARGUMENTS; $100, $9|", "a  'b'", "All: a  'b'; $100, |"},
		{"Nothing", "a b", "Nothing\n\nARGUMENTS: a b"},
		{"On !`echo main`.", "", "On main."},
		{"!`printf '%s|' $1 \"$2\" '$3' $ARGUMENTS`", `"a b" "c  d" "e'f"`, `a b|c  d|e'f|"a b" "c  d" "e'f"|`},
		{"!`echo $1`", "$(touch evil) `touch evil`", "$(touch"},
		{"!`echo \"$1\" \"$(echo \"$1\")\"`", `"\$(touch evil)";touch`, "$(touch evil);touch $(touch evil);touch"},
		{"!`echo x; exit 3` after", "", "[command failed: exit 3]\nx after"},
		{"$ARGUMENTS", "!`touch evil` @a.txt", "!`touch evil` @a.txt"},
		{"See @a.txt.", "", "See @a.txt.\n\nContents of a.txt:\n```\nhello !`touch evil` @b.txt\n```"},
		{`See @"b $1.txt" and @none, me@a.txt`, "c", "See @\"b c.txt\" and @none, me@a.txt\n\nContents of b c.txt:\n```\nblank\n```"},
		{"!`cat a.txt`", "", "hello !`touch evil` @b.txt"},
		{"open !`and", "", "open !`and"},
	} {
		c := New("x", "x.md", "user", []byte(tt.body))
		got, err := c.Expand(t.Context(), tt.arguments, newHost(t, dir))
		if err != nil || got != tt.want {
			t.Errorf("%q with %q:\ngot  %q, %v\nwant %q", tt.body, tt.arguments, got, err, tt.want)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "evil")); err == nil {
		t.Error("an argument was run")
	}
}

func TestExpandLimits(t *testing.T) {
	h := newHost(t, zinotest.Dir(t))
	c := New("x", "x.md", "user", []byte("!`head -c 100000 /dev/zero | tr '\\\\0' a`"))
	if got, err := c.Expand(t.Context(), "", h); err != nil || len(got) > outputMax+100 || !strings.Contains(got, "bytes left out") {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	c = New("x", "x.md", "user", []byte(strings.Repeat("!`true` ", runsMax+1)))
	if _, err := c.Expand(t.Context(), "", h); err == nil {
		t.Error("too many commands ran")
	}
	body, long := strings.Repeat("$ARGUMENTS ", 2000), strings.Repeat("x", argsMax)
	if n := len(args{all: long}.insert(body)); n > textMax+argsMax+len(body) {
		t.Errorf("arguments made %d bytes", n)
	}
	c = New("x", "x.md", "user", []byte(body))
	if _, err := c.Expand(t.Context(), long, h); err == nil {
		t.Error("too long a text is sent")
	}
	c = New("x", "x.md", "user", []byte("!`: "+strings.Repeat("$1", 10000)+"`"))
	if got, err := c.Expand(t.Context(), "x", h); err != nil || got != "" {
		t.Errorf("many placeholders: %q, %v", got, err)
	}
}

func TestFiles(t *testing.T) {
	dir := zinotest.Dir(t)
	zinotest.Must(t, os.MkdirAll(filepath.Join(dir, "git"), 0o700))
	zinotest.Write(t, filepath.Join(dir, "fix.md"), "---\ndescription: Fixes an issue\nargument-hint: [number]\nallowed-tools: Bash(git status:*)\nmodel: haiku\n---\nFix it.\n")
	zinotest.Write(t, filepath.Join(dir, "git", "commit-push-pr.md"), "Commit.\n")
	zinotest.Write(t, filepath.Join(dir, "BAD NAME.md"), "x")
	zinotest.Write(t, filepath.Join(dir, "empty.md"), "---\ndescription: x\n---\n")
	zinotest.Write(t, filepath.Join(dir, "open.md"), "---\ndescription: x\n")
	zinotest.Write(t, filepath.Join(dir, "notes.txt"), "x")
	var good []string
	for _, c := range Merge(Dir(dir, "user"), []Command{{Name: "fix", Source: "host"}}) {
		if c.Problem == "" {
			good = append(good, c.Name+" "+c.Source)
		}
		if c.Name == "fix" && (c.Description != "Fixes an issue" || c.Hint != "[number]" || c.Model != "haiku") {
			t.Errorf("%+v", c)
		}
	}
	if !slices.Equal(good, []string{"fix user", "git:commit-push-pr user"}) {
		t.Errorf("got %q", good)
	}
}

// FuzzExpand checks that no command of a shell but those of the body is run, and that
// arguments stand in none of them unquoted.
func FuzzExpand(f *testing.F) {
	f.Add("Fix $1 !`git log $ARGUMENTS` @a.txt", "12 'x")
	f.Add("!`echo \"$1\"`$2$3", "$(id) \"")
	f.Add("@\"a b\" !`", "!`id`")
	f.Add("!`'$1\\'\"$2`", "\\")
	f.Fuzz(func(t *testing.T, body, arguments string) {
		c := New("x", "x.md", "user", []byte(body))
		if c.Problem != "" || len(arguments) > argsMax {
			return
		}
		in := map[string]bool{}
		for _, p := range parse(c.body) {
			if p.kind == command {
				in[args{all: strings.TrimSpace(arguments), words: Words(strings.TrimSpace(arguments))}.script(p.text)] = true
			}
		}
		text, err := c.Expand(t.Context(), arguments, Host{
			Run: func(_ context.Context, s string) (string, string, error) {
				if !in[s] {
					t.Errorf("ran %q", s)
				}
				return "!`out` $1 @x", "", nil
			},
			Read: func(context.Context, string) (string, bool, error) { return "!`out`", true, nil },
		})
		if err == nil && len(text) > textMax+argsMax*64 {
			t.Errorf("%d bytes", len(text))
		}
	})
}

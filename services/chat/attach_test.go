package chat

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"zino/pkg/mention"
	"zino/pkg/text"
	"zino/pkg/zinotest"
)

func TestMentions(t *testing.T) {
	for message, want := range map[string][][]string{
		"see @a.go":                      {{"a.go"}},
		"@a.go, @b/c.go.":                {{"a.go,", "a.go"}, {"b/c.go.", "b/c.go"}},
		`in @"a b.txt" (@c.txt)`:         {{"a b.txt"}, {"c.txt)", "c.txt"}},
		"@~/x @/etc/hosts @dir/":         {{"~/x"}, {"/etc/hosts"}, {"dir/"}},
		"ada@example.com, a@b":           nil,
		"npm i @types/node":              {{"types/node"}},
		"@ @@ @. @.. @... @-- @\"\" @\"": nil,
		"\"@q.txt\" '@r.txt'":            {{"q.txt\"", "q.txt"}, {"r.txt'", "r.txt"}},
		"line\n@a.go\nline":              {{"a.go"}},
		"@\"a\nb\"":                      nil,
		"@漢字.txt。":                       {{"漢字.txt。", "漢字.txt"}},
	} {
		if got := mention.Names(message); !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %q, want %q", message, got, want)
		}
	}
}

// TestAttach checks what is appended to a message, and that it can be told from what was
// typed.
func TestAttach(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("HOME", filepath.Join(dir, "home"))
	c := &chat{root: filepath.Join(dir, "root")}
	write := func(name, content string) { zinotest.Write(t, filepath.Join(dir, "root", name), content) }
	for i := range 5 {
		write("many/"+string(rune('a'+i)), strings.Repeat("x", 60<<10))
	}
	for i := range 203 {
		write("names/n"+strings.Repeat("0", i), "")
	}
	zinotest.Write(t, filepath.Join(dir, "home", "h.txt"), "home\n")
	write("a.go", "package a\n")
	write("a b.txt", "blanks")
	write("fence.md", "````\ncode\n````\n")
	write("empty", "")
	write("logo.bin", "\x7fELF\x00")
	write("latin1.txt", "caf\xe9\n")
	write("big.log", strings.Repeat("x", 64<<10+1))
	write("most.log", strings.Repeat("x", 64<<10))
	zinotest.Must(t, os.Truncate(filepath.Join(dir, "root", "big.log"), 12_000_000))
	for _, name := range []string{"fifo", "fifodir/fifo"} {
		path := filepath.Join(dir, "root", name)
		zinotest.Must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		zinotest.Must(t, unix.Mkfifo(path, 0o644))
	}
	zinotest.Must(t, os.Symlink("fifo", filepath.Join(dir, "root", "link")))
	for _, tt := range []struct {
		message, whole string // whole without the message
		notes          []string
	}{
		{"see @a.go.", "\n\nContents of a.go:\n```\npackage a\n```", nil},
		{"see @a.go and @./a.go", "\n\nContents of a.go:\n```\npackage a\n```", nil},
		{`@"a b.txt"`, "\n\nContents of a b.txt:\n```\nblanks\n```", nil},
		{"@~/h.txt @" + dir + "/home/h.txt", "\n\nContents of ~/h.txt:\n```\nhome\n```", nil},
		{"@fence.md", "\n\nContents of fence.md:\n`````\n````\ncode\n````\n`````", nil},
		{"@empty", "\n\nContents of empty:\n```\n```", nil},
		{"@fifodir", "\n\nContents of fifodir:\n```\nfifo\n```", nil},
		{"@logo.bin @latin1.txt", "", []string{"logo.bin is not text: not attached", "latin1.txt is not text: not attached"}},
		{"@big.log", "", []string{"big.log: 12 MB, named only"}},
		{"@fifo @link @/dev/null", "", []string{"fifo is not a file: not attached", "link is not a file: not attached", "/dev/null is not a file: not attached"}},
		{"@missing ada@a.go @types/node @a.go/x", "", nil},
	} {
		whole, _, notes := c.attach(tt.message)
		if whole != tt.message+tt.whole || !slices.Equal(notes, tt.notes) {
			t.Errorf("%q: %q, %q", tt.message, whole, notes)
		}
		if typed, _ := unattached(whole); typed != tt.message {
			t.Errorf("%q: what was typed is %q", whole, typed)
		}
	}
	whole, _, notes := c.attach("@many/a @many/b @many/c @many/d @many/e @a.go")
	if want := []string{"many/e: 61 KB, named only"}; !slices.Equal(notes, want) || len(whole) > 256<<10+400 {
		t.Errorf("%d bytes, %q", len(whole), notes)
	}
	if _, files := unattached(whole); len(files) != 5 || files[4] != "attached a.go, 1 line" {
		t.Errorf("attached: %q", files)
	}
	if whole, _, _ := c.attach("@most.log"); len(whole) < 64<<10 {
		t.Error("64 KiB are not attached")
	}
	if whole, _, _ := c.attach("@names"); strings.Count(whole, "\n") != 4+200+1 || !strings.Contains(whole, "… 3 more") {
		t.Errorf("a directory: %d lines", strings.Count(whole, "\n"))
	}
}

func FuzzMentions(f *testing.F) {
	f.Add("see @a.go, @\"b c\" and (@~/d/).", "x\n```\ny")
	f.Add("@@@\"@a\n@\xff\u202e@b", "\x00")
	f.Add("@a\n\nContents of a:\n```\n", "")
	f.Fuzz(func(t *testing.T, message, content string) {
		for _, names := range mention.Names(message) {
			for i, name := range names {
				if name == "" || strings.Contains(name, "\n") || !strings.Contains(message, name) || i > 0 && !strings.HasPrefix(names[i-1], name) {
					t.Fatalf("%q: names %q", message, names)
				}
			}
		}
		before, _ := unattached(message)
		if !strings.HasPrefix(message, before) {
			t.Fatalf("%q: typed %q", message, before)
		}
		if before == message {
			whole := message + " @name" + mention.Head + "name:\n" + text.Fenced("", content)
			if typed, files := unattached(whole); typed != message+" @name" && len(files) < 2 {
				t.Fatalf("%q: typed %q, files %q", whole, typed, files)
			}
		}
	})
}

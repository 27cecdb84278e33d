package agents

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"zino/proto"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// tree is a directory with the files of a test.
type tree struct {
	t   *testing.T
	dir string
}

// newTree creates files, given as pairs of name and text. A name that ends in a slash
// is a directory; a text that begins with "-> " is the target of a symbolic link.
func newTree(t *testing.T, files ...string) tree {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	tr := tree{t, dir}
	for i := 0; i < len(files); i += 2 {
		tr.make(files[i], files[i+1])
	}
	return tr
}

func (tr tree) at(name string) string { return filepath.Join(tr.dir, name) }

func (tr tree) make(name, text string) {
	tr.t.Helper()
	path := tr.at(name)
	must(tr.t, os.MkdirAll(filepath.Dir(path), 0o755))
	target, link := strings.CutPrefix(text, "-> ")
	switch {
	case strings.HasSuffix(name, "/"):
		must(tr.t, os.MkdirAll(path, 0o755))
	case link:
		must(tr.t, os.Symlink(target, path))
	default:
		must(tr.t, os.WriteFile(path, []byte(text), 0o644))
	}
}

// gather calls Gather with base, home and root below the tree.
func (tr tree) gather(root string) Context {
	tr.t.Helper()
	found, err := Gather(Places{Base: tr.at("base"), Home: tr.at("home"), Root: tr.at(root)})
	must(tr.t, err)
	tr.check(found)
	return found
}

// check checks invariants of every Context.
func (tr tree) check(found Context) {
	tr.t.Helper()
	sum := int64(0)
	for _, f := range found.Files {
		sum += f.Bytes
		if !strings.Contains(found.Text, "\n\n## "+f.Path+"\n\n") {
			tr.t.Errorf("%s has no heading in %q", f.Path, found.Text)
		}
	}
	if sum != int64(len(found.Text)) || !utf8.ValidString(found.Text) {
		tr.t.Errorf("the files have %d bytes, the text %d", sum, len(found.Text))
	}
	for _, w := range found.Warnings {
		if strings.ContainsAny(w, "\n\r\x1b") {
			tr.t.Errorf("the warning %q is not a line", w)
		}
	}
}

// names returns the files of a Context, relative to the tree.
func (tr tree) names(found Context) (names []string) {
	for _, f := range found.Files {
		names = append(names, strings.TrimPrefix(f.Path, tr.dir+"/"))
	}
	return names
}

// TestText checks the exact format of the text.
func TestText(t *testing.T) {
	tr := newTree(t, "base/AGENTS.md", "\ufeff\n\n  be kind\n\n\n", "home/AGENTS.md", "# Home\n\nx\r\n", "home/p/q/AGENTS.md", "last", "home/p/AGENTS.md", " \n\t\n")
	found := tr.gather("home/p/q")
	base := "# Project Context\n\n## " + tr.at("base/AGENTS.md") + "\n\n  be kind"
	home := "\n\n## " + tr.at("home/AGENTS.md") + "\n\n# Home\n\nx"
	last := "\n\n## " + tr.at("home/p/q/AGENTS.md") + "\n\nlast"
	if found.Text != base+home+last || len(found.Warnings) != 0 {
		t.Errorf("got %q, %q", found.Text, found.Warnings)
	}
	want := []proto.PromptFile{{Path: tr.at("base/AGENTS.md"), Bytes: int64(len(base))}, {Path: tr.at("home/AGENTS.md"), Bytes: int64(len(home))}, {Path: tr.at("home/p/q/AGENTS.md"), Bytes: int64(len(last))}}
	if !slices.Equal(found.Files, want) {
		t.Errorf("got %+v", found.Files)
	}
}

func TestOrder(t *testing.T) {
	all := []string{
		"base/AGENTS.md", "b", "home/AGENTS.md", "h", "home/p/AGENTS.md", "p", "home/p/q/AGENTS.md", "q", "home/p/q/r/AGENTS.md", "r",
		"AGENTS.md", "above", "home/other/AGENTS.md", "o", "homely/AGENTS.md", "y", "out/in/AGENTS.md", "i", "out/AGENTS.md", "t", "empty/", "",
		"home/p/CLAUDE.md", "not read",
	}
	for _, tt := range []struct {
		root string
		want string
	}{
		{"home/p/q/r", "base home home/p home/p/q home/p/q/r"},
		{"home/p/", "base home home/p"},
		{"home/./p/../p", "base home home/p"},
		{"home", "base home"},
		{"out/in", "base out/in"},
		{"homely", "base homely"}, // has the home's path as a prefix, but is not in it
		{"empty", "base"},
		{"base", "base"},
		{".", "base ."}, // the root contains the home
	} {
		tr := newTree(t, all...)
		var want []string
		for dir := range strings.FieldsSeq(tt.want) {
			want = append(want, filepath.Join(dir, name))
		}
		if got := tr.names(tr.gather(tt.root)); !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", tt.root, got, want)
		}
	}
}

// TestLinks checks that home and root are compared without symbolic links, and that no
// file is read twice.
func TestLinks(t *testing.T) {
	for _, tt := range []struct {
		name, root string
		files      []string
		want       []string
	}{
		{"the home is a link", "real/p", []string{"home", "-> real", "real/AGENTS.md", "h", "real/p/AGENTS.md", "p"}, []string{"home/AGENTS.md", "real/p/AGENTS.md"}},
		{"the root is a link into the home", "l", []string{"l", "-> home/p/q", "home/p/AGENTS.md", "p", "home/p/q/AGENTS.md", "q"}, []string{"home/p/AGENTS.md", "l/AGENTS.md"}},
		{"the root is a link out of it", "home/l", []string{"home/l", "-> ../out", "home/AGENTS.md", "h", "out/AGENTS.md", "o"}, []string{"home/l/AGENTS.md"}},
		{"a part of the root is a link", "home/l/q", []string{"home/l", "-> p", "home/p/AGENTS.md", "p", "home/p/q/AGENTS.md", "q"}, []string{"home/p/AGENTS.md", "home/l/q/AGENTS.md"}},
		{"a link to a file that was read", "home/p", []string{"base/AGENTS.md", "b", "home/p/AGENTS.md", "-> ../../base/AGENTS.md"}, []string{"base/AGENTS.md"}},
		{"a link to another file", "home/p", []string{"home/p/AGENTS.md", "-> CLAUDE.md", "home/p/CLAUDE.md", "c"}, []string{"home/p/AGENTS.md"}},
		{"the base is a link to the root", "home/p", []string{"base", "-> home/p", "home/p/AGENTS.md", "p"}, []string{"base/AGENTS.md"}},
		{"the base is in the home and in the root's way", "home/p/q", []string{"base", "-> home/p", "home/p/AGENTS.md", "p", "home/p/q/AGENTS.md", "q", "home/AGENTS.md", "h"}, []string{"base/AGENTS.md", "home/AGENTS.md", "home/p/q/AGENTS.md"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tr := newTree(t, tt.files...)
			found := tr.gather(tt.root)
			if got := tr.names(found); !slices.Equal(got, tt.want) || len(found.Warnings) > 0 {
				t.Errorf("got %q, %q, want %q", got, found.Warnings, tt.want)
			}
		})
	}
}

func TestHardLinkOnce(t *testing.T) {
	tr := newTree(t, "home/AGENTS.md", "same", "home/p/", "")
	must(t, os.Link(tr.at("home/AGENTS.md"), tr.at("home/p/AGENTS.md")))
	if got := tr.names(tr.gather("home/p")); !slices.Equal(got, []string{"home/AGENTS.md"}) {
		t.Errorf("got %q", got)
	}
}

// TestFresh checks that an edit takes effect in the next text.
func TestFresh(t *testing.T) {
	tr := newTree(t, "home/p/AGENTS.md", "one")
	for i := range 3 {
		text := fmt.Sprint("version ", i)
		tr.make("home/p/AGENTS.md", text)
		if found := tr.gather("home/p"); !strings.HasSuffix(found.Text, "\n\n"+text) {
			t.Errorf("got %q", found.Text)
		}
	}
	must(t, os.Remove(tr.at("home/p/AGENTS.md")))
	if found := tr.gather("home/p"); found.Text != "" || found.Files != nil || found.Warnings != nil {
		t.Errorf("got %+v", found)
	}
}

func TestLongFile(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		kept       int
		warned     bool
	}{
		{"fits exactly", strings.Repeat("x", MaxFile), MaxFile, false},
		{"one byte more", strings.Repeat("x", MaxFile+1), MaxFile, true},
		{"cut in a character", strings.Repeat("x", MaxFile-1) + "é", MaxFile - 1, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tr := newTree(t, "home/p/AGENTS.md", tt.text)
			found := tr.gather("home/p")
			heading := "# Project Context\n\n## " + tr.at("home/p/AGENTS.md") + "\n\n"
			if found.Text != heading+tt.text[:tt.kept] || (len(found.Warnings) == 1) != tt.warned {
				t.Errorf("got %d bytes, %q", len(found.Text), found.Warnings)
			}
			if want := fmt.Sprintf("%s: only the first %d of its %d bytes are used: shorten it", tr.at("home/p/AGENTS.md"), tt.kept, len(tt.text)); tt.warned && found.Warnings[0] != want {
				t.Errorf("got %q, want %q", found.Warnings[0], want)
			}
		})
	}
}

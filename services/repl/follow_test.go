package repl

import (
	"fmt"
	"strings"
	"testing"

	"zino/pkg/config"
	"zino/pkg/zinotest"
	"zino/proto"
)

// waits reports whether a log is in memory and has something to be done.
func (b *env) waits(id string) (known, pending bool) {
	b.Service.mu.Lock()
	defer b.Service.mu.Unlock()
	l := b.logs[id]
	return l != nil, l != nil && l.listed.pending
}

// TestRestartedGone: after a restart, a request waits in the file of a page that is
// gone, whether it was appended before the start or after it, and runs when the page
// is back. Other files are left alone.
func TestRestartedGone(t *testing.T) {
	t.Parallel()
	dir := newDir(t)
	b := newEnv(t, dir)
	files := map[string]string{}
	for _, name := range []string{"before", "after", "draft", "idle"} {
		a := b.page(proto.Attach{Name: name}).Attached()
		files[name] = a.File
	}
	program := b.page(proto.Attach{Name: "program", Lang: "python", Kind: "program"}).Attached()
	must(t, b.Close())
	b.add(files["before"], js("1"))
	b.add(files["draft"], fence+"js\n1")
	b.write("debug/note-cafe.md", "# My notes\n")
	b.write("debug/notes.md", "# My notes\n")

	b = newEnv(t, dir)
	id := func(name string) string {
		return files[name][len(files[name])-len("1a2b.md") : len(files[name])-len(".md")]
	}
	if _, pending := b.waits(id("before")); !pending {
		t.Error("a request that was appended before the start does not wait")
	}
	for _, name := range []string{"idle", "after"} {
		if known, _ := b.waits(id(name)); known {
			t.Errorf("%s was opened", name)
		}
	}
	b.add(files["after"], js("2"))
	b.until("the request waits", func() bool {
		_, pending := b.waits(id("after"))
		return pending
	})
	python := b.file(program.File)
	b.write(program.File, python+"some text\n")
	b.has(program.File, "some text\n\n> Write code in a fenced Python block")
	b.add("debug/note-cafe.md", "more\n")
	for i, name := range []string{"before", "after"} {
		f := b.page(proto.Attach{Name: name, ID: id(name)})
		b.settled(files[name], 1)
		if got := f.code(); len(got) != 1 || strings.TrimSpace(got[0]) != fmt.Sprint(i+1) {
			t.Errorf("%s ran %q", name, got)
		}
	}
	if got := b.file("debug/note-cafe.md") + b.file("debug/notes.md"); strings.Contains(got, ">") {
		t.Errorf("files of others became %s", got)
	}
	if got := b.file(program.File); strings.Contains(got, "JS block") {
		t.Errorf("the file of the program: %s", got)
	}
}

// TestLangOf: the footer names the language of a log.
func TestLangOf(t *testing.T) {
	t.Parallel()
	const usual = "> Write code in a fenced %s block below to execute against this page.\n"
	for _, c := range []struct{ custom, text, lang string }{
		{"", fmt.Sprintf(usual, "JS"), "js"},
		{"", "x\n" + fmt.Sprintf(usual, "Python") + "\n```python\n", "python"},
		{"", fmt.Sprintf(usual, "JS") + fmt.Sprintf(usual, "ruby"), "ruby"},
		{"", "x" + fmt.Sprintf(usual, "JS"), ""},
		{"", "", ""},
		{"> mine", "> mine\n", "js"},
	} {
		b := newEnv(t, "", func(cfg *config.Repl) {
			if c.custom != "" {
				cfg.Footer = c.custom
			}
		})
		if lang, footer := b.langOf([]byte(c.text)); lang != c.lang || !strings.Contains(c.text, footer) {
			t.Errorf("%q: %q, %q", c.text, lang, footer)
		}
	}
}

// TestStopping: at the end each open request is marked, and its caller has an answer.
func TestStopping(t *testing.T) {
	t.Parallel()
	b := newEnv(t, "")
	one, two := b.silentPage(proto.Attach{Name: "one"}), b.silentPage(proto.Attach{Name: "two"})
	b.add(one.Attached().File, js("1")+js("2"))
	one.job(0)
	answered := make(chan error, 1)
	go func() {
		r, err := b.Eval(t.Context(), proto.Eval{Page: "two", Code: "x"})
		if err == nil && !r.OK && strings.HasPrefix(r.Error, "interrupted") {
			err = proto.ErrUnavailable
		}
		answered <- err
	}()
	two.job(0)
	must(t, b.Close())
	zinotest.Error(t, zinotest.Receive(t, "the caller", answered), proto.ErrUnavailable)
	for _, f := range []*fake{one, two} {
		text := b.file(f.Attached().File)
		zinotest.Contains(t, "the file", text, "(**ERROR** after ", fence+"Error\ninterrupted")
		if !strings.HasSuffix(text, "\n\n"+b.cfg.Footer+"\n") {
			t.Errorf("the file: %s", text)
		}
	}
	if text := b.file(one.Attached().File); !strings.Contains(text, "1 of 2 not run") {
		t.Errorf("the file: %s", text)
	}
}

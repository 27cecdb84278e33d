package repl

import (
	"os"
	"strings"
	"testing"
	"time"

	"zino/pkg/zinotest"
	"zino/proto"
)

// TestTitle: a page that changes its title keeps its file and its name, and its id,
// its name and its title address it.
func TestTitle(t *testing.T) {
	t.Parallel()
	dir := newDir(t)
	b := newEnv(t, dir)
	f := b.page(proto.Attach{Name: "(1) Inbox", URL: "http://localhost/mail"})
	a := f.Attached()
	b.add(a.File, js("1"))
	b.settled(a.File, 1)
	f.leave()
	again := b.page(proto.Attach{Name: "(2) Inbox", ID: a.ID, URL: "http://localhost/mail/2"})
	if got := again.Attached(); got.Name != "1-inbox" || got.File != a.File || got.ID != a.ID {
		t.Errorf("with a new title: %+v, before %+v", got, a)
	}
	if pages, err := b.Pages(t.Context(), proto.PagesRequest{}); err != nil || len(pages.Pages) != 1 || pages.Pages[0].Name != "1-inbox" || pages.Pages[0].Title != "(2) Inbox" {
		t.Errorf("listed: %+v, %v", pages, err)
	}
	for _, name := range []string{a.ID, "1-inbox", "1-inbox-" + a.ID, "2-inbox", "2-inbox-" + a.ID, "(2) Inbox"} {
		if r, err := b.Eval(t.Context(), proto.Eval{Page: name, Code: "x"}); err != nil || r.File != a.File {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
		if _, err := b.Log(t.Context(), proto.ReadPageLog{Page: name}); err != nil {
			t.Errorf("log of %s: %v", name, err)
		}
	}
	for _, name := range []string{"(1) Inbox", "inbox", "2-inbox-ffff", "2-inbox-", "-" + a.ID, ""} {
		if _, err := b.Eval(t.Context(), proto.Eval{Page: name, Code: "x"}); err == nil {
			t.Errorf("%q is a page", name)
		}
	}
	b.page(proto.Attach{Name: "2 inbox"})
	_, err := b.Eval(t.Context(), proto.Eval{Page: "2-inbox", Code: "x"})
	zinotest.Error(t, err, proto.ErrInvalid)
	again.leave()
	must(t, b.Close())

	b = newEnv(t, dir) // the file of an id is found on disk
	if got := b.page(proto.Attach{Name: "(3) Inbox", ID: a.ID}).Attached(); got.File != a.File || got.Name != "1-inbox" {
		t.Errorf("after a restart: %+v", got)
	}
	if text := b.settled(a.File, 7); strings.Count(text, "# 1-inbox-") != 1 {
		t.Errorf("the file: %s", text)
	}
}

// TestTwoFiles: of several files of an id, which earlier versions wrote, the last one
// goes on; a request that was executing in another one is marked as well.
func TestTwoFiles(t *testing.T) {
	t.Parallel()
	dir := newDir(t)
	for i, name := range []string{"b-1a2b", "a-1a2b", "c-1a2b"} {
		file := dir + "/debug/" + name + ".md"
		zinotest.Write(t, file, "# "+name+"\n> Guide.\n\n> **agent** to "+name+" at 10:00:00\n"+js("1")+"> **"+name+"** to agent at 10:00:01\nexecuting (5s)\n")
		at := time.Now().Add(-time.Duration(1+i%2) * time.Hour)
		must(t, os.Chtimes(file, at, at))
	}
	zinotest.Write(t, dir+"/debug/x-1a2b.txt", "")
	must(t, os.Chtimes(dir+"/debug/a-1a2b.md", time.Now(), time.Now()))
	b := newEnv(t, dir)
	if got := b.page(proto.Attach{Name: "new", ID: "1a2b"}).Attached(); got.File != "debug/a-1a2b.md" {
		t.Errorf("it got %+v", got)
	}
	for _, name := range []string{"a", "b", "c"} {
		b.has("debug/"+name+"-1a2b.md", "interrupted: ")
	}
}

// TestNewID: an id that a file has is not given to another page.
func TestNewID(t *testing.T) {
	t.Parallel()
	b := newEnv(t, "")
	names := map[string]string{}
	for i := range 1 << 16 {
		if i != 0xbeef {
			const digits = "0123456789abcdef"
			names[string([]byte{digits[i>>12], digits[i>>8&15], digits[i>>4&15], digits[i&15]})] = "x"
		}
	}
	if id := b.newID(names); id != "beef" && len(id) == 4 {
		t.Errorf("the id %s is taken", id)
	}
}

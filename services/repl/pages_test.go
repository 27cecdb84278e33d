package repl

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"zino/pkg/config"
	"zino/pkg/zinotest"
	"zino/proto"
	"zino/services/repl/page"
)

// TestExchange: a block below the footer runs once, and the reply stands below it; the
// same for a request of a program.
func TestExchange(t *testing.T) {
	t.Parallel()
	b := newEnv(t, "")
	f := b.page(proto.Attach{Name: "Index - 7 Zen", URL: "http://localhost:8302/?a=b"})
	file := f.Attached().File
	b.add(file, js("12+13"))
	text := b.settled(file, 1)
	zinotest.Contains(t, "the text", text, "```js\n12+13\n```\n\n> **index-7-zen-", "```JSON\n5\n```\n\n")
	r, err := b.Eval(t.Context(), proto.Eval{Page: "index-7-zen", Code: "1+1", Agent: "me"})
	if err != nil || !r.OK || r.Kind != "json" || valueOf(r) != "3" || r.File != file || len(r.Background) != 0 {
		t.Errorf("%+v, %v", r, err)
	}
	text = b.settled(file, 2)
	if !strings.Contains(text, "> **me** to index-7-zen-") {
		t.Errorf("the request is not in\n%s", text)
	}
	if got := f.code(); strings.Join(got, "|") != "12+13|1+1" {
		t.Errorf("it ran %q", got)
	}
	if b.out.String() != "" {
		t.Errorf("the service logs %s", &b.out)
	}
}

// TestNames: any name gives a file in debug/.
func TestNames(t *testing.T) {
	t.Parallel()
	b := newEnv(t, "")
	for name, want := range map[string]string{
		"Index - 7 Zen":           "index-7-zen",
		"../../etc/passwd":        "etc-passwd",
		"/":                       "page",
		"..":                      "page",
		"a\x00b\nc\x1b[31m":       "a-b-c-31m",
		"🙂🙂":                      "page",
		"Grüße, 🌍!":               "gr-e",
		strings.Repeat("x", 300):  strings.Repeat("x", 80),
		strings.Repeat("a ", 150): strings.Repeat("a-", 39) + "a",
		"":                        "page",
		"debug.md":                "debug-md",
		"\xff\xfe":                "page",
	} {
		a := b.page(proto.Attach{Name: name}).Attached()
		if a.Name != want || a.File != "debug/"+want+"-"+a.ID+".md" || !page.IsShortID(a.ID) || len(a.Nonce) < 16 {
			t.Errorf("%.40q: %+v, want %q", name, a, want)
		}
		if text := b.file(a.File); !strings.HasPrefix(text, "# "+want+"-"+a.ID+"\n> ") || !strings.HasSuffix(text, "\n"+b.cfg.Footer+"\n") {
			t.Errorf("%.40q: its file is %q", name, text)
		}
	}
	entries, err := os.ReadDir(b.dir)
	if err != nil || len(entries) > 2 { // debug, debug.md
		t.Errorf("the directory has %v, %v", entries, err)
	}
}

// TestIdentity: no two connected pages share an id, and one that comes back keeps its own.
func TestIdentity(t *testing.T) {
	t.Parallel()
	b := newEnv(t, "")
	one := b.page(proto.Attach{Name: "a", ID: "1a2b", Nonce: "n1"})
	if a := one.Attached(); a.ID != "1a2b" || a.Nonce != "n1" || a.File != "debug/a-1a2b.md" {
		t.Fatalf("a new page: %+v", a)
	}
	two := b.page(proto.Attach{Name: "a", ID: "1a2b", Nonce: "n2"})
	if a := two.Attached(); a.ID == "1a2b" || a.Nonce != "n2" || a.File == one.Attached().File {
		t.Errorf("a copy of a live page: %+v", a)
	}
	if a := b.page(proto.Attach{Name: "a", ID: "1a2b"}).Attached(); a.ID == "1a2b" || a.Nonce == "" {
		t.Errorf("a copy without a nonce: %+v", a)
	}
	for _, id := range []string{"", "abc", "1a2b3c4d5", "1A2B", "12-4", "../x", "zzzz"} {
		if a := b.page(proto.Attach{Name: "a", ID: id, Nonce: strings.Repeat("n", 200)}).Attached(); a.ID == id || !page.IsShortID(a.ID) || len(a.Nonce) > 128 {
			t.Errorf("the id %q, which is not well-formed: %+v", id, a)
		}
	}
	one.leave()
	for _, nonce := range []string{"n1", "n3"} { // reconnected, and reloaded
		again := b.page(proto.Attach{Name: "a", ID: "1a2b", Nonce: nonce})
		if a := again.Attached(); a.ID != "1a2b" || a.File != "debug/a-1a2b.md" || a.Nonce != nonce {
			t.Errorf("back with nonce %s: %+v", nonce, a)
		}
		again.leave()
	}
}

// TestTakeover: a page that reconnects before the loss of its old connection was
// noticed replaces it.
func TestTakeover(t *testing.T) {
	t.Parallel()
	b := newEnv(t, "")
	old := b.silentPage(proto.Attach{Name: "a", ID: "1a2b", Nonce: "n"})
	file := old.Attached().File
	b.add(file, js("1"))
	job := old.job(0)
	again := b.page(proto.Attach{Name: "a", ID: "1a2b", Nonce: "n"})
	<-old.done
	text := b.settled(file, 1)
	if !strings.Contains(text, "page closed or reloaded") {
		t.Errorf("the job that was out: %s", text)
	}
	zinotest.Error(t, again.answer(job.Job, "1"), proto.ErrUnknown)
	old.Close() // the transport notices the loss
	b.add(file, js("2"))
	b.settled(file, 2)
	if got := again.code(); len(got) != 1 {
		t.Errorf("it ran %q", got)
	}
}

// TestSameName: pages of one name have files of their own, and the name alone is
// ambiguous.
func TestSameName(t *testing.T) {
	t.Parallel()
	b := newEnv(t, "")
	one, two := b.page(proto.Attach{Name: "Twin"}), b.page(proto.Attach{Name: "Twin"})
	for _, f := range []*fake{one, two} {
		a := f.Attached()
		for _, name := range []string{a.ID, "twin-" + a.ID} {
			if r, err := b.Eval(t.Context(), proto.Eval{Page: name, Code: name}); err != nil || r.File != a.File {
				t.Errorf("%s: %+v, %v", name, r, err)
			}
		}
		if got := f.code(); len(got) != 2 {
			t.Errorf("%s ran %q", a.ID, got)
		}
	}
	_, err := b.Eval(t.Context(), proto.Eval{Page: "twin", Code: "1"})
	if !errors.Is(err, proto.ErrInvalid) || !strings.Contains(err.Error(), "twin-"+one.Attached().ID) {
		t.Errorf("the name of both: %v", err)
	}
	two.leave()
	if r, err := b.Eval(t.Context(), proto.Eval{Page: "twin", Code: "1"}); err != nil || r.File != one.Attached().File {
		t.Errorf("the name of one: %+v, %v", r, err)
	}
}

// TestDescription: URL, language and kind of a page are made harmless.
func TestDescription(t *testing.T) {
	t.Parallel()
	b := newEnv(t, "")
	b.page(proto.Attach{Name: "b", URL: "http://me:secret@localhost:8302/a b?token=x#y", Lang: "Python\n", Kind: "shared\tworker\x1b"})
	b.page(proto.Attach{Name: "a", URL: "http://[bad\n"})
	pages, err := b.Pages(t.Context(), proto.PagesRequest{})
	if err != nil || len(pages.Pages) != 2 {
		t.Fatalf("%+v, %v", pages, err)
	}
	a, c := pages.Pages[0], pages.Pages[1]
	if a.Name != "a" || a.URL != "" || a.Lang != "js" || a.Kind != "page" || a.State != "idle" || a.LastSeen == "" {
		t.Errorf("%+v", a)
	}
	if c.URL != "http://localhost:8302/a%20b" || c.Lang != "python" || c.Kind != "sharedworker" {
		t.Errorf("%+v", c)
	}
	if text := b.file(c.File); strings.Contains(text, b.cfg.Footer) || !strings.Contains(text, "fenced Python block") {
		t.Errorf("a page that runs Python: %s", text)
	}
}

// TestCrowd: the numbers of connected pages and of logs in memory are bounded.
func TestCrowd(t *testing.T) {
	t.Parallel()
	b := newEnv(t, "")
	var all []*Page
	for i := range liveMax {
		p, err := b.Connect(proto.Attach{Name: fmt.Sprint("page ", i)})
		must(t, err)
		all = append(all, p)
	}
	if _, err := b.Connect(proto.Attach{Name: "one more"}); !errors.Is(err, proto.ErrBusy) {
		t.Errorf("one too many: %v", err)
	}
	for _, p := range all {
		p.Close()
	}
	b.page(proto.Attach{Name: "last"})
	if n := len(b.allLogs()); n > goneMax+1 {
		t.Errorf("%d logs are in memory", n)
	}
}

func TestClosed(t *testing.T) {
	t.Parallel()
	b := newEnv(t, "")
	f := b.page(proto.Attach{Name: "a"})
	must(t, b.Close())
	<-f.done
	if _, _, err := f.Next(t.Context()); !errors.Is(err, io.EOF) {
		t.Errorf("Next: %v", err)
	}
	if _, err := b.Connect(proto.Attach{Name: "b"}); !errors.Is(err, proto.ErrUnavailable) {
		t.Errorf("Connect: %v", err)
	}
	if _, err := b.Eval(t.Context(), proto.Eval{Page: "a", Code: "1"}); err == nil {
		t.Error("Eval was accepted")
	}
	if err := f.answer("x", "1"); err == nil {
		t.Error("a result was accepted")
	}
}

// TestDirectory: the service does not start without its directory, or if another
// service has locked it.
func TestDirectory(t *testing.T) {
	t.Parallel()
	dir := newDir(t)
	b := newEnv(t, dir)
	if _, err := New(settings(dir), nil, b.log); err == nil || !strings.Contains(err.Error(), "another process") {
		t.Errorf("two services: %v", err)
	}
	if _, err := New(settings(filepath.Join(dir, "none")), nil, b.log); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no directory: %v", err)
	}
	for name, lay := range map[string]func(path string) error{
		"file": func(path string) error { return os.WriteFile(path, nil, 0o600) },
		"link": func(path string) error { return os.Symlink(dir, path) },
	} {
		other := newDir(t)
		must(t, lay(filepath.Join(other, "debug")))
		if _, err := New(settings(other), nil, b.log); err == nil || !strings.Contains(err.Error(), "not a directory") {
			t.Errorf("a %s in the place of debug/: %v", name, err)
		}
	}
}

// FuzzAttach: identity and description of any page are harmless.
func FuzzAttach(f *testing.F) {
	f.Add("Index - 7 Zen", "http://localhost:8302/?a=b#c", "js", "page", "1a2b", "nonce")
	f.Add("../..", "javascript:\x1b[0m", "\n", "\xff", "../a", "")
	f.Add("🙂", "http://[::1", "C++", "shared worker", "1A2B", strings.Repeat("n", 500))
	b := newEnv(f, "")
	f.Fuzz(func(t *testing.T, name, url, lang, kind, id, nonce string) {
		p, err := b.Connect(proto.Attach{Name: name, URL: url, Lang: lang, Kind: kind, ID: id, Nonce: nonce})
		must(t, err)
		defer p.Close()
		a := p.Attached()
		if a.File != "debug/"+a.Name+"-"+a.ID+".md" || !page.IsShortID(a.ID) || a.Name != page.Sanitize(a.Name) || a.Nonce == "" || len(a.Nonce) > nonceMax {
			t.Errorf("%+v", a)
		}
		for _, shown := range []string{p.url, p.lang, p.kind} {
			if strings.ContainsFunc(shown, func(c rune) bool { return !unicode.IsPrint(c) }) || len(shown) > 3*urlMax {
				t.Errorf("%q is shown", shown)
			}
		}
	})
}

// TestRegistry: debug.md follows the states of the pages.
func TestRegistry(t *testing.T) {
	t.Parallel()
	b := newEnv(t, "")
	b.has(registryFile, "# Connected pages:\n> ")
	f := b.silentPage(proto.Attach{Name: "a", ID: "1a2b", URL: "http://localhost/?secret"})
	b.has(registryFile, "\n* [a](debug/a-1a2b.md) (http://localhost/) last ", " state: idle\n")
	b.add(f.Attached().File, js("1"))
	job := f.job(0)
	b.has(registryFile, " state: executing\n")
	must(t, f.answer(job.Job, "1"))
	b.has(registryFile, " state: completed (")
	f.leave()
	b.has(registryFile, " state: gone\n")
}

// TestRegistryLong: at most 100 pages are shown.
func TestRegistryLong(t *testing.T) {
	t.Parallel()
	b := newEnv(t, "")
	for i := range 150 {
		r, err := b.Connect(proto.Attach{Name: fmt.Sprint("page ", i)})
		must(t, err)
		if i >= 50 {
			r.Close()
		}
	}
	text := b.has(registryFile, "... and 50 more")
	if n := strings.Count(text, "\n"); n > 110 {
		t.Errorf("it has %d lines", n)
	}
	if live, gone := strings.LastIndex(text, "state: idle"), strings.Index(text, "state: gone"); live > gone {
		t.Errorf("pages that are gone stand first: %s", text)
	}
}

// TestRegistryIsOutput: text that others write into it is not read, and a link in its
// place is not followed.
func TestRegistryIsOutput(t *testing.T) {
	t.Parallel()
	b := newEnv(t, "", func(c *config.Repl) { c.Cadence = 0.1 })
	b.write(registryFile, "* "+js("1"))
	f := b.page(proto.Attach{Name: "a"})
	b.has(registryFile, "# Connected pages:\n", "* [a](debug/a-")
	must(t, os.Remove(b.path(registryFile)))
	must(t, os.Symlink("elsewhere", b.path(registryFile)))
	must(t, f.events(proto.PageEvent{Type: "console", Message: "m"}))
	b.until("a problem", func() bool { return len(b.problems()) == 1 })
	if _, err := os.Stat(b.path("elsewhere")); err == nil {
		t.Error("the link was followed")
	}
	must(t, os.Remove(b.path(registryFile)))
	f.leave()
	b.has(registryFile, "state: gone")
	b.until("no problem", func() bool { return len(b.problems()) == 0 })
}

// TestListedWhenReady checks that a page is listed from when it runs code.
func TestListedWhenReady(t *testing.T) {
	t.Parallel()
	b := newEnv(t, "")
	f := b.page(proto.Attach{Name: "slow", ID: "a1b2", Nonce: "1"})
	f.leave()
	b.Service.mu.Lock()
	l := b.logs["a1b2"]
	b.Service.mu.Unlock()
	connected := make(chan *fake, 1)
	l.mu.Lock()
	go func() { connected <- b.page(proto.Attach{Name: "slow", ID: "a1b2", Nonce: "2"}) }()
	zinotest.Eventually(t, "the page has its id", func() bool {
		b.Service.mu.Lock()
		defer b.Service.mu.Unlock()
		return b.live["a1b2"] != nil
	})
	pages, err := b.Pages(t.Context(), proto.PagesRequest{})
	must(t, err)
	zinotest.Equal(t, "listed pages", len(pages.Pages), 0)
	l.mu.Unlock()
	zinotest.Receive(t, "the connection", connected)
	if _, err := b.Eval(t.Context(), proto.Eval{Page: "a1b2", Code: "1+1"}); err != nil {
		t.Error(err)
	}
}

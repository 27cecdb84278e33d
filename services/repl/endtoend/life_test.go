package endtoend_test

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"zino/proto"
)

// forever is code that never ends.
const forever = "new Promise(() => {})"

// executing appends code that does not end, and waits until the page has it.
func (w *world) executing(v *tab, p proto.Page) (history string) {
	w.t.Helper()
	history = w.history(p.File)
	w.add(p.File, js("begun = true; "+forever))
	w.until("it runs", func() bool {
		return in[bool](v, "globalThis.begun === true") && strings.Contains(w.file(p.File), "executing (0s)")
	})
	return history
}

// listed waits until the registry shows a page in a state that begins so.
func (w *world) listed(p proto.Page, state string) {
	w.t.Helper()
	w.until("the registry shows "+state, func() bool {
		for line := range strings.Lines(w.file("debug.md")) {
			if strings.HasPrefix(line, "* "+p.Name+"-"+p.ID+" (") && strings.Contains(line, " state: "+state) {
				return true
			}
		}
		return false
	})
}

// TestReload: what ran when a page is loaded again has failed; the page keeps its
// file and answers the next request, with nothing left of what ran in it before.
func TestReload(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	v := w.browse(w.url + "/app.html")
	p := w.connected("index-7-zen", 1)[0]
	w.want(p, "var old = 1; old", "JSON", "1")
	for range 3 {
		history := w.executing(v, p)
		w.listed(p, "executing")
		v.do(chromedp.Reload())
		want := answered("begun = true; "+forever, "Error", "page closed or reloaded: the request was not answered")
		if got := plain(p, w.since(p.File, history)); got != want {
			t.Errorf("the exchange is\n%s\nwant\n%s", got, want)
		}
		if again := w.connected("index-7-zen", 1)[0]; again.ID != p.ID || again.File != p.File {
			t.Errorf("%+v became %+v", p, again)
		}
		w.want(p, "[typeof old, typeof begun]", "JSON", `["undefined","undefined"]`)
	}
}

// TestClose: a tab that is closed is listed as gone, and what ran in it has failed.
func TestClose(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	v := w.browse(w.url + "/app.html")
	p := w.connected("index-7-zen", 1)[0]
	history := w.executing(v, p)
	v.close()
	want := answered("begun = true; "+forever, "Error", "page closed or reloaded: the request was not answered")
	if got := plain(p, w.since(p.File, history)); got != want {
		t.Errorf("the exchange is\n%s\nwant\n%s", got, want)
	}
	w.listed(p, "gone")
	if left := w.pages(); len(left) != 0 {
		t.Errorf("connected: %+v", left)
	}
	w.browse(w.url + "/app.html")
	if other := w.connected("index-7-zen", 1)[0]; other.ID == p.ID {
		t.Errorf("a new tab is %+v", other)
	}
}

// TestTwoTabs: two tabs with one page are two realms with a file each; a request
// in one does not wait for the other.
func TestTwoTabs(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	first := w.browse(w.url + "/app.html")
	one := w.connected("index-7-zen", 1)[0]
	w.browse(w.url + "/app.html")
	other := w.connected("index-7-zen", 2)[0]
	if other.ID == one.ID {
		other = w.connected("index-7-zen", 2)[1]
	}
	w.want(one, "var tab = 'one'; tab", "Text", "one")
	w.want(other, "var tab = 'other'; tab", "Text", "other")
	history := w.executing(first, one)
	w.want(other, "tab", "Text", "other")
	first.do(chromedp.Reload())
	if got := w.since(one.File, history); !strings.Contains(got, "page closed or reloaded") {
		t.Errorf("the exchange is\n%s", got)
	}
	w.want(other, "tab", "Text", "other")
}

// TestKilled: the service is killed in the middle of a job and started again. The
// page comes back by itself, with all that it had; the job is not run again.
func TestKilled(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	v := w.browse(w.url + "/app.html")
	p := w.connected("index-7-zen", 1)[0]
	w.want(p, "var old = 1; old", "JSON", "1")
	history := w.executing(v, p)
	must(t, w.cmd.Process.Kill())
	<-w.ended
	w.again()
	if again := w.connected("index-7-zen", 1)[0]; again.ID != p.ID || again.File != p.File {
		t.Errorf("%+v became %+v", p, again)
	}
	want := answered("begun = true; "+forever, "Error", "interrupted: the service was stopped before the answer came; the code may have run, and is not run again")
	if got := plain(p, w.since(p.File, history)); got != want {
		t.Errorf("the exchange is\n%s\nwant\n%s", got, want)
	}
	w.want(p, "[old, begun]", "JSON", "[1,true]")
}

// TestWorlds: a frame and a worker of a page have files of their own.
func TestWorlds(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	w.browse(w.url + "/worlds.html")
	for name, kind := range map[string]string{"worlds": "page", "frame": "frame", "worker": "worker"} {
		p := w.connected(name, 1)[0]
		if p.Kind != kind {
			t.Errorf("%s is a %q, not a %q", name, p.Kind, kind)
		}
		if name == "worker" {
			w.until("what it said is in its file", func() bool {
				return strings.HasSuffix(w.file(p.File), fence+"Text console.info\nthe worker works\n"+fence+"\n\n"+footer)
			})
		}
		w.want(p, "here", "Text", kind)
		w.want(p, "typeof document", "Text", map[string]string{"page": "object", "frame": "object", "worker": "undefined"}[kind])
	}
}

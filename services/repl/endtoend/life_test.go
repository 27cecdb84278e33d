package endtoend_test

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/target"
	"github.com/chromedp/chromedp"

	"zino/proto"
)

// forever is code that never ends.
const forever = "new Promise(() => {})"

// executing appends code that never ends, and waits until the page runs it.
func (w *world) executing(v *tab, p proto.Page) (history string) {
	w.t.Helper()
	history = w.history(p.File)
	w.add(p.File, js("begun = true; "+forever))
	w.until("it runs", func() bool {
		return in[bool](v, "globalThis.begun === true") && strings.Contains(w.file(p.File), "executing (")
	})
	return history
}

// listed waits until the registry shows a page in a state with this prefix.
func (w *world) listed(p proto.Page, state string) {
	w.t.Helper()
	w.until("the registry shows "+state, func() bool {
		for line := range strings.Lines(w.file("debug.md")) {
			if strings.HasPrefix(line, "* ["+p.Name+"]("+p.File+") (") && strings.Contains(line, " state: "+state) {
				return true
			}
		}
		return false
	})
}

// TestReload checks that the job of a reloaded page fails, and that the page keeps its
// file and evaluates the next request in a new global scope.
func TestReload(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	v := w.browse(w.url + "/app.html")
	p := w.connected("index-7-zen", 1)[0]
	w.want(p, "var old = 1; old", "JSON", "1")
	for range 3 {
		history := w.executing(v, p)
		w.listed(p, "executing")
		v.Do(chromedp.Reload())
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

// TestClose checks that a closed tab is listed as gone, and that its job fails.
func TestClose(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	v := w.browse(w.url + "/app.html")
	p := w.connected("index-7-zen", 1)[0]
	history := w.executing(v, p)
	v.Close()
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

// TestKilled kills and restarts the service during a job. The page must reconnect
// with its global scope, and the job must not run again.
func TestKilled(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	v := w.browse(w.url + "/app.html")
	p := w.connected("index-7-zen", 1)[0]
	w.want(p, "var old = 1; old", "JSON", "1")
	history := w.executing(v, p)
	w.repl.Kill()
	w.start(strings.TrimPrefix(w.url, "http://"), "")
	if again := w.connected("index-7-zen", 1)[0]; again.ID != p.ID || again.File != p.File {
		t.Errorf("%+v became %+v", p, again)
	}
	want := answered("begun = true; "+forever, "Error", "interrupted: the service was stopped before the answer came; the code may have run, and is not run again")
	if got := plain(p, w.since(p.File, history)); got != want {
		t.Errorf("the exchange is\n%s\nwant\n%s", got, want)
	}
	w.want(p, "[old, begun]", "JSON", "[1,true]")
}

// TestLong checks that the file shows the elapsed time and the background events of
// a running job, and that the reply replaces both.
func TestLong(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "cadence = 0.2\n")
	v := w.browse(w.url + "/app.html")
	p := w.connected("index-7-zen", 1)[0]
	history := w.history(p.File)
	code := `console.log("begun"); await new Promise(end => { window.end = end })`
	w.add(p.File, js(code))
	said := fence + "Text console.log\nbegun\n" + fence + "\n"
	shown := regexp.MustCompile(regexp.QuoteMeta("\n> **PAGE** to agent at TIME\n"+said) + `executing \((\d+)s\)\n`)
	first := -1
	w.until("it has been running for two seconds more", func() bool {
		text := w.file(p.File)
		found := shown.FindStringSubmatch(plain(p, text))
		if found == nil {
			return false
		}
		if !strings.HasPrefix(text, history) || strings.Contains(text, footer) {
			t.Fatalf("while it runs the file is\n%s", text)
		}
		seconds, err := strconv.Atoi(found[1])
		must(t, err)
		if first < 0 {
			first = seconds
		}
		return seconds >= first+2
	})
	in[bool](v, `end({ done: true }), true`)
	got := w.since(p.File, history)
	want := strings.TrimSuffix(answered(code, "JSON", `{"done":true}`), "\n") + said + "\n"
	if plain(p, got) != want || !regexp.MustCompile(` at [0-9:]{8} \(\d+\.\ds\)\n`).MatchString(got) {
		t.Errorf("the exchange is\n%s\nwant\n%s", got, want)
	}
}

// TestFlood checks that the file has the first two and the last eight of 10,000
// console lines of a job, and that the page stays usable.
func TestFlood(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "cadence = 0.2\n")
	v := w.browse(w.url + "/app.html")
	p := w.connected("index-7-zen", 1)[0]
	code := "for (let i = 1; i <= 10000; i++) console.log('line ' + i)\nfunction after() { return 'usable' }"
	var said strings.Builder
	for _, i := range []int{1, 2, 0, 9993, 9994, 9995, 9996, 9997, 9998, 9999, 10000} {
		if i == 0 {
			said.WriteString("... (9990 more background events omitted) ...\n... (they are in debug/PAGE/1.txt) ...\n")
			continue
		}
		fmt.Fprintf(&said, fence+"Text console.log\nline %d\n"+fence+"\n", i)
	}
	want := strings.TrimSuffix(answered(code, "Text", "undefined"), "\n") + said.String() + "\n"
	if got := plain(p, w.ask(p, code)); got != want {
		t.Errorf("the exchange is\n%s\nwant\n%s", got, want)
	}
	w.want(p, "after()", "Text", "usable")
	// Wait until the browser has delivered all events to chromedp: closing the tab
	// earlier would block all other tabs.
	if got := in[string](v, "after()"); got != "usable" {
		t.Errorf("after() is %q", got)
	}
}

// behind opens an address in a background tab and returns a function that closes it.
func (v *tab) behind(address string) (closeTab func()) {
	v.w.t.Helper()
	background := true
	browser := chromedp.FromContext(v.Context).Browser
	made, err := cdp.Call(v.Context, browser, target.CreateTarget, target.CreateTargetParams{URL: address, Background: &background})
	must(v.w.t, err)
	return func() {
		_, err := cdp.Call(v.Context, browser, target.CloseTarget, target.CloseTargetParams(made))
		must(v.w.t, err)
	}
}

// TestFiftyTabs checks that fifty tabs of one browser can be connected, and that each
// evaluates a request.
func TestFiftyTabs(t *testing.T) {
	t.Parallel()
	const tabs = 50
	w := newWorld(t, "")
	v := w.browse(w.url + "/tab.html?n=1")
	for n := 2; n <= tabs; n++ {
		defer v.behind(fmt.Sprintf("%s/tab.html?n=%d", w.url, n))()
	}
	var pages []proto.Page
	w.until("all are connected", func() bool {
		pages = w.pages()
		return len(pages) == tabs && strings.Count(w.file("debug.md"), " state: idle\n") == tabs
	})
	const code = `document.title + ": " + location.search`
	histories := map[string]string{}
	for _, p := range pages {
		histories[p.File] = w.history(p.File)
		w.add(p.File, js(code))
	}
	names := map[string]bool{}
	for _, p := range pages {
		n := strings.TrimPrefix(p.Name, "tab-")
		want := answered(code, "Text", "Tab "+n+": ?n="+n)
		if got := plain(p, w.since(p.File, histories[p.File])); got != want {
			t.Errorf("%s: the exchange is\n%s\nwant\n%s", p.Name, got, want)
		}
		names[p.Name] = true
	}
	if len(names) != tabs || len(histories) != tabs {
		t.Errorf("%d names, %d files", len(names), len(histories))
	}
}

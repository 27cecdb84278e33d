package endtoend_test

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestLong: while a long job runs, its file shows for how long, and what it says;
// the end replaces both.
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

// TestFlood: a job that writes 10,000 lines to the console leaves the first two
// and the last eight in the file, and a page that can be used.
func TestFlood(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "cadence = 0.2\n")
	v := w.browse(w.url + "/app.html")
	p := w.connected("index-7-zen", 1)[0]
	code := "for (let i = 1; i <= 10000; i++) console.log('line ' + i)\nfunction after() { return 'usable' }"
	var said strings.Builder
	for _, i := range []int{1, 2, 0, 9993, 9994, 9995, 9996, 9997, 9998, 9999, 10000} {
		if i == 0 {
			said.WriteString("... (9990 more background events omitted) ...\n")
			continue
		}
		fmt.Fprintf(&said, fence+"Text console.log\nline %d\n"+fence+"\n", i)
	}
	want := strings.TrimSuffix(answered(code, "Text", "undefined"), "\n") + said.String() + "\n"
	if got := plain(p, w.ask(p, code)); got != want {
		t.Errorf("the exchange is\n%s\nwant\n%s", got, want)
	}
	w.want(p, "after()", "Text", "usable")
	// Behind all that the browser has told us of the flood: a tab that is closed
	// with more of it under way would block all others.
	if got := in[string](v, "after()"); got != "usable" {
		t.Errorf("after() is %q", got)
	}
}

package cli

import (
	"regexp"
	"strings"
	"testing"

	"zino/services/cli/render"
)

func TestPages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	strange := aPage("b", "0002")
	strange.URL, strange.State, strange.Kind = "", "gone\x1b[2J", "work\u202eer"
	newFakeRepl(t, w, aPage("shop", "1a2b"), strange)
	status, out, stderr := run(t, w.command("pages"), "")
	const rows = "PAGE       STATE             KIND          LANGUAGE  URL                         FILE\n" +
		"shop-1a2b  completed (17ms)  page          js        http://localhost:5173/shop  debug/shop-1a2b.md\n" +
		"b-0002     gone^[[2J         work\\u202eer  js        -                           debug/b-0002.md\n"
	if status != 0 || out != rows || stderr != "" {
		t.Errorf("status %d, stderr %q, printed\n%swant\n%s", status, stderr, out, rows)
	}
	status, out, stderr = run(t, w.command("pages", "--format", "json"), "")
	const first = `{"id":"1a2b","name":"shop","file":"debug/shop-1a2b.md","url":"http://localhost:5173/shop","lang":"js","kind":"page","state":"completed (17ms)","last_seen":"2026-11-21T14:03:07Z"}` + "\n"
	if status != 0 || !strings.HasPrefix(out, first) || strings.Count(out, "\n") != 2 || strings.Contains(out, "\x1b") || stderr != "" {
		t.Errorf("status %d, stdout %q, stderr %q", status, out, stderr)
	}
}

// TestPagesTitle: the table shows titles that have changed.
func TestPagesTitle(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	inbox := aPage("1-inbox", "0002")
	inbox.Title = "(2) Inbox\x1b[2J"
	newFakeRepl(t, w, aPage("shop", "1a2b"), inbox)
	status, out, stderr := run(t, w.command("pages"), "")
	const rows = "PAGE          TITLE           STATE             KIND  LANGUAGE  URL                            FILE\n" +
		"shop-1a2b     -               completed (17ms)  page  js        http://localhost:5173/shop     debug/shop-1a2b.md\n" +
		"1-inbox-0002  (2) Inbox^[[2J  completed (17ms)  page  js        http://localhost:5173/1-inbox  debug/1-inbox-0002.md\n"
	if status != 0 || out != rows || stderr != "" {
		t.Errorf("status %d, stderr %q, printed\n%swant\n%s", status, stderr, out, rows)
	}
}

// TestNoPages checks the instructions, with the address that the service reports.
func TestNoPages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	newFakeRepl(t, w)
	for _, format := range []string{"text", "json"} {
		status, out, stderr := run(t, w.command("pages", "--format", format), "")
		if status != 0 || out != "" || !strings.HasPrefix(stderr, "No pages are connected.\n") || !strings.Contains(stderr, "http://127.0.0.1:5173/zino/") ||
			!strings.Contains(stderr, `<script crossorigin src="http://127.0.0.1:5173/zino.js"></script>`) {
			t.Errorf("status %d, stdout %q, stderr %q", status, out, stderr)
		}
	}
}

// TestPageLooks checks zino pages log and zino pages outline.
func TestPageLooks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	newFakeRepl(t, w, aPage("shop", "1a2b"))
	for _, c := range []struct {
		args                string
		status              int
		out, stderr, prefix string
	}{
		{"log shop", 0, "10:02:12.120 console.warn app.js:12: no\x1b total\nwindow.onerror: Error: d\n  at e\n", "", ""},
		{"log shop --after e-5 --limit 4", 0, "10:02:12.120 console.warn app.js:12: no\x1b total e-5\nwindow.onerror: Error: d\n  at e\n", "... (4 earlier events left out) ...\n", ""},
		{"log shop --json", 0, "", "", `{"type":"page_log","events":[{"type":"console",`},
		{"outline shop", 0, "main shop  0\x1b\n", "", ""},
		{"outline shop #cart --depth 2", 0, "main shop #cart 2\x1b\n", "", ""},
		{"outline shop --json", 0, "", "", `{"type":"outline","text":"main shop  0`},
		{"log", 2, "", "Error [usage]: zino pages log: name a page; zino pages lists them", ""},
		{"outline a b c", 2, "", "Error [usage]: zino pages outline: name a page, and at most one selector; zino pages lists the pages", ""},
	} {
		status, out, stderr := run(t, w.command(append([]string{"pages"}, strings.Fields(c.args)...)...), "")
		if status != c.status || c.prefix == "" && out != c.out || !strings.HasPrefix(out, c.prefix) || !strings.HasPrefix(stderr, c.stderr) || c.stderr == "" && stderr != "" {
			t.Errorf("%s: status %d, stdout %q, stderr %q", c.args, status, out, stderr)
		}
	}
}

// TestPagesTerminal checks that lines are cut to the terminal's width and keep the ids.
func TestPagesTerminal(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	newFakeRepl(t, w, aPage(strings.Repeat("long-", 16), "1a2b"), aPage("s", "3c4d"))
	cmd := w.command("pages")
	cmd.Args = append([]string{"sh", "-c", `stty cols 72 && exec "$@"`, "sh", cmd.Path}, cmd.Args[1:]...)
	cmd.Path = "/bin/sh"
	x := onTerminal(t, cmd)
	x.Exit()
	x.Shows("s-3c4d")
	if !regexp.MustCompile(`(?m)^long-long-long-lon…-1a2b  completed`).MatchString(x.Written.String()) {
		t.Errorf("the screen shows %q", x.Written.String())
	}
	for line := range strings.Lines(x.Written.String()) {
		if n := render.Cells(strings.TrimRight(line, "\r\n")); n > 72 {
			t.Errorf("%d cells: %q", n, line)
		}
	}
}

// TestCompletionPages checks that unique names are completed without the id, and that
// no service is started.
func TestCompletionPages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const none = ":4\n"
	if _, out, _ := run(t, w.command("__complete", "eval", ""), ""); out != none {
		t.Errorf("without a REPL: stdout %q", out)
	}
	newFakeRepl(t, w, aPage("shop", "1a2b"), aPage("shop", "3c4d"), aPage("till", "5e6f"))
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"eval", ""}, "shop-1a2b\tpage http://localhost:5173/shop\nshop-3c4d\tpage http://localhost:5173/shop\ntill\tpage http://localhost:5173/till\n" + none},
		{[]string{"eval", "t"}, "till\tpage http://localhost:5173/till\n" + none},
		{[]string{"eval", "till", ""}, none},
		{[]string{"eval", "--agent", ""}, none},
		{[]string{"pages", ""}, "log\tshow what a live page logged last\noutline\tshow what a live page displays\n" + none},
		{[]string{"pages", "log", "t"}, "till\tpage http://localhost:5173/till\n" + none},
		{[]string{"repl", "--dir", ""}, ":16\n"},
	} {
		if _, out, _ := run(t, w.command(append([]string{"__complete"}, test.args...)...), ""); out != test.want {
			t.Errorf("%q: stdout %q, want %q", test.args, out, test.want)
		}
	}
}

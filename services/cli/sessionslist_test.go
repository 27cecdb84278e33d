package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"zino/proto"
	"zino/services/cli/render"
)

// daemon has a socket be the daemon of the world's user.
func (w world) daemon(t *testing.T, socket string) {
	t.Helper()
	dir := filepath.Join(w.runtime, "zino")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(socket, filepath.Join(dir, "daemon.sock")); err != nil {
		t.Fatal(err)
	}
}

// host has a socket be the daemon of the world's host.
func (w world) host(t *testing.T, socket string) {
	t.Helper()
	if err := os.Symlink(socket, filepath.Join(w.runtime, "host.sock")); err != nil {
		t.Fatal(err)
	}
}

func TestSessionsList(t *testing.T) {
	t.Parallel()
	f := newFakeSessions(t)
	f.expect(t, "sessions list", 0, "No sessions found.\n", "")
	f.expect(t, "sessions list --format json", 0, "", "No sessions found.\n")
	f.add("550e8400-e29b-41d4-a716-446655440000", "Fix the\ttest.\x1b[2J")
	f.with(func() {
		f.list[0].Updated, f.list[0].Turns, f.list[0].Root = "2020-01-02T14:03:07Z", 2, "/srv/a\nb"
		f.list[0].CostUSD, f.list[0].Unpriced = new(0.0231), 1
	})
	f.expect(t, "sessions list", 0, "550e8400-e29b-41d4-a716-446655440000  2020-01-02  2 turns  >= $0.0231  /srv/a b  Fix the test.^[[2J\n", "")
	f.expect(t, "sessions list --all", 0, "550e8400-e29b-41d4-a716-446655440000  2020-01-02  2 turns  >= $0.0231  /srv/a b  Fix the test.^[[2J\n", "")
	f.add("short", "")
	f.with(func() { f.list[0].Updated, f.list[0].Turns, f.list[0].CostUSD = "\x1b", 1, new(0.5) })
	f.add("bad", "x")
	f.with(func() { f.list[0].Problem, f.list[0].Updated = "permission\ndenied", "2020-01-02T14:03:07Z" })
	const rows = "bad    2020-01-02  0 turns  -        -  (cannot be read: permission denied)\nshort  -           1 turn   $0.5000  -  (nothing said)\n"
	f.expect(t, "sessions list --limit 2", 0, rows, "")
	f.expect(t, "--format json sessions list -n 1", 0, line(t, f.first()), "")
	f.with(func() { f.total = 5 })
	f.expect(t, "sessions list -n 2", 0, rows, "")
	_, _, said := run(t, f.command(t, "sessions", "list"), "")
	if said != "Warning: 2 more, which did not fit into one answer, are not shown: zino sessions search finds them\n" {
		t.Errorf("said %q", said)
	}
}

// TestSessionsListHead ends without a word when nobody reads on.
func TestSessionsListHead(t *testing.T) {
	t.Parallel()
	f := newFakeSessions(t)
	for range 400 {
		f.add("abc", strings.Repeat("much text ", 50))
	}
	cmd := f.command(t, "sessions", "list")
	cmd.Args = append([]string{"sh", "-c", `"$@" | head -n 1`, "sh", cmd.Path}, cmd.Args[1:]...)
	cmd.Path = "/bin/sh"
	status, out, said := run(t, cmd, "")
	if status != 0 || strings.Count(out, "\n") != 1 || said != "" {
		t.Errorf("status %d, printed %.100q, said %q", status, out, said)
	}
}

// TestSessionsListTerminal cuts lines to the terminal's width, behind the id.
func TestSessionsListTerminal(t *testing.T) {
	t.Parallel()
	f := newFakeSessions(t)
	f.add("550e8400-e29b-41d4-a716-446655440000", strings.Repeat("語", 100))
	f.with(func() { f.list[0].Updated = "2020-01-02T14:03:07Z" })
	cmd := f.command(t, "sessions", "list")
	cmd.Args = append([]string{"sh", "-c", `stty cols 70 && exec "$@"`, "sh", cmd.Path}, cmd.Args[1:]...)
	cmd.Path = "/bin/sh"
	x := onTerminal(t, cmd)
	<-x.ended
	x.shows("550e8400  2020-01-02  0 turns  -  -  語")
	x.shows("語…\r\n")
	for line := range strings.Lines(x.screen()) {
		if n := render.Cells(strings.TrimRight(line, "\r\n")); n > 70 {
			t.Errorf("%d cells: %q", n, line)
		}
	}
}

func TestSessionsSearch(t *testing.T) {
	t.Parallel()
	f := newFakeSessions(t, "one", "two")
	f.expect(t, "sessions search words of", 0, "two  2026-11-21 14:03  user: …words of two\none  2026-11-21 14:03  user: …words of one\n", "")
	f.expect(t, "sessions search of one --format json -n 7", 0,
		line(t, proto.SessionHit{SessionID: "one", Updated: "2026-11-21T14:03:07Z", Role: "user", Excerpt: "…words of one"}), "")
	f.expect(t, "sessions search zebra", 1, "", "No session matches.\n")
	if got := f.searched[1]; got != (proto.SearchSessions{Query: "of one", Limit: 7}) {
		t.Errorf("asked for %+v", got)
	}
}

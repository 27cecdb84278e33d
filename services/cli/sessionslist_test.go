package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"zino/proto"
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
	f.expect(t, "sessions list", 0, "550e8400-e29b-41d4-a716-446655440000  2026-11-21 14:03  Fix the test.^[[2J\n", "")
	f.add("short", "")
	f.with(func() { f.list[0].Updated = "\x1b" })
	f.add("bad", "x")
	f.with(func() { f.list[0].Problem = "permission\ndenied" })
	const rows = "bad    2026-11-21 14:03  (cannot be read: permission denied)\nshort  ^[  (nothing said)\n"
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
	cmd := f.command(t, "sessions", "list")
	cmd.Args = append([]string{"sh", "-c", `stty cols 70 && exec "$@"`, "sh", cmd.Path}, cmd.Args[1:]...)
	cmd.Path = "/bin/sh"
	x := onTerminal(t, cmd)
	<-x.ended
	x.shows("550e8400-e29b-41d4-a716-446655440000  2026-11-21 14:03  語")
	x.shows("語…\r\n")
	for line := range strings.Lines(x.screen()) {
		if n := cells(strings.TrimRight(line, "\r\n")); n > 70 {
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
	f.expect(t, "sessions search zebra", 0, "", "No session matches.\n")
	if got := f.searched[1]; got != (proto.SearchSessions{Query: "of one", Limit: 7}) {
		t.Errorf("asked for %+v", got)
	}
}

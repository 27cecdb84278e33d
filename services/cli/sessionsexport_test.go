package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestSessionsExport(t *testing.T) {
	t.Parallel()
	f := showing(t, "first: grüße \x1b[2J", "second")
	const text = "md first: grüße \x1b[2J\nsecond\n"
	for _, piece := range []int{1000, 1, 7} {
		f.with(func() { f.piece = piece })
		f.expect(t, "sessions export ab", 0, text, "")
	}
	f.expect(t, "sessions export abc --format json", 0, "json"+strings.TrimPrefix(text, "md"), "")
	f.expect(t, "--format json sessions export abc --out -", 0, "json"+strings.TrimPrefix(text, "md"), "")
	f.expect(t, "sessions export x", 1, "", "Error [session]: There is no session \"x\".\n")
	f.with(func() { f.endless = true })
	f.expect(t, "sessions export abc", 1, "", "Error [internal]: the session does not end: is the daemon of another version? try: zino status\n")
}

// TestSessionsExportTerminal: what is exact for a program is harmless to a terminal.
func TestSessionsExportTerminal(t *testing.T) {
	t.Parallel()
	f := showing(t, "first: \x1b[2J\u202e")
	x := onTerminal(t, f.command(t, "sessions", "export", "abc"))
	<-x.ended
	x.shows("md first: ^[[2J\\u202e\r\n")
}

// TestSessionsExportOut writes a private file, all of it or none.
func TestSessionsExportOut(t *testing.T) {
	t.Parallel()
	f := showing(t, "text")
	dir := shortDir(t)
	path := filepath.Join(dir, "s.md")
	f.expect(t, "sessions export abc --out "+path, 0, "", "The session is in "+path+"\n")
	holds(t, path, "md text\n", 0o600)
	f.with(func() { f.events["abc"] = []string{"more"} })
	f.expect(t, "sessions export abc -o "+path, 0, "", "The session is in "+path+"\n")
	holds(t, path, "md more\n", 0o600)
	f.expect(t, "sessions export x --out "+path, 1, "", "Error [session]: There is no session \"x\".\n")
	holds(t, path, "md more\n", 0o600)
	f.expect(t, "sessions export abc --out "+dir, 1, "", "Error [internal]: open "+dir+": is a directory\n")
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// holds compares a file with what should be in it.
func holds(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil || string(data) != text {
		t.Errorf("%s holds %q, %v, want %q", path, data, err, text)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != mode {
		t.Errorf("%s: %v, %v, want %v", path, info.Mode(), err, mode)
	}
}

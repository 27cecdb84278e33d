package undo

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"zino/pkg/config"
	"zino/pkg/zinotest"
	"zino/proto"
)

// TestLimits reaches each limit of a scan: the command is not recorded, and after three
// scans the root is left alone. Other sessions and changes by edit are recorded.
func TestLimits(t *testing.T) {
	tests := []struct {
		name   string
		change func(*config.Undo)
		want   string
	}{
		{"files", func(c *config.Undo) { c.Files = 3 }, "undo does not cover shell commands here: more than 3 files (limit 3)"},
		{"bytes", func(c *config.Undo) { c.Bytes = 2048 }, "undo does not cover shell commands here: more than 2 KiB of files"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			e := newEnv(t, test.change)
			e.write(map[string]string{"a": strings.Repeat("a", 1000), "b": strings.Repeat("b", 1000), "c": strings.Repeat("c", 1000), "d": "d"})
			for range 3 {
				zinotest.Equal(t, "why", e.command("t-1", "echo x >> a"), test.want)
			}
			zinotest.Equal(t, "records", len(e.records("t-1")), 0)
			zinotest.Must(t, os.Remove(e.path("b")))
			zinotest.Equal(t, "why, left alone", e.command("t-1", "echo x >> a"), test.want)
			zinotest.Equal(t, "why of an edit", e.edit("t-1", "a", "edited"), "")
			at := At{Root: e.root, Session: "another", Turn: "t-1"}
			snap := e.s.Before(t.Context(), at)
			zinotest.Equal(t, "why in another session", snap.why, "")
		})
	}
}

// TestLimitAfter reaches a limit with what the command made.
func TestLimitAfter(t *testing.T) {
	e := newEnv(t, func(c *config.Undo) { c.Files = 3 })
	e.write(map[string]string{"a": "a"})
	zinotest.Equal(t, "why", e.command("t-1", "touch 1 2 3 4"), "undo does not cover shell commands here: more than 3 files (limit 3)")
	zinotest.Equal(t, "records", len(e.records("t-1")), 0)
}

// TestScanContinues goes on where a scan without time has stopped.
func TestScanContinues(t *testing.T) {
	e := newEnv(t)
	for i := range 40 {
		e.write(map[string]string{fmt.Sprint("f", i): fmt.Sprint("text ", i)})
	}
	root, err := openRoot(e.root)
	zinotest.Must(t, err)
	defer root.close()
	read := func() (n int, err error) {
		x, err := e.s.openIndex(t.Context(), e.root)
		zinotest.Must(t, err)
		defer x.close()
		ctx, stop := context.WithCancel(t.Context())
		e.s.objects.added = func(int64) {
			if n++; n == 15 {
				stop()
			}
		}
		w, err := e.s.scan(ctx, root, x.entries)
		zinotest.Must(t, w.save(x, err == nil))
		return n, err
	}
	for _, want := range []int{15, 15, 10, 0} {
		n, err := read()
		zinotest.Equal(t, "files read", n, want)
		zinotest.Equal(t, "complete", err == nil, want < 15)
	}
}

// TestUncovered does not capture what cannot be restored, and says so at the undo of a
// file that is too large.
func TestUncovered(t *testing.T) {
	e := newEnv(t, func(c *config.Undo) { c.FileBytes = 1000 })
	e.write(map[string]string{"large": strings.Repeat("l", 2000), "small": "s", "node_modules/m": "m", "sub/target/o": "o", "target": "a file"})
	zinotest.Must(t, syscall.Mkfifo(e.path("fifo"), 0o600))
	zinotest.Listen(t, e.path("socket"))
	e.s.Exclude(e.path("data"))
	e.write(map[string]string{"data/log": "log"})
	e.covered("t-1", "echo x >> large; echo x > small; echo x > node_modules/m; echo x > sub/target/o; echo x > target; rm fifo; echo x > data/log")
	var changed []string
	for _, name := range []string{"data/log", "fifo", "large", "node_modules/m", "small", "socket", "sub/target/o", "target"} {
		if _, ok := e.records("t-1")[name]; ok {
			changed = append(changed, name)
		}
	}
	zinotest.Equal(t, "recorded", strings.Join(changed, " "), "large small target")
	zinotest.Equal(t, "refused", names(e.try(proto.Undo{}, false).Refused), "large: no_image")
	diff, err := e.s.Diff(t.Context(), proto.Undo{SessionID: session})
	zinotest.Must(t, err)
	zinotest.Contains(t, "the diff", diff.Diff, "# large: not covered")
	reply := e.try(proto.Undo{Partial: true}, false)
	zinotest.Equal(t, "restored", strings.Join(reply.Restored, " "), "small target")
}

// TestNames lists what a command did to names and links that are not UTF-8 as not
// covered, with the reason, and touches no file of a similar name.
func TestNames(t *testing.T) {
	e := newEnv(t)
	e.write(map[string]string{"caf\xe9": "old", "gone\xff": "gone", "d\xe9/in": "in", `caf\351`: "mine", "a": "a"})
	zinotest.Must(t, os.Symlink("to\xe9", e.path("link")))
	e.covered("t-1", `echo new > "$(printf 'caf\351')"; rm gone*; cd d*; echo x > in; echo x > new; cd ..; ln -sfn "$(printf 'of\351')" link; echo x > a`)
	const name, text = "its name is not UTF-8", "the text of the link is not UTF-8"
	why := map[string]string{}
	for path, c := range e.records("t-1") {
		why[path] = c.Why
	}
	want := map[string]string{`caf\351`: name, `gone\377`: name, `d\351/in`: name, `d\351/new`: name, "link": text, "a": ""}
	if !maps.Equal(why, want) {
		t.Errorf("recorded %q, want %q", why, want)
	}
	diff, err := e.s.Diff(t.Context(), proto.Undo{SessionID: session})
	zinotest.Must(t, err)
	zinotest.Contains(t, "the diff", diff.Diff, "# caf\\351: not covered: "+name+"\n", "# link: not covered: "+text+"\n")
	zinotest.Equal(t, "refused", names(e.try(proto.Undo{}, false).Refused), `caf\351: no_image, d\351/in: no_image, d\351/new: no_image, gone\377: no_image, link: no_image`)
	zinotest.Equal(t, "restored", strings.Join(e.try(proto.Undo{Partial: true}, false).Restored, " "), "a")
	zinotest.Equal(t, "contents", zinotest.Read(t, e.path("caf\xe9"))+zinotest.Read(t, e.path(`caf\351`)), "new\nmine")
	e.covered("t-2", "true")
	zinotest.Equal(t, "records of nothing", len(e.records("t-2")), 0)
}

// TestLargeDirectory scans a directory with a gigabyte that is excluded, and one with
// a large file, without reading them.
func TestLargeDirectory(t *testing.T) {
	e := newEnv(t)
	e.write(map[string]string{"a": "a", ".cache/x": "", "data/x": ""})
	zinotest.Must(t, os.Truncate(e.path(".cache/x"), 1<<30))
	zinotest.Must(t, os.Truncate(e.path("data/x"), 1<<30))
	e.covered("t-1", "echo x > a; echo x > data/b")
	zinotest.Equal(t, "images", e.images(), 2)
	e.undo(proto.Undo{})
	zinotest.Equal(t, "files", zinotest.Names(t, e.path("data")), "x")
}

// TestUnreadable leaves a directory alone that could not be read after a command.
func TestUnreadable(t *testing.T) {
	zinotest.Unprivileged(t, func() {
		e := newEnv(t)
		e.write(map[string]string{"d/a": "a", "b": "b"})
		e.covered("t-1", "chmod 000 d; echo x > b")
		var paths []string
		for path := range e.records("t-1") {
			paths = append(paths, path)
		}
		if len(paths) != 2 {
			t.Errorf("recorded %q", paths)
		}
		zinotest.Equal(t, "refused", names(e.try(proto.Undo{}, false).Refused), "")
		zinotest.Equal(t, "content", zinotest.Read(t, e.path("d/a")), "a")
	})
}

// TestIndex reads no file again that has not changed, and finds a change that leaves
// size and time as they were.
func TestIndex(t *testing.T) {
	e := newEnv(t)
	e.write(map[string]string{"a": "one", "b": "two"})
	old := time.Now().Add(-time.Hour)
	e.s.Before(t.Context(), e.at("t-1"))
	zinotest.Must(t, os.Chtimes(e.path("a"), old, old))
	e.covered("t-1", "echo -n six > a; touch -d '"+old.Format(time.RFC3339Nano)+"' a")
	zinotest.Equal(t, "hash", e.records("t-1")["a"].After.SHA256, hashOf("six"))
	path := filepath.Join(e.s.indexDir(), indexName(e.root))
	data, err := os.ReadFile(path)
	zinotest.Must(t, err)
	for _, damage := range [][]byte{nil, data[:len(data)/2], append([]byte("x"), data...), append(data[:len(data)-1:len(data)-1], 'x')} {
		zinotest.Must(t, os.WriteFile(path, damage, 0o600))
		e.covered("t-2", "echo again >> a")
	}
	e.undo(proto.Undo{Turn: "t-2"})
	zinotest.Equal(t, "content", zinotest.Read(t, e.path("a")), "six")
}

// TestCollect removes old records, the oldest ones beyond max_bytes, and images that
// nothing refers to.
func TestCollect(t *testing.T) {
	e := newEnv(t, func(c *config.Undo) { c.MaxBytes = 1 << 20 })
	big := func(c string) string { return strings.Repeat(c, 400<<10) }
	for i, c := range []string{"a", "b", "c"} {
		e.edit(fmt.Sprint("t-", i+1), "f", big(c))
	}
	e.edit("t-4", "f", "small")
	zinotest.Equal(t, "images", e.images(), 4)
	in := func(hours int) { zinotest.Must(t, e.s.Collect(time.Now().Add(time.Duration(hours)*time.Hour))) }
	in(0)
	zinotest.Equal(t, "records", zinotest.Names(t, e.s.sessionDir(session)), "t-3.jsonl t-4.jsonl")
	zinotest.Equal(t, "images within an hour", e.images(), 4)
	in(2)
	zinotest.Equal(t, "images", e.images(), 3)
	e.undo(proto.Undo{})
	e.undo(proto.Undo{})
	zinotest.Equal(t, "content", zinotest.Read(t, e.path("f")), big("b"))
	in(13 * 24)
	zinotest.Equal(t, "records", zinotest.Names(t, e.s.sessionDir(session)), "t-3.jsonl t-4.jsonl undo-1.json undo-2.json")
	in(15 * 24)
	zinotest.Equal(t, "sessions", zinotest.Names(t, e.s.turnsDir()), "")
	zinotest.Equal(t, "images", e.images(), 0)
}

// TestRemove removes what is kept of a session.
func TestRemove(t *testing.T) {
	e := newEnv(t)
	e.edit("t-1", "f", "text")
	zinotest.Must(t, e.s.Remove("unknown"))
	zinotest.Must(t, e.s.Remove(session))
	zinotest.Equal(t, "sessions", zinotest.Names(t, e.s.turnsDir()), "")
	zinotest.Error(t, e.s.Remove("../x"), proto.ErrInvalid, "invalid session name")
}

// TestSwitchedOff records nothing.
func TestSwitchedOff(t *testing.T) {
	e := newEnv(t, func(c *config.Undo) { c.Enabled = false })
	zinotest.Equal(t, "why", e.command("t-1", "echo x > a")+e.edit("t-1", "a", "b"), "")
	_, err := e.s.Undo(t.Context(), proto.Undo{SessionID: session}, false)
	zinotest.Error(t, err, proto.ErrUnavailable, "[undo] enabled is false")
}

// BenchmarkScan scans 20,000 files that have not changed.
func BenchmarkScan(b *testing.B) {
	e := newEnv(b)
	for d := range 200 {
		dir := e.path(fmt.Sprintf("d%d/sub", d))
		zinotest.Must(b, os.MkdirAll(dir, 0o755))
		for f := range 100 {
			zinotest.Must(b, os.WriteFile(filepath.Join(dir, fmt.Sprintf("file%d.go", f)), nil, 0o644))
		}
	}
	e.s.cfg.ScanMS = 60000
	for written := time.Now(); time.Since(written) < 2*tick; { // until then the newest files are read again
		e.s.Before(b.Context(), e.at("t-1"))
	}
	e.s.Before(b.Context(), e.at("t-1"))
	for b.Loop() {
		if snap := e.s.Before(b.Context(), e.at("t-1")); snap.why != "" {
			b.Fatal(snap.why)
		}
	}
}

// TestRun collects once a day, over all processes.
func TestRun(t *testing.T) {
	e := newEnv(t)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { e.s.Run(ctx); close(ended) }()
	marker := filepath.Join(e.s.dir, collectedName)
	zinotest.Eventually(t, "the collection is recorded", func() bool { _, err := os.Stat(marker); return err == nil })
	stop()
	zinotest.Receive(t, "the end of Run", ended)
	noon := time.Now().Add(-12 * time.Hour).Truncate(time.Second)
	zinotest.Must(t, os.Chtimes(marker, noon, noon))
	ctx, stop = context.WithCancel(t.Context())
	stop()
	e.s.Run(ctx) // which is not due
	info, err := os.Stat(marker)
	zinotest.Must(t, err)
	zinotest.Equal(t, "time", info.ModTime().Unix(), noon.Unix())
}

package repl

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"zino/pkg/replfile"
	"zino/pkg/watch"
	"zino/pkg/zinotest"
	"zino/proto"
	"zino/services/repl/page"
	"zino/services/repl/tail"
)

// TestOwnWrites: a write keeps the inode, and the service recognises its own writes.
func TestOwnWrites(t *testing.T) {
	t.Parallel()
	b := newEnv(t, "")
	f := b.page(proto.Attach{Name: "a"})
	file := f.Attached().File
	before, err := os.Stat(b.path(file))
	must(t, err)
	b.add(file, js("1"))
	b.settled(file, 1)
	after, err := os.Stat(b.path(file))
	must(t, err)
	if !os.SameFile(before, after) {
		t.Error("the file is another one")
	}
	l := f.log
	b.until("the notifications of the own writes are handled", func() bool {
		l.alarm.mu.Lock()
		defer l.alarm.mu.Unlock()
		return l.alarm.first.IsZero() && l.alarm.set.IsZero()
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	now, err := b.Service.dir.Stat(file)
	if err != nil || now != l.known.stamp || !l.state.Deadline().IsZero() {
		t.Errorf("%+v, known %+v, %v; the deadline is %v", now, l.known.stamp, err, l.state.Deadline())
	}
}

// TestWithoutNotification: polling alone finds a change.
func TestWithoutNotification(t *testing.T) {
	t.Parallel()
	b := &env{t: t, dir: newDir(t)}
	b.open(settings(b.dir), watch.Poll(200*time.Millisecond))
	file := b.page(proto.Attach{Name: "a"}).Attached().File
	b.add(file, js("1"))
	b.settled(file, 1)
}

// TestDirectoryReplaced: the directory of the logs is followed by its name.
func TestDirectoryReplaced(t *testing.T) {
	t.Parallel()
	b := newEnv(t, "")
	file := b.page(proto.Attach{Name: "a"}).Attached().File
	must(t, os.Rename(b.path("debug"), b.path("old")))
	b.has(file, b.cfg.Footer) // it is created again
	b.add(file, js("1"))
	b.settled(file, 1)
}

// TestDraft: an incomplete block is not touched.
func TestDraft(t *testing.T) {
	t.Parallel()
	b := newEnv(t, "")
	f, other := b.page(proto.Attach{Name: "a"}), b.page(proto.Attach{Name: "b"})
	file := f.Attached().File
	before := b.file(file)
	b.add(file, fence+"js\n1+")
	b.add(other.Attached().File, js("1"))
	b.settled(other.Attached().File, 1)
	if got := b.file(file); got != before+fence+"js\n1+" {
		t.Errorf("the draft became %s", got)
	}
	b.add(file, "1\n"+fence+"\n")
	b.settled(file, 1)
	if got := strings.Join(f.code(), "|"); strings.TrimSpace(got) != "1+1" {
		t.Errorf("it ran %q", got)
	}
}

// TestDamage: when the file is damaged while a job is out, the result is still written
// in the end, and the next request runs.
func TestDamage(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		harm   func(t *testing.T, path string)
		repair func(t *testing.T, path string) // nil: the service does it
	}{
		"deleted":   {func(t *testing.T, path string) { must(t, os.Remove(path)) }, nil},
		"emptied":   {func(t *testing.T, path string) { must(t, os.Truncate(path, 0)) }, nil},
		"cut short": {func(t *testing.T, path string) { must(t, os.Truncate(path, 20)) }, nil},
		"replaced":  {func(t *testing.T, path string) { must(t, os.WriteFile(path, []byte("# other\n"), 0o600)) }, nil},
		"moved":     {func(t *testing.T, path string) { must(t, os.Rename(path, path+".old")) }, nil},
		"an older copy": {func(t *testing.T, path string) {
			must(t, os.WriteFile(path, []byte(zinotest.Read(t, path+".before")), 0o600))
		}, nil},
		"a link": {func(t *testing.T, path string) {
			must(t, os.Rename(path, path+".real"))
			must(t, os.Symlink(filepath.Base(path)+".real", path))
		}, func(t *testing.T, path string) { must(t, os.Rename(path+".real", path)) }},
		"a directory": {func(t *testing.T, path string) {
			must(t, os.Rename(path, path+".real"))
			must(t, os.Mkdir(path, 0o700))
		}, func(t *testing.T, path string) {
			must(t, os.Remove(path))
			must(t, os.Rename(path+".real", path))
		}},
		"all of debug/": {func(t *testing.T, path string) { must(t, os.RemoveAll(filepath.Dir(path))) }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newEnv(t, "")
			f := b.silentPage(proto.Attach{Name: "a"})
			file := f.Attached().File
			must(t, os.WriteFile(b.path(file)+".before", []byte(b.file(file)), 0o600))
			b.add(file, js("first"))
			job := f.job(0)
			c.harm(t, b.path(file))
			must(t, f.answer(job.Job, "12345"))
			if c.repair != nil {
				b.until("a problem", func() bool { return len(b.problems()) == 1 })
				c.repair(t, b.path(file))
			}
			text := b.has(file, "12345", b.cfg.Footer)
			if strings.Count(text, "12345") != 1 {
				t.Errorf("the file has the reply more than once: %s", text)
			}
			b.until("no problem", func() bool { return len(b.problems()) == 0 })
			b.add(file, js("second"))
			must(t, f.answer(f.job(1).Job, "67890"))
			b.has(file, "67890")
			if got := strings.Fields(strings.Join(f.code(), " ")); strings.Join(got, " ") != "first second" {
				t.Errorf("it ran %q", got)
			}
		})
	}
}

// problems returns those of the stats.
func (b *env) problems() []string {
	stats := proto.Stats{}
	b.stats(&stats)
	return stats.Problems
}

// TestLink: the target of a link is neither read nor written.
func TestLink(t *testing.T) {
	t.Parallel()
	b := newEnv(t, "")
	private := filepath.Join(newDir(t), "private")
	text := b.cfg.Footer + "\n" + js("secret")
	must(t, os.WriteFile(private, []byte(text), 0o600))
	must(t, os.Symlink(private, b.path("debug/a-1a2b.md")))
	f := b.page(proto.Attach{Name: "a", ID: "1a2b"})
	b.until("a problem", func() bool { return len(b.problems()) == 1 })
	if got := zinotest.Read(t, private); got != text || len(f.code()) != 0 {
		t.Errorf("the target is %q, and it ran %q", got, f.code())
	}
	must(t, os.Remove(b.path("debug/a-1a2b.md")))
	b.until("no problem", func() bool { return len(b.problems()) == 0 })
	b.has("debug/a-1a2b.md", b.cfg.Footer)
}

// TestLongBody: a long result is kept beside the log, under an unused number.
func TestLongBody(t *testing.T) {
	t.Parallel()
	dir := newDir(t)
	long := strings.Repeat("0123456789", 100_000)
	for round, number := range []string{"1", "2"} {
		b := newEnv(t, dir)
		f := b.silentPage(proto.Attach{Name: "a", ID: "1a2b"})
		file := f.Attached().File
		b.add(file, js("1"))
		must(t, f.answer(f.job(0).Job, `"`+long+`"`))
		b.settled(file, round+1)
		b.has("debug/a-1a2b/"+number+".txt", long)
		f.leave()
		must(t, b.Close())
	}
}

// TestReadOnly: requests wait for a file that cannot be written, and nothing is lost.
func TestReadOnly(t *testing.T) {
	t.Parallel()
	b := newEnv(t, "")
	f := b.silentPage(proto.Attach{Name: "a"})
	file := f.Attached().File
	b.add(file, js("1"))
	job := f.job(0)
	must(t, os.Rename(b.path(file), b.path(file)+".real"))
	must(t, os.Symlink("nowhere", b.path(file)))
	must(t, f.answer(job.Job, "41"))
	r, err := b.Eval(t.Context(), proto.Eval{Page: "a", Code: "2"}) // and is answered at once
	if err != nil || r.OK || r.Error != "not run: the page's file cannot be used: "+file+": not a regular file" {
		t.Errorf("a request that cannot be written: %+v, %v", r, err)
	}
	must(t, os.Rename(b.path(file)+".real", b.path(file)))
	text := b.settled(file, 1)
	if !strings.Contains(text, "JSON\n41\n") || len(f.code()) != 1 {
		t.Errorf("it ran %q, and the file is %s", f.code(), text)
	}
}

// TestAppended: text that others have appended behind an edit is not taken for known.
func TestAppended(t *testing.T) {
	edit := page.Edit{Changed: true, From: 10, Text: []byte("ours\n")}
	for _, c := range []struct {
		view tail.View
		want bool
	}{
		{tail.View{Offset: 4, Bytes: []byte("before" + "ours\n")}, false},
		{tail.View{Offset: 4, Bytes: []byte("before" + "ours\n" + "theirs\n")}, true},
		{tail.View{Offset: 10, Bytes: []byte("ours\n")}, false},
		{tail.View{Offset: 10, Bytes: []byte("ours\n```")}, true},
	} {
		if got := appended(&c.view, edit); got != c.want {
			t.Errorf("%d %q: %v", c.view.Offset, c.view.Bytes, got)
		}
	}
}

// TestRace: several programs append requests while replies and background are
// written. Every request is there, has run once, and has its reply.
func TestRace(t *testing.T) {
	t.Parallel()
	b := newEnv(t, "")
	f := b.page(proto.Attach{Name: "a"})
	a := f.Attached()
	const writers, requests = 3, 25
	done := make(chan bool, writers)
	for w := range writers {
		go func() {
			defer func() { done <- true }()
			for i := range requests {
				b.add(a.File, js(fmt.Sprintf("w%d.%d.", w, i)))
				if err := f.events(proto.PageEvent{Type: "console", Message: "m"}); err != nil {
					t.Error(err)
				}
				runtime.Gosched()
			}
		}()
	}
	for range writers {
		<-done
	}
	text := b.settled(a.File, writers*requests)
	ran := strings.Join(f.code(), "\n")
	for w := range writers {
		for i := range requests {
			code := fmt.Sprintf("w%d.%d.", w, i)
			if strings.Count(text, js(code)) != 1 || strings.Count(ran, code) != 1 {
				t.Errorf("%s is there %d times and ran %d times", code, strings.Count(text, js(code)), strings.Count(ran, code))
			}
		}
	}
}

// TestFollowed: while a program such as tail -f has the file open, edits that make it
// shorter leave blank lines at its end. The next edit removes them.
func TestFollowed(t *testing.T) {
	t.Parallel()
	b := newEnv(t, "")
	f := b.page(proto.Attach{Name: "a"})
	file := f.Attached().File
	follower, err := os.Open(b.path(file))
	must(t, err)
	defer follower.Close()
	header := "> **me** to " + strings.TrimSuffix(filepath.Base(file), ".md") + " at 10:00:00\n"
	for i := range 3 {
		b.add(file, header+js("1"))
		text := b.waitFile(file, "the reply", func(text string) bool {
			return strings.HasSuffix(strings.TrimRight(text, "\n"), b.cfg.Footer) && len(reply.FindAllString(text, -1)) == i+1
		})
		if strings.Contains(strings.TrimRight(text, "\n"), "\n\n\n") {
			t.Fatalf("blank lines are left: %s", text)
		}
	}
}

// TestEditing: an editor saves the whole file again and again, in place, while
// requests of a program are run. What it adds is there in the end.
func TestEditing(t *testing.T) {
	t.Parallel()
	b := newEnv(t, "")
	f := b.page(proto.Attach{Name: "a"})
	file := f.Attached().File
	const requests, saves = 10, 20
	for request := range requests {
		answered := b.eval(proto.Eval{Page: "a", Code: fmt.Sprint(request)})
		for n := range saves {
			// Editors look whether the file has changed since they read it before they
			// overwrite it.
			loaded := ""
			b.until("a save", func() bool {
				before := loaded
				loaded = b.file(file)
				whole := strings.Replace(before, "> This file", fmt.Sprintf("remark %d.%d\n> This file", request, n), 1)
				if loaded != before || whole == before {
					return false
				}
				must(t, os.WriteFile(b.path(file), []byte(whole), 0o644))
				return true
			})
		}
		if r := zinotest.Receive(t, "the reply", answered); !r.OK {
			t.Errorf("%+v", r)
		}
	}
	// Blank lines may stay at the end if the editor had the file open.
	text := b.waitFile(file, "the footer", func(text string) bool {
		return strings.HasSuffix(strings.TrimRight(text, "\n"), b.cfg.Footer)
	})
	if got := len(f.code()); got != requests {
		t.Errorf("%d requests ran", got)
	}
	if !strings.Contains(text, fmt.Sprintf("remark %d.%d\n", requests-1, saves-1)) {
		t.Errorf("the last remark is lost: %s", text)
	}
}

// TestBusyPage: events of a page, and what the service writes for them, do not restart
// the debounce of a request, however long the log is.
func TestBusyPage(t *testing.T) {
	t.Parallel()
	for name, length := range map[string]int{"short": 0, "10 MB": 10 << 20} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := settings(newDir(t))
			cfg.DebounceMS = 10_000
			b := &env{t: t, dir: cfg.Dir}
			b.open(cfg, watch.New([]string{newDir(t)}, time.Hour, b.out.Logger())) // the test notifies
			b.write("debug/a-1a2b.md", history("a-1a2b", length)+b.cfg.Footer+"\n")
			f := b.silentPage(proto.Attach{Name: "a", ID: "1a2b"})
			l := f.log
			b.add(l.file, js("1"))
			l.alarm.touch()
			rest := func() time.Time {
				l.alarm.mu.Lock()
				defer l.alarm.mu.Unlock()
				return l.alarm.rest()
			}
			at := rest()
			for i := range 100 {
				must(t, f.events(proto.PageEvent{Type: "console", Level: "log", Message: strconv.Itoa(i)}))
				l.mu.Lock()
				l.apply(page.Tick{At: time.Now()})
				l.mu.Unlock()
				l.poll()
			}
			if now := rest(); now != at {
				t.Errorf("the debounce ends %v later", now.Sub(at))
			}
		})
	}
}

// The registry replaces a debug.md of the project's own, whose text is kept.
func TestForeignRegistry(t *testing.T) {
	dir := newDir(t)
	for i, mine := range []string{"# Debug notes\nmine\n", "# Other notes\n"} {
		zinotest.Write(t, filepath.Join(dir, registryFile), mine)
		b := newEnv(t, dir)
		b.has(registryFile, replfile.Head)
		zinotest.Equal(t, "the text that was there", b.file(fmt.Sprintf("debug.md.kept-%d", i+1)), mine)
		b.stop()
	}
	newEnv(t, dir).stop()
	if names := zinotest.Names(t, dir); strings.Count(names, ".kept-") != 2 {
		t.Errorf("there are %s", names)
	}
}

package repl

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"zino/pkg/zinotest"
	"zino/proto"
	"zino/services/repl/tail"
)

// bytesRead returns how many bytes this process has read so far, of files and sockets.
func bytesRead(t *testing.T) int {
	t.Helper()
	text := zinotest.Read(t, "/proc/self/io")
	for line := range strings.Lines(text) {
		if number, ok := strings.CutPrefix(line, "rchar: "); ok {
			n, err := strconv.Atoi(strings.TrimSpace(number))
			must(t, err)
			return n
		}
	}
	t.Fatal("no rchar in " + text)
	return 0
}

// history returns a log with many exchanges, of at least size bytes.
func history(name string, size int) string {
	var s strings.Builder
	fmt.Fprintf(&s, "# %s\n> Guide.\n\n", name)
	for i := 0; s.Len() < size; i++ {
		fmt.Fprintf(&s, "> **agent** to %s at 10:00:00\n%s> **%s** to agent at 10:00:01 (1ms)\n%sJSON\n%d\n%s\n\n", name, js(fmt.Sprint("f(", i, ")")), name, fence, i, fence)
	}
	return s.String()
}

// TestLongLog: a request in a log of 10 MB is answered by reading and writing its end,
// and nothing of its history runs. It is not parallel, because it counts the bytes
// that the process reads.
func TestLongLog(t *testing.T) {
	b := newEnv(t, "")
	const size = 10 << 20
	before := history("a-1a2b", size)
	b.write("debug/a-1a2b.md", before+b.cfg.Footer+"\n")
	f := b.page(proto.Attach{Name: "a", ID: "1a2b"})
	file := f.Attached().File
	size0, start := int64(0), 0
	for i := range 6 {
		b.add(file, js(fmt.Sprint("g(", i, ")")))
		b.until("the request is done", func() bool { return len(f.code()) > i && !f.log.working() })
		if i == 0 {
			start = bytesRead(t) // after the scan of the whole log
			size0 = length(t, b.path(file))
		}
	}
	if n := bytesRead(t) - start; n > size/2 {
		t.Errorf("five requests took %d bytes to be read, of a log of %d", n, size)
	}
	if got := length(t, b.path(file)); got < size0+5*50 {
		t.Errorf("the log grew from %d to %d", size0, got)
	}
	text, ok := strings.CutPrefix(b.file(file), before)
	if !ok || len(reply.FindAllString(text, -1)) != 6 || !strings.HasSuffix(text, "\n\n"+b.cfg.Footer+"\n") {
		t.Errorf("the history is unchanged: %v, and it is followed by %s", ok, text)
	}
	if got := f.code(); len(got) != 6 {
		t.Errorf("it ran %d", len(got))
	}
}

// TestHugeLog: a log that is longer than tail.Max.
func TestHugeLog(t *testing.T) {
	b := newEnv(t, "")
	b.write("debug/a-1a2b.md", "# a\n")
	must(t, os.Truncate(b.path("debug/a-1a2b.md"), tail.Max+1))
	b.add("debug/a-1a2b.md", "\n"+b.cfg.Footer+"\n"+js("1"))
	f := b.page(proto.Attach{Name: "a", ID: "1a2b"})
	b.until("the request is done", func() bool { return len(f.code()) > 0 && !f.log.working() })
	if problems := b.problems(); len(problems) > 0 {
		t.Errorf("problems: %q", problems)
	}
}

// working reports whether a job runs.
func (l *pageLog) working() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	status := l.state.Status()
	return status == "executing" || status == "requested"
}

func length(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	must(t, err)
	return info.Size()
}

func TestMemory(t *testing.T) {
	b := newEnv(t, "")
	heap := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc + m.StackInuse
	}
	before := heap()
	for i := range 200 {
		f := b.page(proto.Attach{Name: fmt.Sprint("page ", i), URL: "http://localhost/" + strings.Repeat("x", 500)})
		var events []proto.PageEvent
		for range 50 {
			events = append(events, proto.PageEvent{Type: "console", Level: "log", Message: strings.Repeat("y", 2000)})
		}
		must(t, f.events(events...))
		for range 3 {
			if _, err := b.Eval(t.Context(), proto.Eval{Page: f.Attached().ID, Code: strings.Repeat("1+", 500) + "1"}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if n := heap() - before; n > 40<<20 { // half of it are events for log
		t.Errorf("200 pages take %d bytes", n)
	}
}

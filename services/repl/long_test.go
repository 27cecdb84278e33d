package repl

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"zino/proto"
	"zino/services/repl/tail"
)

// bytesRead is how many bytes this process has read so far, of files and sockets.
func bytesRead(t *testing.T) int {
	t.Helper()
	text := read(t, "/proc/self/io")
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

// history is a log with many exchanges in it, of at least so many bytes.
func history(name string, size int) string {
	var s strings.Builder
	fmt.Fprintf(&s, "# %s\n> Guide.\n\n", name)
	for i := 0; s.Len() < size; i++ {
		fmt.Fprintf(&s, "> **agent** to %s at 10:00:00\n%s> **%s** to agent at 10:00:01 (1ms)\n%sJSON\n%d\n%s\n\n", name, js(fmt.Sprint("f(", i, ")")), name, fence, i, fence)
	}
	return s.String()
}

// TestLongLog: a request in a log of 10 MB is answered by reading and writing its
// end, and nothing of its history runs. It is not parallel: what it counts are the
// bytes that the process reads.
func TestLongLog(t *testing.T) {
	b := newEnv(t, "")
	const size = 10 << 20
	before := history("a-1a2b", size)
	b.write("debug/a-1a2b.md", before+b.cfg.Footer+"\n")
	f := b.page(proto.Attach{Name: "a", ID: "1a2b"})
	file := f.Attached().File
	size0, start := int64(0), 0
	for i := range 6 {
		must(t, appendTo(b.path(file), js(fmt.Sprint("g(", i, ")"))))
		eventually(func() bool { return len(f.code()) > i && !f.log.working() })
		if i == 0 {
			start = bytesRead(t) // once the log was read as a whole
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
		t.Errorf("the history is what it was: %v, and what follows is %s", ok, text)
	}
	if got := f.code(); len(got) != 6 {
		t.Errorf("it ran %d", len(got))
	}
}

// TestHugeLog: a log that is longer than anything that is read at once.
func TestHugeLog(t *testing.T) {
	b := newEnv(t, "")
	b.write("debug/a-1a2b.md", "# a\n")
	must(t, os.Truncate(b.path("debug/a-1a2b.md"), tail.Max+1))
	b.add("debug/a-1a2b.md", "\n"+b.cfg.Footer+"\n"+js("1"))
	f := b.page(proto.Attach{Name: "a", ID: "1a2b"})
	eventually(func() bool { return len(f.code()) > 0 && !f.log.working() })
	if problems := b.problems(); len(problems) > 0 {
		t.Errorf("problems: %q", problems)
	}
}

// working reports whether a request is at work.
func (t *pageLog) working() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	state := t.state.Status()
	return state == "executing" || state == "requested"
}

func length(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	must(t, err)
	return info.Size()
}

func appendTo(path, text string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	if _, err := f.WriteString(text); err != nil {
		return err
	}
	return f.Close()
}

// TestMemory: 200 pages that have worked fit into little memory.
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
		a := f.Attached()
		var events []proto.RealmEvent
		for range 50 {
			events = append(events, proto.RealmEvent{Type: "console", Level: "log", Message: strings.Repeat("y", 2000)})
		}
		_, err := b.Events(t.Context(), proto.RealmEvents{ID: a.ID, Nonce: a.Nonce, Events: events})
		must(t, err)
		for range 3 {
			if _, err := b.Eval(t.Context(), proto.Eval{Page: a.ID, Code: strings.Repeat("1+", 500) + "1"}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if n := heap() - before; n > 30<<20 {
		t.Errorf("200 pages take %d bytes", n)
	}
}

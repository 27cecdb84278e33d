package page

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"
)

// editor is a user whose editor writes older copies over the file, deletes it and
// empties it. Whatever it does, no request is run twice.
type editor struct {
	*world
	copies [][]byte
	codes  int
}

func (e *editor) request(n int) string {
	var b strings.Builder
	for range n {
		e.codes++
		fmt.Fprintf(&b, "```js\ncode%d()\n```\n", e.codes)
	}
	return b.String()
}

// act does one thing.
func (e *editor) act(op, arg byte) {
	e.t.Helper()
	switch op % 16 {
	case 0, 1, 2:
		e.save(append(bytes.Clone(e.file), e.request(1+int(arg)%3)...))
		if arg%2 == 0 {
			e.copies = append(e.copies, e.file)
		}
		e.changed()
	case 3, 4, 5:
		e.apply(Started{e.now, e.job})
		e.apply(Result{At: e.now, Job: e.job, OK: arg%2 == 0, Value: poison, Error: "Error"})
	case 6:
		e.copies = append(e.copies, bytes.Clone(e.file))
	case 7, 8:
		if len(e.copies) > 0 && e.exists {
			e.buffer(e.copies[int(arg)%len(e.copies)])
		}
	case 9:
		if len(e.copies) > 0 && e.exists {
			e.buffer(append(bytes.Clone(e.copies[len(e.copies)-1]), e.request(1)...))
		}
	case 10:
		e.pass(time.Duration(arg) * 300 * time.Millisecond)
		if isBlank(e.file) || len(e.page.file.anchor.bytes) > 0 && e.page.file.anchor.end < 300 {
			e.copies = nil // the file is a new one: what is written now is new
		}
	case 11:
		e.file, e.exists = nil, false
		e.changed()
	case 12:
		e.save(nil)
		e.changed()
	case 13:
		e.apply(Gone{e.now})
		e.apply(Connected{e.now})
	case 14:
		e.restart()
	case 15:
		e.apply(Eval{At: e.now, Key: fmt.Sprint(e.codes + 1), Code: strings.Trim(e.request(1), "`js\n")})
	}
}

// buffer saves what is in an editor. All that the file had besides is gone then:
// who asks for that again means it.
func (e *editor) buffer(text []byte) {
	e.t.Helper()
	e.copies = [][]byte{text}
	e.save(text)
	e.changed()
}

// restart starts the service again, which has forgotten what it ran. Before that
// the file is at rest.
func (e *editor) restart() {
	e.t.Helper()
	e.pass(200 * time.Second)
	e.copies = nil
	o := e.page.options
	o.Epoch += "E"
	e.page = New(o)
	e.start()
}

// once holds that each code was given out once at the most.
func (e *editor) once() {
	e.t.Helper()
	seen := map[string]bool{}
	for _, line := range e.log {
		if _, code, ok := strings.Cut(line, `"code`); ok && strings.Contains(line, " run ") {
			if seen[code] {
				e.t.Fatalf("code%s was run twice:\n%s\n%s", code, strings.Join(e.log, "\n"), e.file)
			}
			seen[code] = true
		}
		if strings.Contains(line, "evil") && strings.Contains(line, " run ") {
			e.t.Fatalf("%s", line)
		}
	}
}

func (e *editor) live(moves []byte) {
	e.t.Helper()
	e.start()
	for i := 0; i+1 < len(moves) && i < 120; i += 2 {
		e.act(moves[i], moves[i+1])
		e.once()
	}
	for range 100 {
		e.pass(20 * time.Second)
		if !e.page.busy() {
			break
		}
	}
	e.once()
	e.rests()
}

func FuzzEditor(f *testing.F) {
	for seed := range uint64(8) {
		f.Add(moves(seed+1000, 60))
	}
	f.Fuzz(func(t *testing.T, moves []byte) {
		e := &editor{world: newWorld(t, Options{})}
		e.live(moves)
	})
}

// TestEditor does the same with many made-up lives.
func TestEditor(t *testing.T) {
	for seed := range uint64(80) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			e := &editor{world: newWorld(t, Options{})}
			e.live(moves(seed+1000, 20+int(seed%5)*20))
		})
	}
}

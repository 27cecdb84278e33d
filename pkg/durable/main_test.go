package durable

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"zino/pkg/zinotest"
)

func TestMain(m *testing.M) {
	zinotest.Child(zinotest.Roles{"writer": writeForever, "full": fillDisk, "locker": lockForever})
	os.Exit(m.Run())
}

const name = "list.json"

var framings = map[string]Framing{"array": Array, "lines": Lines}

// env is a File in its own temporary directory.
type env struct {
	*File
	dir, path string
	events    []Event
}

// newEnv returns an env whose file contains text, or does not exist if that is
// empty.
func newEnv(tb testing.TB, framing Framing, text string) *env {
	tb.Helper()
	dir := tb.TempDir()
	e := &env{dir: dir, path: filepath.Join(dir, name)}
	if text != "" {
		e.put(tb, text)
	}
	e.File = e.open(tb, Options{Framing: framing, NoSync: true, KeepOpen: framing == Array})
	return e
}

// put writes the file with mode 0644, as other programs do.
func (e *env) put(tb testing.TB, text string) {
	tb.Helper()
	zinotest.Must(tb, os.WriteFile(e.path, []byte(text), 0o644))
}

// open returns another File for the same path, as another process would use.
func (e *env) open(tb testing.TB, opt Options) *File {
	tb.Helper()
	opt.Report = func(ev Event) { e.events = append(e.events, ev) }
	f := New(openRoot(tb, e.dir), name, opt)
	tb.Cleanup(f.Close)
	return f
}

func (e *env) text(tb testing.TB) string { return zinotest.Read(tb, e.path) }

// kinds returns the kinds of the events so far, separated by spaces.
func (e *env) kinds() string {
	var s []string
	for _, ev := range e.events {
		s = append(s, string(ev.Kind))
	}
	return strings.Join(s, " ")
}

func openRoot(tb testing.TB, dir string) *os.Root {
	tb.Helper()
	root, err := os.OpenRoot(dir)
	zinotest.Must(tb, err)
	tb.Cleanup(func() { root.Close() })
	return root
}

func object(i int) []byte { return fmt.Appendf(nil, `{"n":%d}`, i) }

func objectsFrom(from, to int) (list [][]byte) {
	for i := from; i < to; i++ {
		list = append(list, object(i))
	}
	return list
}

// add appends in one Update and returns the end of the file.
func add(f *File, objects ...[]byte) (end int64, err error) {
	err = f.Update(context.Background(), true, func(t *Tx) error {
		err := t.Append(objects)
		end = t.End()
		return err
	})
	return end, err
}

func mustAdd(tb testing.TB, f *File, objects ...[]byte) int64 {
	tb.Helper()
	end, err := add(f, objects...)
	zinotest.Must(tb, err)
	return end
}

// contents returns the objects or lines of a file, separated by spaces; a line
// above MaxLine is shown as its length.
func contents(tb testing.TB, f *File) string {
	tb.Helper()
	if f.opt.Framing == Lines {
		return linesFrom(tb, f, 0)
	}
	list, err := f.Last(0, 0)
	zinotest.Must(tb, err)
	return string(bytes.Join(list, []byte(" ")))
}

func linesFrom(tb testing.TB, f *File, place int64) string {
	tb.Helper()
	var list []string
	for line, err := range f.From(place) {
		zinotest.Must(tb, err)
		if line.Text == nil {
			list = append(list, fmt.Sprint(line.Next-line.Start))
		} else {
			list = append(list, string(line.Text))
		}
	}
	return strings.Join(list, " ")
}

func joined(list [][]byte) string { return string(bytes.Join(list, []byte(" "))) }

// checkArray checks the layout of a file: a valid array, one element a line.
func checkArray(tb testing.TB, text string) {
	tb.Helper()
	var list []json.RawMessage
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		tb.Fatalf("the file is not a JSON array: %v\n%q", err, text)
	}
	if breaks := strings.Count(text, "\n"); len(list) > 0 && breaks != len(list)+1 {
		tb.Fatalf("%d elements in a file with %d line breaks\n%q", len(list), breaks, text)
	}
}

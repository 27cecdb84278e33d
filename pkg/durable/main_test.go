package durable

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestMain lets the test binary stand in for another process: see runChild.
func TestMain(m *testing.M) {
	if role := os.Getenv("DURABLE_CHILD"); role != "" {
		if err := children[role](os.Getenv("DURABLE_DIR")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

const name = "list.json"

func openRoot(tb testing.TB, dir string) *os.Root {
	tb.Helper()
	root, err := os.OpenRoot(dir)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { root.Close() })
	return root
}

// events collects what an array reports.
type events []Event

func (e *events) add(ev Event) { *e = append(*e, ev) }

func (e events) kinds() string {
	var s []string
	for _, ev := range e {
		s = append(s, string(ev.Kind))
	}
	return strings.Join(s, " ")
}

// newArray is an array in a fresh directory whose file holds content, if any.
func newArray(tb testing.TB, content string) (*Array, *events, string) {
	tb.Helper()
	dir := tb.TempDir()
	path := filepath.Join(dir, name)
	if content != "" {
		writeFile(tb, path, content)
	}
	seen := &events{}
	a := NewArray(openRoot(tb, dir), name, Options{NoSync: true, Report: seen.add})
	tb.Cleanup(a.Close)
	return a, seen, path
}

func writeFile(tb testing.TB, path, content string) {
	tb.Helper()
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		tb.Fatal(err)
	}
}

func readFile(tb testing.TB, path string) string {
	tb.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		tb.Fatal(err)
	}
	return string(data)
}

func elem(i int) []byte { return fmt.Appendf(nil, `{"n":%d}`, i) }

func elems(from, to int) (list [][]byte) {
	for i := from; i < to; i++ {
		list = append(list, elem(i))
	}
	return list
}

func mustAppend(tb testing.TB, a *Array, list ...[]byte) {
	tb.Helper()
	if err := a.Append(list); err != nil {
		tb.Fatal(err)
	}
}

// all returns the elements in one line, parted by spaces.
func all(tb testing.TB, a *Array) string {
	tb.Helper()
	list, err := a.Last(0, 0)
	if err != nil {
		tb.Fatal(err)
	}
	return string(bytes.Join(list, []byte(" ")))
}

// checkFile holds the file against what the format promises: a valid array,
// one element a line.
func checkFile(tb testing.TB, path string) {
	tb.Helper()
	text := readFile(tb, path)
	var list []json.RawMessage
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		tb.Fatalf("the file is no JSON array: %v\n%q", err, text)
	}
	if lines := strings.Count(text, "\n"); len(list) > 0 && lines != len(list)+1 {
		tb.Fatalf("%d elements in a file with %d line breaks\n%q", len(list), lines, text)
	}
}

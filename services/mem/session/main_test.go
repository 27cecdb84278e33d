package session

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"zino/pkg/durable"
	"zino/pkg/wire"
	"zino/proto"
)

// TestMain lets the test binary stand in for another process: see child.
func TestMain(m *testing.M) {
	if role := os.Getenv("SESSION_CHILD"); role != "" {
		if err := children[role](os.Getenv("SESSION_DIR")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

const (
	now  = "2026-11-21T14:03:07Z"
	head = `{"type":"meta","schema_version":1,"ts":"` + now + `"}`
)

// bench is a store with what a test looks at besides.
type bench struct {
	*Store
	t       testing.TB
	dir     string
	events  []durable.Event
	skipped map[string]int // by file
	damaged map[string]int // likewise
}

// newBench opens the store in dir, or in a fresh directory.
func newBench(t testing.TB, dir string) *bench {
	t.Helper()
	if dir == "" {
		dir = t.TempDir()
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	at, err := time.Parse(time.RFC3339, now)
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{t: t, dir: dir, skipped: map[string]int{}, damaged: map[string]int{}}
	b.Store = New(root, Options{
		NoSync: true, Now: func() time.Time { return at.In(time.FixedZone("", 3600)) },
		Report:  func(e durable.Event) { b.events = append(b.events, e) },
		Damaged: func(file string, n int) { b.damaged[file] = n },
		Skipped: func(file string, n int) { b.skipped[file] = n },
	})
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

func (b *bench) path(id string) string { return filepath.Join(b.dir, id+fileEnd) }

// write makes a session's file by hand.
func (b *bench) write(id string, lines ...string) {
	b.t.Helper()
	b.writeText(id, strings.Join(lines, "\n")+"\n")
}

func (b *bench) writeText(id, text string) {
	b.t.Helper()
	if err := os.WriteFile(b.path(id), []byte(text), 0o644); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) file(id string) string {
	b.t.Helper()
	data, err := os.ReadFile(b.path(id))
	if err != nil {
		b.t.Fatal(err)
	}
	return string(data)
}

// files are the names in the directory, but for the index.
func (b *bench) files() string {
	b.t.Helper()
	entries, err := os.ReadDir(b.dir)
	if err != nil {
		b.t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		if e.Name() != indexFile {
			names = append(names, e.Name())
		}
	}
	return strings.Join(names, " ")
}

// put appends events, and makes the session if need be.
func (b *bench) put(id string, events ...string) int64 {
	b.t.Helper()
	next, err := b.add(proto.AppendSession{SessionID: id, Create: true}, events...)
	if err != nil {
		b.t.Fatal(err)
	}
	return next
}

func (b *bench) add(req proto.AppendSession, events ...string) (int64, error) {
	var list []proto.Raw
	for _, e := range events {
		list = append(list, proto.Raw(e))
	}
	place, err := b.Append(b.t.Context(), req, list)
	return place.Next, err
}

// read are a session's events.
func (b *bench) read(id string) string {
	b.t.Helper()
	reply, err := b.Read(b.t.Context(), proto.ReadSession{SessionID: id})
	if err != nil {
		b.t.Fatal(err)
	}
	return string(reply.Events)
}

// wantError holds an error against a code and words of it.
func wantError(t testing.TB, err error, code error, words ...string) {
	t.Helper()
	if !errors.Is(err, code) || strings.Contains(err.Error(), "\n") {
		t.Errorf("got the error %v, want %v", err, code)
		return
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("the error %q does not say %q", err, w)
		}
	}
}

// Events as they come and, with the time, as they are stored.
func user(text string) string { return said("user", text) }
func says(text string) string { return said("assistant", text) }

func said(role, text string) string {
	return `{"type":"message","role":"` + role + `","text":` + quoted(text) + `}`
}

func use(id string) string {
	return `{"type":"tool_use","id":` + quoted(id) + `,"name":"read","input":{"path":"a"}}`
}

func result(id string) string {
	return `{"type":"tool_result","tool_use_id":` + quoted(id) + `,"output":{"ok":true},"ok":true}`
}

func quoted(text string) string { return string(wire.AppendString(nil, text)) }

func timed(event string) string { return strings.TrimSuffix(event, "}") + `,"ts":"` + now + `"}` }

const interrupt = `{"type":"interrupted","role":"system","text":"Interrupted"}`

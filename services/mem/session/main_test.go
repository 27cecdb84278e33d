package session

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"zino/pkg/durable"
	"zino/pkg/wire"
	"zino/pkg/zinotest"
	"zino/proto"
)

func TestMain(m *testing.M) {
	zinotest.Child(zinotest.Roles{"writer": writeForever, "turn": turnForever, "daemon": appendAtForever, "full": fillDisk, "readonly": readOnly, "redact": redactForever})
	os.Exit(m.Run())
}

const (
	now  = "2026-11-21T14:03:07Z"
	head = `{"type":"meta","schema_version":1,"ts":"` + now + `"}`
)

// env is a store in a temporary directory and what it has reported.
type env struct {
	*Store
	t       testing.TB
	dir     string
	events  []durable.Event
	skipped map[string]int // by file
	damaged map[string]int // by file
}

// newEnv opens the store in dir, or in a new directory if dir is empty.
func newEnv(t testing.TB, dir string) *env {
	t.Helper()
	if dir == "" {
		dir = t.TempDir()
	}
	root, err := os.OpenRoot(dir)
	zinotest.Must(t, err)
	at, err := time.Parse(time.RFC3339, now)
	zinotest.Must(t, err)
	b := &env{t: t, dir: dir, skipped: map[string]int{}, damaged: map[string]int{}}
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

func (b *env) path(id string) string { return filepath.Join(b.dir, id+fileEnd) }

// write writes a session's file without the store.
func (b *env) write(id string, lines ...string) {
	b.t.Helper()
	b.writeText(id, strings.Join(lines, "\n")+"\n")
}

func (b *env) writeText(id, text string) {
	b.t.Helper()
	zinotest.Must(b.t, os.WriteFile(b.path(id), []byte(text), 0o644)) // as other programs do
}

func (b *env) file(id string) string {
	b.t.Helper()
	return zinotest.Read(b.t, b.path(id))
}

// files returns the names in the directory except the index.
func (b *env) files() string {
	b.t.Helper()
	return strings.TrimSpace(strings.Replace(" "+zinotest.Names(b.t, b.dir), " "+indexFile, "", 1))
}

// put appends events, and creates the session if it does not exist.
func (b *env) put(id string, events ...string) int64 {
	b.t.Helper()
	next, err := b.add(proto.AppendSession{SessionID: id, Create: true}, events...)
	zinotest.Must(b.t, err)
	return next
}

func (b *env) add(req proto.AppendSession, events ...string) (int64, error) {
	var list []proto.Raw
	for _, e := range events {
		list = append(list, proto.Raw(e))
	}
	place, err := b.Append(b.t.Context(), req, list)
	return place.Next, err
}

// read returns a session's events.
func (b *env) read(id string) string {
	b.t.Helper()
	reply, err := b.Read(b.t.Context(), proto.ReadSession{SessionID: id})
	zinotest.Must(b.t, err)
	return string(reply.Events)
}

func (b *env) messages(id string) string {
	b.t.Helper()
	reply, err := b.Messages(b.t.Context(), proto.GetMessages{SessionID: id})
	zinotest.Must(b.t, err)
	return string(reply.Messages)
}

// Events as clients send them; timed adds the ts of a stored event.
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

// closed returns the result that closes a call.
func closed(id string) string {
	return `{"type":"tool_result","tool_use_id":"` + id + `","output":` + proto.InterruptedResult + `,"ok":false,"synthetic":true,"ts":"` + now + `"}`
}

func quoted(text string) string { return string(wire.AppendString(nil, text)) }

func timed(event string) string { return strings.TrimSuffix(event, "}") + `,"ts":"` + now + `"}` }

const interrupt = `{"type":"interrupted","role":"system","text":"Interrupted"}`

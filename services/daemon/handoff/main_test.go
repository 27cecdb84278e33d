package handoff

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"zino/pkg/rpc"
	"zino/pkg/zinotest"
	"zino/pkg/zinotest/rpctest"
	"zino/proto"
)

// env is a Maker with a fake mem and a fake rtr on sockets.
type env struct {
	*Maker
	t *testing.T

	find  func(context.Context, proto.FindSession) (proto.SessionSummary, error)
	page  func(context.Context, proto.ReadSession) (proto.SessionEvents, error)
	infer func(context.Context, proto.Infer, *rpc.Out) (proto.Text, error)

	mu    sync.Mutex
	asked []proto.Infer // requests to rtr
	pages int
}

// newEnv returns an env whose mem has a session "session-1" of these events, two per
// page, and whose model replies with answer.
func newEnv(t *testing.T, answer string, events ...string) *env {
	t.Helper()
	dir := zinotest.Dir(t)
	b := &env{t: t}
	b.Maker = &Maker{
		Mem: &rpc.Client{Service: "mem", Path: filepath.Join(dir, "mem")}, Rtr: &rpc.Client{Service: "rtr", Path: filepath.Join(dir, "rtr")},
		Temperature: 0.5, TopP: 0.25,
	}
	t.Cleanup(func() { b.Mem.Close(); b.Rtr.Close() })
	b.find = func(_ context.Context, req proto.FindSession) (proto.SessionSummary, error) {
		if !strings.HasPrefix("session-1", req.SessionID) {
			return proto.SessionSummary{}, &proto.Error{Code: proto.CodeNotFound, Message: "There is no session."}
		}
		return proto.SessionSummary{SessionID: "session-1"}, nil
	}
	b.page = pagesOf(events)
	b.infer = func(_ context.Context, _ proto.Infer, out *rpc.Out) (proto.Text, error) {
		half := len(answer) / 2
		err := errors.Join(out.Text([]byte(answer[:half])), out.Flush(), out.Text([]byte(answer[half:])))
		return proto.Text{Content: answer}, err
	}
	return b
}

// pagesOf serves pages of two events; offsets are the numbers of the events.
func pagesOf(events []string) func(context.Context, proto.ReadSession) (proto.SessionEvents, error) {
	return func(_ context.Context, req proto.ReadSession) (proto.SessionEvents, error) {
		if req.SessionID != "session-1" {
			return proto.SessionEvents{}, fmt.Errorf("asked for %q", req.SessionID)
		}
		from := min(int(req.From), len(events))
		to := min(from+2, len(events))
		return proto.SessionEvents{
			SessionID: "session-1", Events: proto.Raw("[" + strings.Join(events[from:to], ",") + "]"), Next: int64(to), More: to < len(events),
		}, nil
	}
}

// start runs mem and rtr.
func (b *env) start() *env {
	b.t.Helper()
	rpctest.New(b.t, "mem", b.Mem.Path, func(s *rpc.Server) {
		rpc.Handle(s, proto.MemFindSession, b.find)
		rpc.Handle(s, proto.MemReadSession, func(ctx context.Context, req proto.ReadSession) (proto.SessionEvents, error) {
			b.mu.Lock()
			b.pages++
			b.mu.Unlock()
			return b.page(ctx, req)
		})
	})
	rpctest.New(b.t, "rtr", b.Rtr.Path, func(s *rpc.Server) {
		rpc.HandleText(s, proto.RtrInfer, func(ctx context.Context, req proto.Infer, out *rpc.Out) (proto.Text, error) {
			req.Messages = append(proto.Raw(nil), req.Messages...)
			b.mu.Lock()
			b.asked = append(b.asked, req)
			b.mu.Unlock()
			return b.infer(ctx, req, out)
		})
	})
	return b
}

// quoted returns a text as a JSON string.
func quoted(text string) string {
	b, err := json.Marshal(text)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// Events of a session.
func begun(root string) string {
	return `{"type":"meta","schema_version":1,"root":` + quoted(root) + `,"ts":"2026-11-21T14:03:07Z"}`
}

func user(text string) string {
	return `{"type":"message","role":"user","text":` + quoted(text) + `}`
}

func assistant(text string) string {
	return `{"type":"message","role":"assistant","text":` + quoted(text) + `}`
}

func use(id, name, input string) string {
	return `{"type":"tool_use","id":` + quoted(id) + `,"name":` + quoted(name) + `,"input":` + input + `}`
}

func result(id, output string) string {
	ok := strings.HasPrefix(output, `{"ok":true`)
	return fmt.Sprintf(`{"type":"tool_result","tool_use_id":%s,"output":%s,"ok":%v}`, quoted(id), output, ok)
}

const (
	fine        = `{"ok":true,"data":{"stdout":"fine\n","stderr":"","exit_code":0,"timed_out":false}}`
	exit1       = `{"ok":true,"data":{"stdout":"","stderr":"broken\n","exit_code":1,"timed_out":false}}`
	late        = `{"ok":true,"data":{"stdout":"","stderr":"timeout","exit_code":-1,"timed_out":true}}`
	refused     = `{"ok":false,"error":{"code":"ENOENT","message":"File not found"}}`
	lostCall    = `{"ok":false,"error":{"code":"interrupted","message":"The call was interrupted and its result was lost."}}`
	interrupted = `{"type":"interrupted","role":"system","text":"Interrupted"}`
)

// ran returns a call of bash and its result.
func ran(command, output string) []string {
	return []string{use("b", "bash", `{"command":`+quoted(command)+`}`), result("b", output)}
}

// did returns a call of a file tool and its result.
func did(tool, path, output string) []string {
	return []string{use("f", tool, `{"path":`+quoted(path)+`,"content":"x"}`), result("f", output)}
}

// join joins events and lists of events.
func join(parts ...any) (events []string) {
	for _, part := range parts {
		switch part := part.(type) {
		case string:
			events = append(events, part)
		case []string:
			events = append(events, part...)
		}
	}
	return events
}

// factsOf returns the facts of a session with that root.
func factsOf(root string, parts ...any) *facts {
	f := newFacts(root)
	for _, e := range join(parts...) {
		f.event(members([]byte(e)))
	}
	f.finish()
	return f
}

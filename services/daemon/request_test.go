package daemon

import (
	"context"
	"errors"
	"os"
	"sync"
	"testing"

	"zino/pkg/rpc"
	"zino/proto"
)

// TestBadRequests: exactly one error, and no neighbour hears of it.
func TestBadRequests(t *testing.T) {
	b := newEnv(t, all())
	const empty = "Empty message."
	for _, c := range []struct{ payload, message string }{
		{`{}`, empty},
		{`{"message":null}`, empty},
		{`{"message":""}`, empty},
		{`{"message":" \t\n\u00a0"}`, empty},
		{`{"stream":true}`, empty},
		{`{"message":5}`, `Invalid request: field "message": expected a string, found a number`},
		{`{"message":["hi"]}`, `Invalid request: field "message": expected a string, found a list`},
		{`{"message":{"a":1}}`, `Invalid request: field "message": expected a string, found an object`},
		{`{"message":true}`, `Invalid request: field "message": expected a string, found true or false`},
		{`{"message":"hi","channel_id":7}`, `Invalid request: field "channel_id": expected a string, found a number`},
		{`{"message":"hi","stream":"yes"}`, `Invalid request: field "stream": expected true or false, found a string`},
		{`{"message":"hi","stream":1}`, `Invalid request: field "stream": expected true or false, found a number`},
		{`{"Message":"hi"}`, empty},
		{`{"message":"hi","env":["A=b"]}`, `Invalid request: field "env": expected a JSON object`},
		{`{"message":"hi","env":{"A=":"b"}}`, `env: invalid variable "A=": a name is not empty and has no '=', and neither name nor value has a NUL character`},
		{`{"message":"hi","cwd":"a/b"}`, `invalid cwd "a/b": use an absolute path`},
		{`{"message":"hi","umask":512}`, `invalid umask 512: use 0 to 511 (0777)`},
	} {
		streamed, last := b.ask(c.payload)
		if last.Type != "error" || last.Message != c.message || last.Code != "invalid" || streamed != "" {
			t.Errorf("%s\n got %s\nwant %s", c.payload, last.Raw, c.message)
		}
	}
	for _, payload := range []string{``, `hi`, `"hi"`, `[]`, `null`, `{"message":"hi"`, `{"message":"hi"} x`, "{\"message\":\"\xff\"}", `{"type":5,"message":"hi"}`, `{"message":"hi","meta":{"deadline_ms":-1}}`} {
		if _, last := b.ask(payload); last.Type != "error" || last.Code != "invalid" {
			t.Errorf("%q: %s", payload, last.Raw)
		}
	}
	for _, typ := range []string{"chat", "run", "message", "Ping"} {
		if _, last := b.ask(`{"type":"` + typ + `","message":"hi"}`); last.Message != "Unknown message type: "+typ || last.Code != "unknown" {
			t.Errorf("type %s: %s", typ, last.Raw)
		}
	}
	if n := len(b.runs.list()) + len(b.builds.list()) + len(b.stored.list()); n > 0 {
		t.Errorf("%d requests to neighbours", n)
	}
}

// TestGoodRequests: what counts as absent, and what nobody looks at.
func TestGoodRequests(t *testing.T) {
	b := newEnv(t, all())
	for _, payload := range []string{
		`{"message":"hi"}`, `{"type":null,"message":"hi"}`, ` { "message" : "hi" , "more" : [ {} ] } `,
		`{"message":"hi","stream":null,"channel_id":null,"meta":null}`, `{"message":"hi","stream":false}`, `{"message":"h\u0069","MESSAGE":5}`,
	} {
		if _, last := b.ask(payload); last.Raw != `{"type":"response","content":"The answer."}` {
			t.Errorf("%s: %s", payload, last.Raw)
		}
	}
	for _, run := range b.runs.list() {
		if string(run.Messages) != "["+system+","+old+","+hi+"]" {
			t.Errorf("the agent is asked %s", run.Messages)
		}
	}
}

// TestOneAfterTheOther: a connection carries many requests, bad ones among them.
func TestOneAfterTheOther(t *testing.T) {
	b := newEnv(t, all())
	c := b.dial()
	for range 3 {
		for payload, want := range map[string]string{`{"message":"hi"}`: "response", `{"message":"hi","stream":true}`: "done", `{}`: "error", `x`: "error"} {
			c.Send(payload)
			if _, last := c.Finish(); last.Type != want {
				t.Errorf("%s: %s", payload, last.Raw)
			}
		}
	}
}

// TestTrace: all hops of a turn know it by the caller's name.
func TestTrace(t *testing.T) {
	traces := traceBook{seen: map[string]string{}}
	n := all()
	sys, build, agr := n.sys, n.ctx, n.agr
	n.sys = func(ctx context.Context, req proto.GetPrompt, out *rpc.Out) error {
		traces.note(ctx, "sys")
		return sys(ctx, req, out)
	}
	n.ctx = func(ctx context.Context, req proto.Build, out *rpc.Out) error {
		traces.note(ctx, "ctx")
		return build(ctx, req, out)
	}
	n.agr = func(ctx context.Context, req proto.Run, out *rpc.Out) (proto.Text, error) {
		traces.note(ctx, "agr")
		return agr(ctx, req, out)
	}
	n.mem = func(ctx context.Context, _ proto.AppendHistory) (proto.Empty, error) {
		traces.note(ctx, "mem")
		return proto.Empty{}, nil
	}
	b := newEnv(t, n)
	b.ask(`{"message":"hi","channel_id":"a","meta":{"trace":"turn-7"}}`)
	for _, service := range []string{"sys", "ctx", "agr", "mem"} {
		if got := traces.seen[service]; got != "turn-7" {
			t.Errorf("%s knows the turn as %q", service, got)
		}
	}
}

// traceBook notes the trace that each service was given.
type traceBook struct {
	mu   sync.Mutex
	seen map[string]string
}

func (b *traceBook) note(ctx context.Context, service string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.seen[service] = rpc.Trace(ctx)
}

// TestKeepalives: those of a neighbour stay here.
func TestKeepalives(t *testing.T) {
	alive := []byte(`{"type":"keepalive"}`)
	n := all()
	agr, sys := n.agr, n.sys
	n.agr = func(ctx context.Context, req proto.Run, out *rpc.Out) (proto.Text, error) {
		text, err := agr(ctx, req, out)
		return text, errors.Join(out.Frame(alive), err, out.Frame(alive))
	}
	n.sys = func(ctx context.Context, req proto.GetPrompt, out *rpc.Out) error {
		return errors.Join(out.Frame(alive), sys(ctx, req, out))
	}
	b := newEnv(t, n)
	modes(t, func(t *testing.T, stream bool, more string) {
		streamed, last := b.ask(`{"message":"hi"` + more + `}`)
		if last.Text() != "The answer." || stream != (streamed == "The answer.") {
			t.Errorf("streamed %q, then %s", streamed, last.Raw)
		}
	})
}

// TestClientEnvironment: that of the daemon's own user goes to the agent, that of
// any other user goes nowhere.
func TestClientEnvironment(t *testing.T) {
	b := newEnv(t, all())
	b.ask(`{"message":"hi","env":{"FOO":"bar"},"cwd":"/tmp","umask":18}`)
	run := b.runs.list()[0]
	if run.Env["FOO"] != "bar" || len(run.Env) != 1 || run.Cwd != "/tmp" || run.Umask == nil || *run.Umask != 18 {
		t.Errorf("the agent gets %+v", run)
	}
	req := proto.Chat{Message: "hi", Root: "/r", Env: run.Env, Cwd: run.Cwd, Umask: run.Umask}
	if got := withoutForeignEnv(req, os.Geteuid()+1); got.Env != nil || got.Cwd != "" || got.Umask != nil || got.Root != "/r" {
		t.Errorf("of another user %+v is kept", got)
	}
	if got := withoutForeignEnv(req, -1); got.Env != nil {
		t.Errorf("of an unknown user %+v is kept", got)
	}
}

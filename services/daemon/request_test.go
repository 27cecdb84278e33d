package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"zino/pkg/config"
	"zino/pkg/rpc"
	"zino/pkg/zinotest"
	"zino/pkg/zinotest/rpctest"
	"zino/proto"
)

// forward returns a request for another service.
func forward(service, request string) string {
	return `{"type":"forward","service":"` + service + `","request":` + request + `}`
}

// TestConformance checks that invalid requests get one error and reach no neighbour,
// and that unusual valid requests are accepted.
func TestConformance(t *testing.T) {
	const empty = "Empty message."
	var cases []rpctest.Case
	for _, c := range []struct{ request, message string }{
		{`{}`, empty},
		{`{"message":null}`, empty},
		{`{"message":""}`, empty},
		{`{"message":" \t\n\u00a0"}`, empty},
		{`{"message":" \n","session_id":"s"}`, empty},
		{`{"session_id":"s"}`, empty},
		{`{"stream":true}`, empty},
		{`{"Message":"hi"}`, empty},
		{`{"message":5}`, `Invalid request: field "message": expected a string, found a number`},
		{`{"message":["hi"]}`, `Invalid request: field "message": expected a string, found a list`},
		{`{"message":{"a":1}}`, `Invalid request: field "message": expected a string, found an object`},
		{`{"message":true}`, `Invalid request: field "message": expected a string, found true or false`},
		{`{"message":"hi","channel_id":7}`, `Invalid request: field "channel_id": expected a string, found a number`},
		{`{"message":"hi","stream":"yes"}`, `Invalid request: field "stream": expected true or false, found a string`},
		{`{"message":"hi","stream":1}`, `Invalid request: field "stream": expected true or false, found a number`},
		{`{"message":"hi","root":"a/b"}`, `invalid root "a/b": use an absolute path`},
		{`{"message":"hi","session_id":"s","root":"."}`, `invalid root ".": use an absolute path`},
		{`{"type":"context","root":"a"}`, `invalid root "a": use an absolute path`},
		{`{"type":"undo","session_id":"../x"}`, `invalid session name "../x": use letters, digits, '.', '_' and '-', not '.' or '-' first, and at most 200 bytes`},
		{`{"type":"redo","session_id":"s","paths":"a"}`, `Invalid request: field "paths": expected a list, found a string`},
		{`{"type":"diff","session_id":"s","partial":1}`, `Invalid request: field "partial": expected true or false, found a number`},
		{`{"message":"hi","env":["A=b"]}`, `Invalid request: field "env": expected a JSON object`},
		{`{"message":"hi","env":{"A=":"b"}}`, `env: invalid variable "A=": a name is not empty and has no '=', and neither name nor value has a NUL character`},
		{`{"message":"hi","cwd":"a/b"}`, `invalid cwd "a/b": use an absolute path`},
		{`{"message":"hi","umask":512}`, `invalid umask 512: use 0 to 511 (0777)`},
		{`{"type":"forward","request":{"type":"ping"}}`, `Invalid request: missing field "service"`},
		{`{"type":"forward","service":"mem"}`, `Invalid request: missing field "request"`},
		{`{"type":"forward","service":5,"request":{}}`, `Invalid request: field "service": expected a string, found a number`},
		{forward("mem", `[]`), `Invalid request: field "request": expected a JSON object`},
		{forward("mem", `"ping"`), `Invalid request: field "request": expected a JSON object`},
		{forward("mem", `{"type":5}`), `Invalid request: field "request": field "type": expected a string, found a number`},
		{forward("mem", `{"type":"ping",}`), "…"},
		{forward("mem", `{"type":"ping","x":y}`), "…"},
		{forward("mem", `{type:"ping"}`), "…"},
		{forward("mem", "{\"type\":\"ping\",\"x\":\"\xff\"}"), "…"},
		{forward("mem", `{]`), "…"},
	} {
		cases = append(cases, rpctest.Case{Name: "invalid", Request: c.request, Code: "invalid", Message: c.message})
	}
	for _, typ := range []string{"chat", "run", "message", "Ping"} {
		cases = append(cases, rpctest.Case{Name: typ, Request: `{"type":"` + typ + `","message":"hi"}`, Code: "unknown", Message: "Unknown message type: " + typ})
	}
	for _, name := range []string{"other", "", "Mem"} {
		cases = append(cases, rpctest.Case{
			Name: "forward", Request: forward(name, `{"type":"ping"}`), Code: "not_found", Message: fmt.Sprintf("forward: there is no service %q", name),
		})
	}
	b := newEnv(t, all())
	rpctest.Conformance(t, b.cfg.Daemon.Socket, append(cases, rpctest.Case{
		Name: "forward", Request: forward("mem", `{}`), Code: "denied", Message: `forward: "" of mem is not open to clients`,
	}))
	b.checkIdle()

	cases = nil
	for _, request := range []string{
		`{"message":"hi"}`, `{"type":null,"message":"hi"}`, ` { "message" : "hi" , "more" : [ {} ] } `, `{"message":"hi","stream":false}`,
		`{"message":"hi","stream":null,"channel_id":null,"meta":null}`, `{"message":"h\u0069","MESSAGE":5}`,
	} {
		cases = append(cases, rpctest.Case{Name: "valid", Request: request, Reply: `{"type":"response","content":"The answer."}`})
	}
	rpctest.Conformance(t, b.cfg.Daemon.Socket, append(cases,
		rpctest.Case{Name: "streamed", Request: `{"message":"hi","stream":true}`, Reply: `{"type":"done","full_text":"The answer.","iterations":3}`},
		rpctest.Case{Name: "forward", Request: forward("sys", `{"type":"get"}`), Reply: `{"type":"system_prompt","content":"Be <brief>."}`},
	))
	for _, run := range b.runs.All() {
		if string(run.Messages) != "["+system+","+old+","+hi+"]" {
			t.Errorf("agr was asked %s", run.Messages)
		}
	}
}

// TestHangUp checks that a disconnect or an exceeded deadline of the caller cancels the
// request to the neighbour, that nothing is stored, and that rtr is not called after
// agr.
func TestHangUp(t *testing.T) {
	agr := func(n *neighbours, block *rpctest.Block) {
		n.agr = func(ctx context.Context, _ proto.Run, out *rpc.Out) (proto.Text, error) {
			_, err := say(out, []string{"half"})
			return proto.Text{}, errors.Join(err, block.Wait(ctx))
		}
	}
	rtr := func(n *neighbours, block *rpctest.Block) {
		n.agr = nil
		n.rtr = func(ctx context.Context, _ proto.Infer, _ *rpc.Out) (proto.Text, error) {
			return proto.Text{}, block.Wait(ctx)
		}
	}
	for _, c := range []struct {
		name, request string
		with          func(*neighbours, *rpctest.Block)
	}{
		{"sys", `{"message":"hi","channel_id":"a"}`, func(n *neighbours, b *rpctest.Block) { n.sys = blocks[proto.GetPrompt](b) }},
		{"ctx", `{"message":"hi","channel_id":"a","stream":true}`, func(n *neighbours, b *rpctest.Block) { n.ctx = blocks[proto.Build](b) }},
		{"agr", `{"message":"hi","channel_id":"a"}`, agr},
		{"agr streaming", `{"message":"hi","channel_id":"a","stream":true}`, agr},
		{"agr with events", `{"message":"hi","channel_id":"a","events":true}`, func(n *neighbours, b *rpctest.Block) {
			n.agr = func(ctx context.Context, _ proto.Run, _ *rpc.Out) (proto.Text, error) {
				return proto.Text{}, b.Wait(ctx)
			}
		}},
		{"rtr", `{"message":"hi","channel_id":"a"}`, rtr},
		{"rtr streaming", `{"message":"hi","channel_id":"a","stream":true}`, rtr},
		{"forward", forward("mem", `{"type":"search_hard","query":"x"}`), func(n *neighbours, b *rpctest.Block) {
			n.more = func(service string, s *rpc.Server) {
				if service == "mem" {
					rpc.HandleRelay(s, proto.MemSearchHard, blocks[proto.SearchHard](b))
				}
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			n, block := all(), rpctest.NewBlock()
			c.with(&n, block)
			b := newEnv(t, n)
			rpctest.Conformance(t, b.cfg.Daemon.Socket, []rpctest.Case{{Name: "hang-up", Request: c.request, Block: block}})
			if stored := b.stored.All(); len(stored) > 0 {
				t.Errorf("stored %s", stored)
			}
			if infers := len(b.infers.All()); strings.HasPrefix(c.name, "agr") && infers > 0 {
				t.Errorf("%d requests to rtr", infers)
			}
		})
	}
}

// blocks returns a handler that blocks until its request is cancelled.
func blocks[Req any](b *rpctest.Block) func(context.Context, Req, *rpc.Out) error {
	return func(ctx context.Context, _ Req, _ *rpc.Out) error { return b.Wait(ctx) }
}

// TestHangUpWhileStoring checks that a complete answer is stored even if the caller
// disconnects meanwhile.
func TestHangUpWhileStoring(t *testing.T) {
	n, block := all(), rpctest.NewBlock()
	n.mem = func(ctx context.Context, _ proto.AppendHistory) (proto.Empty, error) {
		return proto.Empty{}, block.Wait(ctx)
	}
	b := newEnv(t, n)
	c := b.dial()
	c.Send(`{"message":"hi","channel_id":"a"}`)
	block.Begun(t)
	c.Close()
	b.ask(`{"type":"ping"}`)
	block.Release()
	rpctest.WaitIdle(t, b.cfg.Daemon.Socket)
	if stored := b.stored.All(); len(stored) != 1 || b.log.Contains("could not be stored") {
		t.Errorf("stored %s, the log is %s", stored, b.log.String())
	}
}

// TestTrace checks that all requests of a turn have the caller's trace.
func TestTrace(t *testing.T) {
	var mu sync.Mutex
	traces := map[string]string{}
	note := func(ctx context.Context, service string) {
		mu.Lock()
		defer mu.Unlock()
		traces[service] = rpc.Trace(ctx)
	}
	n := all()
	sys, build, agr := n.sys, n.ctx, n.agr
	n.sys = func(ctx context.Context, req proto.GetPrompt, out *rpc.Out) error {
		note(ctx, "sys")
		return sys(ctx, req, out)
	}
	n.ctx = func(ctx context.Context, req proto.Build, out *rpc.Out) error {
		note(ctx, "ctx")
		return build(ctx, req, out)
	}
	n.agr = func(ctx context.Context, req proto.Run, out *rpc.Out) (proto.Text, error) {
		note(ctx, "agr")
		return agr(ctx, req, out)
	}
	n.mem = func(ctx context.Context, _ proto.AppendHistory) (proto.Empty, error) {
		note(ctx, "mem")
		return proto.Empty{}, nil
	}
	b := newEnv(t, n)
	b.ask(`{"message":"hi","channel_id":"a","meta":{"trace":"turn-7"}}`)
	for _, service := range []string{"sys", "ctx", "agr", "mem"} {
		zinotest.Equal(t, "the trace of "+service, traces[service], "turn-7")
	}
}

// TestKeepalives checks that keepalives of neighbours are not passed on.
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
	equalLists(t, "packets", first(b.turn(`{"message":"hi"}`)), []string{`{"type":"response","content":"The answer."}`})
	equalLists(t, "packets", first(b.turn(`{"message":"hi","stream":true}`)), []string{
		`{"type":"chunk","delta":"The "}`, `{"type":"chunk","delta":"answer."}`, `{"type":"done","full_text":"The answer.","iterations":3}`,
	})
}

// first returns the packets of turn, without its second result.
func first(packets []string, _ rpctest.Packet) []string { return packets }

// TestClientEnvironment checks that agr gets the environment of a caller only if the
// caller has the uid of the daemon.
func TestClientEnvironment(t *testing.T) {
	b := newEnv(t, all())
	b.ask(`{"message":"hi","env":{"FOO":"bar"},"cwd":"/tmp","umask":18}`)
	run := b.runs.All()[0]
	if run.Env["FOO"] != "bar" || len(run.Env) != 1 || run.Cwd != "/tmp" || run.Umask == nil || *run.Umask != 18 {
		t.Errorf("agr was asked %+v", run)
	}
	req := proto.Chat{Message: "hi", Root: "/r", Env: run.Env, Cwd: run.Cwd, Umask: run.Umask}
	for _, uid := range []int{os.Geteuid() + 1, -1} {
		if got := withoutForeignEnv(req, uid); got.Env != nil || got.Cwd != "" || got.Umask != nil || got.Root != "/r" {
			t.Errorf("user %d: %+v", uid, got)
		}
	}
}

// TestForwardList checks that only public methods are forwarded, here to services that
// are not running.
func TestForwardList(t *testing.T) {
	b := newEnv(t, neighbours{config: func(*config.Config) {}})
	for _, service := range config.Services {
		types := map[string]bool{"Ping": true, "ping ": true, "nope": true}
		for _, m := range proto.Methods() {
			if m.Service == service || m.Service == "*" {
				types[m.Type] = true
			}
		}
		for typ := range types {
			_, last := b.ask(forward(service, `{"type":"`+typ+`"}`))
			denied := fmt.Sprintf("forward: %q of %s is not open to clients", typ, service)
			switch {
			case !proto.IsPublic(service, typ):
				if last.Message != denied || last.Code != "denied" {
					t.Errorf("%s of %s: %s", typ, service, last.Raw)
				}
			case service == "daemon":
				if last.Type == "error" {
					t.Errorf("%s of %s: %s", typ, service, last.Raw)
				}
			case !strings.HasPrefix(last.Message, "Could not connect to "+service+": ") || last.Code != "unavailable":
				t.Errorf("%s of %s: %s", typ, service, last.Raw)
			}
		}
	}
}

// TestForwardVerbatim checks that requests and replies are forwarded unchanged,
// including errors and 5 MB.
func TestForwardVerbatim(t *testing.T) {
	const request = `{ "type" : "get_history", "channel_id":"<\u0061>", "limit":"2", "more":[1, null] }`
	for _, answer := range []string{
		`{"type":"history","messages":[]}`, `{ "messages" : [ {"x":"<\u003c>"} ], "more":1, "type":"history" }`,
		`{"type":"error","message":"channel_id required","code":"invalid"}`, `{"type":"what is this"}`,
		`{"type":"history","messages":[{"role":"user","content":"` + strings.Repeat("0123456789abcdef", 5<<20/16) + `"}]}`,
	} {
		var asked rpctest.Record[proto.GetHistory]
		n := all()
		n.more = func(service string, s *rpc.Server) {
			if service == "mem" {
				rpc.HandleRelay(s, proto.MemGetHistory, recorded(&asked, answers[proto.GetHistory](answer)))
			}
		}
		b := newEnv(t, n)
		if _, last := b.ask(forward("mem", request)); last.Raw != answer {
			t.Errorf("got %.200s, want %.200s", last.Raw, answer)
		}
		if got := asked.All(); len(got) != 1 || got[0] != (proto.GetHistory{ChannelID: "<a>", Limit: 2}) {
			t.Errorf("mem was asked %+v", got)
		}
	}
}

// TestForwardCommon checks that the methods of every service are forwarded to the named
// service.
func TestForwardCommon(t *testing.T) {
	b := newEnv(t, all())
	for _, service := range []string{"daemon", "sys", "ctx", "mem", "agr", "rtr"} {
		for typ, reply := range map[string]string{"ping": "pong", "describe": "description", "stats": "stats"} {
			if _, last := b.ask(forward(service, `{"type":"`+typ+`","meta":{"trace":"a"}}`)); last.Type != reply || last.Service != service {
				t.Errorf("%s of %s: %s", typ, service, last.Raw)
			}
		}
	}
}

// TestLifetime checks that ping, in both of its forms, names how long the
// constellation lives.
func TestLifetime(t *testing.T) {
	for _, c := range []struct{ env, want string }{{"", "persistent"}, {"private", "private"}, {"other", "persistent"}} {
		t.Setenv("ZINO_CONSTELLATION", c.env)
		b := newEnv(t, all())
		for _, request := range []string{`{"type":"ping"}`, `{"type":"ping","meta":{"trace":"a"}}`} {
			_, last := b.ask(request)
			zinotest.Contains(t, "the pong", last.Raw, `"lifetime":"`+c.want+`"`)
		}
	}
}

// TestForwardToBrokenService checks that a service that closes the connection without a
// complete reply results in one error.
func TestForwardToBrokenService(t *testing.T) {
	for _, answer := range []string{"", "\x00\x00\x00\x20{", "\x00\x00\x00\x01x"} {
		b := newEnv(t, neighbours{config: func(*config.Config) {}})
		rpctest.Raw(t, b.cfg.Mem.Socket, answer)
		if _, last := b.ask(forward("mem", `{"type":"ping"}`)); last.Type != "error" || last.Message == "" || last.Code == "" {
			t.Errorf("%q: %s", answer, last.Raw)
		}
	}
}

// TestHandoff checks that the bundle has the sections of the model, and the others from
// the session, and that the request has the parameters of the configuration.
func TestHandoff(t *testing.T) {
	n := all()
	n.rtr = model(`{"goal":"ship","open_tasks":["tag it"]}`, "\n")
	n.config = func(cfg *config.Config) { cfg.Agent.Temperature, cfg.Agent.TopP, cfg.Agent.Effort = 0.5, 0.25, "low" }
	n.more = func(service string, s *rpc.Server) {
		if service != "mem" {
			return
		}
		rpc.Handle(s, proto.MemFindSession, func(context.Context, proto.FindSession) (proto.SessionSummary, error) {
			return proto.SessionSummary{SessionID: "s-1"}, nil
		})
		rpc.Handle(s, proto.MemReadSession, func(_ context.Context, req proto.ReadSession) (proto.SessionEvents, error) {
			return proto.SessionEvents{SessionID: req.SessionID, Events: proto.Raw(`[
				{"type":"message","role":"user","text":"build it"},
				{"type":"tool_use","id":"1","name":"bash","input":{"command":"make build"}},
				{"type":"tool_result","tool_use_id":"1","output":{"ok":true,"data":{"exit_code":0}},"ok":true},
				{"type":"message","role":"assistant","text":"built"}]`)}, nil
		})
	}
	b := newEnv(t, n)
	_, last := b.ask(`{"type":"handoff","goal":"ship","root":"/p","model":"m"}`)
	zinotest.Equal(t, "the reply", last.Type, "handoff_bundle")
	zinotest.Contains(t, "the reply", last.Raw, `"session_id":"s-1"`, `"filled":["Starter prompt","Relevant files","Repro commands"]`)
	zinotest.Contains(t, "the bundle", last.Content, "## Open tasks\n\n- [ ] tag it\n", "```sh\nmake build\n```")
	asked := b.infers.All()
	if len(asked) != 1 || asked[0].Model != "m" || asked[0].Temperature != 0.5 || asked[0].TopP != 0.25 || asked[0].Effort != "low" || !asked[0].NeedModel {
		t.Errorf("asked %+v", asked)
	}
}

package daemon

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"zino/pkg/config"
	"zino/pkg/rpc"
	"zino/pkg/zinotest/rpctest"
	"zino/proto"
)

// forward is a request for another service.
func forward(service, request string) string {
	return `{"type":"forward","service":"` + service + `","request":` + request + `}`
}

// TestForwardList: of services that cannot be reached, the public methods are
// passed on, and all others and unknown ones are refused.
func TestForwardList(t *testing.T) {
	n := all()
	n.sys, n.ctx, n.mem, n.agr, n.rtr = nil, nil, nil, nil, nil
	b := newEnv(t, n)
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

// TestForwardVerbatim: request and answer pass as they are, errors too.
func TestForwardVerbatim(t *testing.T) {
	const request = `{ "type" : "get_history", "channel_id":"<\u0061>", "limit":"2", "more":[1, null] }`
	for _, answer := range []string{
		`{"type":"history","messages":[]}`, `{ "messages" : [ {"x":"<\u003c>"} ], "more":1, "type":"history" }`,
		`{"type":"error","message":"channel_id required","code":"invalid"}`, `{"type":"what is this"}`,
	} {
		var asked recorder[proto.GetHistory]
		n := all()
		n.more = func(service string, s *rpc.Server) {
			if service == "mem" {
				rpc.HandleRelay(s, proto.MemGetHistory, seen(&asked, answers[proto.GetHistory](answer)))
			}
		}
		b := newEnv(t, n)
		if _, last := b.ask(forward("mem", request)); last.Raw != answer {
			t.Errorf("got %s, want %s", last.Raw, answer)
		}
		if got := asked.list(); len(got) != 1 || got[0] != (proto.GetHistory{ChannelID: "<a>", Limit: 2}) {
			t.Errorf("mem is asked %+v", got)
		}
	}
}

// TestForwardCommon: what every service answers is answered by the service.
func TestForwardCommon(t *testing.T) {
	b := newEnv(t, all())
	for _, service := range []string{"daemon", "sys", "ctx", "mem", "agr", "rtr"} {
		for typ, reply := range map[string]string{"ping": "pong", "describe": "description", "stats": "stats"} {
			_, last := b.ask(forward(service, `{"type":"`+typ+`","meta":{"trace":"a"}}`))
			if last.Type != reply || last.Service != service {
				t.Errorf("%s of %s: %s", typ, service, last.Raw)
			}
		}
	}
	if _, last := b.ask(forward("sys", `{"type":"get"}`)); last.Raw != `{"type":"system_prompt","content":"Be <brief>."}` {
		t.Errorf("get of sys: %s", last.Raw)
	}
}

func TestForwardBad(t *testing.T) {
	b := newEnv(t, all())
	for _, c := range []struct{ payload, code, message string }{
		{forward("nobody", `{"type":"ping"}`), "not_found", `forward: there is no service "nobody"`},
		{forward("", `{"type":"ping"}`), "not_found", `forward: there is no service ""`},
		{forward("Mem", `{"type":"ping"}`), "not_found", `forward: there is no service "Mem"`},
		{`{"type":"forward","request":{"type":"ping"}}`, "invalid", `Invalid request: missing field "service"`},
		{`{"type":"forward","service":"mem"}`, "invalid", `Invalid request: missing field "request"`},
		{`{"type":"forward","service":5,"request":{}}`, "invalid", `Invalid request: field "service": expected a string, found a number`},
		{forward("mem", `[]`), "invalid", `Invalid request: field "request": expected a JSON object`},
		{forward("mem", `"ping"`), "invalid", `Invalid request: field "request": expected a JSON object`},
		{forward("mem", `{"type":5}`), "invalid", `Invalid request: field "request": field "type": expected a string, found a number`},
		{forward("mem", `{}`), "denied", `forward: "" of mem is not open to clients`},
	} {
		if _, last := b.ask(c.payload); last.Type != "error" || last.Code != c.code || last.Message != c.message {
			t.Errorf("%s\n got %s\nwant %s", c.payload, last.Raw, c.message)
		}
	}
	for _, request := range []string{`{"type":"ping",}`, `{"type":"ping","x":y}`, `{type:"ping"}`, "{\"type\":\"ping\",\"x\":\"\xff\"}", `{]`} {
		if _, last := b.ask(forward("mem", request)); last.Type != "error" || last.Code != "invalid" {
			t.Errorf("%s: %s", request, last.Raw)
		}
	}
}

// TestForwardHangUp: a caller that leaves cancels the other service's work.
func TestForwardHangUp(t *testing.T) {
	n, block := all(), newBlocked()
	n.more = func(service string, s *rpc.Server) {
		if service == "mem" {
			rpc.Handle(s, proto.MemSearchHard, func(ctx context.Context, _ proto.SearchHard) (proto.HardMemories, error) {
				return proto.HardMemories{}, block.wait(ctx)
			})
		}
	}
	b := newEnv(t, n)
	b.leave(forward("mem", `{"type":"search_hard","query":"x"}`), block)
	if _, last := b.ask(forward("mem", `{"type":"ping"}`)); last.Type != "pong" {
		t.Errorf("afterwards: %s", last.Raw)
	}
}

// TestForwardBig: a history of 5 MB passes.
func TestForwardBig(t *testing.T) {
	big := `{"type":"history","messages":[{"role":"user","content":"` + strings.Repeat("0123456789abcdef", 5<<20/16) + `"}]}`
	n := all()
	n.more = func(service string, s *rpc.Server) {
		if service == "mem" {
			rpc.HandleRelay(s, proto.MemGetHistory, answers[proto.GetHistory](big))
		}
	}
	b := newEnv(t, n)
	if _, last := b.ask(forward("mem", `{"type":"get_history","channel_id":"a"}`)); last.Raw != big {
		t.Errorf("%d bytes came, want %d", len(last.Raw), len(big))
	}
}

// TestForwardHangsUpInside: a service that goes away without an answer is one
// error.
func TestForwardHangsUpInside(t *testing.T) {
	for _, answer := range []string{"", "\x00\x00\x00\x20{", "\x00\x00\x00\x01x"} {
		n := all()
		n.mem = nil
		b := newEnv(t, n)
		rpctest.Raw(t, b.cfg.Mem.Socket, answer)
		if _, last := b.ask(forward("mem", `{"type":"ping"}`)); last.Type != "error" || last.Message == "" || last.Code == "" {
			t.Errorf("%q: %s", answer, last.Raw)
		}
	}
}

package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"zino/pkg/config"
	"zino/pkg/message"
	"zino/pkg/rpc"
	"zino/proto"
)

const (
	system = `{"role":"system","content":"Be <brief>."}`
	old    = `{"role":"user","content":"old"}`
	hi     = `{"role":"user","content":"hi"}`
)

// TestAssembly: [system?, …context, user], each part as it was given.
func TestAssembly(t *testing.T) {
	for _, c := range []struct{ name, sys, ctx, want string }{
		{"all", `{"type":"system_prompt","content":"Be <brief>."}`, `{"type":"context","messages":[` + old + `]}`, "[" + system + "," + old + "," + hi + "]"},
		{
			"more context", `{"type":"system_prompt","content":"Be <brief>."}`,
			`{"type":"context","messages":[ {"role":"a", "x":[1, {}]} ,` + "\n" + old + ` ]}`,
			"[" + system + `,{"role":"a", "x":[1, {}]} ,` + "\n" + old + "," + hi + "]",
		},
		{"no system prompt", `{"type":"system_prompt","content":""}`, `{"type":"context","messages":[` + old + `]}`, "[" + old + "," + hi + "]"},
		{"null system prompt", `{"type":"system_prompt","content":null}`, `{"type":"context","messages":[` + old + `]}`, "[" + old + "," + hi + "]"},
		{"no context", `{"type":"system_prompt","content":"Be <brief>."}`, `{"type":"context","messages":[ ]}`, "[" + system + "," + hi + "]"},
		{"null context", `{"type":"system_prompt","content":"Be <brief>."}`, `{"type":"context","messages":null}`, "[" + system + "," + hi + "]"},
		{"nothing", `{"type":"system_prompt"}`, `{"type":"context"}`, "[" + hi + "]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := all()
			n.sys, n.ctx = answers[proto.GetPrompt](c.sys), answers[proto.Build](c.ctx)
			b := newEnv(t, n)
			if _, last := b.ask(`{"message":"hi"}`); last.Type != "response" {
				t.Fatalf("last packet %s", last.Raw)
			}
			if got := string(b.runs.list()[0].Messages); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

// TestPartsLeftOut: a service that is away, fails or talks nonsense costs its
// part of the prompt and nothing else, and the log says so.
func TestPartsLeftOut(t *testing.T) {
	sysGarbage := map[string]func(context.Context, proto.GetPrompt, *rpc.Out) error{
		"away":  nil,
		"fails": func(context.Context, proto.GetPrompt, *rpc.Out) error { return errors.New("no template") },
	}
	for _, packet := range []string{``, `x`, `[]`, `{`, `{"type":"system_prompt","content":5}`, `{"type":"system_prompt","content":["x"]}`, `{"type":"system_prompt","content":"x","content":5}`, `{"type":"error","message":"no"}`, "{\"type\":\"system_prompt\",\"content\":\"\xff\"}"} {
		sysGarbage[packet] = answers[proto.GetPrompt](packet)
	}
	for name, sys := range sysGarbage {
		t.Run("sys "+name, func(t *testing.T) {
			n := all()
			n.sys = sys
			leftOut(t, n, "["+old+","+hi+"]", "turn without system prompt")
		})
	}
	ctxGarbage := map[string]func(context.Context, proto.Build, *rpc.Out) error{
		"away":  nil,
		"fails": func(context.Context, proto.Build, *rpc.Out) error { return errors.New("no history") },
	}
	for _, messages := range []string{`{}`, `"x"`, `5`, `true`, `[1]`, `["x"]`, `[null]`, `[[]]`, `[x]`, `[{}x{}]`, `[{"role":"user"},]`, `[{"role":"user" "content":"x"}]`, `[{"role":user}]`, "[{\"role\":\"\xff\"}]", `[}`, `[{},5]`} {
		ctxGarbage[messages] = answers[proto.Build](`{"type":"context","messages":` + messages + `}`)
	}
	for name, build := range ctxGarbage {
		t.Run("ctx "+name, func(t *testing.T) {
			n := all()
			n.ctx = build
			leftOut(t, n, "["+system+","+hi+"]", "turn without context")
		})
	}
}

// leftOut asks and expects an answer to the prompt that is left.
func leftOut(t *testing.T, n neighbours, want, logged string) {
	t.Helper()
	b := newEnv(t, n)
	if _, last := b.ask(`{"message":"hi"}`); last.Raw != `{"type":"response","content":"The answer."}` {
		t.Fatalf("last packet %s", last.Raw)
	}
	if got := string(b.runs.list()[0].Messages); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if !strings.Contains(b.log.String(), logged) {
		t.Errorf("the log says %q", b.log)
	}
}

func TestNothingButTheAgent(t *testing.T) {
	n := all()
	n.sys, n.ctx, n.mem, n.rtr = nil, nil, nil, nil
	b := newEnv(t, n)
	streamed, last := b.ask(`{"message":"hi","channel_id":"a","stream":true}`)
	if streamed != "The answer." || last.Type != "done" || string(b.runs.list()[0].Messages) != "["+hi+"]" {
		t.Errorf("streamed %q, then %s", streamed, last.Raw)
	}
}

// TestSideBySide: each of sys and ctx answers only when both have been asked.
func TestSideBySide(t *testing.T) {
	sysAsked, ctxAsked := make(chan struct{}), make(chan struct{})
	n := all()
	sys, build := n.sys, n.ctx
	n.sys = func(ctx context.Context, req proto.GetPrompt, out *rpc.Out) error {
		close(sysAsked)
		return errors.Join(until(ctx, ctxAsked), sys(ctx, req, out))
	}
	n.ctx = func(ctx context.Context, req proto.Build, out *rpc.Out) error {
		close(ctxAsked)
		return errors.Join(until(ctx, sysAsked), build(ctx, req, out))
	}
	b := newEnv(t, n)
	b.ask(`{"message":"hi"}`)
	if got := string(b.runs.list()[0].Messages); got != "["+system+","+old+","+hi+"]" {
		t.Errorf("got %s", got)
	}
}

// TestTrimming: the message is trimmed for everybody, and escaped for nobody.
func TestTrimming(t *testing.T) {
	for _, c := range []struct{ message, want string }{
		{"hi", "hi"},
		{" \t\r\n hi \n\v", "hi"},
		{"\u00a0\u2003hi\u3000", "hi"},
		{"a  b\n c", "a  b\n c"},
		{"<tool_call> & \"q\" \\ \x01 é 𝄞", "<tool_call> & \"q\" \\ \x01 é 𝄞"},
	} {
		b := newEnv(t, all())
		payload, err := json.Marshal(map[string]string{"message": c.message, "channel_id": "<a>"})
		if err != nil {
			t.Fatal(err)
		}
		b.ask(string(payload))
		if got := b.builds.list()[0]; got.UserMessage != c.want || got.ChannelID != "<a>" {
			t.Errorf("%q: ctx is asked %+v", c.message, got)
		}
		for what, messages := range map[string]proto.Raw{"the agent": b.runs.list()[0].Messages[len(system)+len(old)+2:], "mem": b.stored.list()[0].Messages} {
			if got := contents(t, "["+strings.TrimLeft(string(messages), "[,")); got[0] != c.want {
				t.Errorf("%q: %s is given %q", c.message, what, got)
			}
			if strings.Contains(string(messages), `\u003c`) {
				t.Errorf("escaped for %s: %s", what, messages)
			}
		}
	}
}

// contents are the texts of a list of messages.
func contents(t *testing.T, messages string) (all []string) {
	t.Helper()
	var list []struct{ Content string }
	if err := json.Unmarshal([]byte(messages), &list); err != nil {
		t.Fatalf("%s: %v", messages, err)
	}
	for _, m := range list {
		all = append(all, m.Content)
	}
	return all
}

// TestSurrogate: half a character destroys nothing but itself.
func TestSurrogate(t *testing.T) {
	b := newEnv(t, all())
	b.ask(`{"message":"a\ud800b"}`)
	if got := b.builds.list()[0].UserMessage; got != "a\ufffdb" {
		t.Errorf("got %q", got)
	}
}

// TestParameters: what the agent is told comes from the configuration.
func TestParameters(t *testing.T) {
	modes(t, func(t *testing.T, stream bool, more string) {
		n := all()
		n.config = func(cfg *config.Config) {
			cfg.Agent.Temperature, cfg.Agent.TopP, cfg.Agr.MaxIterations, cfg.Agent.MaxIterations = 0.25, 0.5, 9, 4
		}
		b := newEnv(t, n)
		b.ask(`{"message":"hi","need_model":true` + more + `}`)
		run := b.runs.list()[0]
		if run.Temperature != 0.25 || run.TopP != 0.5 || run.MaxIterations == nil || *run.MaxIterations != 9 || run.Stream == nil || *run.Stream != stream || !run.NeedModel {
			t.Errorf("the agent is asked %+v", run)
		}
	})
}

func FuzzElements(f *testing.F) {
	for _, seed := range []string{`[]`, ` [ {} ] `, `[{"a":"]"},{"b":[1]}]`, `[1]`, `{}`, ``, `[`, "[{\"\xff\":1}]"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, list []byte) {
		if message.Check(list) != nil {
			return
		}
		got := prompt{system: proto.SystemPrompt{Content: "s"}, context: list}.messages("u")
		var messages, elements []map[string]any
		if err := json.Unmarshal(got, &messages); err != nil {
			t.Fatalf("%q gives %q: %v", list, got, err)
		}
		if err := json.Unmarshal(list, &elements); err != nil || len(messages) != len(elements)+2 {
			t.Errorf("%q (%v) gives %q", list, err, got)
		}
	})
}

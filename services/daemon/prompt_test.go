package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"zino/pkg/rpc"
	"zino/pkg/wire"
	"zino/pkg/zinotest"
	"zino/pkg/zinotest/rpctest"
	"zino/proto"
)

const (
	system = `{"role":"system","content":"Be <brief>."}`
	old    = `{"role":"user","content":"old"}`
	hi     = `{"role":"user","content":"hi"}`
)

// TestAssembly checks that the prompt is [system?, …context, user], with every part
// unchanged.
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
			b.ask(`{"message":"hi"}`)
			zinotest.Equal(t, "the messages", string(b.runs.All()[0].Messages), c.want)
		})
	}
}

// TestPartsLeftOut checks that a part of the prompt is left out, with a log entry, if
// sys or ctx is not running, fails or sends a malformed answer.
func TestPartsLeftOut(t *testing.T) {
	sysFaults := map[string]func(context.Context, proto.GetPrompt, *rpc.Out) error{
		"not running": nil,
		"fails":       func(context.Context, proto.GetPrompt, *rpc.Out) error { return errors.New("no template") },
	}
	for _, packet := range []string{``, `x`, `[]`, `{`, `{"type":"system_prompt","content":5}`, `{"type":"system_prompt","content":["x"]}`, `{"type":"system_prompt","content":"x","content":5}`, `{"type":"error","message":"no"}`, "{\"type\":\"system_prompt\",\"content\":\"\xff\"}"} {
		sysFaults[packet] = answers[proto.GetPrompt](packet)
	}
	for name, sys := range sysFaults {
		t.Run("sys "+name, func(t *testing.T) {
			n := all()
			n.sys = sys
			checkLeftOut(t, n, "["+old+","+hi+"]", "turn without system prompt")
		})
	}
	ctxFaults := map[string]func(context.Context, proto.Build, *rpc.Out) error{
		"not running": nil,
		"fails":       func(context.Context, proto.Build, *rpc.Out) error { return errors.New("no history") },
	}
	for _, messages := range []string{`{}`, `"x"`, `5`, `true`, `[1]`, `["x"]`, `[null]`, `[[]]`, `[x]`, `[{"role":"user"},]`, `[}`, `[{},5]`} {
		ctxFaults[messages] = answers[proto.Build](`{"type":"context","messages":` + messages + `}`)
	}
	for name, build := range ctxFaults {
		t.Run("ctx "+name, func(t *testing.T) {
			n := all()
			n.ctx = build
			checkLeftOut(t, n, "["+system+","+hi+"]", "turn without context")
		})
	}
}

// checkLeftOut checks the prompt that agr gets, and the log.
func checkLeftOut(t *testing.T, n neighbours, want, logged string) {
	t.Helper()
	b := newEnv(t, n)
	if _, last := b.ask(`{"message":"hi"}`); last.Raw != `{"type":"response","content":"The answer."}` {
		t.Fatalf("last packet %s", last.Raw)
	}
	zinotest.Equal(t, "the messages", string(b.runs.All()[0].Messages), want)
	zinotest.Contains(t, "the log", b.log.String(), logged)
}

// TestAgentAlone checks that agr answers without sys, ctx, mem and rtr.
func TestAgentAlone(t *testing.T) {
	n := all()
	n.sys, n.ctx, n.mem, n.rtr = nil, nil, nil, nil
	b := newEnv(t, n)
	streamed, last := b.ask(`{"message":"hi","channel_id":"a","stream":true}`)
	if streamed != "The answer." || last.Type != "done" || string(b.runs.All()[0].Messages) != "["+hi+"]" {
		t.Errorf("streamed %q, then %s", streamed, last.Raw)
	}
}

// TestSideBySide checks that sys and ctx are called concurrently: each replies only
// after both have been called.
func TestSideBySide(t *testing.T) {
	sysAsked, ctxAsked := make(chan struct{}), make(chan struct{})
	n := all()
	sys, build := n.sys, n.ctx
	n.sys = func(ctx context.Context, req proto.GetPrompt, out *rpc.Out) error {
		close(sysAsked)
		return errors.Join(rpctest.Until(ctx, ctxAsked), sys(ctx, req, out))
	}
	n.ctx = func(ctx context.Context, req proto.Build, out *rpc.Out) error {
		close(ctxAsked)
		return errors.Join(rpctest.Until(ctx, sysAsked), build(ctx, req, out))
	}
	b := newEnv(t, n)
	b.ask(`{"message":"hi"}`)
	zinotest.Equal(t, "the messages", string(b.runs.All()[0].Messages), "["+system+","+old+","+hi+"]")
}

// TestTrimming checks that ctx, agr and mem get the trimmed message without unnecessary
// escapes.
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
		zinotest.Must(t, err)
		b.ask(string(payload))
		if got := b.builds.All()[0]; got.UserMessage != c.want || got.ChannelID != "<a>" {
			t.Errorf("%q: ctx was asked %+v", c.message, got)
		}
		for what, messages := range map[string]proto.Raw{"agr": b.runs.All()[0].Messages[len(system)+len(old)+2:], "mem": b.stored.All()[0].Messages} {
			if got := contents(t, "["+strings.TrimLeft(string(messages), "[,")); got[0] != c.want {
				t.Errorf("%q: %s gets %q", c.message, what, got)
			}
			if strings.Contains(string(messages), `\u003c`) {
				t.Errorf("escaped for %s: %s", what, messages)
			}
		}
	}
}

// contents returns the texts of a list of messages.
func contents(t *testing.T, messages string) (all []string) {
	t.Helper()
	var list []struct{ Content string }
	zinotest.Must(t, json.Unmarshal([]byte(messages), &list))
	for _, m := range list {
		all = append(all, m.Content)
	}
	return all
}

// TestSurrogate checks that a lone surrogate becomes U+FFFD.
func TestSurrogate(t *testing.T) {
	b := newEnv(t, all())
	b.ask(`{"message":"a\ud800b"}`)
	zinotest.Equal(t, "the message", b.builds.All()[0].UserMessage, "a\ufffdb")
}

// TestUnreadablePrompt checks that the turn fails if sys cannot read the system prompt
// that the caller has named.
func TestUnreadablePrompt(t *testing.T) {
	rpctest.Modes(t, func(t *testing.T, _ bool, more string) {
		n := all()
		n.sys = func(context.Context, proto.GetPrompt, *rpc.Out) error {
			return proto.Errorf(proto.CodeInvalid, "/p cannot be read")
		}
		b := newEnv(t, n)
		packets, _ := b.turn(`{"message":"hi"` + more + `}`)
		equalLists(t, "packets", packets, []string{`{"type":"error","message":"/p cannot be read","code":"invalid","service":"sys"}`})
		b.checkIdle()
	})
}

func FuzzElements(f *testing.F) {
	for _, seed := range []string{`[]`, ` [ {} ] `, `[{"a":"]"},{"b":[1]}]`, `[1]`, `{}`, ``, `[`, "[{\"\xff\":1}]"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, list []byte) {
		var elements []map[string]any
		if !wire.Valid(list) || json.Unmarshal(list, &elements) != nil || slices.ContainsFunc(elements, func(e map[string]any) bool { return e == nil }) {
			return
		}
		got := prompt{system: proto.SystemPrompt{Content: "s"}, context: list}.messages("u", nil)
		var messages []map[string]any
		if err := json.Unmarshal(got, &messages); err != nil {
			t.Fatalf("%q gives %q: %v", list, got, err)
		}
		if len(messages) != len(elements)+2 {
			t.Errorf("%q gives %q", list, got)
		}
	})
}

// previewEnv returns a daemon whose agent has tools.
func previewEnv(t *testing.T, n neighbours, tools string) *env {
	t.Helper()
	n.more = func(service string, s *rpc.Server) {
		if service == "agr" && tools != "" {
			rpc.HandleRelay(s, proto.AgrTools, answers[proto.ToolsRequest](tools))
		}
	}
	return newEnv(t, n)
}

// TestPreview checks the parts, their order and their sizes.
func TestPreview(t *testing.T) {
	const tools = `{"type":"tools","tools":[ {"type":"function"} ]}`
	for _, c := range []struct{ name, sys, ctx, tools, more, want string }{
		{
			"all", `{"type":"system_prompt","content":"Be brief.\n\n# P\n\n## /a\n\nAé\n## /b\n\nB","files":[{"path":"/a","bytes":11},{"path":"/b","bytes":8}],"warnings":["w"]}`,
			`{"type":"context","messages":[ {"role":"user","content":"<old>"} ]}`, tools, `,"session_id":"s","root":"/r"`,
			`{"type":"context_report","parts":[{"name":"system prompt","tokens":4,"content":"Be brief.\n\n# P\n\n"},` +
				`{"name":"/a","tokens":3,"content":"## /a\n\nAé\n"},{"name":"/b","tokens":2,"content":"## /b\n\nB"},` +
				`{"name":"tools","tokens":6,"content":"[ {\"type\":\"function\"} ]"},` +
				`{"name":"messages","tokens":10,"content":"[ {\"role\":\"user\",\"content\":\"<old>\"} ]"}],"tokens":25,"warnings":["w"]}`,
		},
		{
			"nothing", `{"type":"system_prompt","content":""}`, `{"type":"context","messages":[ ]}`, `{"type":"tools","tools":[]}`, `,"session_id":"s"`,
			`{"type":"context_report","parts":[],"tokens":0}`,
		},
		{
			"a new session", `{"type":"system_prompt","content":"abcde"}`, ``, tools, ``,
			`{"type":"context_report","parts":[{"name":"system prompt","tokens":2,"content":"abcde"},{"name":"tools","tokens":6,"content":"[ {\"type\":\"function\"} ]"}],"tokens":8}`,
		},
		{
			"nothing but files", `{"type":"system_prompt","content":"AB","files":[{"path":"/a","bytes":1},{"path":"/b","bytes":1}]}`, ``, `{"type":"tools"}`, ``,
			`{"type":"context_report","parts":[{"name":"/a","tokens":1,"content":"A"},{"name":"/b","tokens":1,"content":"B"}],"tokens":2}`,
		},
		{
			"sizes over the whole", `{"type":"system_prompt","content":"AB","files":[{"path":"/a","bytes":9},{"path":"/b","bytes":1}]}`, ``, `{"type":"tools"}`, ``,
			`{"type":"context_report","parts":[{"name":"system prompt","tokens":1,"content":"AB"}],"tokens":1}`,
		},
		{
			"sizes below zero", `{"type":"system_prompt","content":"AB","files":[{"path":"/a","bytes":-1}]}`, ``, `{"type":"tools"}`, ``,
			`{"type":"context_report","parts":[{"name":"system prompt","tokens":1,"content":"AB"}],"tokens":1}`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := all()
			n.sys, n.ctx = answers[proto.GetPrompt](c.sys), answers[proto.Build](c.ctx)
			b := previewEnv(t, n, c.tools)
			if _, last := b.ask(`{"type":"context"` + c.more + `}`); last.Raw != c.want {
				t.Errorf("got  %s\nwant %s", last.Raw, c.want)
			}
			if asked := len(b.builds.All()); asked != strings.Count(c.more, "session_id") {
				t.Errorf("ctx was asked %d times", asked)
			}
			b.checkIdle()
		})
	}
}

// TestPreviewRequest checks the requests to sys and ctx.
func TestPreviewRequest(t *testing.T) {
	b := previewEnv(t, all(), `{"type":"tools","tools":[]}`)
	b.ask(`{"type":"context","session_id":"s","root":"/r","system_prompt":""}`)
	if get := b.gets.All()[0]; get.Root != "/r" || get.SystemPrompt == nil || *get.SystemPrompt != "" {
		t.Errorf("sys was asked %+v", get)
	}
	if build := b.builds.All()[0]; build != (proto.Build{SessionID: "s"}) {
		t.Errorf("ctx was asked %+v", build)
	}
}

// TestPreviewFails checks that a missing part is an error.
func TestPreviewFails(t *testing.T) {
	tooLarge := &proto.Error{Code: proto.CodeTooLarge, Message: "zino handoff", Service: "mem"}
	for _, c := range []struct {
		name, tools, want string
		with              func(*neighbours)
	}{
		{"sys", `{"type":"tools"}`, "Could not connect to sys: ", func(n *neighbours) { n.sys = nil }},
		{"ctx", `{"type":"tools"}`, `{"type":"error","message":"zino handoff","code":"too_large","service":"mem","kind":"session"}`, func(n *neighbours) {
			n.ctx = func(context.Context, proto.Build, *rpc.Out) error { return tooLarge }
		}},
		{"agr", "", "Could not connect to agr: ", func(n *neighbours) { n.agr = nil }},
		{"an agr without tools", "", "Unknown message type: tools", func(*neighbours) {}},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := all()
			c.with(&n)
			b := previewEnv(t, n, c.tools)
			if _, last := b.ask(`{"type":"context","session_id":"s"}`); last.Type != "error" || !strings.Contains(last.Raw, c.want) {
				t.Errorf("last packet %s", last.Raw)
			}
		})
	}
}

// FuzzPreview checks that the parts add up to the whole prompt for any sizes of files.
func FuzzPreview(f *testing.F) {
	f.Add("Be brief.AB", int64(1), int64(1))
	f.Add("é", int64(1), int64(0))
	f.Add("", int64(-1), int64(1<<62))
	f.Fuzz(func(t *testing.T, content string, first, second int64) {
		p := proto.SystemPrompt{Content: content, Files: []proto.PromptFile{{Path: "/a", Bytes: first}, {Path: "/b", Bytes: second}}}
		var r proto.ContextReport
		addPrompt(&r, p)
		var text strings.Builder
		tokens := int64(0)
		for _, part := range r.Parts {
			text.WriteString(part.Content)
			tokens += part.Tokens
		}
		if text.String() != content || tokens != r.Tokens || tokens < int64(len(content)/bytesPerToken) {
			got, err := json.Marshal(r)
			t.Errorf("%q gives %s, %v", content, got, err)
		}
	})
}

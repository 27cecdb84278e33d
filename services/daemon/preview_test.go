package daemon

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"zino/pkg/rpc"
	"zino/proto"
)

// previewEnv is a daemon whose agent has tools.
func previewEnv(t *testing.T, n neighbours, tools string) *env {
	t.Helper()
	n.more = func(service string, s *rpc.Server) {
		if service == "agr" && tools != "" {
			rpc.HandleRelay(s, proto.AgrTools, answers[proto.ToolsRequest](tools))
		}
	}
	return newEnv(t, n)
}

// TestPreview: the parts in their order, with what they weigh.
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
			"sizes that cannot be", `{"type":"system_prompt","content":"AB","files":[{"path":"/a","bytes":9},{"path":"/b","bytes":1}]}`, ``, `{"type":"tools"}`, ``,
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
			if asked := len(b.builds.list()); asked != strings.Count(c.more, "session_id") {
				t.Errorf("ctx was asked %d times", asked)
			}
			if n := len(b.runs.list()) + len(b.infers.list()) + len(b.stored.list()); n > 0 {
				t.Errorf("%d requests that a preview does not make", n)
			}
		})
	}
}

// TestPreviewRequest: what is asked of whom.
func TestPreviewRequest(t *testing.T) {
	b := previewEnv(t, all(), `{"type":"tools","tools":[]}`)
	b.ask(`{"type":"context","session_id":"s","root":"/r","system_prompt":""}`)
	if get := b.gets.list()[0]; get.Root != "/r" || get.SystemPrompt == nil || *get.SystemPrompt != "" {
		t.Errorf("sys is asked %+v", get)
	}
	if build := b.builds.list()[0]; build != (proto.Build{SessionID: "s"}) {
		t.Errorf("ctx is asked %+v", build)
	}
}

// TestPreviewFails: half a preview is none.
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
	b := previewEnv(t, all(), `{"type":"tools"}`)
	if _, last := b.ask(`{"type":"context","root":"a"}`); last.Code != "invalid" {
		t.Errorf("last packet %s", last.Raw)
	}
}

// FuzzPreview: whatever sizes sys tells, the parts are the prompt and add up.
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

package agr

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"zino/pkg/config"
	"zino/pkg/rpc"
	"zino/pkg/zinotest"
	"zino/pkg/zinotest/rpctest"
	"zino/proto"
)

// servers is a fake mcp.
type servers struct {
	list  proto.ServerList
	fails error
	found proto.FoundTools
	lists rpctest.Record[proto.ListServers]

	searches rpctest.Record[proto.SearchTools]

	calls rpctest.Record[proto.CallTool]
	call  func(ctx context.Context, req proto.CallTool, out *rpc.Out) (proto.ToolResult, error)

	outputBytes int // [agr] tool_output_bytes; 0: the default
}

func (m *servers) register(s *rpc.Server) {
	rpc.Handle(s, proto.MCPServers, func(_ context.Context, req proto.ListServers) (proto.ServerList, error) {
		req.Project = bytes.Clone(req.Project)
		m.lists.Add(req)
		return m.list, m.fails
	})
	rpc.Handle(s, proto.MCPSearch, func(_ context.Context, req proto.SearchTools) (proto.FoundTools, error) {
		m.searches.Add(req)
		return m.found, m.fails
	})
	rpc.HandleEvents(s, proto.MCPCall, func(ctx context.Context, req proto.CallTool, out *rpc.Out) (proto.ToolResult, error) {
		req.Arguments = bytes.Clone(req.Arguments)
		m.calls.Add(req)
		return m.call(ctx, req, out)
	})
}

// newMCP starts an agent with two servers.
func newMCP(t *testing.T, m *servers, script ...reply) *env {
	t.Helper()
	if m.list.Servers == nil {
		m.list.Servers = []proto.MCPServer{{Name: "git hub", State: proto.MCPIdle}, {Name: "off", State: proto.MCPDisabled}, {Name: "pg", State: proto.MCPNew}}
	}
	if m.call == nil {
		m.call = func(_ context.Context, req proto.CallTool, _ *rpc.Out) (proto.ToolResult, error) {
			return proto.ToolResult{Result: said(req.Server + "/" + req.Tool + " " + string(req.Arguments))}, nil
		}
	}
	return startEnv(t, func(cfg *config.Config) {
		cfg.MCP.Servers = map[string]config.MCPServer{"pg": {}}
		cfg.MCP.Socket = cfg.Repl.Socket + "-mcp"
		cfg.Agr.ToolOutputBytes = cmp.Or(m.outputBytes, cfg.Agr.ToolOutputBytes)
		rpctest.New(t, "mcp", cfg.MCP.Socket, m.register)
	}, script...)
}

// offeredNames lists the names of the tools of an inference that belong to MCP servers.
func offeredNames(t *testing.T, req proto.Infer) string {
	t.Helper()
	var list []struct{ Function struct{ Name string } }
	zinotest.Must(t, json.Unmarshal(req.Tools, &list))
	var names []string
	for _, tool := range list {
		if strings.HasPrefix(tool.Function.Name, "mcp") {
			names = append(names, tool.Function.Name)
		}
	}
	return strings.Join(names, " ")
}

// direct are definitions that are offered directly.
func direct() []proto.MCPTool {
	return []proto.MCPTool{
		{Server: "git hub", Name: "list issues", Description: "Lists issues.", Input: proto.Raw(`{"type":"object","properties":{"repo":{"type":"string"}},"required":["repo"]}`)},
		{Server: "git hub", Name: "list.issues", Description: "Lists others.", Input: proto.Raw(`{"type":"object"}`)},
		{Server: "pg", Name: strings.Repeat("long", 20), Description: "", Input: proto.Raw(`{"type":"object","anyOf":[{}]}`)},
	}
}

// TestOfferMCP checks what is offered, and the event that is reported once, with the first
// answer.
func TestOfferMCP(t *testing.T) {
	t.Parallel()
	longName := "mcp__pg__" + strings.Repeat("long", 20)[:46] + "_"
	for name, tt := range map[string]struct {
		tools []proto.MCPTool
		names string // of the tools; "…" stands for a hash
		event string // the beginning of the packet
	}{
		"search": {nil, "mcp_search mcp_call", `{"type":"tools","mode":"search","servers":["git hub","pg"]}`},
		"direct": {direct(), "mcp__git_hub__list_issues mcp__git_hub__list_issues_… " + longName + "…", `{"type":"tools","mode":"direct","servers":["git hub","pg"],"tools":[{"name":"mcp__git_hub__list_issues","server":"git hub","tool":"list issues",`},
	} {
		t.Run(name, func(t *testing.T) {
			m := &servers{list: proto.ServerList{Tools: tt.tools}}
			e := newMCP(t, m, asks("", native("a", "read", `{"path":"x"}`)), says("Done."))
			f := e.follow(question, `,"root":"/r","project":{"mcpServers":{}}`)
			packets, at := f.until()
			if !strings.HasPrefix(packets[0], tt.event) || strings.Count(strings.Join(packets, ""), `"type":"tools"`) != 1 {
				t.Errorf("packets %q", packets)
			}
			f.ok(at, "")
			f.finish()
			for i, req := range e.rtr.asked() {
				names := strings.Fields(offeredNames(t, req))
				for k, want := range strings.Fields(tt.names) {
					if want, open := strings.CutSuffix(want, "…"); k >= len(names) || names[k] != want && !(open && strings.HasPrefix(names[k], want)) || len(names[k]) > 64 {
						t.Errorf("inference %d: %q, want %s", i+1, names, tt.names)
					}
				}
			}
			if zinotest.Equal(t, "lists", len(m.lists.All()), 1); m.lists.All()[0].Root != "/r" || string(m.lists.All()[0].Project) != `{"mcpServers":{}}` {
				t.Errorf("asked %+v", m.lists.All())
			}
		})
	}
}

// TestOfferStored checks that a session's offer is repeated to the byte whatever mcp says
// now, and that new tools that it cannot reach are noticed.
func TestOfferStored(t *testing.T) {
	t.Parallel()
	m := &servers{list: proto.ServerList{Tools: direct()}}
	e := newMCP(t, m, says("One."), says("Two."), says("Three."))
	f := e.follow(question, "")
	packets, at := f.until()
	f.ok(at, "")
	f.until()
	stored := `,"offer":` + packets[slices.IndexFunc(packets, func(p string) bool { return strings.HasPrefix(p, `{"type":"tools"`) })]
	for _, list := range []proto.ServerList{
		{Servers: m.list.Servers, Tools: append(direct(), proto.MCPTool{Server: "pg", Name: "new"})},
		{Servers: []proto.MCPServer{}},
	} {
		m.list = list
		f := e.follow(question, stored)
		packets, at := f.until()
		if noticed := strings.Contains(packets[0], "MCP servers have 1 new tools"); noticed != (len(list.Tools) > 0) || strings.Contains(strings.Join(packets, ""), `"type":"tools"`) {
			t.Errorf("packets %q", packets)
		}
		f.ok(at, "")
		f.until()
	}
	for i, req := range e.rtr.asked() {
		zinotest.Equal(t, fmt.Sprint("tools of inference ", i+1), string(req.Tools), string(e.rtr.asked()[0].Tools))
	}
}

// TestOfferWithout checks turns without MCP servers, or without mcp.
func TestOfferWithout(t *testing.T) {
	t.Parallel()
	t.Run("none configured", func(t *testing.T) { // mcp is not asked
		e := newEnv(t, says("Done."))
		f := e.follow(question, "")
		packets, at := f.until()
		compare(t, packets, delta("Done."), final("Done."), checkpoint(1, "end"))
		f.ok(at, "")
	})
	t.Run("no mcp", func(t *testing.T) {
		e := newEnv(t, says("Done."))
		f := e.follow(question, `,"project":{"mcpServers":{}}`)
		packets, at := f.until()
		if zinotest.Contains(t, "notice", packets[0], `"kind":"warning","text":"The tools of MCP servers are not available: `); len(packets) != 4 {
			t.Errorf("packets %q", packets)
		}
		f.ok(at, "")
		zinotest.Equal(t, "tools", offeredNames(t, e.rtr.asked()[0]), "")
	})
	t.Run("all disabled", func(t *testing.T) {
		e := newMCP(t, &servers{list: proto.ServerList{Servers: []proto.MCPServer{{Name: "x", State: proto.MCPDisabled}}, Notices: []string{"x is off"}}}, says("Done."))
		f := e.follow(question, "")
		packets, at := f.until()
		zinotest.Contains(t, "notice", packets[0], "x is off")
		f.ok(at, "")
		zinotest.Equal(t, "tools", offeredNames(t, e.rtr.asked()[0]), "")
	})
}

// TestOfferAdded checks that a server which is added while the service runs is offered.
func TestOfferAdded(t *testing.T) {
	t.Parallel()
	m := &servers{list: proto.ServerList{Servers: []proto.MCPServer{{Name: "pg", State: proto.MCPNew}}}}
	file := filepath.Join(zinotest.Dir(t), "ZINO.toml")
	zinotest.Write(t, file, "")
	e := startEnv(t, func(cfg *config.Config) {
		cfg.File, cfg.MCP.Socket = file, cfg.Repl.Socket+"-mcp"
		rpctest.New(t, "mcp", cfg.MCP.Socket, m.register)
	}, says("One."), says("Two."), says("Three."))
	for i, step := range []struct{ file, tools string }{
		{"", ""}, {"[mcp.servers.pg]\ncommand = [\"x\"]\n", "mcp_search mcp_call"}, {"a mistake, which changes nothing", "mcp_search mcp_call"},
	} {
		zinotest.Write(t, file, step.file)
		f := e.follow(question, "")
		f.finish()
		zinotest.Equal(t, fmt.Sprint("tools of turn ", i+1), offeredNames(t, e.rtr.asked()[i]), step.tools)
	}
}

// TestMCPCall checks the calls that mcp receives, and the results that the model sees.
func TestMCPCall(t *testing.T) {
	t.Parallel()
	m := &servers{found: proto.FoundTools{
		Tools: []proto.MCPTool{{Server: "pg", Name: "query", Description: "Runs SQL.", Input: proto.Raw(`{"type":"object"}`)}},
		Names: []string{"pg.tables: Lists tables."}, More: 2, Instructions: map[string]string{"pg": "Be kind."},
	}}
	m.call = func(_ context.Context, req proto.CallTool, out *rpc.Out) (proto.ToolResult, error) {
		if req.Tool == "long" {
			return proto.ToolResult{Result: success(struct {
				Text       string    `json:"text"`
				Structured proto.Raw `json:"structured"`
			}{strings.Repeat("0123456789", 1e5), proto.Raw(`[1]`)})}, nil
		}
		if req.Tool == "secret" {
			return proto.ToolResult{Result: said("token ghp_" + strings.Repeat("aB3dE6gH9", 4))}, nil
		}
		if err := out.Event(proto.TypeToolOutput, proto.ToolOutput{Text: "half"}); err != nil {
			return proto.ToolResult{}, err
		}
		return proto.ToolResult{Result: said(string(req.Arguments))}, nil
	}
	calls := []string{
		native("a", "mcp_search", `{"query":"sql"}`),
		native("b", "mcp_call", `{"server":"pg","tool":"query","arguments":{"sql":"select 1"}}`),
		native("c", "mcp_call", `{"server":"pg","tool":"query","arguments":"{\"sql\":\"select 2\"}"}`),
		native("d", "mcp_call", `{"server":"pg","tool":"none"}`),
		native("e", "mcp_call", `{"server":"pg","tool":"query","arguments":[1]}`),
		native("f", "mcp_call", `{"tool":"query"}`),
		native("g", "mcp_call", `{"server":"pg","tool":"long","arguments":{}}`),
		native("h", "mcp_call", `{"server":"pg","tool":"secret","arguments":{}}`),
	}
	e := newMCP(t, m, asks("", calls...), says("Done."))
	f := e.follow(question, `,"token":"tt"`)
	end := f.finish()
	zinotest.Contains(t, "end", end, "Done.")
	results := toolResults(t, e.rtr.asked()[1])
	want := []string{
		string(said("pg.query: Runs SQL.\npg.tables: Lists tables.\n2 further tools fit.\nThe server pg says: Be kind.\n" + `{"server":"pg","tool":"query","input":{"type":"object"}}`)),
		string(said(`{"sql":"select 1"}`)), string(said(`{"sql":"select 2"}`)), string(said(`{}`)),
		failedWith("invalid_input", "arguments: expected an object"), failedWith("invalid_input", `The field "server" is missing.`),
	}
	if !slices.Equal(results[:len(want)], want) {
		t.Errorf("results\n%s\nwant\n%s", strings.Join(results, "\n"), strings.Join(want, "\n"))
	}
	long := results[6]
	if zinotest.Contains(t, "a long result", long, " bytes are left out here", `"structured":[1]`, "89\"}"[:2]); len(long) > e.cfg.Agr.ToolOutputBytes+400 || !json.Valid([]byte(long)) {
		t.Errorf("%d bytes: %.100s", len(long), long)
	}
	if secret := results[7]; strings.Contains(secret, "ghp_") || !strings.HasPrefix(secret, `{"ok":true,"masked":1,`) {
		t.Errorf("a secret: %s", secret)
	}
	first := m.calls.All()[0]
	if first.Key != "s-1/t-1/1/b" || first.Token != "tt" || first.SessionID != "s-1" || first.Turn != "t-1" || !first.Events {
		t.Errorf("call %+v", first)
	}
}

// TestMCPLongResult checks that the whole of a long result can be read in parts, as it is
// masked, and also that of an error.
func TestMCPLongResult(t *testing.T) {
	t.Parallel()
	secret := "ghp_" + strings.Repeat("aB3dE6gH9", 4)
	whole := strings.Repeat("é 0123456789\n", 6000) + secret + "\n" + strings.Repeat("tail\n", 4000)
	for name, options := range map[string]string{"stored": "", "not stored": `,"no_save":true`} {
		t.Run(name, func(t *testing.T) {
			m := &servers{outputBytes: 40 << 10}
			m.call = func(_ context.Context, req proto.CallTool, _ *rpc.Out) (proto.ToolResult, error) {
				switch req.Tool {
				case "fails":
					return proto.ToolResult{Result: encode(proto.Envelope{Error: &proto.ToolError{Code: proto.ToolFailed, Message: whole}})}, nil
				case "structured":
					return proto.ToolResult{Result: success(struct {
						Text       string    `json:"text"`
						Structured proto.Raw `json:"structured"`
					}{"short", encode(struct {
						A string `json:"a"`
					}{whole})})}, nil
				}
				return proto.ToolResult{Result: said(whole)}, nil
			}
			var got, path string
			next := func(ctx context.Context, req proto.Infer, out *rpc.Out) (proto.Text, error) {
				results := toolResults(t, req)
				if path == "" {
					for i, result := range results {
						match := regexp.MustCompile(`attachment:sha256:[0-9a-f]{64}`).FindString(result)
						if match == "" || len(result) > 64<<10 || strings.Contains(result, secret) || !json.Valid([]byte(result)) {
							t.Errorf("result %d: %d bytes, %q", i, len(result), match)
						}
						if path = match; i == 1 {
							zinotest.Contains(t, "structured", result, `"text":"short","structured":"{`)
						}
					}
				} else {
					var envelope struct{ Data textPart }
					zinotest.Must(t, json.Unmarshal([]byte(results[len(results)-1]), &envelope))
					got += envelope.Data.Content
					if _, path, _ = strings.Cut(envelope.Data.Notice, "The next: "); !envelope.Data.Truncated {
						return says("Done.")(ctx, req, out)
					}
				}
				return asks("", native("r", "read", `{"path":"`+path+`"}`))(ctx, req, out)
			}
			e := newMCP(t, m, asks("",
				native("a", "mcp_call", `{"server":"pg","tool":"long","arguments":{}}`), native("b", "mcp_call", `{"server":"pg","tool":"structured","arguments":{}}`),
				native("c", "mcp_call", `{"server":"pg","tool":"fails","arguments":{}}`)), next, next, next, next, says("Done."))
			f := e.follow(question, options)
			f.finish()
			if before, after, ok := strings.Cut(whole, secret); !strings.HasPrefix(got, before) || !strings.HasSuffix(got, after) || !ok || strings.Contains(got, secret) {
				t.Errorf("read %d bytes of %d: %.100q", len(got), len(whole), got)
			}
			zinotest.Equal(t, "calls of exc", len(e.exc.called()), 0)
		})
	}
}

// TestMCPCallDirect checks that a direct tool reaches its server under its own name.
func TestMCPCallDirect(t *testing.T) {
	t.Parallel()
	e := newMCP(t, &servers{list: proto.ServerList{Tools: direct()}}, asks("", native("a", "mcp__git_hub__list_issues", `{"repo":"x"}`), native("b", "mcp__none__x", `{}`)), says("Done."))
	f := e.follow(question, "")
	f.finish()
	results := toolResults(t, e.rtr.asked()[1])
	if zinotest.Equal(t, "result", results[0], string(said(`git hub/list issues {"repo":"x"}`))); !strings.HasPrefix(results[1], `{"ok":false,"error":{"code":"unknown_tool"`) {
		t.Errorf("an unknown tool: %s", results[1])
	}
}

// TestMCPApproval checks that a call that a person must allow waits, and has the grant then.
func TestMCPApproval(t *testing.T) {
	t.Parallel()
	m := &servers{}
	m.call = func(_ context.Context, req proto.CallTool, _ *rpc.Out) (proto.ToolResult, error) {
		if req.Grant == "" {
			return proto.ToolResult{}, approvalOf("mcp:pg/query", req.Arguments)
		}
		return proto.ToolResult{Result: said(req.Grant)}, nil
	}
	e := newMCP(t, m, asks("", native("a", "mcp_call", `{"server":"pg","tool":"query","arguments":{}}`)), says("Done."))
	f := e.follow(question, "")
	_, at := f.until()
	f.ok(at, "")
	_, at = f.until()
	if at.Point != proto.PointApproval || at.Needed == nil || at.Needed.Call.Tool != "mcp:pg/query" {
		t.Fatalf("at %+v", at)
	}
	f.ok(at, `,"grants":{"a":"yes"}`)
	f.finish()
	zinotest.Equal(t, "result", toolResults(t, e.rtr.asked()[1])[0], string(said("yes")))
}

// TestMCPAskedOnce checks that the wish of a hook goes to mcp, which asks about the call
// anyway: there is one question.
func TestMCPAskedOnce(t *testing.T) {
	t.Parallel()
	m := &servers{list: proto.ServerList{Tools: direct()}}
	m.call = func(_ context.Context, req proto.CallTool, _ *rpc.Out) (proto.ToolResult, error) {
		if req.Grant == "" {
			return proto.ToolResult{}, approvalOf("mcp:"+req.Server+"/"+req.Tool, req.Arguments)
		}
		return proto.ToolResult{Result: said(req.Ask)}, nil
	}
	e := newMCP(t, m, says("Done."))
	const messages = `[{"role":"user","content":"hi"},{"role":"assistant","content":"","tool_calls":[]}]`
	f := e.follow(messages, `,"first_step":2,"offer":{"type":"tools","mode":"search","servers":["pg"]},"calls":[{"id":"a","name":"mcp_call","input":{"server":"pg","tool":"q","arguments":{}},"step":1,"action":"run","hook":{"decision":"ask","reason":"sure?"}}]`)
	questions := 0
	for {
		_, at := f.until()
		if at.Point == proto.PointApproval {
			questions++
			f.ok(at, `,"grants":{"a":"yes"}`)
			continue
		}
		if f.ok(at, ""); at.Point == proto.PointCalls {
			continue
		}
		break
	}
	f.finish()
	zinotest.Equal(t, "questions", questions, 1)
	zinotest.Equal(t, "result", toolResults(t, e.rtr.asked()[0])[0], string(said("sure?")))
}

// TestMCPRecover checks that a call of an earlier attempt is not repeated, and a search is.
func TestMCPRecover(t *testing.T) {
	t.Parallel()
	m := &servers{list: proto.ServerList{Tools: direct()}}
	e := newMCP(t, m, says("Done."))
	const messages = `[{"role":"user","content":"hi"},{"role":"assistant","content":"","tool_calls":[]}]`
	f := e.follow(messages, `,"first_step":2,"offer":{"type":"tools","mode":"search","servers":["pg"]},"calls":[{"id":"a","name":"mcp_call","input":{"server":"pg","tool":"q","arguments":{}},"step":1,"action":"recover"},{"id":"b","name":"mcp_search","input":{},"step":1,"action":"recover"}]`)
	f.finish()
	results := toolResults(t, e.rtr.asked()[0])
	if len(results) != 2 || results[0] != proto.InterruptedResult || results[1] != string(said("No tool was found.")) {
		t.Errorf("results %q", results)
	}
	zinotest.Equal(t, "calls", len(m.calls.All()), 0)
}

// TestMCPServerToken: a call that a person has allowed, and whose server needs a token to
// start, gets both, in any order.
func TestMCPServerToken(t *testing.T) {
	t.Parallel()
	const server = "eyJraW5kIjoic2VydmVyIn0.x" // {"kind":"server"}
	for _, first := range []string{"call", proto.ApprovalServer} {
		m := &servers{}
		m.call = func(_ context.Context, req proto.CallTool, _ *rpc.Out) (proto.ToolResult, error) {
			needed := map[string]bool{"call": req.Grant == "", proto.ApprovalServer: req.ServerToken == ""}
			for _, kind := range []string{first, "call", proto.ApprovalServer} {
				if needed[kind] {
					e := approvalOf("mcp:pg/query", req.Arguments).(*proto.Error)
					e.Details = strings.Replace(e.Details, `"kind":"call"`, `"kind":"`+kind+`"`, 1)
					return proto.ToolResult{}, e
				}
			}
			return proto.ToolResult{Result: said(req.Grant + " " + req.ServerToken)}, nil
		}
		e := newMCP(t, m, asks("", native("a", "mcp_call", `{"server":"pg","tool":"query","arguments":{}}`)), says("Done."))
		f := e.follow(question, "")
		_, at := f.until()
		f.ok(at, "")
		for range 2 {
			_, at = f.until()
			zinotest.Equal(t, "point", at.Point, proto.PointApproval)
			grant := map[string]string{"call": "yes", proto.ApprovalServer: server}[at.Needed.Kind]
			f.ok(at, `,"grants":{"a":"`+grant+`"}`)
		}
		zinotest.Contains(t, "end", f.finish(), "Done.")
		zinotest.Equal(t, "the result", toolResults(t, e.rtr.asked()[1])[0], string(said("yes "+server)))
	}
}

// TestMCPSearchTokens: servers that need a token to start get the daemon's, those that get
// none stay among the problems.
func TestMCPSearchTokens(t *testing.T) {
	t.Parallel()
	m := &servers{}
	m.found.Problems = []string{"other: it needs the token of a server", "pg: it needs the token of a server"}
	for _, definition := range []string{"sha256:other", "sha256:pg"} {
		m.found.Needed = append(m.found.Needed, &proto.ApprovalNeeded{
			Kind: proto.ApprovalServer, Call: proto.AskedCall{Tool: "pipe", Input: proto.Raw("{}"), Sandbox: "unit", Files: []string{}}, Digest: definition, Reasons: []string{},
		})
	}
	e := newMCP(t, m, asks("", native("a", "mcp_search", `{"query":"sql"}`)), says("Done."))
	f := e.follow(question, "")
	_, at := f.until()
	f.ok(at, "")
	_, at = f.until()
	zinotest.Equal(t, "first", at.Needed.Digest, "sha256:other")
	f.ok(at, `,"results":{"a":{"ok":false,"error":{"code":"denied","message":"no such server"}}}`)
	_, at = f.until()
	zinotest.Equal(t, "second", at.Needed.Digest, "sha256:pg")
	m.found.Needed, m.found.Problems = nil, m.found.Problems[:1]
	f.ok(at, `,"grants":{"a":"token"}`)
	f.finish()
	zinotest.Equal(t, "result", toolResults(t, e.rtr.asked()[1])[0], string(said("other: it needs the token of a server")))
	searches := m.searches.All()
	if len(searches) != 2 || len(searches[0].ServerTokens) != 0 || !slices.Equal(searches[1].ServerTokens, []string{"token"}) {
		t.Errorf("searches %+v", searches)
	}
}

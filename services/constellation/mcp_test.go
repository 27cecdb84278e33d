package constellation_test

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"zino/pkg/config"
	"zino/pkg/fakellm"
	"zino/pkg/rpc"
	"zino/pkg/zinotest"
	"zino/pkg/zinotest/rpctest"
	"zino/proto"
)

// withServers configures an MCP server, and puts a fake mcp in the place of the real one.
func withServers(t *testing.T, cfg *config.Config, list func() proto.ServerList) {
	cfg.MCP.Servers = map[string]config.MCPServer{"github": {Command: []string{"none"}}}
	cfg.MCP.Socket = filepath.Join(filepath.Dir(cfg.Daemon.Socket), "fakemcp")
	rpctest.New(t, "mcp", cfg.MCP.Socket, func(s *rpc.Server) {
		rpc.Handle(s, proto.MCPServers, func(context.Context, proto.ListServers) (proto.ServerList, error) { return list(), nil })
		rpc.HandleEvents(s, proto.MCPCall, func(_ context.Context, req proto.CallTool, _ *rpc.Out) (proto.ToolResult, error) {
			return proto.ToolResult{Result: proto.Raw(`{"ok":true,"data":{"text":"called ` + req.Tool + `"}}`)}, nil
		})
	})
}

// TestOfferInSession checks that the offer of MCP tools is stored with the first step of a
// session, and that later turns and a restarted constellation repeat it.
func TestOfferInSession(t *testing.T) {
	list := proto.ServerList{
		Servers: []proto.MCPServer{{Name: "github", State: proto.MCPIdle, Tools: 1}},
		Tools:   []proto.MCPTool{{Server: "github", Name: "star", Description: "Stars.", Input: proto.Raw(`{"type":"object","properties":{}}`)}},
	}
	e := newAgents(t, func(cfg *config.Config) { withServers(t, cfg, func() proto.ServerList { return list }) },
		fakellm.Turn{Calls: []fakellm.Call{{Name: "mcp__github__star", Args: `{}`}}}, fakellm.Turn{Text: "Done."}, fakellm.Turn{Text: "Two."}, fakellm.Turn{Text: "Three."})
	e.begin(proto.TurnStart{})
	zinotest.Equal(t, "state", e.end("parent").State, proto.TurnDone)
	result := e.log("parent", proto.TypeToolResult)
	zinotest.Equal(t, "result", string(result[0].Output), `{"ok":true,"data":{"text":"called star"}}`)
	list = proto.ServerList{Servers: list.Servers} // not known any more
	e.begin(proto.TurnStart{})
	zinotest.Equal(t, "state", e.end("parent").State, proto.TurnDone)
	e.stop()
	e.start()
	e.begin(proto.TurnStart{})
	zinotest.Equal(t, "state", e.end("parent").State, proto.TurnDone)
	offers := e.log("parent", proto.TypeTools)
	zinotest.Equal(t, "events tools", len(offers), 1)
	log := zinotest.Read(t, e.file("parent"))
	if strings.Index(log, `"type":"tools"`) > strings.Index(log, `"type":"tool_use"`) {
		t.Error("the offer follows the first call")
	}
	var first string
	for i, r := range e.provider.Requests() {
		var body struct{ Tools json.RawMessage }
		zinotest.Must(t, json.Unmarshal([]byte(r.Body), &body))
		if i == 0 {
			first = string(body.Tools)
		}
		zinotest.Equal(t, fmt.Sprint("tools of request ", i), string(body.Tools), first)
	}
	zinotest.Contains(t, "tools", first, `"mcp__github__star"`)
}

// TestOfferContinued checks the offer of a turn that goes on in another session, since the
// context is full: that session has an offer of its own, of what there is then, with its first
// step, and repeats it. The offer of the old session stays, also for a fork.
func TestOfferContinued(t *testing.T) {
	tool := func(name string) proto.ServerList {
		return proto.ServerList{
			Servers: []proto.MCPServer{{Name: "github", State: proto.MCPIdle, Tools: 1}},
			Tools:   []proto.MCPTool{{Server: "github", Name: name, Description: "Does it.", Input: proto.Raw(`{"type":"object","properties":{}}`)}},
		}
	}
	var list atomic.Pointer[proto.ServerList]
	list.Store(new(tool("star")))
	full := &fakellm.Usage{In: 190_000, Out: 1}
	e := newAgents(t, func(cfg *config.Config) {
		cfg.Agent.ContinueAt = 0.5
		withServers(t, cfg, func() proto.ServerList { return *list.Load() })
	}, fakellm.Turn{Match: "begin", Wait: "go", Usage: full, Calls: []fakellm.Call{{Name: "mcp__github__star", Args: `{}`}}},
		forever("", fakellm.Turn{Text: "Done.", Usage: &fakellm.Usage{In: 10, Out: 1}}))
	e.begin(proto.TurnStart{})
	e.asked(1)
	list.Store(new(tool("fork")))
	e.provider.Open("go")
	next := ""
	zinotest.Eventually(t, "the end of the turn in the other session", func() bool {
		for _, turn := range e.turns(proto.ListTurns{All: true}) {
			if turn.SessionID != "parent" && turn.State == proto.TurnDone {
				next = turn.SessionID
			}
		}
		return next != ""
	})
	offered := func(session string) (lines []string) {
		for line := range strings.Lines(zinotest.Read(t, e.file(session))) {
			if strings.Contains(line, `"type":"tools"`) {
				lines = append(lines, line)
			}
		}
		return lines
	}
	tools := func() string {
		requests := e.provider.Requests()
		var body struct{ Tools json.RawMessage }
		zinotest.Must(t, json.Unmarshal([]byte(requests[len(requests)-1].Body), &body))
		return string(body.Tools)
	}
	check := func(session, has, lacks string) {
		t.Helper()
		if lines := offered(session); len(lines) != 1 || !strings.Contains(lines[0], has) || strings.Contains(lines[0], lacks) || !strings.Contains(lines[0], `"step":1`) {
			t.Errorf("offers of %s: %s", session, lines)
		}
	}
	check("parent", "mcp__github__star", "mcp__github__fork")
	check(next, "mcp__github__fork", "mcp__github__star")
	zinotest.Contains(t, "tools after the handoff", tools(), `"mcp__github__fork"`)
	list.Store(new(tool("third")))
	e.stop()
	e.start()
	_, err := rpc.Call(t.Context(), e.daemon, proto.DaemonTurnStart, proto.TurnStart{SessionID: next, Message: "again", Root: e.root})
	zinotest.Must(t, err)
	zinotest.Equal(t, "state", e.end(next).State, proto.TurnDone)
	check(next, "mcp__github__fork", "mcp__github__third")
	zinotest.Contains(t, "tools of a later turn", tools(), `"mcp__github__fork"`)
	ask(t, e.cfg.Mem.Socket, `{"type":"fork_session","session_id":"parent","new_id":"copy"}`)
	_, err = rpc.Call(t.Context(), e.daemon, proto.DaemonTurnStart, proto.TurnStart{SessionID: "copy", Message: "again", Root: e.root})
	zinotest.Must(t, err)
	zinotest.Equal(t, "state", e.end("copy").State, proto.TurnDone)
	check("copy", "mcp__github__star", "mcp__github__third")
	zinotest.Contains(t, "tools of the fork", tools(), `"mcp__github__star"`)
}

// TestContextWithServers checks that the tools of servers cost at most 250 tokens, whatever
// is behind them.
func TestContextWithServers(t *testing.T) {
	tokens := func(servers int) (n int64) {
		e := newAgents(t, func(cfg *config.Config) {
			if servers > 0 {
				withServers(t, cfg, func() (list proto.ServerList) {
					for i := range servers {
						list.Servers = append(list.Servers, proto.MCPServer{Name: fmt.Sprintf("server-%d", i), State: proto.MCPIdle, Tools: 135})
					}
					return list
				})
			}
		})
		report, err := rpc.Call(t.Context(), e.daemon, proto.DaemonContext, proto.Preview{Root: e.root})
		zinotest.Must(t, err)
		for _, part := range report.Parts {
			if part.Name == "tools" {
				return part.Tokens
			}
		}
		return 0
	}
	without, with := tokens(0), tokens(3)
	if t.Logf("%d tokens without servers, %d with three", without, with); with <= without || with > without+250 {
		t.Errorf("%d tokens without servers, %d with three", without, with)
	}
}

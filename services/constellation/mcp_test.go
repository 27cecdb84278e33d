package constellation_test

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
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

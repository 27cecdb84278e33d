package bench_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"zino/pkg/config"
	"zino/pkg/fakellm"
	"zino/pkg/rpc"
	"zino/pkg/zinotest"
	"zino/proto"
)

// toolsOfServer is the number of tools of a large MCP server.
const toolsOfServer = 135

// serverWorld starts all services and zino-mcp with n servers, s0 and so on, of 135 tools each.
func (b *bench) serverWorld(n int, turns ...fakellm.Turn) (*constellation, func(), error) {
	program, err := b.program("mcpserver")
	if err != nil {
		return nil, nil, err
	}
	llm := fakellm.New(turns...)
	c, err := b.constellation(true, func(cfg *config.Config) {
		cfg.Provider, cfg.API.BaseURL, cfg.Service.Model = "openai", llm.URL, "fake-model"
		cfg.MCP.Socket, cfg.MCP.DataDir = strings.TrimSuffix(cfg.Mem.Socket, "mem.sock")+"mcp.sock", cfg.Mem.DataDir+"/mcp"
		cfg.MCP.Servers = map[string]config.MCPServer{}
		for i := range n {
			cfg.MCP.Servers[fmt.Sprint("s", i)] = config.MCPServer{Command: []string{program, strconv.Itoa(toolsOfServer), fmt.Sprint("s", i)}}
		}
	}, nil, append([]string{"mcp"}, config.Services...)...)
	return c, func() { leave(c, llm) }, err
}

// benchToolTokens counts what the tools of a server add to what zino context reports.
func benchToolTokens(b *bench) ([]line, error) {
	tokens := func(servers int) (float64, error) {
		c, leave, err := b.serverWorld(servers)
		if err != nil {
			return 0, err
		}
		defer leave()
		mcp, daemon := &rpc.Client{Service: "mcp", Path: c.cfg.MCP.Socket}, &rpc.Client{Service: "daemon", Path: c.cfg.Daemon.Socket}
		defer mcp.Close()
		defer daemon.Close()
		found, err := rpc.Call(context.Background(), mcp, proto.MCPSearch, proto.SearchTools{}) // the tools are known from then on
		if err == nil && servers > 0 && len(found.Names) == 0 {
			err = errors.New("no tools were found")
		}
		if err != nil {
			return 0, err
		}
		report, err := rpc.Call(context.Background(), daemon, proto.DaemonContext, proto.Preview{})
		return float64(report.Tokens), err
	}
	without, err := tokens(0)
	if err != nil {
		return nil, err
	}
	with, err := tokens(1)
	if err != nil {
		return nil, err
	}
	return []line{{
		name: "an MCP server with 135 tools, added to zino context", unit: tokenCount, measured: with - without, goals: []goal{atMost(250)},
		note: fmt.Sprintf("%.0f tokens with it, %.0f without", with, without),
	}}, nil
}

// benchToolCall calls a tool of a running MCP server, through zino-mcp and directly.
func benchToolCall(b *bench) ([]line, error) {
	c, leave, err := b.serverWorld(1)
	if err != nil {
		return nil, err
	}
	defer leave()
	client := &rpc.Client{Service: "mcp", Path: c.cfg.MCP.Socket}
	defer client.Close()
	direct, closeDirect, err := b.directServer(c.cfg.MCP.Servers["s0"].Command)
	if err != nil {
		return nil, err
	}
	defer closeDirect()
	pooled := func() error { return callTool(client, "s0", "bench") }
	if err := errors.Join(pooled(), direct()); err != nil { // starts the server
		return nil, err
	}
	const n = 300
	var through, floor []float64
	for range n {
		for _, m := range []struct {
			call  func() error
			times *[]float64
		}{{pooled, &through}, {direct, &floor}} {
			began := time.Now()
			if err := m.call(); err != nil {
				return nil, err
			}
			*m.times = append(*m.times, float64(time.Since(began)))
		}
	}
	return []line{{
		name: "a call of a running MCP server, added", measured: median(through) - median(floor), floors: floor, goals: []goal{atMost(2e6)},
		note: "wall time through zino-mcp and zino-exc, p50; floor: the same server on pipes",
	}}, nil
}

func callTool(c *rpc.Client, server, session string) error {
	req := proto.CallTool{Server: server, Tool: "tool_7", Arguments: proto.Raw(`{"name":"bread"}`), SessionID: session}
	res, err := rpc.CallEvents(context.Background(), c, proto.MCPCall, req, func(string, []byte) error { return nil })
	if err == nil && !strings.Contains(string(res.Result), "in the oven") {
		err = fmt.Errorf("%s: %s", server, res.Result)
	}
	return err
}

// directServer starts an MCP server and returns a function that calls its tool.
func (b *bench) directServer(command []string) (call func() error, stop func() error, err error) {
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stderr = b.log
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2); err != nil {
		return nil, nil, err
	}
	if err := start(cmd, true); err != nil {
		return nil, nil, err
	}
	lines := bufio.NewReader(out)
	call = func() error {
		if _, err := io.WriteString(in, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"tool_7","arguments":{"name":"bread"}}}`+"\n"); err != nil {
			return err
		}
		_, err := lines.ReadString('\n')
		return err
	}
	return call, func() error { return errors.Join(in.Close(), cmd.Wait()) }, nil
}

// benchServers runs a turn in each of 50 sessions at once, whose model calls a tool of each
// of 5 MCP servers, and counts the processes of the servers.
func benchServers(b *bench) ([]line, error) {
	const sessions, servers = 50, 5
	var calls []fakellm.Call
	for i := range servers {
		calls = append(calls, fakellm.Call{Name: "mcp_call", Args: fmt.Sprintf(`{"server":"s%d","tool":"tool_7","arguments":{"name":"bread"}}`, i)})
	}
	c, leave, err := b.serverWorld(servers,
		fakellm.Turn{Match: "Where is the bread?", Calls: calls, Times: fakellm.Forever},
		fakellm.Turn{Match: "in the oven", Text: "Found.", Times: fakellm.Forever})
	if err != nil {
		return nil, err
	}
	defer leave()
	client := &rpc.Client{Service: "daemon", Path: c.cfg.Daemon.Socket}
	defer client.Close()
	var wg sync.WaitGroup
	errs := make([]error, sessions)
	for i := range sessions {
		wg.Go(func() {
			reply, err := rpc.CallText(context.Background(), client, proto.DaemonChat, proto.Chat{Message: "Where is the bread?", SessionID: fmt.Sprint("session-", i)}, nil)
			if err == nil && reply.Content != "Found." {
				err = fmt.Errorf("the answer of session %d is %q", i, reply.Content)
			}
			errs[i] = err
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	program, _ := b.program("mcpserver")
	running := 0
	for _, command := range zinotest.CommandLines() {
		if strings.HasPrefix(command, program) {
			running++
		}
	}
	return []line{{
		name: "50 sessions that use 5 MCP servers, processes", unit: processCount, measured: float64(running), goals: []goal{atMost(servers)},
		note: fmt.Sprintf("of the servers, after %d turns at once with %d calls each; each has a supervisor of zino-exc, too", sessions, servers),
	}}, nil
}

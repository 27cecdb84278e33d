package constellation_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"zino/pkg/config"
	"zino/pkg/fakellm"
	"zino/pkg/zinotest"
	"zino/proto"
	"zino/services/mcp/server"
)

// serveMCP is the role of zino-mcp --serve.
func serveMCP(args []string) error {
	os.Exit(server.Main(args))
	return nil
}

// mcpSession is a connection of the SDK's client with a server on the constellation.
func mcpSession(t *testing.T, o server.Options, progress func(string)) *mcp.ClientSession {
	t.Helper()
	s, err := server.New(o, slog.New(slog.DiscardHandler))
	zinotest.Must(t, err)
	fromClient, toServer := io.Pipe()
	fromServer, toClient := io.Pipe()
	served := make(chan error, 1)
	go func() {
		served <- s.Serve(context.Background(), fromClient, toClient)
		toClient.Close()
	}()
	client := mcp.NewClient(&mcp.Implementation{Name: "test"}, &mcp.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, req *mcp.ProgressNotificationClientRequest) { progress(req.Params.Message) },
	})
	session, err := client.Connect(t.Context(), &mcp.IOTransport{Reader: fromServer, Writer: toServer}, nil)
	zinotest.Must(t, err)
	t.Cleanup(func() {
		zinotest.Must(t, session.Close())
		zinotest.Must(t, zinotest.Receive(t, "the end of the server", served))
	})
	return session
}

// callMCP calls a tool and returns its text.
func callMCP(t *testing.T, session *mcp.ClientSession, name string, args map[string]any) (text string, isError bool) {
	t.Helper()
	params := &mcp.CallToolParams{Name: name, Arguments: args}
	params.SetProgressToken("p")
	result, err := session.CallTool(t.Context(), params)
	zinotest.Must(t, err)
	return result.Content[0].(*mcp.TextContent).Text, result.IsError
}

// TestMCPServer uses each tool of the MCP server.
func TestMCPServer(t *testing.T) {
	e := newAgents(t, func(*config.Config) {}, fakellm.Turn{Calls: []fakellm.Call{{Name: "bash", Args: `{"command":"echo hi >made; cat seen"}`}}}, fakellm.Turn{Text: "Done."}, fakellm.Turn{Text: "Again."})
	outside := t.TempDir()
	zinotest.Write(t, filepath.Join(e.root, "seen"), "in the root\n")
	zinotest.Must(t, os.Symlink(outside, filepath.Join(e.root, "link")))
	var steps zinotest.Buffer
	session := mcpSession(t, server.Options{Daemon: e.cfg.Daemon.Socket, Root: e.root, Sandbox: proto.LevelReadOnly}, func(line string) { fmt.Fprintln(&steps, line) })

	var names []string
	for tool, err := range session.Tools(t.Context(), nil) {
		zinotest.Must(t, err)
		names = append(names, tool.Name)
	}
	zinotest.Equal(t, "tools without a REPL", strings.Join(names, " "), "ask memory_search memory_store sessions_read sessions_search")

	for range 2 { // idempotent
		if text, failed := callMCP(t, session, "memory_store", map[string]any{"text": "The printer is on floor 3.", "tag": "office"}); failed || text != `{"id":0}` {
			t.Errorf("stored: %s", text)
		}
	}
	text, failed := callMCP(t, session, "memory_search", map[string]any{"query": "printer"})
	if zinotest.Contains(t, "found", text, "floor 3"); failed {
		t.Error("a search failed")
	}

	text, failed = callMCP(t, session, "ask", map[string]any{"prompt": "look", "root": e.root})
	if failed || text != "Done." {
		t.Fatalf("answer %q", text)
	}
	zinotest.Contains(t, "progress", steps.String(), "bash\n", "inference\n")
	if _, err := os.Stat(filepath.Join(e.root, "made")); err == nil {
		t.Error("a command of the level read-only has written")
	}
	result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "ask", Arguments: map[string]any{"prompt": "and again"}})
	zinotest.Must(t, err)
	b, err := json.Marshal(result.StructuredContent)
	zinotest.Must(t, err)
	var answer struct {
		SessionID string `json:"session_id"`
		Text      string
	}
	zinotest.Must(t, json.Unmarshal(b, &answer))
	zinotest.Equal(t, "text", answer.Text, "Again.")

	text, _ = callMCP(t, session, "sessions_search", map[string]any{"query": "look"})
	zinotest.Contains(t, "sessions", text, `"role":"user"`)
	text, _ = callMCP(t, session, "sessions_read", map[string]any{"session_id": answer.SessionID})
	zinotest.Contains(t, "the session", text, "and again", `"next":`)

	for _, test := range []struct {
		tool string
		args map[string]any
		want string
	}{
		{"memory_search", map[string]any{}, "required: missing properties: [\"query\"]"},
		{"memory_search", map[string]any{"query": "x", "other": 1}, "invalid arguments: "},
		{"sessions_read", map[string]any{"session_id": "none"}, "no session"},
		{"ask", map[string]any{"prompt": " "}, "the prompt is empty"},
		{"ask", map[string]any{"prompt": "x", "root": outside}, "is outside of "},
		{"ask", map[string]any{"prompt": "x", "root": filepath.Join(e.root, "link")}, "is outside of "},
		{"ask", map[string]any{"prompt": "x", "root": "relative"}, "is not an absolute path"},
		{"ask", map[string]any{"prompt": "x", "session_id": "../x"}, "session"},
	} {
		text, failed := callMCP(t, session, test.tool, test.args)
		if zinotest.Contains(t, test.tool, text, test.want); !failed {
			t.Errorf("%s %v: not an error: %s", test.tool, test.args, text)
		}
	}
	if _, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "pages_list"}); err == nil || !strings.Contains(err.Error(), "unknown tool") {
		t.Errorf("pages without a REPL: %v", err)
	}
}

// TestMCPServerTools checks --tools, and a server without a daemon.
func TestMCPServerTools(t *testing.T) {
	if _, err := server.New(server.Options{Tools: []string{"asks"}}, slog.New(slog.DiscardHandler)); err == nil || !strings.HasPrefix(err.Error(), `unknown tool "asks": want memory_search, `) {
		t.Errorf("error %v", err)
	}
	session := mcpSession(t, server.Options{Daemon: filepath.Join(t.TempDir(), "none"), Tools: []string{"memory_search"}}, nil)
	list, err := session.ListTools(t.Context(), nil)
	zinotest.Must(t, err)
	if len(list.Tools) != 1 {
		t.Errorf("%d tools", len(list.Tools))
	}
	if text, failed := callMCP(t, session, "memory_search", map[string]any{"query": "x"}); !failed || !strings.Contains(text, "none") {
		t.Errorf("%q", text)
	}
}

// TestMCPServerForeign has the client of the npm SDK use the server over stdio.
func TestMCPServerForeign(t *testing.T) {
	node, _ := zinotest.Node(t)
	e := newAgents(t, func(*config.Config) {}, fakellm.Turn{Text: "Forty-two."})
	exe, err := os.Executable()
	zinotest.Must(t, err)
	cmd := exec.CommandContext(t.Context(), node, "../../testdata/node/mcpclient.mjs", exe, "--daemon", e.cfg.Daemon.Socket, "--sandbox", "read-only")
	cmd.Env = zinotest.RoleEnv("zino-mcp-serve")
	var stderr zinotest.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s%s", err, out, stderr.String())
	}
	zinotest.Equal(t, "output", string(out), `tools ask memory_search memory_store sessions_read sessions_search
memory_store {"id":0}
ask Forty-two.
isError the prompt is empty
unknown -32602
`)
}

// TestMCPServerAnswersBeforeEnd checks that the answer to a request is written although
// the input has ended.
func TestMCPServerAnswersBeforeEnd(t *testing.T) {
	e := newAgents(t, func(*config.Config) {}, fakellm.Turn{Text: "Late.", Wait: "go"})
	cmd := zinotest.Command(t, "zino-mcp-serve", "--daemon", e.cfg.Daemon.Socket)
	in, err := cmd.StdinPipe()
	zinotest.Must(t, err)
	p := zinotest.Start(t, cmd)
	_, err = io.WriteString(in, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"ask","arguments":{"prompt":"x"}}}
`)
	zinotest.Must(t, err)
	zinotest.Must(t, in.Close())
	e.asked(1)
	e.provider.Open("go")
	zinotest.Equal(t, "exit status", p.Exit(), 0)
	zinotest.Contains(t, "output", p.Out.String(), `"id":2`, "Late.")
}

// TestMCPServerConformance runs the scenarios of the conformance suites that need no tools
// of a fixture, over HTTP.
func TestMCPServerConformance(t *testing.T) {
	node, modules := zinotest.Node(t)
	for _, test := range []struct {
		suite, revision string
		stateless       bool
		scenarios       string
	}{
		{"@modelcontextprotocol/conformance", "2025-11-25", false, "server-initialize ping tools-list dns-rebinding-protection"},
		{"conformance-next", "2025-11-25", false, "server-initialize server-session-lifecycle ping tools-list resources-list prompts-list dns-rebinding-protection"},
		{"conformance-next", "2026-07-28", true, "tools-list resources-list prompts-list caching http-header-validation sep-2164-resource-not-found dns-rebinding-protection"},
	} {
		s, err := server.New(server.Options{Daemon: filepath.Join(t.TempDir(), "none")}, slog.New(slog.DiscardHandler))
		zinotest.Must(t, err)
		handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s.MCP() }, &mcp.StreamableHTTPOptions{Stateless: test.stateless})
		web := httptest.NewServer(handler)
		defer web.Close()
		for scenario := range strings.FieldsSeq(test.scenarios) {
			t.Run(test.suite+"/"+test.revision+"/"+scenario, func(t *testing.T) {
				args := []string{filepath.Join(modules, test.suite, "dist/index.js"), "server", "--url", web.URL + "/mcp", "--scenario", scenario}
				if test.suite == "conformance-next" {
					args = append(args, "--spec-version", test.revision)
				}
				cmd := exec.CommandContext(t.Context(), node, args...)
				cmd.Dir = t.TempDir()
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Errorf("%v\n%s", err, out)
				}
			})
		}
	}
}

package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"zino/pkg/config"
	"zino/pkg/rpc"
	"zino/pkg/service"
	"zino/pkg/wire"
	"zino/pkg/zinotest"
	"zino/pkg/zinotest/rpctest"
	"zino/proto"
)

var bin string // directory of the programs

func TestMain(m *testing.M) {
	zinotest.Child(zinotest.Roles{"server": serve, "conform": conform})
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "mcp")
	if err == nil {
		defer os.RemoveAll(dir)
		err = zinotest.Build(dir, "zino/services/exc/zino-exc", "zino/services/mcp/zino-mcp")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	bin = dir
	return m.Run()
}

// env is a running service, with a real exc.
type env struct {
	*testing.T
	*Service
	dir    string
	cfg    *config.Config
	client *rpc.Client
	exc    *zinotest.Process
	logs   []*zinotest.Process // that were started
}

// entry returns the definition of a test server in TOML.
func server(name string, more string, args ...string) string {
	exe, err := os.Executable()
	if err != nil {
		panic(err)
	}
	command, err := json.Marshal(append([]string{exe}, args...))
	if err != nil {
		panic(err)
	}
	return fmt.Sprintf("[mcp.servers.%s]\ncommand = %s\n%s\n[mcp.servers.%[1]s.env]\nZINOTEST_ROLE = \"server\"\nGORACE = \"atexit_sleep_ms=0\"\n", name, command, more)
}

// newEnv starts a service with a configuration in this process, without exc.
func newEnv(t *testing.T, text string) *env {
	t.Helper()
	return prepare(t, text).open()
}

// newRunning is newEnv with exc.
func newRunning(t *testing.T, text string) *env {
	t.Helper()
	e := prepare(t, text)
	e.startExc()
	return e.open()
}

// open starts the service in this process.
func (e *env) open() *env {
	e.Helper()
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	s, err := New(e.cfg, log)
	zinotest.Must(e, err)
	e.Service = s
	srv := rpc.NewServer("mcp", log)
	s.Register(srv)
	l, err := service.ListenAndServe(srv, "mcp", e.cfg.MCP.Socket)
	zinotest.Must(e, err)
	e.Cleanup(func() {
		l.Close()
		zinotest.Must(e, s.Close())
	})
	return e
}

// prepare writes a configuration.
func prepare(t *testing.T, text string) *env {
	t.Helper()
	dir := zinotest.Dir(t)
	t.Setenv("ZINO_HOME", filepath.Join(dir, "home"))
	e := &env{T: t, dir: dir}
	file := filepath.Join(dir, "ZINO.toml")
	sockets := fmt.Sprintf("[mcp]\nsocket = %q\n%s", filepath.Join(dir, "mcp.sock"), strings.TrimPrefix(strings.TrimSpace(text), "[mcp]\n"))
	if sockets += "\n"; !strings.Contains(text, "[exc]") {
		sockets += "[exc]\n"
	}
	sockets = strings.Replace(sockets, "[exc]\n", fmt.Sprintf("[exc]\nsocket = %q\n", filepath.Join(dir, "exc.sock")), 1)
	sockets += fmt.Sprintf("[daemon]\nsocket = %q\n[audit]\nsocket = \"\"\n", filepath.Join(dir, "daemon.sock"))
	zinotest.Write(t, file, sockets)
	cfg, err := config.Load(file, "mcp")
	zinotest.Must(t, err)
	e.cfg = cfg
	e.client = rpctest.Client(t, "mcp", cfg.MCP.Socket)
	return e
}

// startExc starts exc for it.
func (e *env) startExc() {
	e.Helper()
	e.exc = e.program("zino-exc")
	client := rpctest.Client(e, "exc", e.cfg.Exc.Socket)
	e.exc.Eventually("exc answers", func() bool {
		_, err := rpc.Call(e.Context(), client, proto.Ping, proto.PingRequest{})
		return err == nil
	})
}

// program starts a program of the services.
func (e *env) program(name string) *zinotest.Process {
	e.Helper()
	cmd := exec.Command(filepath.Join(bin, name), "--config", filepath.Join(e.dir, "ZINO.toml"))
	cmd.Dir, cmd.Env = e.dir, append(os.Environ(), zinotest.CoverEnv()...)
	p := zinotest.Start(e, cmd)
	e.logs = append(e.logs, p)
	return p
}

func (e *env) servers(req proto.ListServers) proto.ServerList {
	e.Helper()
	list, err := rpc.Call(e.Context(), e.client, proto.MCPServers, req)
	zinotest.Must(e, err)
	return list
}

// state returns the state of a server.
func (e *env) state(name string) proto.MCPServer {
	e.Helper()
	for _, s := range e.servers(proto.ListServers{}).Servers {
		if s.Name == name {
			return s
		}
	}
	e.Fatalf("no server %s", name)
	return proto.MCPServer{}
}

// answer is a decoded result.
type answer struct {
	OK   bool
	Data struct {
		Text       string
		Structured json.RawMessage
		Resources  []link
		Files      []file
		Wanted     []string `json:"input_wanted"`
	}
	Error struct {
		Code, Message string
		Schema        json.RawMessage
	}
	attachments []proto.FileData
	progress    []string
}

// request calls a tool.
func (e *env) request(ctx context.Context, req proto.CallTool) (a answer, err error) {
	reply, err := rpc.CallEvents(ctx, e.client, proto.MCPCall, req, func(typ string, payload []byte) error {
		var out proto.ToolOutput
		if err := wire.DecodeReply(payload, &out); err != nil || typ != proto.TypeToolOutput {
			return fmt.Errorf("%s: %w", typ, err)
		}
		a.progress = append(a.progress, out.Text)
		return nil
	})
	if err == nil {
		err = json.Unmarshal(reply.Result, &a)
	}
	a.attachments = reply.Attachments
	return a, err
}

// ask calls a tool of a server.
func (e *env) ask(server, tool, arguments string) answer {
	e.Helper()
	a, err := e.request(e.Context(), proto.CallTool{Server: server, Tool: tool, Arguments: proto.Raw(arguments), Events: true})
	if err != nil {
		e.Errorf("%s.%s: %v", server, tool, err)
	}
	return a
}

// text calls a tool and returns its text.
func (e *env) text(server, tool, arguments string) string {
	e.Helper()
	a := e.ask(server, tool, arguments)
	if !a.OK {
		e.Errorf("%s.%s: %+v", server, tool, a.Error)
	}
	return a.Data.Text
}

// fails calls a tool and returns its error.
func (e *env) fails(server, tool, arguments string) string {
	e.Helper()
	a := e.ask(server, tool, arguments)
	if a.OK {
		e.Errorf("%s.%s: %+v", server, tool, a.Data)
	}
	return a.Error.Code + ": " + a.Error.Message
}

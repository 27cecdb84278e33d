package constellation_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"zino/pkg/audit"
	"zino/pkg/config"
	"zino/pkg/fakellm"
	"zino/pkg/rpc"
	"zino/pkg/service"
	"zino/pkg/zinotest"
	"zino/pkg/zinotest/rpctest"
	"zino/proto"
	client "zino/services/mcp"
)

// badServer is an MCP server over standard input and output. Its arguments say how it
// misbehaves.
func badServer(args []string) error {
	has := func(arg string) bool { return slices.Contains(args, arg) }
	out := bufio.NewWriter(os.Stdout)
	flood := func(text string, n int) {
		for i := 0; n < 0 || i < n; i++ {
			if _, err := out.WriteString(text); err != nil {
				os.Exit(1)
			}
		}
	}
	hang := func() {
		signal.Ignore(syscall.SIGTERM)
		for {
			time.Sleep(time.Hour)
		}
	}
	if file := os.Getenv("STARTED"); file != "" {
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			return err
		}
	}
	switch {
	case has("exit"):
		return fmt.Errorf("no configuration for %s", os.Getenv("TOKEN"))
	case has("hang"):
		hang()
	case has("flood"):
		flood(strings.Repeat("flood ", 1000)+"\n", -1)
	}
	tool := func(name, more string) string { return fmt.Sprintf(`{"name":%q%s}`, name, more) }
	object := `,"inputSchema":{"type":"object"}`
	tools := []string{tool("use", object+`,"description":"Is used."`)}
	switch {
	case has("schemas"):
		tools = append(tools, tool("list", `,"inputSchema":["x"]`), tool("cycle", `,"inputSchema":{"$ref":"#"}`), tool("remote", `,"inputSchema":{"$ref":"https://example.com/schema"}`), tool("large", `,"inputSchema":{"type":"object","description":"`+strings.Repeat("x", 1<<20)+`"}`), tool("number", `,"inputSchema":7`), `null`)
	case has("deep-schema"):
		tools = append(tools, tool("deep", `,"inputSchema":`+strings.Repeat(`{"not":`, 5000)+`{}`+strings.Repeat("}", 5000)))
	case has("names"):
		tools = append(tools, tool(strings.Repeat("n", 5000), object), tool("described", object+`,"description":"`+strings.Repeat("d", 2<<20)+`"`), tool("\u202ereversed", object), tool("", object))
	case has("twice"):
		tools = append(tools, tool("use", `,"description":"Another one."`), tool("use", ""))
	case has("many"):
		for i := range 5000 {
			tools = append(tools, tool(fmt.Sprint("tool", i), object))
		}
	case has("secret"):
		tools = append(tools, tool("described", object+`,"description":"The token is `+os.Getenv("TOKEN")+`."`))
	}
	in := bufio.NewReader(os.Stdin)
	for page := 1; ; {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return nil
		}
		var req struct {
			ID     json.RawMessage
			Method string
		}
		if err := json.Unmarshal(line, &req); err != nil {
			return err
		}
		if has("prints") {
			out.WriteString("Request: " + req.Method + "\n[1]\n{\"level\":\"info\"}\n{\n\xff\n")
		}
		if req.ID == nil {
			continue
		}
		reply := func(format string, a ...any) {
			fmt.Fprintf(out, `{"jsonrpc":"2.0","id":%s,%s}`+"\n", req.ID, fmt.Sprintf(format, a...))
		}
		text := func(s string) { reply(`"result":{"content":[{"type":"text","text":%q}]}`, s) }
		switch req.Method {
		case "server/discover":
			switch {
			case has("die-discover"):
				os.Exit(3)
			case !has("no-discover"):
				reply(`"error":{"code":-32601,"message":"no such method"}`)
			}
		case "initialize":
			if has("refuse") {
				reply(`"error":{"code":-32000,"message":"the token %s is not valid"}`, os.Getenv("TOKEN"))
				break
			}
			reply(`"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true},"prompts":{},"resources":{}},"serverInfo":{"name":"bad","version":"1"},"instructions":%q}`, "Use "+os.Getenv("TOKEN"))
		case "tools/list":
			page++
			if has("pages") {
				reply(`"result":{"tools":[],"nextCursor":"%d"}`, page)
				break
			}
			reply(`"result":{"tools":[%s]}`, strings.Join(tools, ","))
		case "prompts/list":
			reply(`"result":{"prompts":[{"name":"ask","description":%q}]}`, "With "+os.Getenv("TOKEN"))
		case "resources/read":
			reply(`"result":{"contents":[{"uri":"test://a","text":%q}]}`, "Read with "+os.Getenv("TOKEN"))
		case "prompts/get":
			text := "Use " + os.Getenv("TOKEN") + "."
			reply(`"result":{"messages":[{"role":"user","content":{"type":"text","text":%q}}]}`, text)
		case "tools/call":
			switch {
			case has("crash"):
				fmt.Fprintln(os.Stderr, "panic: crashed with", os.Getenv("TOKEN"))
				os.Exit(7)
			case has("hang-in-call"):
				hang()
			case has("flood-in-call"):
				flood(`{"flood":"`+strings.Repeat("x", 1000)+"\"}\n", -1)
			case has("stderr"):
				for range 200 {
					os.Stderr.Write(bytes.Repeat([]byte("noise "), 10_000))
				}
			case has("changes"):
				flood(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`+"\n", 5000)
			case has("big"):
				text(strings.Repeat("x", 20<<20))
			case has("shape"):
				reply(`"result":7`)
			case has("other-id"):
				fmt.Fprintln(out, `{"jsonrpc":"2.0","id":"none","result":{}}`)
				req.Method = ""
			case has("error"):
				reply(`"error":{"code":-32000,"message":"not with %s"}`, os.Getenv("TOKEN"))
			case has("deep-result"):
				reply(`"result":{"content":[],"structuredContent":%s1%s}`, strings.Repeat("[", 9000), strings.Repeat("]", 9000))
			}
			if req.Method != "" && !has("big") && !has("shape") && !has("error") && !has("deep-result") {
				text("used with " + os.Getenv("TOKEN"))
			}
		default:
			reply(`"error":{"code":-32601,"message":"no such method"}`)
		}
		if out.Flush() != nil {
			return nil
		}
	}
}

// useServer returns the definition of a server that badServer is.
func useServer(mark string, args ...string) config.MCPServer {
	exe, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return config.MCPServer{
		Command: append([]string{exe, mark}, args...),
		Env:     map[string]string{"ZINOTEST_ROLE": "mcp-server", "GORACE": "atexit_sleep_ms=0"},
	}
}

// serveClient starts the client of MCP servers beside the constellation.
func (e *agentsEnv) serveClient() {
	e.t.Helper()
	trail := audit.Open(e.cfg, "mcp", e.logs.Logger())
	s, err := client.New(e.cfg, e.logs.Logger().With("service", "mcp"))
	zinotest.Must(e.t, err)
	s.UseAudit(trail)
	srv := rpc.NewServer("mcp", e.logs.Logger().With("service", "mcp"))
	s.Register(srv)
	l, err := service.ListenAndServe(srv, "mcp", e.cfg.MCP.Socket)
	zinotest.Must(e.t, err)
	e.t.Cleanup(func() {
		l.Close()
		zinotest.Must(e.t, s.Close())
		zinotest.Must(e.t, trail.Close())
	})
}

// forward asks mcp through the daemon, as zino mcp does, and returns the answer.
func (e *agentsEnv) forward(request string) string {
	e.t.Helper()
	return strings.Join(ask(e.t, e.cfg.Daemon.Socket, fmt.Sprintf(`{"type":"forward","service":"mcp","request":%s}`, request)), "\n")
}

// useClient configures servers for a constellation with a client of them.
func useClient(t *testing.T, cfg *config.Config, servers map[string]config.MCPServer) {
	dir := filepath.Dir(cfg.Daemon.Socket)
	t.Setenv("ZINO_HOME", filepath.Join(dir, "home"))
	cfg.MCP.Socket, cfg.MCP.DataDir, cfg.MCP.Servers = filepath.Join(dir, "mcp.sock"), filepath.Join(dir, "mcp"), servers
}

// useTool is a call of the model of the tool of a server.
func useTool(server string) fakellm.Call {
	return fakellm.Call{Name: "mcp_call", Args: fmt.Sprintf(`{"server":%q,"tool":"use","arguments":{}}`, server)}
}

// resources counts what must not grow.
func resources(t *testing.T) (descriptors, goroutines int, heap uint64) {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	zinotest.Must(t, err)
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return len(entries), runtime.NumGoroutine(), m.HeapAlloc
}

// TestBadServers has a model use servers that misbehave, all in one turn: each call has one
// result, the turn ends, nothing grows, and no process is left.
func TestBadServers(t *testing.T) {
	table := []struct{ name, want string }{
		{"good", `"ok":true`},
		{"exit", `"code":"unavailable","message":"exit: no configuration for`},
		{"missing", `"code":"unavailable","message":"missing: `},
		{"hang", `"code":"unavailable","message":"hang: it did not start within 2s"`},
		{"flood", `"code":"unavailable","message":"flood: it did not start within 2s"`},
		{"no-discover", `"ok":true`},
		{"die-discover", `"ok":true`},
		{"refuse", `"code":"unavailable","message":"refuse: the token  is not valid"`},
		{"crash", `"code":"unavailable","message":"crash: panic: crashed with"`},
		{"hang-in-call", `"code":"timeout","message":"hang-in-call gave no answer in time"`},
		{"flood-in-call", `"code":"timeout","message":"flood-in-call gave no answer in time"`},
		{"other-id", `"code":"timeout","message":"other-id gave no answer in time"`},
		{"stderr", `"ok":true`},
		{"changes", `"ok":true`},
		{"prints", `"ok":true`},
		{"big", `"code":"too_large","message":"big: the answer has 20971`},
		{"shape", `"code":"unavailable","message":"shape: json: cannot unmarshal`},
		{"error", `"code":"tool_error","message":"error: not with`},
		{"deep-result", `"code":"tool_error","message":"deep-result: the answer cannot be read: `},
		{"schemas", `"ok":true`},
		{"deep-schema", `"code":"unavailable","message":"deep-schema: the answer cannot be read: `},
		{"names", `"ok":true`},
		{"twice", `"ok":true`},
		{"many", `"ok":true`},
		{"pages", `"code":"unavailable","message":"pages: it did not start within 2s"`},
	}
	mark := "mark-" + filepath.Base(zinotest.Dir(t))
	servers := map[string]config.MCPServer{}
	var calls []fakellm.Call
	for _, row := range table {
		s := useServer(mark, row.name)
		switch row.name {
		case "missing":
			s.Command = []string{"/none/such"}
		case "hang", "flood", "pages":
			s.StartSecs = 2
		case "hang-in-call", "flood-in-call", "other-id":
			s.TimeoutSecs = 2
		}
		servers[row.name] = s
		calls = append(calls, useTool(row.name))
	}
	e := newAgents(t, func(cfg *config.Config) {
		useClient(t, cfg, servers)
		cfg.MCP.IdleSecs = 0.1
		cfg.Agr.LoopWarn, cfg.Agr.LoopStop = 0, 0
	}, fakellm.Turn{Match: "begin", Calls: calls}, fakellm.Turn{Text: "Done."}, fakellm.Turn{Match: "begin", Calls: calls}, fakellm.Turn{Text: "Done."})
	e.serveClient()
	descriptors, goroutines, heap := 0, 0, uint64(0)
	for round := range 2 {
		e.begin(proto.TurnStart{})
		for i, row := range table {
			var results []event
			zinotest.Eventually(t, "the result of "+row.name, func() bool {
				results = e.log("parent", proto.TypeToolResult)
				return len(results) > round*len(table)+i
			})
			if got := string(results[round*len(table)+i].Output); !strings.Contains(got, row.want) {
				t.Errorf("round %d, %s: %.300s", round, row.name, got)
			}
		}
		zinotest.Equal(t, "state", e.end("parent").State, proto.TurnDone)
		zinotest.Equal(t, "results", len(e.log("parent", proto.TypeToolResult)), (round+1)*len(table))
		zinotest.EventuallyIn(t, 20*time.Second, "no server is left", func() bool { return len(zinotest.Processes(mark)) == 0 })
		if round == 0 { // the second one may grow by what is kept of an idle connection
			descriptors, goroutines, heap = resources(t)
			continue
		}
		zinotest.Eventually(t, "nothing has grown", func() bool {
			d, g, h := resources(t)
			return d <= descriptors+8 && g <= goroutines+20 && h <= heap+16<<20
		})
	}
	info, err := os.Stat(filepath.Join(e.cfg.MCP.DataDir, "catalog.json"))
	zinotest.Must(t, err)
	if info.Size() > 4<<20 {
		t.Errorf("the catalogue has %d bytes", info.Size())
	}
	for line := range strings.Lines(e.logs.String()) {
		if strings.Contains(line, "hold_session") && strings.Contains(line, "error=") {
			t.Errorf("the end of a turn is logged as an error: %s", line)
		}
	}
}

// echoServer is a remote server whose tool, prompt, resource and errors repeat the secret in
// a header.
func echoServer(t *testing.T) (url string, got func() []string) {
	var mu sync.Mutex
	var seen []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		secret := r.Header.Get("X-Secret")
		mu.Lock()
		seen = append(seen, secret)
		mu.Unlock()
		var req struct {
			ID     json.RawMessage
			Method string
		}
		if r.URL.Path != "/mcp" || json.NewDecoder(r.Body).Decode(&req) != nil {
			http.Error(w, "no page for "+secret, http.StatusInternalServerError)
			return
		}
		if req.ID == nil {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		result := ""
		switch req.Method {
		case "initialize":
			result = fmt.Sprintf(`{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"far","version":"1"},"instructions":%q}`, secret)
		case "tools/list":
			result = fmt.Sprintf(`{"tools":[{"name":"use","description":%q,"inputSchema":{"type":"object"}}]}`, secret)
		case "tools/call":
			result = fmt.Sprintf(`{"content":[{"type":"text","text":%q}],"structuredContent":{"secret":%[1]q}}`, secret)
		}
		w.Header().Set("Content-Type", "application/json")
		if result == "" {
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":%q}}`, req.ID, secret)
			return
		}
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, req.ID, result)
	}))
	t.Cleanup(s.Close)
	return s.URL, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(seen)
	}
}

// TestServerCanaries gives servers secrets in a variable, in a header, and in an entry that a
// client brings, has them repeat these wherever they can, and looks for them in the requests
// to the model, packets, logs at DEBUG, the audit, files, answers to zino mcp, and the
// environments of other processes.
func TestServerCanaries(t *testing.T) {
	const variable, header, brought = "CANARY-variable-5b1e09", "CANARY-header-77c2d4", "CANARY-brought-90aa31"
	canaries := []string{variable, header, brought}
	mark := "mark-" + filepath.Base(zinotest.Dir(t))
	far, seen := echoServer(t)
	servers := map[string]config.MCPServer{
		"far":    {URL: far + "/mcp", Secrets: map[string]string{"X-Secret": "header"}},
		"broken": {URL: far + "/none", Secrets: map[string]string{"X-Secret": "header"}},
		"other":  useServer(mark+"-other", "good"),
	}
	var calls []fakellm.Call
	for _, name := range []string{"secret", "exit", "crash", "refuse", "error", "far", "broken", "other", "mine"} {
		if _, ok := servers[name]; !ok && name != "mine" {
			s := useServer(mark+"-"+name, name)
			s.Secrets = map[string]string{"TOKEN": "variable"}
			servers[name] = s
		}
		calls = append(calls, useTool(name))
	}
	exe, err := os.Executable()
	zinotest.Must(t, err)
	mine, err := json.Marshal(map[string]any{"mcpServers": map[string]any{"mine": map[string]any{
		"command": exe, "args": []string{mark + "-mine", "good"}, "env": map[string]string{"ZINOTEST_ROLE": "mcp-server", "GORACE": "atexit_sleep_ms=0", "OTHER": brought},
	}}})
	zinotest.Must(t, err)
	e := newAgents(t, func(cfg *config.Config) {
		useClient(t, cfg, servers)
		cfg.Agr.LoopWarn, cfg.Agr.LoopStop = 0, 0
	}, fakellm.Turn{Match: "begin", Calls: append([]fakellm.Call{{Name: "mcp_search", Args: `{}`}, {Name: "mcp_search", Args: `{"query":"described use"}`}}, calls...)}, fakellm.Turn{Text: "Done."},
		fakellm.Turn{Calls: []fakellm.Call{useTool("secret")}}, fakellm.Turn{Text: "Done."})
	e.serveClient()
	direct := rpctest.Client(t, "mcp", e.cfg.MCP.Socket)
	for name, value := range map[string]string{"variable": variable, "header": header} {
		zinotest.Equal(t, "stored", e.forward(fmt.Sprintf(`{"type":"secret_set","name":%q,"value":%q}`, name, value)), `{"type":"ok"}`)
	}
	places := map[string]string{}
	e.begin(proto.TurnStart{MCPServers: mine})
	var packets strings.Builder
	end, err := rpc.CallEvents(t.Context(), e.daemon, proto.DaemonTurnFollow, proto.TurnFollow{SessionID: "parent"}, func(_ string, payload []byte) error {
		packets.Write(payload)
		return nil
	})
	zinotest.Must(t, err)
	zinotest.Equal(t, "state", end.State, proto.TurnDone)
	places["packets"] = packets.String()
	results := e.log("parent", proto.TypeToolResult)
	zinotest.Equal(t, "results", len(results), len(calls)+2)
	for _, i := range []int{2, 3, 4, 5, 6, 7} { // of servers that have said a secret
		zinotest.Contains(t, "result", string(results[i].Output), "[masked:")
	}
	zinotest.Contains(t, "other", string(results[9].Output), `"ok":true`)
	zinotest.Contains(t, "mine", string(results[10].Output), `"ok":true`)
	for _, secret := range seen() {
		zinotest.Equal(t, "the header", secret, header)
	}
	owners := map[string]bool{}
	for pid, line := range zinotest.CommandLines() {
		environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		if err != nil || pid == os.Getpid() {
			continue // it has ended, or is another user's
		}
		for _, secret := range canaries {
			if !strings.Contains(string(environ), secret) {
				continue
			}
			isMine, isOther := strings.Contains(line, mark+"-mine"), strings.Contains(line, mark+"-other")
			if secret == header || isOther || isMine != (secret == brought) || !strings.Contains(line, mark) {
				t.Errorf("%s is in the environment of %s", secret, line)
			}
			owners[secret] = true
		}
	}
	if !owners[variable] || !owners[brought] || len(zinotest.Processes(mark+"-other")) == 0 {
		t.Errorf("processes have %v", owners)
	}

	for name := range servers {
		places["zino mcp test "+name] = e.forward(fmt.Sprintf(`{"type":"test","server":%q,"tool":"use"}`, name))
	}
	places["zino mcp list"] = e.forward(`{"type":"servers","definitions":true}`)
	places["stats"] = e.forward(`{"type":"stats"}`)
	places["commands"] = strings.Join(ask(t, e.cfg.Daemon.Socket, fmt.Sprintf(`{"type":"commands","root":%q}`, e.root)), "\n")
	zinotest.Contains(t, "commands", places["commands"], "mcp__secret__ask")
	prompt, err := rpc.Call(t.Context(), direct, proto.MCPPrompt, proto.GetMCPPrompt{Server: "secret", Name: "ask"})
	zinotest.Must(t, err)
	zinotest.Contains(t, "prompt", prompt.Text, "Use [masked:")
	read, err := rpc.Call(t.Context(), direct, proto.MCPRead, proto.ReadResource{Server: "secret", URI: "test://a"})
	zinotest.Must(t, err)
	zinotest.Contains(t, "resource", string(read.Result), "[masked:")
	_, err = rpc.Call(t.Context(), e.daemon, proto.DaemonTurnStart, proto.TurnStart{SessionID: "parent", Root: e.root, Command: "mcp__secret__ask"})
	zinotest.Must(t, err)
	zinotest.Equal(t, "state", e.end("parent").State, proto.TurnDone)

	for i, request := range e.provider.Requests() {
		places[fmt.Sprint("request ", i)] = string(request.Body)
	}
	places["logs"] = e.logs.String()
	zinotest.Contains(t, "logs", places["logs"], "content=", "service=mcp", "service=exc", "service=daemon", "service=agr", "service=mem", "service=rtr")
	zinotest.Eventually(t, "the catalogue is saved", func() bool {
		text, err := os.ReadFile(filepath.Join(e.cfg.MCP.DataDir, "catalog.json"))
		return err == nil && strings.Contains(string(text), "The token is [masked:")
	})
	audited := false
	for path, content := range e.filesOfServices() {
		if filepath.Base(path) == "secrets.json" {
			zinotest.Contains(t, "the secret store", content, variable, header)
			continue
		}
		audited = audited || strings.Contains(content, "mcp:secret/use")
		places[path] = content
	}
	zinotest.Equal(t, "the audit has the calls", audited, true)
	for place, content := range places {
		for _, secret := range canaries {
			if at := strings.Index(content, secret); at >= 0 {
				t.Errorf("%s: %s is there: %s", place, secret, content[max(0, at-200):min(len(content), at+len(secret)+20)])
			}
		}
	}
}

// TestProjectServersSwapped swaps a trusted .mcp.json for another one, by renames and by links,
// while turns and commands use its servers: a server starts as the trusted content says, or
// not at all.
func TestProjectServersSwapped(t *testing.T) {
	e := newAgents(t, func(cfg *config.Config) {
		useClient(t, cfg, nil)
		cfg.MCP.IdleSecs = 0.001 // most uses start it
		cfg.Agr.LoopWarn, cfg.Agr.LoopStop = 0, 0
	}, forever("begin", fakellm.Turn{Calls: []fakellm.Call{useTool("here")}}), forever("", fakellm.Turn{Text: "Done."}))
	e.serveClient()
	var err error
	e.root, err = filepath.EvalSymlinks(e.root)
	zinotest.Must(t, err)
	exe, err := os.Executable()
	zinotest.Must(t, err)
	outside := zinotest.Dir(t)
	started := func(name string) string { return filepath.Join(outside, name+".started") }
	for _, name := range []string{"good", "evil"} {
		content, err := json.Marshal(map[string]any{"mcpServers": map[string]any{"here": map[string]any{
			"command": exe, "args": []string{name}, "env": map[string]string{"ZINOTEST_ROLE": "mcp-server", "GORACE": "atexit_sleep_ms=0", "STARTED": started(name)},
		}}})
		zinotest.Must(t, err)
		zinotest.WriteFiles(t, e.root, map[string]string{name + ".json": string(content)})
		zinotest.WriteFiles(t, outside, map[string]string{name + ".json": string(content)})
	}
	file := filepath.Join(e.root, ".mcp.json")
	zinotest.Must(t, os.Link(filepath.Join(e.root, "good.json"), file))
	e.trustAll()
	report, err := rpc.Call(t.Context(), e.daemon, proto.DaemonTrust, proto.TrustRequest{Root: e.root})
	zinotest.Must(t, err)
	sum := report.Files[0].SHA256
	e.begin(proto.TurnStart{}) // it stores that the session has the tool
	zinotest.Equal(t, "state", e.end("parent").State, proto.TurnDone)
	zinotest.Contains(t, "the first result", string(e.log("parent", proto.TypeToolResult)[0].Output), `"ok":true`)
	zinotest.Read(t, started("good"))
	stop, swaps := make(chan struct{}), make(chan int)
	go func() {
		put := func(n int) error {
			next := filepath.Join(e.root, "next")
			_ = os.Remove(next) // it may be there
			name := []string{"evil.json", "good.json"}[n%2]
			switch n / 2 % 4 {
			case 0: // another file
				data, err := os.ReadFile(filepath.Join(e.root, name))
				if err == nil {
					err = os.WriteFile(next, data, 0o600)
				}
				if err != nil {
					return err
				}
			case 1: // a link within the project
				if err := os.Symlink(name, next); err != nil {
					return err
				}
			case 2: // a link out of it
				if err := os.Symlink(filepath.Join(outside, name), next); err != nil {
					return err
				}
			case 3: // written in place
				data, err := os.ReadFile(filepath.Join(e.root, name))
				if err != nil {
					return err
				}
				if err := os.WriteFile(next, []byte("{}"), 0o600); err != nil {
					return err
				}
				if err := os.Rename(next, file); err != nil {
					return err
				}
				return os.WriteFile(file, data, 0o600)
			}
			return os.Rename(next, file)
		}
		for n := 0; ; n++ {
			select {
			case <-stop:
				swaps <- n
				return
			default:
				if err := put(n); err != nil {
					t.Error(err)
				}
			}
		}
	}()
	const rounds = 30
	used := 0
	for range rounds {
		e.begin(proto.TurnStart{})
		zinotest.Equal(t, "state", e.end("parent").State, proto.TurnDone)
		_, err := rpc.Call(t.Context(), e.daemon, proto.DaemonSetTrust, proto.SetTrust{Path: file, SHA256: sum, Trusted: new(true)})
		if err != nil && !errors.Is(err, proto.ErrInvalid) && !errors.Is(err, proto.ErrNotFound) {
			t.Error(err)
		}
		for _, request := range []string{`{"type":"test","server":"here","tool":"use","root":%q}`, `{"type":"servers","root":%q}`} {
			if answer := e.forward(fmt.Sprintf(request, e.root)); strings.Contains(answer, "evil") {
				t.Errorf("an answer has the other content: %s", answer)
			} else if strings.Contains(answer, `"result":{"ok":true`) {
				used++
			}
		}
	}
	close(stop)
	n := <-swaps
	for _, result := range e.log("parent", proto.TypeToolResult) {
		switch output := string(result.Output); {
		case strings.Contains(output, `"ok":true`):
			used++
		case !strings.Contains(output, `no MCP server`):
			t.Errorf("result %s", output)
		}
	}
	t.Logf("%d swaps, used %d times of %d", n, used, 2*rounds+1)
	if _, err := os.Stat(started("evil")); err == nil {
		t.Error("a server was started as the other content says")
	}
}

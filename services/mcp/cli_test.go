package mcp

import (
	"bytes"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"zino/pkg/rpc"
	"zino/pkg/zinotest"
	"zino/pkg/zinotest/rpctest"
	"zino/proto"
)

// newCommands starts exc, mcp and a daemon for the command zino mcp.
func newCommands(t *testing.T, text string) *env {
	t.Helper()
	e := prepare(t, text)
	zinotest.Must(t, zinotest.Build(bin, "zino/services/cli/zino", "zino/services/daemon/zino-daemon"))
	e.startExc()
	e.startMCP()
	e.program("zino-daemon")
	daemon := rpctest.Client(t, "daemon", filepath.Join(e.dir, "daemon.sock"))
	zinotest.Eventually(t, "the daemon answers", func() bool {
		_, err := rpc.Call(t.Context(), daemon, proto.Ping, proto.PingRequest{})
		return err == nil
	})
	return e
}

// zino returns the command zino mcp.
func (e *env) zino(args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(bin, "zino"), append([]string{"--config", filepath.Join(e.dir, "ZINO.toml"), "mcp"}, args...)...)
	cmd.Dir = e.dir
	cmd.Env = append([]string{"HOME=" + e.dir, "ZINO_HOME=" + os.Getenv("ZINO_HOME"), "XDG_RUNTIME_DIR=" + e.dir, "PATH=" + os.Getenv("PATH"), "TERM=xterm"}, zinotest.CoverEnv()...)
	return cmd
}

// run runs zino mcp and returns its exit status and what it prints on both streams.
func (e *env) run(input string, args ...string) (status int, out string) {
	e.Helper()
	var b bytes.Buffer
	cmd := e.zino(args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &b, &b
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		e.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), b.String()
}

// prints runs zino mcp and checks its exit status and what it prints.
func (e *env) prints(status int, want string, args ...string) {
	e.Helper()
	got, out := e.run("", args...)
	if got != status || out != want {
		e.Errorf("zino mcp %q: status %d, %s\nwant %d, %s", args, got, out, status, want)
	}
}

// TestCommands adds, tests and removes servers with the programs.
func TestCommands(t *testing.T) {
	e := newCommands(t, "# Mine.\n")
	file := filepath.Join(e.dir, "ZINO.toml")
	before := zinotest.Read(t, file)
	exe, err := os.Executable()
	zinotest.Must(t, err)
	e.prints(0, "No MCP servers. Add one: zino mcp add NAME -- COMMAND\n", "list")
	e.prints(1, "Error [usage]: no MCP server \"gihub\"; zino mcp list shows all\n", "remove", "gihub")

	status, out := e.run("value-of-secret\n", "add", "github", "--env", "ZINOTEST_ROLE=server", "--env", "GORACE=atexit_sleep_ms=0", "--secret", "TOKEN", "--", exe)
	if zinotest.Contains(t, "add", out, "Added github to "+file, "github  user  stdio  running", "\n  echo: Echoes a name."); status != 0 || strings.Contains(out, "value-of-secret") {
		t.Errorf("status %d\n%s", status, out)
	}
	text := zinotest.Read(t, file)
	if !strings.HasPrefix(text, strings.TrimRight(before, "\n")) || strings.Contains(text, "value-of-secret") {
		t.Errorf("the configuration is\n%s", text)
	}
	status, out = e.run("", "test", "github", "--call", "environment", "--args", `{"name":"TOKEN"}`)
	if zinotest.Contains(t, "the server's variable", out, `{"ok":true,"data":{"text":"`); status != 0 || strings.Contains(out, "value-of-secret") || strings.Contains(out, `"text":""`) {
		t.Errorf("status %d\n%s", status, out)
	}
	status, out = e.run("", "list", "--json")
	if zinotest.Contains(t, "list", out, `{"name":"github","source":"user","transport":"stdio","state":"running","tools":`); status != 0 || strings.Count(out, "\n") != 1 {
		t.Errorf("status %d\n%s", status, out)
	}
	for _, command := range []string{"remove", "test", "login", "logout"} {
		e.prints(1, "Error [usage]: no MCP server \"gihub\"; did you mean \"github\"?\n", command, "gihub")
	}
	e.prints(1, "Error [usage]: there is an MCP server \"github\" in "+file+"; zino mcp remove github removes it\n", "add", "github", "--", "x")
	e.prints(1, "Error [usage]: github is a program: it has no login\n", "login", "github")
	e.prints(1, "Error [usage]: github has no login\n", "logout", "github")

	status, out = e.run("", "add", "broken", "--", "/none/such")
	if zinotest.Contains(t, "a server that does not start", out, "Added broken to ", "broken  user  stdio", "/none/such"); status != 1 || !strings.Contains(zinotest.Read(t, file), "[mcp.servers.broken]") {
		t.Errorf("status %d\n%s", status, out)
	}
	e.prints(0, "Removed broken from "+file+".\n", "remove", "broken")
	e.prints(0, "Removed github from "+file+".\n", "remove", "github")
	zinotest.Equal(t, "the configuration", strings.TrimSpace(zinotest.Read(t, file)), strings.TrimSpace(before))
	e.prints(0, "No MCP servers. Add one: zino mcp add NAME -- COMMAND\n", "list")
	if strings.Contains(zinotest.Read(t, filepath.Join(e.dir, "home/mcp/secrets.json")), "value-of-secret") {
		t.Error("the secret is left")
	}
}

// TestSecretAtTerminal checks that a secret is not shown while it is typed.
func TestSecretAtTerminal(t *testing.T) {
	r := newRemote(t, true)
	e := newCommands(t, "")
	x := zinotest.NewTerminal(t)
	cmd := e.zino("add", "far", "--header", "X-Team=a b", "--secret", "Authorization", r.URL+"/mcp")
	x.Start(cmd)
	x.Shows("Authorization (it is not shown): ")
	x.Type("Bearer CANARY-typed\r")
	x.Shows("echo: Echoes a name.")
	zinotest.Equal(t, "status", x.Exit(), 0)
	if screen := strings.Join(x.Rows(200), "\n"); strings.Contains(screen, "CANARY") {
		t.Errorf("the terminal shows\n%s", screen)
	}
	for _, req := range r.requests {
		if req.Header.Get("X-Team") != "a b" || req.Header.Get("Authorization") != "Bearer CANARY-typed" {
			t.Errorf("%s %v", req.Method, req.Header)
		}
	}
}

// TestLoginCommand logs in with the programs, by the browser's callback and by a pasted
// address.
func TestLoginCommand(t *testing.T) {
	r := newRemote(t, false)
	e := newCommands(t, "[mcp.servers.far]\nurl = \""+r.URL+"/mcp\"\n[logging]\nlevel = \"DEBUG\"\n")
	zinotest.Equal(t, "before", e.fails("far", "echo", `{"name":"a"}`), "needs_login: run: zino mcp login far")
	e.prints(0, "far  user  http  needs_login      run: zino mcp login far\n", "list")

	cmd := e.zino()
	cmd.Args = append(cmd.Args[:3], "doctor")
	out, _ := cmd.CombinedOutput() // of other checks the result depends on the host
	zinotest.Contains(t, "doctor", string(out), "the MCP server far needs a login", "zino mcp login far")

	var said zinotest.Buffer
	begin := func() (cmd *exec.Cmd, back url.Values) {
		said.Reset()
		cmd = e.zino("login", "far")
		cmd.Stdout, cmd.Stderr = &said, &said
		zinotest.Must(t, cmd.Start())
		said.WaitFor(t, "Open this address in a browser:\n  http://", "\n", "&state=")
		zinotest.Eventually(t, "the whole address", func() bool { return strings.Count(said.String(), "\n") == 2 })
		u, err := url.Parse(strings.TrimSpace(strings.Split(said.String(), "\n")[1]))
		zinotest.Must(t, err)
		return cmd, u.Query()
	}
	visit := func(back url.Values, code, state string) int {
		resp, err := http.Get(fmt.Sprintf("%s?code=%s&state=%s", back.Get("redirect_uri"), code, state))
		zinotest.Must(t, err)
		resp.Body.Close()
		return resp.StatusCode
	}
	cmd, back := begin()
	zinotest.Equal(t, "another state", visit(back, "code-1", "wrong"), http.StatusOK)
	if err := cmd.Wait(); err == nil || !said.Contains("Error [", "state mismatch") {
		t.Errorf("%v\n%s", err, &said)
	}
	cmd, back = begin()
	zinotest.Equal(t, "no code", visit(back, "", back.Get("state")), http.StatusNotFound)
	zinotest.Equal(t, "the callback", visit(back, "code-1", back.Get("state")), http.StatusOK)
	if err := cmd.Wait(); err != nil || !said.Contains("Logged in to far.\n") {
		t.Errorf("%v\n%s", err, &said)
	}
	zinotest.Equal(t, "after", e.text("far", "echo", `{"name":"a"}`), "hello a")
	e.prints(0, "The tokens of far are forgotten.\n", "logout", "far")
	e.prints(1, "Error [usage]: far has no login\n", "logout", "far")

	x := zinotest.NewTerminal(t)
	cmd = e.zino("login", "far")
	x.Start(cmd)
	x.Shows("If the browser is on another host, paste the address that it ends at.")
	var address string
	for _, row := range x.Rows(4000) {
		if row = strings.TrimSpace(row); strings.HasPrefix(row, "http://") {
			address = row
		}
	}
	u, err := url.Parse(address)
	zinotest.Must(t, err)
	x.Type("http://127.0.0.1:1/callback\r")
	x.Shows("it has no code")
	x.Type("http://127.0.0.1:1/callback?code=code-1&state=" + u.Query().Get("state") + "\r")
	x.Shows("Logged in to far.")
	zinotest.Equal(t, "status", x.Exit(), 0)
	zinotest.Equal(t, "pasted", e.text("far", "echo", `{"name":"b"}`), "hello b")
	for _, log := range e.logs {
		if strings.Contains(log.Out.String()+log.Err.String(), "CANARY") {
			t.Error("a token is in a log")
		}
	}
}

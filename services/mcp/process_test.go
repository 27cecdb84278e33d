package mcp

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"zino/pkg/rpc"
	"zino/pkg/zinotest"
	"zino/proto"
)

// startMCP starts zino-mcp as a process.
func (e *env) startMCP() *zinotest.Process {
	e.Helper()
	p := e.program("zino-mcp")
	p.Eventually("mcp answers", func() bool {
		_, err := rpc.Call(e.Context(), e.client, proto.Ping, proto.PingRequest{})
		return err == nil
	})
	return p
}

// mark is an argument by which the processes of a test are found.
func mark(t *testing.T) string { return "mark-" + filepath.Base(zinotest.Dir(t)) }

// TestKilled: whichever process is killed, no server is left, nor what it has started.
func TestKilled(t *testing.T) {
	m := mark(t)
	e := prepare(t, server("one", "", m)+server("two", "", "fork", m))
	rounds := 20
	for i := range rounds {
		e.startExc()
		p := e.startMCP()
		e.text("one", "echo", `{"name":"a"}`)
		e.text("two", "echo", `{"name":"a"}`)
		if n := len(zinotest.Processes(m)); n < 2 {
			t.Fatalf("%d processes", n)
		}
		time.Sleep(time.Duration(rand.N(10)) * time.Millisecond)
		victim, other := p, e.exc
		if i%2 == 1 {
			victim, other = e.exc, p
		}
		victim.Signal(syscall.SIGKILL)
		zinotest.EventuallyIn(t, 10*time.Second, "no process is left", func() bool {
			return len(zinotest.Processes(m)) == 0 && len(zinotest.Processes("sleep 10007")) == 0
		})
		other.Kill()
		victim.Kill()
	}
}

// TestExcEnds: the end of exc is not a failure of its servers, however often it comes.
func TestExcEnds(t *testing.T) {
	e := prepare(t, server("test", ""))
	e.startExc()
	e = e.open()
	for range failuresMax + 1 {
		e.text("test", "echo", `{"name":"a"}`)
		e.exc.Kill()
		zinotest.Eventually(t, "the server is gone", func() bool { return e.state("test").State == proto.MCPIdle })
		zinotest.Contains(t, "without exc", e.fails("test", "echo", `{"name":"a"}`), "unavailable: test: ", "exc")
		e.startExc()
	}
}

// TestStopped: SIGTERM ends the servers.
func TestStopped(t *testing.T) {
	m := mark(t)
	e := prepare(t, server("one", "", m))
	e.startExc()
	p := e.startMCP()
	e.text("one", "echo", `{"name":"a"}`)
	p.Signal(syscall.SIGTERM)
	zinotest.Equal(t, "exit status", p.Exit(), 0)
	zinotest.Equal(t, "processes", len(zinotest.Processes(m)), 0)
	zinotest.Contains(t, "catalogue", zinotest.Read(t, filepath.Join(e.cfg.MCP.DataDir, "catalog.json")), `"name":"echo"`)
}

// TestSecretsStay: a secret is in the environment of its server, and nowhere else.
func TestSecretsStay(t *testing.T) {
	const canary = "CANARY-7d1f03c2"
	e := prepare(t, server("one", "secrets = { ONE_TOKEN = \"one\" }")+server("two", "")+"[logging]\nlevel = \"DEBUG\"\n")
	e.startExc()
	p := e.startMCP()
	_, err := rpc.Call(t.Context(), e.client, proto.MCPSecretSet, proto.SetSecret{Name: "one", Value: canary})
	zinotest.Must(t, err)
	if got := e.text("one", "environment", `{"name":"ONE_TOKEN"}`); !strings.HasPrefix(got, "[masked:secret:") {
		t.Errorf("its own: %s", got) // the server has it, its result does not
	}
	if strings.Contains(e.text("two", "environment", `{"name":""}`), canary) {
		t.Error("another server has it")
	}
	e.fails("one", "crash", `{}`)
	list, err := json.Marshal(e.servers(proto.ListServers{Definitions: true}))
	zinotest.Must(t, err)
	if strings.Contains(string(list), canary) {
		t.Error("the list has it")
	}
	p.Signal(syscall.SIGTERM)
	zinotest.Equal(t, "exit status", p.Exit(), 0)
	if strings.Contains(p.Err.String(), canary) {
		t.Errorf("the log of mcp has it: %s", p.Err)
	}
	if strings.Contains(e.exc.Err.String(), canary) {
		t.Errorf("the log of exc has it")
	}
	err = filepath.WalkDir(e.dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || filepath.Base(path) == "secrets.json" {
			return err
		}
		data, err := os.ReadFile(path)
		if strings.Contains(string(data), canary) {
			t.Errorf("%s has it", path)
		}
		return err
	})
	zinotest.Must(t, err)
}

// TestForget checks that nothing of a removed server is left, and that of another one with
// the same definition stays.
func TestForget(t *testing.T) {
	const confined = "sandbox = \"workspace-write\"\nsecrets = { A = \"one.A\", B = \"mine\" }\n"
	e := newRunning(t, server("one", confined)+server("two", "sandbox = \"workspace-write\"\n")+server("twin", "sandbox = \"workspace-write\"\n"))
	for _, name := range []string{"one.A", "mine"} {
		_, err := rpc.Call(t.Context(), e.client, proto.MCPSecretSet, proto.SetSecret{Name: name, Value: "value-of-" + name})
		zinotest.Must(t, err)
	}
	forget := func(name string) error {
		_, err := rpc.Call(t.Context(), e.client, proto.MCPForget, proto.ForgetServer{Server: name})
		return err
	}
	homes := filepath.Join(e.dir, "data/exc/mcp/home")
	kept := func() int {
		entries, err := os.ReadDir(homes)
		zinotest.Must(t, err)
		return len(entries)
	}
	for _, name := range []string{"one", "two"} {
		e.text(name, "echo", `{"name":"a"}`)
	}
	zinotest.Equal(t, "homes", kept(), 2)
	zinotest.Must(t, forget("one"))
	zinotest.Must(t, forget("two"))
	zinotest.Equal(t, "homes", kept(), 1)
	one := e.state("one")
	zinotest.Equal(t, "one", one.State+" "+fmt.Sprint(one.Instances), "new 0")
	v, err := e.secrets.read()
	zinotest.Must(t, err)
	zinotest.Equal(t, "secrets", fmt.Sprint(v.Secrets), "map[mine:value-of-mine]")
	zinotest.Equal(t, "two", e.text("two", "echo", `{"name":"a"}`), e.text("twin", "echo", `{"name":"a"}`))
	if err := forget("tow"); err == nil || err.Error() != `no MCP server "tow"; did you mean "two"?` {
		t.Errorf("an unknown name: %v", err)
	}
}

package exc

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"zino/pkg/config"
	"zino/pkg/rpc"
	"zino/pkg/zinotest"
	"zino/pkg/zinotest/rpctest"
	"zino/proto"
)

// peer is a service in its own process.
type peer struct {
	*zinotest.Process
	dir    string
	client *rpc.Client
	marked func() []string // lists the service and what it started
}

// startPeer starts a service in its own process.
func startPeer(t *testing.T) *peer {
	t.Helper()
	dir := zinotest.Dir(t)
	writeTools(t, dir, tools)
	return startPeerIn(t, dir)
}

// startPeerIn starts a service in a directory, perhaps one of a service that was
// killed.
func startPeerIn(t *testing.T, dir string, env ...string) *peer {
	t.Helper()
	marked := mark(t)
	cmd := zinotest.Command(t, "serve", dir)
	cmd.Env = append(append(cmd.Env, "RUNTIME_DIRECTORY="+dir), env...)
	p := &peer{zinotest.Start(t, cmd), dir, rpctest.Client(t, "exc", filepath.Join(dir, "s")), marked}
	p.Eventually("the service answers", func() bool {
		_, err := rpc.Call(t.Context(), p.client, proto.Ping, proto.PingRequest{})
		return err == nil
	})
	return p
}

// execute runs code that sleeps, and returns when the file up exists.
func (p *peer) execute(t *testing.T, up string) (answer chan error) {
	t.Helper()
	answer = make(chan error, 1)
	go func() {
		r, err := rpc.Call(context.Background(), p.client, proto.ExcExecute,
			proto.Execute{Executor: "bash", Code: "echo so far;" + daemons["deaf"] + waitUp + "sleep 1000"})
		answer <- errors.Join(err, interruptedAfter("so far\n", r))
	}()
	p.Eventually("the command is up", func() bool { return exists(up) })
	return answer
}

// workspaces lists the peer's directories for code.
func (p *peer) workspaces() []string {
	found, _ := filepath.Glob(filepath.Join(p.dir, workspacePrefix+"*"))
	return found
}

func TestNothingSurvivesKilledService(t *testing.T) {
	up := upFile(t)
	p := startPeer(t)
	answer := p.execute(t, up)
	p.Kill()
	if err := <-answer; err == nil {
		t.Error("an answer from a dead service")
	}
	zinotest.Eventually(t, "no process is left", func() bool { return len(p.marked()) == 0 })
	if len(p.workspaces()) != 1 {
		t.Fatalf("the dead service has %v", p.workspaces())
	}
	files, err := openWorkspace(p.dir, nil)
	zinotest.Must(t, err)
	defer files.close()
	if left := p.workspaces(); len(left) != 1 || left[0] != files.dir {
		t.Errorf("after the next start: %v", left)
	}
}

func TestNothingSurvivesStoppedService(t *testing.T) {
	up := upFile(t)
	p := startPeer(t)
	answer := p.execute(t, up)
	p.Signal(syscall.SIGTERM)
	zinotest.Equal(t, "status of the service", p.Exit(), 0)
	if left := append(p.marked(), p.workspaces()...); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
	if err := <-answer; err != nil {
		t.Errorf("the caller got %v", err)
	}
}

// sleeper is a command that sleeps until its request is canceled.
type sleeper struct {
	s      *service
	up     string
	marked func() []string
}

func (b sleeper) Begun(t testing.TB) {
	t.Helper()
	zinotest.Eventually(t, "the command is up", func() bool { return exists(b.up) && len(b.s.workspaces()) == 1 })
}

func (b sleeper) Canceled(t testing.TB) {
	t.Helper()
	zinotest.Eventually(t, "nothing is left", func() bool { return len(b.marked())+len(b.s.workspaces()) == 0 })
	os.Remove(b.up) // for the next request
}

func TestConformance(t *testing.T) {
	block := sleeper{up: upFile(t), marked: mark(t)}
	block.s = newService(t, func(c *config.Exc) { c.Timeout = 0 }, nil)
	code := "head -c 100000 /dev/zero; " + daemons["deaf"] + waitUp + "sleep 1000" // the whole output of the call is in a file
	quoted, err := json.Marshal(code)
	zinotest.Must(t, err)
	rpctest.Conformance(t, block.s.dial(t).Path, []rpctest.Case{
		{Name: "capabilities", Request: `{"type":"capabilities"}`},
		{Name: "unknown executor", Request: `{"type":"validate","executor":"cobol","code":""}`, Reply: `{"type":"validation","ok":false,"errors":"Unknown executor: cobol"}`},
		{Name: "run", Request: `{"type":"execute","executor":"bash","code":"echo hi"}`},
		{Name: "level", Request: `{"type":"execute","executor":"bash","code":"","sandbox":"tight"}`, Code: "invalid", Message: "unknown sandbox…"},
		{Name: "key", Request: `{"type":"call","tool":"bash","input":{"command":""},"key":"s/t/1/c/d"}`, Code: "invalid", Message: "invalid key…"},
		{Name: "recover", Request: `{"type":"execute","executor":"bash","code":"","key":"s/t/1/c","recover":true,"since":"2026-11-22T10:31:07Z"}`},
		{Name: "stop of a turn", Request: `{"type":"stop_turn","session_id":"s","turn":"t"}`, Reply: `{"type":"ok"}`},
		{Name: "stop of no turn", Request: `{"type":"stop_turn","session_id":"","turn":"t"}`, Code: "invalid", Message: "stop_turn needs session_id and turn"},
		{Name: "canceled run", Request: `{"type":"execute","executor":"bash","code":` + string(quoted) + `}`, Block: block},
		{Name: "canceled call", Request: `{"type":"call","tool":"bash","root":"` + block.s.dir + `","output_bytes":1000,"input":{"command":` + string(quoted) + `}}`, Block: block},
	})
}

func TestCapabilities(t *testing.T) {
	s := newService(t, nil, map[string]string{
		"lint.json": `{"meta":{"executor":"sh","file_extension":".x","static_analysis":"zino-no-such-command -x"}}`,
	})
	client := s.dial(t)
	got, err := rpc.Call(t.Context(), client, proto.ExcCapabilities, proto.CapabilitiesRequest{})
	if err != nil || got.Timeout != 30 || len(got.Executors) != 4 {
		t.Fatalf("got %+v, %v", got, err)
	}
	if e := got.Executors["bash"]; e != (proto.Executor{Command: "bash", FileExtension: ".sh"}) {
		t.Errorf("bash: %+v", e)
	}
	if e := got.Executors["python3"]; e.StaticAnalysis == nil || *e.StaticAnalysis != "python3 -m py_compile" || !e.HasValidator {
		t.Errorf("python3: %+v", e)
	}
	if e := got.Executors["sh"]; e.StaticAnalysis == nil || e.HasValidator {
		t.Errorf("sh: %+v", e)
	}
	for _, test := range []struct {
		level           proto.Level
		allow, reported bool // the network
	}{{"off", false, true}, {"workspace-write", false, false}, {"read-only", true, true}} {
		s := newService(t, func(c *config.Exc) { c.Sandbox, c.Network = test.level, test.allow }, nil)
		got, err := rpc.Call(t.Context(), s.dial(t), proto.ExcCapabilities, proto.CapabilitiesRequest{})
		if err != nil || got.Sandbox != test.level || got.Network != test.reported {
			t.Errorf("level %s: got %+v, %v", test.level, got, err)
		}
	}
	st, err := rpc.Call(t.Context(), client, proto.GetStats, proto.StatsRequest{})
	if err != nil || st.Info["executors"] != "bash, sh, zino-no-such-command, python3" {
		t.Errorf("stats: %+v, %v", st, err)
	}
	problems := strings.Join(st.Problems, "\n")
	zinotest.Contains(t, "problems", problems, "missing.json: command zino-no-such-command not found")
	zinotest.Equal(t, "warning about root", strings.Contains(problems, rootWarning), os.Geteuid() == 0)
}

package exc

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"zino/pkg/rpc"
	"zino/pkg/zinotest"
	"zino/proto"
)

// peer is a service in its own process.
type peer struct {
	*exec.Cmd
	dir    string
	client *rpc.Client
	marked func() []string // finds the service and what it started
}

// startPeer starts a service in its own process.
func startPeer(t *testing.T) *peer {
	t.Helper()
	dir := zinotest.Dir(t)
	writeTools(t, dir, tools)
	marked := mark(t)
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), serveEnv+"="+dir, "RUNTIME_DIRECTORY="+dir)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &peer{cmd, dir, &rpc.Client{Service: "exc", Path: filepath.Join(dir, "s")}, marked}
	t.Cleanup(func() {
		p.client.Close()
		if p.ProcessState == nil {
			p.Process.Kill()
			p.Wait()
		}
	})
	zinotest.Eventually(t, "it is done", func() bool {
		_, err := rpc.Call(t.Context(), p.client, proto.Ping, proto.PingRequest{})
		return err == nil
	})
	return p
}

// execute runs code that makes the file up and sleeps, and returns when it is up.
func (p *peer) execute(t *testing.T, up string) (answer chan error) {
	t.Helper()
	answer = make(chan error, 1)
	go func() {
		r, err := rpc.Call(context.Background(), p.client, proto.ExcExecute,
			proto.Execute{Executor: "bash", Code: "echo so far;" + daemons["deaf"] + waitUp + "sleep 1000"})
		answer <- errors.Join(err, interruptedAfter("so far\n", r))
	}()
	zinotest.Eventually(t, "the command is up", func() bool { return exists(up) })
	return answer
}

// interruptedAfter checks that r is the result of an interrupted run with that
// output.
func interruptedAfter(stdout string, r proto.Result) error {
	if !r.Interrupted || r.Stdout != stdout || r.ExitCode == 0 || r.TimedOut {
		return fmt.Errorf("not an interrupted run's result: %+v", r)
	}
	return nil
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
	if err := p.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	p.Wait()
	if err := <-answer; err == nil {
		t.Error("an answer from a dead service")
	}
	zinotest.Eventually(t, "no process is left", func() bool { return len(p.marked()) == 0 })
	if len(p.workspaces()) != 1 {
		t.Fatalf("the dead service has %v", p.workspaces())
	}
	t.Setenv("RUNTIME_DIRECTORY", p.dir)
	files, err := openWorkspace(temporary(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer files.close()
	if left := p.workspaces(); len(left) != 1 || left[0] != files.dir {
		t.Errorf("after the next start: %v", left)
	}
}

func TestNothingSurvivesStoppedService(t *testing.T) {
	up := upFile(t)
	p := startPeer(t)
	answer := p.execute(t, up)
	if err := p.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := p.Wait(); err != nil {
		t.Errorf("the service ended with %v", err)
	}
	if left := append(p.marked(), p.workspaces()...); len(left) > 0 {
		t.Errorf("still there: %q", left)
	}
	if err := <-answer; err != nil {
		t.Errorf("the caller got %v", err)
	}
}

func TestHangUp(t *testing.T) {
	up := upFile(t)
	p := startPeer(t)
	nc, err := net.Dial("unix", p.client.Path)
	if err != nil {
		t.Fatal(err)
	}
	request := `{"type":"execute","executor":"bash","code":"touch \"$UP\"; setsid sleep 1000 & sleep 1000"}`
	if _, err := nc.Write(append([]byte{0, 0, 0, byte(len(request))}, request...)); err != nil {
		t.Fatal(err)
	}
	zinotest.Eventually(t, "the command is up", func() bool { return exists(up) })
	nc.Close()
	zinotest.Eventually(t, "only the service is left", func() bool { return len(p.marked()) == 1 }) // the service itself
}

func TestCapabilities(t *testing.T) {
	s := newService(t, nil, map[string]string{
		"lint.json": `{"meta":{"executor":"sh","file_extension":".x","static_analysis":"zino-no-such-command -x"}}`,
	})
	server := rpc.NewServer("exc", s.Service.log)
	s.Register(server)
	l, err := net.Listen("unix", filepath.Join(s.dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	go server.Serve(l)
	defer server.Shutdown(t.Context())
	client := &rpc.Client{Service: "exc", Path: filepath.Join(s.dir, "s")}
	defer client.Close()

	got, err := rpc.Call(t.Context(), client, proto.ExcCapabilities, proto.CapabilitiesRequest{})
	if err != nil || got.Timeout != 30 || len(got.Executors) != 4 {
		t.Fatalf("got %+v, %v", got, err)
	}
	if e := got.Executors["bash"]; e != (proto.Executor{Command: "bash", FileExtension: ".sh"}) {
		t.Errorf("bash: %+v", e)
	}
	e := got.Executors["python3"]
	if e.StaticAnalysis == nil || *e.StaticAnalysis != "python3 -m py_compile" || !e.HasValidator {
		t.Errorf("python3: %+v", e)
	}
	if e := got.Executors["sh"]; e.StaticAnalysis == nil || e.HasValidator {
		t.Errorf("sh: %+v", e)
	}
	st, err := rpc.Call(t.Context(), client, proto.GetStats, proto.StatsRequest{})
	if err != nil || st.Info["executors"] != "bash, sh, zino-no-such-command, python3" {
		t.Errorf("stats: %+v, %v", st, err)
	}
	problems := strings.Join(st.Problems, "\n")
	if !strings.Contains(problems, "missing.json: command zino-no-such-command not found") {
		t.Errorf("problems: %q", problems)
	}
	if strings.Contains(problems, rootWarning) != (os.Geteuid() == 0) {
		t.Errorf("problems: %q", problems)
	}
}

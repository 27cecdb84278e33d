package exc

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"zino/pkg/config"
	"zino/pkg/rpc"
	"zino/pkg/zinotest"
	"zino/pkg/zinotest/rpctest"
	"zino/proto"
)

// program starts zino-exc with the data of earlier rounds, and with a lifeline of its
// jobs if that is not nil.
func program(t *testing.T, bin, dir string, lifeline *os.File) (*zinotest.Process, *rpc.Client) {
	t.Helper()
	cfg := config.Default()
	cfg.Exc.Socket, cfg.Exc.DataDir = filepath.Join(dir, "s"), filepath.Join(dir, "data")
	cfg.Tools.Dir = filepath.Join(dir, "tools")
	zinotest.Must(t, cfg.Write(filepath.Join(dir, "config.toml")))
	cmd := exec.Command(bin, "--config", filepath.Join(dir, "config.toml"))
	cmd.Env = append(zinotest.CoverEnv(), "PATH="+os.Getenv("PATH"), "HOME="+dir, "TMPDIR="+dir)
	if lifeline != nil {
		cmd.ExtraFiles = []*os.File{lifeline}
		cmd.Env = append(cmd.Env, "LISTEN_FDS=1", "LISTEN_FDNAMES=lifeline")
	}
	p := zinotest.Start(t, cmd)
	c := rpctest.Client(t, "exc", cfg.Exc.Socket)
	p.Eventually("the service answers", func() bool {
		_, err := rpc.Call(t.Context(), c, proto.Ping, proto.PingRequest{})
		return err == nil
	})
	return p, c
}

// TestKilledProgram kills zino-exc with SIGKILL at random times in rounds of calls that
// append to counters, and asks the next one for the results: each counter is 1, or the
// call is interrupted.
func TestKilledProgram(t *testing.T) {
	const rounds, callsMax = 6, 12
	dir, root := zinotest.Dir(t), zinotest.Dir(t)
	writeTools(t, dir, tools)
	zinotest.Must(t, zinotest.Build(dir, "./zino-exc"))
	bin := filepath.Join(dir, "zino-exc")
	lifeline, end, err := os.Pipe()
	zinotest.Must(t, err)
	t.Cleanup(func() { end.Close(); lifeline.Close() })
	p, c := program(t, bin, dir, lifeline)
	for round := range rounds {
		var reqs []proto.Call
		for n := range callsMax {
			file := fmt.Sprintf("%d-%d", round, n)
			req := call("bash", root, in{"command": "echo x >>" + file})
			if n%2 == 0 {
				req = call("edit", root, in{"path": file, "old": "begin\n", "new": "begin\nx\n"})
				zinotest.Write(t, filepath.Join(root, file), "begin\n")
			}
			reqs = append(reqs, keyed(req, file))
		}
		since := time.Now().UTC().Format(time.RFC3339Nano)
		kill := 1 + rand.IntN(callsMax)
		answered := make(chan int, callsMax)
		var wg sync.WaitGroup
		slots := make(chan struct{}, 4)
		wg.Go(func() {
			for range kill {
				<-answered
			}
			p.Kill()
		})
		results := make([]string, callsMax)
		for n, req := range reqs {
			slots <- struct{}{}
			wg.Go(func() {
				r, err := rpc.Call(context.Background(), c, proto.ExcCall, req)
				if err == nil {
					results[n] = oneLine(r, nil)
				}
				answered <- n
				<-slots
			})
		}
		wg.Wait()
		p, c = program(t, bin, dir, lifeline)
		for n, req := range reqs {
			req.Recover, req.Since = true, since
			got := do(t, c, req)
			if got == "error not_found: no call with this key" {
				req.Recover = false
				got = do(t, c, req)
			}
			if want := results[n]; want != "" && strings.TrimPrefix(got, "recovered: ") != want {
				t.Errorf("%s: recovered %s, was %s", req.Key, got, want)
			}
			text, err := os.ReadFile(filepath.Join(root, fmt.Sprintf("%d-%d", round, n)))
			count := strings.Count(string(text), "x\n")
			ok := count == 1
			if got == "recovered: interrupted" {
				ok = count <= 1 && req.Tool == "bash" // no other program changes the files of edit
			}
			if !ok {
				t.Errorf("%s: counter %d (%v), result %s", req.Key, count, err, got)
			}
		}
	}
}

// TestStartedByHand kills zino-exc without a lifeline and without units: its job ends
// with it, and the next one knows that.
func TestStartedByHand(t *testing.T) {
	up, marked := upFile(t), mark(t)
	dir := zinotest.Dir(t)
	writeTools(t, dir, tools)
	zinotest.Must(t, zinotest.Build(dir, "./zino-exc"))
	bin := filepath.Join(dir, "zino-exc")
	for _, signal := range []os.Signal{os.Kill, syscall.SIGTERM} {
		p, c := program(t, bin, dir, nil)
		req := keyed(call("bash", dir, in{"command": "touch " + up + "; setsid sleep 1000", "background": true}), signal.String())
		req.Env = map[string]string{"PATH": os.Getenv("PATH"), markEnv: os.Getenv(markEnv)}
		zinotest.Contains(t, "the result", do(t, c, req), `"running":true`)
		p.Eventually("the command is up", func() bool { return exists(up) })
		list, err := rpc.Call(t.Context(), c, proto.ExcJobs, proto.ListJobs{})
		zinotest.Must(t, err)
		id := list.Jobs[len(list.Jobs)-1].ID
		_, err = rpc.Call(t.Context(), c, proto.ExcJobKeep, proto.JobID{Job: id})
		zinotest.Error(t, err, proto.ErrInvalid, "ends with the run that started its services")
		zinotest.Must(t, p.Process.Signal(signal))
		p.Exit()
		zinotest.Eventually(t, "no process is left", func() bool { return len(marked()) == 0 })
		p, c = program(t, bin, dir, nil)
		zinotest.Eventually(t, "the supervisor has recorded the end", func() bool {
			list, err = rpc.Call(t.Context(), c, proto.ExcJobs, proto.ListJobs{})
			return err != nil || list.Jobs[len(list.Jobs)-1].State != proto.JobRunning
		})
		zinotest.Must(t, err)
		if job := list.Jobs[len(list.Jobs)-1]; job.ID != id || job.State != proto.JobExited || !job.Stopped {
			t.Errorf("%v: %+v", signal, job)
		}
		p.Kill()
		zinotest.Must(t, os.Remove(up))
	}
}

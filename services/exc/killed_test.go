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
	"testing"
	"time"

	"zino/pkg/config"
	"zino/pkg/rpc"
	"zino/pkg/zinotest"
	"zino/pkg/zinotest/rpctest"
	"zino/proto"
)

// program starts zino-exc with the data of earlier rounds.
func program(t *testing.T, bin, dir string) (*zinotest.Process, *rpc.Client) {
	t.Helper()
	cfg := config.Default()
	cfg.Exc.Socket, cfg.Exc.DataDir = filepath.Join(dir, "s"), filepath.Join(dir, "data")
	cfg.Tools.Dir = filepath.Join(dir, "tools")
	zinotest.Must(t, cfg.Write(filepath.Join(dir, "config.toml")))
	cmd := exec.Command(bin, "--config", filepath.Join(dir, "config.toml"))
	cmd.Env = append(zinotest.CoverEnv(), "PATH="+os.Getenv("PATH"), "HOME="+dir, "TMPDIR="+dir)
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
	p, c := program(t, bin, dir)
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
		p, c = program(t, bin, dir)
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

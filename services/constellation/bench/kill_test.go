package bench_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"zino/pkg/config"
	"zino/pkg/fakellm"
	"zino/pkg/rpc"
	"zino/proto"
	"zino/services/constellation/measure"
)

// benchKill measures how long the processes of a command live after SIGKILL to
// zino-exc: a shell, a child, and one in a session of its own.
func benchKill(b *bench) ([]line, error) {
	var walls []float64
	survivors := 0
	for i := range 9 {
		wall, left, err := b.killed(fmt.Sprintf("98765.%d%d", os.Getpid(), i))
		if err != nil {
			return nil, err
		}
		walls, survivors = append(walls, wall), survivors+left
	}
	return []line{
		{name: "SIGKILL to zino-exc, until everything below is dead", measured: median(walls), goals: []goal{atMost(50e6)}, note: "wall time; a shell, its child, and one with setsid"},
		{name: "SIGKILL to zino-exc, survivors", unit: processCount, measured: float64(survivors), goals: []goal{atMost(0)}, note: fmt.Sprintf("after a second, of %d", 2*len(walls))},
	}, nil
}

func (b *bench) killed(seconds string) (wall float64, survivors int, err error) {
	c, err := b.shells()
	defer c.stop()
	if err != nil {
		return 0, 0, err
	}
	client := &rpc.Client{Service: "exc", Path: c.cfg.Exc.Socket}
	defer client.Close()
	go rpc.Call(context.Background(), client, proto.ExcExecute, proto.Execute{Executor: "sh", Code: "setsid sleep " + seconds + " & sleep " + seconds + " & wait"}) // ends with zino-exc
	began := time.Now()
	for len(sleeping(seconds)) < 2 {
		if time.Since(began) > 10*time.Second {
			return 0, 0, errors.New("the command has not started its processes")
		}
	}
	began = time.Now()
	if err := c.processes["exc"].cmd.Process.Signal(syscall.SIGKILL); err != nil {
		return 0, 0, err
	}
	for time.Since(began) < time.Second {
		if len(sleeping(seconds)) == 0 {
			return float64(time.Since(began)), 0, nil
		}
	}
	left := sleeping(seconds)
	for _, pid := range left {
		err = errors.Join(err, syscall.Kill(pid, syscall.SIGKILL))
	}
	return float64(time.Since(began)), len(left), err
}

// sleeping returns the processes that sleep for so many seconds.
func sleeping(seconds string) (pids []int) {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline") // the pattern is valid
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err == nil && string(text) == "sleep\x00"+seconds+"\x00" {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file))) // [0-9]*
			pids = append(pids, pid)
		}
	}
	return pids
}

// benchRequests measures by how much the anonymous memory of services grows in 2,000
// turns, after as many as fill their caches.
func benchRequests(b *bench) ([]line, error) {
	const requests, first = 2000, 1000
	c, llm, err := b.sessionWorld(fakellm.Turn{Text: "yes", Times: fakellm.Forever})
	defer leave(c, llm)
	if err != nil {
		return nil, err
	}
	client := &rpc.Client{Service: "daemon", Path: c.cfg.Daemon.Socket}
	defer client.Close()
	turns := func(from, to int) (map[string]float64, error) {
		least := map[string]float64{}
		for i := from; i < to; i++ {
			if _, err := rpc.CallText(context.Background(), client, proto.DaemonChat, proto.Chat{Message: "Where is the bread?", SessionID: fmt.Sprint("flat-", i)}, nil); err != nil {
				return nil, err
			}
			if i < to-200 {
				continue
			}
			for name, p := range c.processes { // the least of 200 turns: between two collections it rises
				now, err := measure.Anonymous(p.pid())
				if err != nil {
					return nil, err
				}
				if old, ok := least[name]; !ok || now < old {
					least[name] = now
				}
			}
		}
		return least, nil
	}
	before, err := turns(0, first)
	if err != nil {
		return nil, err
	}
	after, err := turns(first, first+requests)
	if err != nil {
		return nil, err
	}
	most, parts := 0.0, []string{}
	for _, name := range config.Services {
		most = max(most, after[name]-before[name])
		parts = append(parts, fmt.Sprintf("%s %+.1f", name, after[name]-before[name]))
	}
	return []line{{
		name: "2,000 turns, growth of a service", unit: megabytes, measured: max(most*1e6, 1), goals: []goal{atMost(1e6)},
		note: "anonymous memory; " + strings.Join(parts, ", ") + " MB; for hours: make soak",
	}}, nil
}

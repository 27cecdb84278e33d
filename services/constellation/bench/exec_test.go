package bench_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"zino/pkg/config"
	"zino/pkg/rpc"
	"zino/proto"
)

// benchExec runs `true` with sh through exc, and compares the CPU time of exc and its
// children with that of vfork, exec and wait in C.
func benchExec(b *bench) ([]line, error) {
	vfork, err := b.program("vfork.c")
	if err != nil {
		return nil, err
	}
	c, err := b.shells()
	defer c.stop()
	if err != nil {
		return nil, err
	}
	var floors, cpus, walls, pipes []float64
	for range 8 {
		floor, err := b.vforked(vfork, 50)
		if err != nil {
			return nil, err
		}
		cpu, wall, err := executed(c.processes["exc"], 50)
		if err != nil {
			return nil, err
		}
		piped, err := b.piped(c.processes["exc"], 25)
		if err != nil {
			return nil, err
		}
		pipes = append(pipes, piped)
		floors, cpus, walls = append(floors, floor), append(cpus, cpu), append(walls, wall)
	}
	return []line{
		line{
			name: "sh -c true through exc, CPU", goals: []goal{ratioAtMost(3)},
			note: "exc and all below it; the goal where exc uses cgroup v2; where a systemd unit runs it, the goal is 2x",
		}.over(cpus, floors),
		{name: "a pipe that runs true", measured: median(pipes), goals: []goal{atMost(10e6)}, note: "wall time at level off, with input: what a hook costs"},
		{name: "sh -c true through exc, in all", measured: median(walls), goals: []goal{atMost(8e6)}, note: "wall time, request to reply; this goal holds without cgroup v2"},
	}, nil
}

// shells starts zino-exc with the executor sh.
func (b *bench) shells() (*constellation, error) {
	tools := b.path("tools")
	if err := os.MkdirAll(tools, 0o700); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(tools, "sh.json"), []byte(`{"meta":{"executor":"sh"}}`), 0o600); err != nil {
		return nil, err
	}
	return b.constellation(true, func(cfg *config.Config) { cfg.Tools.Dir = tools }, nil, "exc")
}

func (b *bench) vforked(program string, n int) (float64, error) {
	var out strings.Builder
	cmd := exec.Command(program, strconv.Itoa(n))
	cmd.Stdout, cmd.Stderr = &out, b.log
	if err := start(cmd, true); err != nil {
		return 0, err
	}
	if err := cmd.Wait(); err != nil {
		return 0, err
	}
	return strconv.ParseFloat(strings.TrimSpace(out.String()), 64)
}

// executed runs `true` n times and returns CPU and wall time of one run.
func executed(exc *process, n int) (cpu, wall float64, err error) {
	c := &rpc.Client{Service: "exc", Path: exc.path}
	defer c.Close()
	before, err := cpuWithChildren(exc.pid())
	if err != nil {
		return 0, 0, err
	}
	began := time.Now()
	for range n {
		r, err := rpc.Call(context.Background(), c, proto.ExcExecute, proto.Execute{Executor: "sh", Code: "true"})
		if err != nil || r.ExitCode != 0 {
			return 0, 0, fmt.Errorf("exit code %d, %s: %w", r.ExitCode, r.Stderr, err)
		}
	}
	elapsed := time.Since(began)
	after, err := cpuWithChildren(exc.pid())
	return (after - before) / float64(n), float64(elapsed) / float64(n), err
}

// piped runs `true` n times with input and returns the wall time of one run.
func (b *bench) piped(exc *process, n int) (wall float64, err error) {
	c := &rpc.Client{Service: "exc", Path: exc.path}
	defer c.Close()
	input := `{"hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"true"}}`
	began := time.Now()
	for range n {
		r, err := rpc.CallEvents(context.Background(), c, proto.ExcPipe, proto.Pipe{Argv: []string{"true"}, Root: b.path("."), Stdin: &input}, func(string, []byte) error { return nil })
		if err != nil || r.ExitCode != 0 {
			return 0, fmt.Errorf("exit code %d: %w", r.ExitCode, err)
		}
	}
	return float64(time.Since(began)) / float64(n), nil
}

// cpuWithChildren is a process's CPU time and that of its children that have
// ended, in nanoseconds.
func cpuWithChildren(pid int) (float64, error) {
	own, err := cpuOf(pid)
	if err != nil {
		return 0, err
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest)
	user, err1 := strconv.ParseFloat(fields[13], 64)
	system, err2 := strconv.ParseFloat(fields[14], 64)
	return own + (user+system)*1e7, errors.Join(err1, err2) // ticks of 10 ms
}

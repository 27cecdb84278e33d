package bench_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"zino/pkg/config"
	"zino/pkg/rpc"
	"zino/pkg/zinotest"
	"zino/proto"
)

// bench is the state shared by all rows.
type bench struct {
	t     *testing.T
	smoke bool     // measure as little as possible
	dir   string   // short, for sockets
	bin   string   // where the programs of make build are; empty: bin of the tree
	log   *os.File // standard error of the programs
	built map[string]error
	next  int // numbers sockets
}

func newBench(t *testing.T) *bench {
	dir, err := os.MkdirTemp("", "z")
	zinotest.Must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	log, err := os.Create(filepath.Join(dir, "log"))
	zinotest.Must(t, err)
	t.Cleanup(func() { log.Close() })
	return &bench{t: t, smoke: !*benchTable, dir: dir, log: log, built: map[string]error{}}
}

// lastWords returns the end of the programs' log, for a row that failed.
func (b *bench) lastWords() string {
	text, err := os.ReadFile(b.log.Name())
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-3):], "; ")
}

// scale returns n, or a hundredth in an ordinary test run.
func (b *bench) scale(n int) int {
	if b.smoke {
		return max(1, n/100)
	}
	return n
}

func (b *bench) path(name string) string { return filepath.Join(b.dir, name) }

// program builds a program of testdata/bench once and returns its path.
func (b *bench) program(name string) (string, error) {
	out := b.path(name)
	if err, done := b.built[name]; done {
		return out, err
	}
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", out, "./testdata/"+name)
	if base, ok := strings.CutSuffix(name, ".c"); ok {
		cmd = exec.Command("gcc", "-O2", "-static", "-o", out, "testdata/"+base+".c")
	}
	text, err := cmd.CombinedOutput()
	if errors.Is(err, exec.ErrNotFound) {
		err = errNoCompiler
	} else if err != nil {
		err = fmt.Errorf("%v: %w: %s", cmd.Args, err, text)
	}
	b.built[name] = err
	return out, err
}

// binary returns the path of a program built by make build.
func (b *bench) binary(name string) (string, error) {
	path, err := filepath.Abs(filepath.Join(cmp.Or(b.bin, "../../../bin"), name))
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("%s is not built: run make build", name)
	}
	return path, nil
}

// process is a running server.
type process struct {
	cmd  *exec.Cmd
	path string // its socket
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// stop sends SIGTERM and waits for the process.
func (p *process) stop() {
	p.cmd.Process.Signal(syscall.SIGTERM)
	p.cmd.Wait()
}

// serve starts a program with an inherited listening socket, as a supervisor does, on
// one core if pin is set.
func (b *bench) serve(pin bool, name, program string, args ...string) (*process, error) {
	b.next++
	path := b.path(fmt.Sprintf("%s%d.sock", name, b.next))
	return b.serveAt(pin, path, name, program, args...)
}

func (b *bench) serveAt(pin bool, path, name, program string, args ...string) (*process, error) {
	socket, err := listen(path)
	if err != nil {
		return nil, err
	}
	defer socket.Close()
	cmd := exec.Command(program, args...)
	cmd.Env = append(os.Environ(), "LISTEN_FDS=1", "LISTEN_FDNAMES="+name, "ZINO_LOG_LEVEL=WARN", "LLM_API_KEY=none", "ZINO_HOME="+b.dir)
	cmd.ExtraFiles = []*os.File{socket}
	cmd.Stderr = b.log
	return &process{cmd, path}, start(cmd, pin)
}

// listen opens a listening socket as a file for a child process.
func listen(path string) (*os.File, error) {
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	defer l.Close()
	return l.(*net.UnixListener).File()
}

// start starts a command with a parent death signal, on the last core only if pin is
// set: a child inherits the affinity of the thread that starts it.
func start(cmd *exec.Cmd, pin bool) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if !pin {
		return cmd.Start()
	}
	all, last, err := cores()
	if err != nil {
		return err
	}
	if err := unix.SchedSetaffinity(0, &last); err != nil {
		return err
	}
	return errors.Join(cmd.Start(), unix.SchedSetaffinity(0, &all))
}

// cores returns all cores of this process, and the last one, which is that of the pinned
// processes.
func cores() (all, last unix.CPUSet, err error) {
	err = unix.SchedGetaffinity(0, &all)
	core := 0
	for i := range 1024 {
		if all.IsSet(i) {
			core = i
		}
	}
	last.Set(core)
	return all, last, err
}

// onLastCore runs f with all threads of this process on the core of the pinned processes.
func onLastCore(f func() error) error {
	all, last, err := cores()
	if err != nil {
		return err
	}
	return errors.Join(moveThreads(&last), f(), moveThreads(&all))
}

func moveThreads(to *unix.CPUSet) error {
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return err
	}
	for _, thread := range threads {
		id, err := strconv.Atoi(thread.Name())
		if err != nil {
			return err
		}
		if err := unix.SchedSetaffinity(id, to); err != nil && err != unix.ESRCH { // it has ended
			return err
		}
	}
	return nil
}

// ask runs a client of testdata/peer with a task.
func ask[Result any](b *bench, pin bool, command string, task any) (Result, error) {
	var result Result
	program, err := b.program("peer")
	if err != nil {
		return result, err
	}
	text, err := json.Marshal(task)
	if err != nil {
		return result, err
	}
	var out strings.Builder
	cmd := exec.Command(program, command)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(string(text)), &out, b.log
	if err := start(cmd, pin); err != nil {
		return result, err
	}
	if err := cmd.Wait(); err != nil {
		return result, fmt.Errorf("peer %s: %w", command, err)
	}
	return result, json.Unmarshal([]byte(out.String()), &result)
}

// cpuOf returns a process's CPU time in nanoseconds, including all threads, from the
// clock that getcpuclockid(3) returns.
func cpuOf(pid int) (float64, error) {
	var ts unix.Timespec
	err := unix.ClockGettime(int32(^pid<<3|2), &ts)
	return float64(ts.Nano()), err
}

// constellation is a set of real services with their own directory.
type constellation struct {
	cfg       *config.Config
	processes map[string]*process
}

// constellation starts the named services of bin. replaced maps services to a program
// with its arguments that is started instead.
func (b *bench) constellation(pin bool, settings func(*config.Config), replaced map[string][]string, names ...string) (*constellation, error) {
	dir, err := os.MkdirTemp(b.dir, "c")
	if err != nil {
		return nil, err
	}
	root, err := filepath.Abs("../../..")
	if err != nil {
		return nil, err
	}
	c := &constellation{config.Default(), map[string]*process{}}
	c.cfg.Tools.Dir, c.cfg.Skills.Dir, c.cfg.Sys.Template = filepath.Join(root, "tools"), filepath.Join(root, "skills"), filepath.Join(root, "SYSTEM.md")
	c.cfg.Mem.DataDir, c.cfg.Rtr.DataDir = filepath.Join(dir, "data"), filepath.Join(dir, "data", "rtr")
	c.cfg.Exc.DataDir = filepath.Join(dir, "data", "exc")
	for _, name := range config.Services {
		*c.cfg.SocketOf(name) = filepath.Join(dir, name+".sock")
	}
	if settings != nil {
		settings(c.cfg)
	}
	file := filepath.Join(dir, config.FileName)
	c.cfg.File = file
	if err := c.cfg.Write(file); err != nil {
		return nil, err
	}
	for _, name := range names {
		command := replaced[name]
		if command == nil {
			command = []string{"zino-" + name, "--config", file}
			if command[0], err = b.binary(command[0]); err != nil {
				return c, err
			}
		}
		p, err := b.serveAt(pin, c.cfg.Socket(name), name, command[0], command[1:]...)
		if err != nil {
			return c, err
		}
		c.processes[name] = p
	}
	return c, c.ping()
}

// ping waits until every service has answered.
func (c *constellation) ping() error {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for name, p := range c.processes {
		client := &rpc.Client{Service: name, Path: p.path}
		_, err := rpc.Call(ctx, client, proto.Ping, proto.PingRequest{})
		client.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *constellation) stop() {
	if c == nil {
		return
	}
	for _, p := range c.processes {
		p.cmd.Process.Signal(syscall.SIGTERM)
	}
	for _, p := range c.processes {
		p.cmd.Wait()
	}
}

func (c *constellation) pids(names ...string) (list []int) {
	for _, name := range names {
		list = append(list, c.processes[name].pid())
	}
	return list
}

func median(list []float64) float64 {
	list = slices.Sorted(slices.Values(list))
	return list[len(list)/2]
}

package soak_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"zino/pkg/config"
	"zino/pkg/fakellm"
	"zino/pkg/rpc"
	"zino/proto"
)

// world is a running zino up in a directory of its own, with a scripted provider.
type world struct {
	dir, bin, file string
	cfg            *config.Config
	up             *exec.Cmd
	provider       *fakellm.Server
	clients        map[string]*rpc.Client
}

// script answers by the first word of a prompt. The last turn is for the results of tools.
var script = []fakellm.Turn{
	{Match: "#plain", Text: "Done.", Size: 2, Times: fakellm.Forever},
	{Match: "#command", Times: fakellm.Forever, Calls: []fakellm.Call{{Name: "bash", Args: `{"command":"echo output"}`}}},
	{Match: "#job", Times: fakellm.Forever, Calls: []fakellm.Call{{Name: "bash", Args: `{"command":"sleep 0.2; echo output","background":true}`}}},
	{Match: "#server", Times: fakellm.Forever, Calls: []fakellm.Call{{Name: "mcp_call", Args: `{"server":"oven","tool":"tool_1","arguments":{"name":"bread"}}`}}},
	{Text: "Done.", Times: fakellm.Forever},
}

// start starts the services and waits until all of them answer.
func start(bin string) (_ *world, err error) {
	dir, err := os.MkdirTemp("", "zs")
	if err != nil {
		return nil, err
	}
	w := &world{dir: dir, bin: bin, file: filepath.Join(dir, config.FileName), clients: map[string]*rpc.Client{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.stop())
		}
	}()
	if w.provider, err = fakellm.Listen("127.0.0.1:0", script...); err != nil {
		return nil, err
	}
	server := filepath.Join(dir, "mcpserver")
	if text, err := exec.Command("go", "build", "-o", server, "zino/services/constellation/bench/testdata/mcpserver").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w: %s", err, text)
	}
	if err := w.configure(server); err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	w.up = w.command(context.Background(), "up")
	w.up.Stdout, w.up.Stderr = log, log
	if err := w.up.Start(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for _, name := range w.services() {
		w.clients[name] = &rpc.Client{Service: name, Path: w.cfg.Socket(name)}
		if err := w.eventually(ctx, func() error {
			_, err := rpc.Call(ctx, w.clients[name], proto.Ping, proto.PingRequest{})
			return err
		}); err != nil {
			return nil, err
		}
	}
	return w, nil
}

func (w *world) services() []string { return append([]string{"repl", "mcp"}, config.Services...) }

func (w *world) configure(server string) error {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	web := free.Addr().String()
	if err := errors.Join(free.Close(), os.Mkdir(filepath.Join(w.dir, "pages"), 0o700), os.Mkdir(filepath.Join(w.dir, "work"), 0o700)); err != nil {
		return err
	}
	c := config.Default()
	for _, name := range w.services() {
		*c.SocketOf(name) = filepath.Join(w.dir, name+".sock")
	}
	data := filepath.Join(w.dir, "data")
	c.Mem.DataDir, c.Rtr.DataDir, c.Exc.DataDir = data, filepath.Join(data, "rtr"), filepath.Join(data, "exc")
	c.Daemon.DataDir, c.MCP.DataDir = filepath.Join(data, "daemon"), filepath.Join(data, "mcp")
	c.Mem.SessionsDir = filepath.Join(w.dir, "sessions")
	c.Provider, c.API.BaseURL, c.Service.Model = "openai", w.provider.URL, "fake-model"
	c.Repl.Dir, c.Repl.HTTP = filepath.Join(w.dir, "pages"), web
	c.MCP.IdleSecs /= hurry
	for _, limit := range []*config.Duration{&c.Exc.JobLinger, &c.Exc.OrphanTimeout, &c.Undo.MaxAge} {
		*limit = config.Duration((limit.Value() / hurry).String())
	}
	c.MCP.DirectTokens = 0
	c.MCP.Servers = map[string]config.MCPServer{"oven": {Command: []string{server, "3"}}}
	w.cfg, c.File = c, w.file
	return c.Write(w.file)
}

// hurry is how much shorter the limits of idle things are than their defaults: a minute
// stands for an hour.
const hurry = 60

// shortened names those limits.
func shortened(c *config.Config) string {
	return fmt.Sprintf("mcp.idle_secs %gs, exc.job_linger %s, exc.orphan_timeout %s, undo.max_age %s", c.MCP.IdleSecs, c.Exc.JobLinger, c.Exc.OrphanTimeout, c.Undo.MaxAge)
}

// command returns a command of the CLI that uses this world.
func (w *world) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(w.bin, "zino"), append([]string{"--config", w.file}, args...)...)
	cmd.Dir = filepath.Join(w.dir, "work") // without the files of the services, whose changes undo would record
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + w.dir, "ZINO_HOME=" + w.dir, "XDG_RUNTIME_DIR=" + w.dir, "LLM_API_KEY=none", "ZINO_LOG_LEVEL=WARN"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	return cmd
}

// eventually repeats f until it succeeds.
func (w *world) eventually(ctx context.Context, f func() error) error {
	for {
		err := f()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// pids returns the process of each service: the children of zino up.
func (w *world) pids() map[string]int {
	pids := map[string]int{}
	files, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is valid
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		// pid (comm) state ppid …: see proc_pid_stat(5).
		before, after, _ := strings.Cut(string(text), ") ")
		id, comm, _ := strings.Cut(before, " (zino-")
		fields := strings.Fields(after)
		pid, err := strconv.Atoi(id)
		if err == nil && comm != "" && len(fields) > 1 && fields[1] == strconv.Itoa(w.up.Process.Pid) {
			pids[comm] = pid
		}
	}
	return pids
}

// stop ends everything. The directory is kept if zino up did not end well.
func (w *world) stop() error {
	for _, c := range w.clients {
		c.Close()
	}
	if w.provider != nil {
		w.provider.Close()
	}
	if w.up == nil || w.up.Process == nil {
		return os.RemoveAll(w.dir)
	}
	if err := w.up.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	if err := w.up.Wait(); err != nil {
		return fmt.Errorf("zino up: %w; its log is %s", err, filepath.Join(w.dir, "log"))
	}
	return os.RemoveAll(w.dir)
}

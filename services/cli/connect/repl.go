package connect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"

	"zino/pkg/config"
	"zino/pkg/rpc"
	"zino/proto"
	"zino/services/cli/term"
)

// ErrEnded is the error of a service that failed and printed the reason.
var ErrEnded = errors.New("the service ended")

// locateRepl sets the defaults of the REPL: its files in the current directory, its
// socket in the user's runtime directory.
func locateRepl(cfg *config.Config) {
	if !cfg.IsSet("repl.dir") {
		cfg.Repl.Dir = Absolute(".")
	}
	if dir, err := RuntimeDir(); err == nil && !cfg.IsSet("repl.socket") {
		cfg.Repl.Socket = filepath.Join(dir, "repl.sock")
	}
}

// ReplSockets lists the sockets of a REPL to try, in order: the configured one, or the
// user's own and the host's.
func (t *Target) ReplSockets(cfg *config.Config) []string {
	host := filepath.Join(filepath.Dir(HostSocket), "repl.sock")
	switch {
	case t.Host:
		return []string{host}
	case cfg.IsSet("repl.socket"):
		return []string{cfg.Repl.Socket}
	}
	return []string{cfg.Repl.Socket, host}
}

// WithRepl calls do with the running REPL. It does not start one, because the REPL's
// files belong to a directory that the user chooses.
func (t *Target) WithRepl(cfg *config.Config, do func(*rpc.Client) error) error {
	for _, socket := range t.ReplSockets(cfg) {
		c := &rpc.Client{Service: "repl", Path: socket}
		err := do(c)
		c.Close()
		if !errors.Is(err, rpc.ErrConnect) {
			return err
		}
		if errors.Is(err, fs.ErrPermission) {
			return proto.Errorf(proto.CodeDenied, "you may not use the REPL that is there: %v", err)
		}
	}
	if _, err := RuntimeDir(); err != nil && !cfg.IsSet("repl.socket") {
		return err
	}
	return proto.Errorf(proto.CodeUnavailable, "no REPL is running; start one with zino repl, in the directory that its files belong to")
}

// readyRepl checks that a REPL could start, and chooses a port for port 0. If another
// process binds the port meanwhile, the service reports it.
func readyRepl(cfg *config.Config) error {
	r := &cfg.Repl
	if Answers(r.Socket) {
		return proto.Errorf(proto.CodeBusy, "a REPL is running already, on %s%s: zino pages lists what is connected to it", r.Socket, runningRepl(r.Socket))
	}
	if err := checkReplDir(r.Dir); err != nil {
		return err
	}
	if r.Serve != "" && !IsDir(r.Serve) {
		return proto.Errorf(proto.CodeInvalid, "[repl] serve: %s is not a directory", r.Serve)
	}
	l, err := net.Listen("tcp", r.HTTP)
	if errors.Is(err, syscall.EADDRINUSE) {
		return proto.Errorf(proto.CodeBusy, "%s is in use, by another REPL perhaps; name another address with zino repl --http or [repl] http", r.HTTP)
	}
	if err != nil {
		return fmt.Errorf("[repl] http: %w", err)
	}
	r.HTTP = l.Addr().String()
	return l.Close()
}

// runningRepl describes the REPL on a socket: its directory and its address.
func runningRepl(socket string) string {
	repl := &rpc.Client{Service: "repl", Path: socket}
	defer repl.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	stats, err := rpc.Call(ctx, repl, proto.GetStats, proto.StatsRequest{})
	if err != nil || stats.Info["dir"] == "" {
		return "" // of an earlier version, or busy
	}
	return fmt.Sprintf(", for the files in %s, at http://%s/zino/", stats.Info["dir"], stats.Info["http"])
}

// checkReplDir returns an error if the REPL could not write its files in dir.
func checkReplDir(dir string) error {
	if !IsDir(dir) {
		return proto.Errorf(proto.CodeInvalid, "[repl] dir: %s is not a directory", dir)
	}
	if err := Probe(filepath.Join(dir, "debug")); err != nil {
		return fmt.Errorf("[repl] dir: cannot write the logs: %w", err)
	}
	return nil
}

// RunRepl runs the REPL, without other services, until it exits or a signal comes. flags
// are those of zino-repl alone. It calls ready when the REPL answers.
func (t *Target) RunRepl(signals <-chan os.Signal, cfg *config.Config, flags []string, ready func(context.Context)) error {
	for _, warning := range cfg.Warnings {
		t.Say("Warning: %s", warning)
	}
	if err := readyRepl(cfg); err != nil {
		return err
	}
	dir, err := RuntimeDir()
	if err != nil && !cfg.IsSet("repl.socket") {
		return err
	}
	if err == nil && filepath.Dir(cfg.Repl.Socket) == dir {
		if err := makeRuntimeDir(dir); err != nil {
			return err
		}
		defer os.Remove(dir) // fails if it is not empty
	}
	if os.Getenv("ZINO_LOG_LEVEL") == "" && !cfg.IsSet("logging.level") {
		cfg.Logging.Level = "WARN" // ready prints what matters
	}
	c, err := open(cfg, cfg.Repl.Socket+".toml", []string{"repl"})
	if err != nil {
		return err
	}
	c.programs[0].Args = append(c.programs[0].Args, flags...)
	return cmp.Or(t.attendRepl(signals, cfg, c, ready), c.close())
}

// attendRepl runs the service with its socket as descriptor 3, in its own process
// group, and with a parent death signal.
func (t *Target) attendRepl(signals <-chan os.Signal, cfg *config.Config, c *constellation, ready func(context.Context)) error {
	runtime.LockOSThread() // the death signal is sent when the thread ends
	defer runtime.UnlockOSThread()
	program := c.programs[0]
	l, ok := program.Socket.(*net.UnixListener)
	if !ok {
		return fmt.Errorf("the socket of %s cannot be handed over: it is a %T", program.Name, program.Socket)
	}
	socket, err := l.File()
	if err != nil {
		return err
	}
	cmd := exec.Command(program.Path, program.Args...)
	cmd.Env = append(program.Env, "LISTEN_FDS=1", "LISTEN_FDNAMES="+program.Name)
	cmd.Stderr = t.Err
	cmd.ExtraFiles = []*os.File{socket} // descriptor 3, as in socket activation
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	cmd.WaitDelay = time.Second // for a process that has inherited stderr
	err = cmd.Start()
	socket.Close() // the child has its own
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	running, stop := context.WithCancel(context.Background())
	var starting sync.WaitGroup
	defer starting.Wait()
	defer stop()
	go func() {
		ended <- cmd.Wait()
		stop()
	}()
	repl := &rpc.Client{Service: "repl", Path: cfg.Repl.Socket}
	defer repl.Close()
	starting.Go(func() {
		if _, err := rpc.Call(running, repl, proto.Ping, proto.PingRequest{}); err == nil {
			ready(running)
		}
	})
	stopped, err := t.stopRepl(signals, ended, cmd.Process, repl)
	if stopped {
		return nil
	}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.Exited() {
		return ErrEnded
	}
	return fmt.Errorf("the REPL was stopped by another process: %v", cmp.Or(err, errors.New("SIGTERM")))
}

const (
	runsLimit = 5 * time.Second  // for runs under way after the first signal
	markLimit = 10 * time.Second // for the service to mark the others as interrupted
)

// stopRepl waits until the service ends. The first signal lets runs under way finish
// within runsLimit. A second one, or the end of that time, makes the service mark them
// as interrupted.
func (t *Target) stopRepl(signals <-chan os.Signal, ended <-chan error, service *os.Process, repl *rpc.Client) (stopped bool, err error) {
	select {
	case err := <-ended:
		return false, err
	case <-signals:
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	stats, err := rpc.Call(ctx, repl, proto.GetStats, proto.StatsRequest{})
	cancel()
	if term.IsTerminal(t.Err) {
		fmt.Fprint(t.Err, "\r") // over the ^C of the terminal
	}
	switch runs := stats.Info["runs"]; {
	case err != nil, runs == "", runs == "0": // or it has not started yet
	case runs == "1":
		t.Say("waiting for 1 run, press Ctrl-C again to stop now")
	default:
		t.Say("waiting for %s runs, press Ctrl-C again to stop now", runs)
	}
	wait := func(limit time.Duration) bool {
		timer := time.NewTimer(limit)
		defer timer.Stop()
		for {
			select {
			case <-ended:
				return true
			case <-timer.C:
				return false
			case s := <-signals:
				if s != syscall.SIGHUP && limit == runsLimit { // shells send it twice
					return false
				}
			}
		}
	}
	// The error of a signal means that the service has ended.
	_ = service.Signal(syscall.SIGTERM)
	if wait(runsLimit) {
		return true, nil
	}
	_ = service.Signal(syscall.SIGINT) // the kernel merges a pending SIGTERM with another one
	if wait(markLimit) {
		return true, nil
	}
	t.Say("the REPL does not end; it is killed, and marks open requests when it is started again")
	_ = service.Kill()
	<-ended
	return true, nil
}

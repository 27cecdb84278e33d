package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"zino/pkg/config"
	"zino/pkg/rpc"
	"zino/proto"
)

// runRepl runs the REPL alone until it ends or ctx does.
func (a *app) runRepl(ctx context.Context, cfg *config.Config) (err error) {
	for _, warning := range cfg.Warnings {
		a.say("Warning: %s", warning)
	}
	if err := readyRepl(cfg); err != nil {
		return err
	}
	dir, err := runtimeDir()
	if err != nil && !cfg.IsSet("repl.socket") {
		return err
	}
	if err == nil && filepath.Dir(cfg.Repl.Socket) == dir {
		if err := makeRuntimeDir(dir); err != nil {
			return err
		}
		defer os.Remove(dir) // stays if something else lies in it
	}
	if os.Getenv("ZINO_LOG_LEVEL") == "" && !cfg.IsSet("logging.level") {
		cfg.Logging.Level = "WARN" // what matters is said below
	}
	c, err := open(cfg, cfg.Repl.Socket+".toml", []string{"repl"})
	if err != nil {
		return err
	}
	return cmp.Or(a.attendRepl(ctx, cfg, c), c.close())
}

// attendRepl runs the service, and tells how to use it once it answers.
func (a *app) attendRepl(ctx context.Context, cfg *config.Config, c *constellation) error {
	runtime.LockOSThread() // the death signal comes when the thread ends
	defer runtime.UnlockOSThread()
	cmd, err := a.startRepl(ctx, c)
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	running, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		ended <- cmd.Wait()
		stop()
	}()
	repl := &rpc.Client{Service: "repl", Path: cfg.Repl.Socket}
	defer repl.Close()
	if _, err := rpc.Call(running, repl, proto.Ping, proto.PingRequest{}); err == nil {
		a.sayRepl(cfg)
	}
	if err := <-ended; ctx.Err() == nil {
		return untimely(err)
	}
	return nil
}

// untimely words the end of a service that nobody asked to end. One that failed
// has said why.
func untimely(err error) error {
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.Exited() {
		return errQuiet
	}
	return fmt.Errorf("the REPL was ended from elsewhere: %v", cmp.Or(err, errors.New("told to stop")))
}

// startRepl starts the program that the constellation has. It is handed its
// socket, is kept away from the terminal's Ctrl-C, and does not outlive us.
func (a *app) startRepl(ctx context.Context, c *constellation) (*exec.Cmd, error) {
	const grace = 25 * time.Second // longer than what it takes to end
	p := c.programs[0]
	l, ok := p.Socket.(*net.UnixListener)
	if !ok {
		return nil, fmt.Errorf("the socket of %s is none that can be handed over", p.Name)
	}
	socket, err := l.File()
	if err != nil {
		return nil, err
	}
	defer socket.Close()
	cmd := exec.CommandContext(ctx, p.Path, p.Args...)
	cmd.Env = append(p.Env, "LISTEN_FDS=1", "LISTEN_FDNAMES="+p.Name)
	cmd.Stderr = a.err
	cmd.ExtraFiles = []*os.File{socket} // descriptor 3, where socket activation looks
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = grace
	return cmd, cmd.Start()
}

func (a *app) sayRepl(cfg *config.Config) {
	r := cfg.Repl
	a.say("zino: the REPL is up at http://%s/zino/; Ctrl-C stops it", r.HTTP)
	a.say("Its files are in %s: debug.md lists the pages, debug/NAME-ID.md is one each.", r.Dir)
	if r.Serve != "" {
		a.say("The pages in %s are served at http://%s/, connected.", r.Serve, r.HTTP)
	}
	a.sayHowToConnect(r.HTTP)
}

// Package supervise keeps a set of programs running: it passes each its listening
// socket, restarts those that die, and stops all of them together. It does for one
// user's terminal what systemd does for the host, and does not depend on services.
package supervise

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	firstPause = 100 * time.Millisecond // before the first restart
	maxPause   = 5 * time.Second        // the pause doubles up to this
	steady     = 10 * time.Second       // a program that ran this long restarts after firstPause
	grace      = 25 * time.Second       // between SIGTERM and SIGKILL: longer than a service's drain
)

// Program is one process to keep running.
type Program struct {
	Name   string       // also the socket's name in LISTEN_FDNAMES
	Path   string       // the executable
	Args   []string     // arguments without the program's name
	Env    []string     // the whole environment
	Socket net.Listener // stays open while the program is down: clients wait
	First  bool         // is stopped before the others, which it needs while it ends

	// OnDemand starts the program when a client connects, and not before.
	OnDemand bool

	// Lifeline, if not nil, is one more descriptor of the program, named "lifeline":
	// the read end of a pipe whose only write end this process has. What the program
	// leaves running ends at its end of file, also after SIGKILL of this process.
	Lifeline *os.File

	// Refuse, if set, answers clients while the program cannot start, until l is
	// closed. why is the program's last line of output. If nil, clients wait.
	Refuse func(l net.Listener, why string)
}

// Set is a running set of programs.
type Set struct {
	log    *slog.Logger
	output io.Writer
	grace  time.Duration
	stages [2]stage // in the order of stopping
	spawns chan spawn

	stopped sync.Once
}

// stage is a group of programs that are stopped together.
type stage struct {
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

// spawn is a request to the spawner.
type spawn struct {
	cmd  *exec.Cmd
	done chan error
}

// Start starts the programs. Their standard error goes to output. A program that
// cannot be started is logged and tried again like one that died.
func Start(programs []Program, output io.Writer, log *slog.Logger) *Set {
	return start(programs, output, log, grace)
}

func start(programs []Program, output io.Writer, log *slog.Logger, grace time.Duration) *Set {
	s := &Set{log: log, output: output, grace: grace, spawns: make(chan spawn)}
	for i := range s.stages {
		s.stages[i].ctx, s.stages[i].cancel = context.WithCancel(context.Background())
	}
	go s.spawner()
	for _, p := range programs {
		at := &s.stages[1]
		if p.First {
			at = &s.stages[0]
		}
		at.wg.Go(func() { s.keep(at.ctx, p) })
	}
	return s
}

// Stop sends SIGTERM to the programs that are First, then to the others, SIGKILL
// after 25 s, and returns when all have ended. A second call does nothing.
func (s *Set) Stop() {
	for i := range s.stages {
		s.stages[i].cancel()
		s.stages[i].wg.Wait()
	}
	s.stopped.Do(func() { close(s.spawns) })
}

// keep runs p, and restarts it when it exits, until ctx is done.
func (s *Set) keep(ctx context.Context, p Program) {
	pause := time.Duration(0)
	for {
		if p.OnDemand {
			if err := p.awaitClient(ctx); err != nil && ctx.Err() == nil {
				s.log.Warn("cannot wait for clients, starting the service now", "name", p.Name, "error", err)
			}
			if ctx.Err() != nil {
				return
			}
		}
		started := time.Now()
		lastLine, err := s.run(ctx, p)
		if ctx.Err() != nil {
			return
		}
		lived := time.Since(started)
		pause = nextPause(pause, lived)
		s.log.Warn("a service ended, restarting it", "name", p.Name, "error", err, "pause", pause.String())
		stopRefusing := func() {}
		if lived < steady && gaveUp(err) {
			stopRefusing = p.refuse(cmp.Or(lastLine, err.Error()))
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
		stopRefusing()
		if ctx.Err() != nil {
			return
		}
	}
}

// nextPause returns the pause before a restart, given the last pause and how long
// the program ran.
func nextPause(last, lived time.Duration) time.Duration {
	if last == 0 || lived > steady {
		return firstPause
	}
	return min(2*last, maxPause)
}

// run starts p and waits for its end. lastLine is the last line of its output.
func (s *Set) run(ctx context.Context, p Program) (lastLine string, err error) {
	socket, err := p.file()
	if err != nil {
		return "", err
	}
	defer socket.Close()
	cmd := exec.CommandContext(ctx, p.Path, p.Args...)
	names := p.Name
	cmd.ExtraFiles = []*os.File{socket} // descriptor 3, as sd_listen_fds(3) expects
	if p.Lifeline != nil {
		names += ":lifeline"
		cmd.ExtraFiles = append(cmd.ExtraFiles, p.Lifeline)
	}
	cmd.Env = append(p.Env[:len(p.Env):len(p.Env)], "LISTEN_FDS="+strconv.Itoa(len(cmd.ExtraFiles)), "LISTEN_FDNAMES="+names)
	last, err := s.copyOutput(cmd)
	if err != nil {
		return "", err
	}
	// Its own process group keeps the terminal's Ctrl-C away; the parent-death
	// signal ends it with this process, also after SIGKILL.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = s.grace
	if err = s.spawn(cmd); err == nil {
		err = cmd.Wait()
	}
	return last(), err
}

// awaitClient returns when a client has connected to the socket, and waits to be accepted.
func (p Program) awaitClient(ctx context.Context) error {
	socket, err := p.file()
	if err != nil {
		return err
	}
	defer socket.Close()
	r, w, err := os.Pipe() // the end of w ends the wait
	if err != nil {
		return err
	}
	defer r.Close()
	stop := context.AfterFunc(ctx, func() { w.Close() })
	defer func() {
		if stop() {
			w.Close()
		}
	}()
	fds := []unix.PollFd{{Fd: int32(socket.Fd()), Events: unix.POLLIN}, {Fd: int32(r.Fd()), Events: unix.POLLIN}}
	for {
		if _, err := unix.Poll(fds, -1); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

func (p Program) file() (*os.File, error) {
	l, ok := p.Socket.(interface{ File() (*os.File, error) })
	if !ok {
		return nil, fmt.Errorf("the socket of %s has no file descriptor", p.Name)
	}
	return l.File()
}

func (s *Set) spawn(cmd *exec.Cmd) error {
	request := spawn{cmd, make(chan error, 1)}
	s.spawns <- request
	return <-request.done
}

// spawner starts processes on one thread that lives as long as the set: the kernel
// sends the parent-death signal when the thread that started a process ends, not
// when this process does.
func (s *Set) spawner() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for request := range s.spawns {
		request.done <- request.cmd.Start()
	}
}

// gaveUp reports whether a program could not be started or exited with status 1, for
// example because of an invalid configuration. A killed or crashed program may work
// after a restart.
func gaveUp(err error) bool {
	exit, ok := errors.AsType[*exec.ExitError](err)
	return err != nil && (!ok || exit.ExitCode() == 1)
}

// refuse answers clients with p.Refuse until stop is called. The program's own
// socket stays open. Without p.Refuse, or on an error, clients wait.
func (p Program) refuse(why string) (stop func()) {
	if p.Refuse == nil {
		return func() {}
	}
	socket, err := p.file()
	if err != nil {
		return func() {}
	}
	defer socket.Close()
	l, err := net.FileListener(socket)
	if err != nil {
		return func() {}
	}
	var refusing sync.WaitGroup
	refusing.Go(func() { p.Refuse(l, why) })
	return func() { l.Close(); refusing.Wait() }
}

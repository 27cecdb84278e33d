// Package supervise keeps a set of programs running: it hands each the
// listening socket that it holds for it, starts one again that dies, and ends
// all of them together. It is what systemd does for the host, for one user and
// one terminal; it knows no service.
package supervise

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

const (
	firstPause = 100 * time.Millisecond // before a program that died is started again
	longPause  = 5 * time.Second        // the pause doubles up to this
	steady     = 10 * time.Second       // a program that ran this long starts with the first pause again
	grace      = 25 * time.Second       // between SIGTERM and SIGKILL: longer than a service's drain
)

// Program is one process to keep running.
type Program struct {
	Name   string       // also the name under which the socket is handed over
	Path   string       // the executable
	Args   []string     // arguments without the program's name
	Env    []string     // the whole environment
	Socket net.Listener // stays open while the program is down, so that nobody is refused
	First  bool         // it is the first to be stopped: at its end it needs the others

	// Refuse answers who connects while the program does not start, until l is
	// closed. why is what it said last. Without it they wait.
	Refuse func(l net.Listener, why string)
}

// Set is a running set of programs.
type Set struct {
	log    *slog.Logger
	output io.Writer
	grace  time.Duration
	stages [2]stage // in the order in which they are stopped
	spawns chan spawn

	stopped sync.Once
}

// stage are programs that are stopped together.
type stage struct {
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

// spawn asks the one thread that starts processes for a new one.
type spawn struct {
	cmd  *exec.Cmd
	done chan error
}

// Start starts the programs. Their standard error goes to output, one Write a
// piece. A program that cannot be started at all is tried again like one that
// died, and the log says so.
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

// Stop ends all programs, SIGTERM first, and returns when they are gone. The
// others are left alone until those that are First have ended. A second call
// does nothing.
func (s *Set) Stop() {
	for i := range s.stages {
		s.stages[i].cancel()
		s.stages[i].wg.Wait()
	}
	s.stopped.Do(func() { close(s.spawns) })
}

// keep runs p again and again until ctx is done.
func (s *Set) keep(ctx context.Context, p Program) {
	pause := time.Duration(0)
	for {
		started := time.Now()
		said, err := s.run(ctx, p)
		if ctx.Err() != nil {
			return
		}
		lived := time.Since(started)
		pause = nextPause(pause, lived)
		s.log.Warn("a service ended and is started again", "name", p.Name, "error", err, "pause", pause.String())
		again := func() {}
		if lived < steady && gaveUp(err) {
			again = p.refuse(cmp.Or(said, err.Error()))
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
		again()
		if ctx.Err() != nil {
			return
		}
	}
}

// nextPause is how long to wait after a program's death, given the pause
// before and how long the program lived.
func nextPause(last, lived time.Duration) time.Duration {
	if last == 0 || lived > steady {
		return firstPause
	}
	return min(2*last, longPause)
}

// run starts p and waits for its end. said is the last line of its output.
func (s *Set) run(ctx context.Context, p Program) (said string, err error) {
	socket, err := p.file()
	if err != nil {
		return "", err
	}
	defer socket.Close()
	cmd := exec.CommandContext(ctx, p.Path, p.Args...)
	cmd.Env = append(p.Env[:len(p.Env):len(p.Env)], "LISTEN_FDS=1", "LISTEN_FDNAMES="+p.Name)
	cmd.ExtraFiles = []*os.File{socket} // descriptor 3, where socket activation looks
	last, err := s.listenTo(cmd)
	if err != nil {
		return "", err
	}
	// A group of its own keeps the terminal's Ctrl-C away; the death signal
	// keeps a service from outliving us, whatever ends us.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = s.grace
	if err = s.spawn(cmd); err == nil {
		err = cmd.Wait()
	}
	return last(), err
}

func (p Program) file() (*os.File, error) {
	l, ok := p.Socket.(interface{ File() (*os.File, error) })
	if !ok {
		return nil, fmt.Errorf("the socket of %s has no descriptor to hand over", p.Name)
	}
	return l.File()
}

func (s *Set) spawn(cmd *exec.Cmd) error {
	request := spawn{cmd, make(chan error, 1)}
	s.spawns <- request
	return <-request.done
}

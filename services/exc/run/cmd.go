// Package run runs one command and leaves nothing of it behind.
//
// A Cmd says what to run and how: the program, its environment, its limits, its
// control group and the plan that confines it. Start runs it under a supervisor,
// a copy of this program that is the parent of all that the command starts
// (supervisor.go). An Output collects what it prints (output.go). A Result says
// how it ended. A command can also run in a systemd unit of its own (unit.go).
package run

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"zino/proto"
	"zino/services/exc/cgroup"
	"zino/services/exc/sandbox"
)

const (
	// Grace is the usual time between SIGTERM and SIGKILL.
	Grace = 100 * time.Millisecond
	// termPause is between two walks that send SIGTERM to new processes.
	termPause = 20 * time.Millisecond
	// StopLimit is how long a killed command is waited for. It passes only if the
	// kernel cannot kill a process, such as one that waits for a dead disk, or may
	// not, such as one of another user.
	StopLimit = 10 * time.Second
	// killAfter is how long a supervisor may take to stop before it is killed.
	killAfter = 3 * time.Second
	// drainLimit is how long the outputs are read after the last process of the
	// command has ended. Only a process that is not a descendant, and to which the
	// command handed a pipe, can still write then.
	drainLimit = time.Second
)

// ErrUnkillable: processes of the command are left that cannot be killed.
var ErrUnkillable = errors.New("processes of the run cannot be killed: look for those in state D, or of other users")

// Cmd is a command to run.
type Cmd struct {
	Path   string   // the program
	Args   []string // its name and arguments
	Script *Script  // code in a file that is the last argument; nil: none
	Env    []string
	Dir    string // empty: that of this process
	Umask  *int   // nil: that of this process
	Grace  time.Duration
	Limit  time.Duration // after which it is stopped; 0: none
	Stay   bool          // processes that it leaves run on, and count as the command
	Output *Output
	Stdin  *os.File // its standard input, closed by the caller; nil: empty
	Guard  bool     // nothing of it is left even if its supervisor is killed

	Plan  *sandbox.Plan // confines it; nil: not confined
	Group *cgroup.Group // it runs in; nil: none

	Unit       string   // the socket of the unit to run it in, without Plan and Group; empty: none
	UnitLimits []string // names of the limits that are expected there

	UnitHome    string // the name of its home there, which is kept; empty: none
	UnitHomeMax int64  // bytes that it may take when the command starts
}

// Script is code in a file.
type Script struct {
	File string // where it is; a unit makes its own
	Text string
	Ext  string // of the file's name
}

// Chdir sets the directory to run in, and PWD.
func (c *Cmd) Chdir(dir string) {
	c.Dir = dir
	c.Env = append(slices.DeleteFunc(c.Env, func(entry string) bool { return strings.HasPrefix(entry, "PWD=") }), "PWD="+dir)
}

// argv is the command's name with all arguments.
func (c *Cmd) argv() []string {
	if c.Script == nil {
		return c.Args
	}
	return append(slices.Clip(c.Args), c.Script.File)
}

// End is how a command ended: a word of the supervisor's report, or Stopped.
type End string

// How a command ended.
const (
	Exited      End = proto.RunExited     // with an exit status
	Signaled    End = proto.RunSignaled   // by a signal
	NotStarted  End = proto.RunUnstarted  // it could not be started: an errno
	NotConfined End = proto.RunUnconfined // it was not started because it could not be confined
	Lost        End = ""                  // unknown: the supervisor was killed
	Stopped     End = "stopped"           // in a unit that was hung up on: not reported
)

// Result is how a command ended and what it printed.
type Result struct {
	End            End
	Number         int           // the exit status, signal or errno
	Reason         string        // of NotConfined
	Stdout, Stderr string        // valid UTF-8
	Truncated      bool          // the middle of an output was left out
	TimedOut       bool          // the limit passed
	Interrupted    bool          // the context was cancelled
	Flooded        bool          // it printed more than the ceiling
	Unit           *proto.RunEnd // of a command in a unit
}

// ExitCode is the exit status, -N for death by signal N, else -1.
func (r Result) ExitCode() int {
	switch r.End {
	case Exited:
		return r.Number
	case Signaled:
		return -r.Number
	}
	return -1
}

// Failure says why the command has neither an exit status nor a signal; empty: it
// has one.
func (r Result) Failure(command string) string {
	switch r.End {
	case NotStarted:
		return "Cannot start " + command + ": " + syscall.Errno(r.Number).Error()
	case Lost:
		return "The supervisor of this run was killed, and " + command + " with it."
	}
	return ""
}

// Process is a command that runs, here or in a unit.
type Process struct {
	cmd  *Cmd
	stop func() // ends it with all that it started; may be called again
	kill func() // ends a supervisor that does not stop
	done chan ended

	remaining chan struct{} // closed when a command that may Stay has ended and others run on

	killAfter time.Duration // killAfter, or what a test sets
}

// ended is the end of a process, without its output.
type ended struct {
	Result
	err error
}

// Stop ends the command with all that it started.
func (p *Process) Stop() { p.stop() }

// Remaining is closed when the command itself has ended and processes that it
// started run on (Cmd.Stay).
func (p *Process) Remaining() <-chan struct{} { return p.remaining }

// Wait waits until the command and all that it started are gone: by themselves,
// at the limit, or because ctx was cancelled. The deadline of ctx is an error.
func (p *Process) Wait(ctx context.Context) (Result, error) {
	var expired <-chan time.Time
	if p.cmd.Limit > 0 {
		timer := time.NewTimer(p.cmd.Limit)
		defer timer.Stop()
		expired = timer.C
	}
	var e ended
	timedOut, interrupted := false, false
	select {
	case e = <-p.done:
	case <-expired:
		timedOut = true
		if e = p.halt(); e.End == Stopped { // the unit should have stopped it before
			e.err = ErrSilent
		}
	case <-ctx.Done():
		interrupted = true
		if e = p.halt(); e.err == nil && !errors.Is(ctx.Err(), context.Canceled) {
			e.err = ctx.Err()
		}
	}
	if e.err != nil {
		return Result{}, e.err
	}
	r := e.Result
	r.TimedOut, r.Interrupted, r.Flooded = r.TimedOut || timedOut, interrupted, r.Flooded || p.cmd.Output.over.Load()
	r.Stdout, r.Stderr, r.Truncated = p.cmd.Output.texts()
	return r, nil
}

// halt stops p and waits for its end. A supervisor that does not stop is killed:
// code that is not confined can stop it, or take from it what it needs. Its control
// group, if it has one, is killed with it.
func (p *Process) halt() ended {
	p.stop()
	select {
	case e := <-p.done:
		return e
	case <-time.After(p.killAfter):
		p.kill()
	}
	select {
	case e := <-p.done:
		return e
	case <-time.After(StopLimit):
		return ended{err: ErrUnkillable}
	}
}

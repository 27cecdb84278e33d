package exc

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"syscall"
	"time"

	"zino/services/exc/cgroup"
	"zino/services/exc/confine"
)

const (
	// stopGrace is the time between SIGTERM and SIGKILL.
	stopGrace = 100 * time.Millisecond
	// stopPatience is how long a supervisor may take to stop before it is killed.
	stopPatience = 3 * time.Second
	// clearLimit is how long the end of what a killed supervisor left may take.
	clearLimit = 4 * time.Second
	// stopLimit is how long a stopped run is waited for. It passes only if the
	// kernel cannot kill a process, such as one that waits for a dead disk, or
	// may not, such as one of another user.
	stopLimit = 10 * time.Second
	// packetRoom is what the outputs may take in a reply, whose cap is 16 MiB.
	packetRoom = 15 << 20
)

// errUnkillable says that processes of a run are left that cannot be killed.
var errUnkillable = errors.New("processes of the run cannot be killed: look for those in state D, or of other users")

// job is a command to run.
type job struct {
	argv      []string // the command's name and its arguments
	script    *script  // that is its last argument; nil: none
	env       []string
	umask     *int          // nil: that of this process
	dir       string        // to run in; empty: that of this process
	grace     time.Duration // between SIGTERM and SIGKILL at the limit
	outputMax int           // bytes kept of each output
	// tap, if set, gives what an output is written to in place of its capture,
	// and must pass it on to that.
	tap func(name string, c *capture) io.Writer

	plan     *confine.Plan // that confines it; nil: none
	scoped   bool          // whether it is only kept from ending those who watch it
	group    *cgroup.Group // that it runs in; nil: none
	floodMax int64         // bytes of output at which it is stopped; 0: none
}

// script is code in a file.
type script struct{ file, text, extension string }

// command is the job's command with all its arguments.
func (j job) command() []string {
	if j.script == nil {
		return j.argv
	}
	return append(slices.Clip(j.argv), j.script.file)
}

// writer takes the output of that name, which c captures.
func (j job) writer(name string, c *capture) io.Writer {
	if j.tap == nil {
		return c
	}
	return j.tap(name, c)
}

// in has the job run in a directory.
func (j job) in(dir string) job {
	j.dir = dir
	j.env = append(slices.DeleteFunc(j.env, func(entry string) bool { return strings.HasPrefix(entry, "PWD=") }), "PWD="+dir)
	return j
}

// outcome is what a job came to.
type outcome struct {
	report
	stdout, stderr string
	truncated      bool
	timedOut       bool
	interrupted    bool // the caller is gone, or the service stops
	flooded        bool // it printed without end and was stopped
}

// wait waits until p and all that it started are gone: by themselves, at the
// limit, or because ctx was cancelled. The deadline of ctx is an error.
func (p *process) wait(ctx context.Context, limit time.Duration) (outcome, error) {
	var expired <-chan time.Time
	if limit > 0 {
		timer := time.NewTimer(limit)
		defer timer.Stop()
		expired = timer.C
	}
	select {
	case r := <-p.done:
		if r.err != nil {
			return outcome{}, r.err
		}
		return p.outcome(r, false), nil
	case <-expired:
		r, err := p.halt()
		if err != nil {
			return outcome{}, err
		}
		return p.outcome(r, true), nil
	case <-ctx.Done():
		r, err := p.halt()
		if err == nil && !errors.Is(ctx.Err(), context.Canceled) {
			err = ctx.Err()
		}
		if err != nil {
			return outcome{}, err
		}
		o := p.outcome(r, false)
		o.interrupted = true
		return o, nil
	}
}

// halt stops p and waits for its report.
func (p *process) halt() (report, error) {
	p.stop()
	select {
	case r := <-p.done:
		return r, r.err
	case <-time.After(stopLimit):
		return report{}, errUnkillable
	}
}

// outcome puts together what p came to. The outputs may together fill one
// packet at most: control characters take six bytes there.
func (p *process) outcome(r report, timedOut bool) outcome {
	o := outcome{report: r, timedOut: timedOut, flooded: p.flood.over.Load()}
	for limit := p.outputMax; ; limit /= 2 {
		var cutOut, cutErr bool
		o.stdout, cutOut = p.stdout.text(limit)
		o.stderr, cutErr = p.stderr.text(limit)
		o.truncated = cutOut || cutErr
		if escapedLen(o.stdout)+escapedLen(o.stderr) <= packetRoom {
			return o
		}
	}
}

// complaint says why a command that came to no end of its own did not, and is
// empty for one that did.
func (o outcome) complaint(command string) string {
	switch o.verdict {
	case unstarted:
		return "Cannot start " + command + ": " + syscall.Errno(o.number).Error()
	case lost:
		return "The supervisor of this run was killed, and " + command + " with it."
	}
	return ""
}

package exc

import (
	"io"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// drainLimit is how long the outputs are read on when all descendants of a
// command are gone. Then all writers are gone too, unless the command handed a
// pipe to a process that is no descendant.
const drainLimit = time.Second

// process is a command that runs under a supervisor.
type process struct {
	supervisor     *exec.Cmd
	pipes          *pipes
	outputMax      int
	stdout, stderr *capture
	drained        sync.WaitGroup
	done           chan report // brings the report when all is over
}

// startProcess starts the supervisor of j, whose program is at path.
func startProcess(j job, path string) (*process, error) {
	ends, err := openPipes()
	if err != nil {
		return nil, err
	}
	p := &process{
		supervisor: supervisorOf(j, path, ends), pipes: ends, outputMax: j.outputMax,
		stdout: newCapture(j.outputMax), stderr: newCapture(j.outputMax),
		done: make(chan report, 1),
	}
	err = p.supervisor.Start()
	ends.closeTheirs()
	if err != nil {
		ends.closeOurs()
		return nil, err
	}
	stdout, stderr := j.writer("stdout", p.stdout), j.writer("stderr", p.stderr)
	p.drained.Go(func() { drain(stdout, ends.stdoutR) })
	p.drained.Go(func() { drain(stderr, ends.stderrR) })
	go p.follow()
	return p, nil
}

// supervisorOf describes the supervisor's process; supervise reads its arguments.
func supervisorOf(j job, path string, ends *pipes) *exec.Cmd {
	args := []string{superviseName, superviseArg, strconv.FormatInt(j.grace.Milliseconds(), 10), path}
	return &exec.Cmd{
		Path:        "/proc/self/exe", // this very program, even if its file was replaced
		Args:        append(args, j.argv...),
		Env:         supervisorEnv(j.env),
		Dir:         j.dir, // which the command inherits
		Stdout:      ends.stdoutW,
		Stderr:      ends.stderrW,
		ExtraFiles:  []*os.File{ends.lifelineR, ends.statusW},
		SysProcAttr: &syscall.SysProcAttr{Setsid: true}, // a session for the command, without a terminal
	}
}

// follow waits for the supervisor's end, which comes when nothing of the
// command is left, and then for what is still in the pipes.
func (p *process) follow() {
	// Its exit status says nothing: the report does.
	_ = p.supervisor.Wait()
	p.pipes.limitReads(time.Now().Add(drainLimit))
	text, _ := io.ReadAll(io.LimitReader(p.pipes.statusR, 256)) // cut short by an error, it is judged as it is
	r := parseReport(string(text))
	if r.verdict == lost {
		// The command killed its supervisor and was killed with it. What it
		// left can be found only as far as it stayed in their session.
		killSession(p.supervisor.Process.Pid)
	}
	p.drained.Wait()
	p.pipes.closeOurs()
	p.done <- r
}

// stop has the supervisor end the command and all that it started.
func (p *process) stop() {
	_ = p.pipes.lifelineW.Close() // closed twice only when the run is over anyway
	// A command may have stopped its supervisor. If that is gone, all is well.
	_ = p.supervisor.Process.Signal(syscall.SIGCONT)
}

// pipes connect exc with a supervisor and its command. All are closed on exec:
// os/exec hands over just the ends that it is given.
type pipes struct {
	lifelineR, lifelineW *os.File
	statusR, statusW     *os.File
	stdoutR, stdoutW     *os.File
	stderrR, stderrW     *os.File
}

func openPipes() (*pipes, error) {
	p := new(pipes)
	for _, pair := range [][2]**os.File{
		{&p.lifelineR, &p.lifelineW},
		{&p.statusR, &p.statusW},
		{&p.stdoutR, &p.stdoutW},
		{&p.stderrR, &p.stderrW},
	} {
		r, w, err := os.Pipe()
		if err != nil {
			p.closeTheirs()
			p.closeOurs()
			return nil, err
		}
		*pair[0], *pair[1] = r, w
	}
	return p, nil
}

func (p *pipes) closeTheirs() { closeAll(p.lifelineR, p.statusW, p.stdoutW, p.stderrW) }
func (p *pipes) closeOurs()   { closeAll(p.lifelineW, p.statusR, p.stdoutR, p.stderrR) }

// limitReads makes reads end at t even if a writer is left.
func (p *pipes) limitReads(t time.Time) {
	for _, f := range []*os.File{p.statusR, p.stdoutR, p.stderrR} {
		_ = f.SetReadDeadline(t) // pipes have deadlines
	}
}

// closeAll closes files that nothing was buffered for: closing cannot lose
// anything. Files that are nil or closed already do no harm.
func closeAll(files ...*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}

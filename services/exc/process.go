package exc

import (
	"io"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"time"

	"zino/services/exc/cgroup"
)

// drainLimit is how long the outputs are read on when all descendants of a
// command are gone. Then all writers are gone too, unless the command handed a
// pipe to a process that is no descendant.
const drainLimit = time.Second

// process is a command that runs, here or in a unit of its own.
type process struct {
	outputMax      int
	stdout, stderr *capture
	flood          *flood
	stop           func()      // has it be ended with all that it started; may be called again
	done           chan report // brings the report when all is over
}

// newProcess is the process of j without what makes it run.
func newProcess(j job) *process {
	p := &process{
		outputMax: j.outputMax, stdout: newCapture(j.outputMax), stderr: newCapture(j.outputMax),
		done: make(chan report, 1),
	}
	p.flood = &flood{limit: j.floodMax, stop: func() { p.stop() }}
	return p
}

// writers take the outputs of j.
func (p *process) writers(j job) (stdout, stderr io.Writer) {
	return p.flood.watch(j.writer("stdout", p.stdout)), p.flood.watch(j.writer("stderr", p.stderr))
}

// supervised is a command under a supervisor.
type supervised struct {
	*process
	supervisor *exec.Cmd
	pipes      *pipes
	group      *cgroup.Group
	drained    sync.WaitGroup
	overruling sync.Once     // sees to it that the supervisor does stop
	gone       chan struct{} // closed when the supervisor has ended
}

// startProcess starts the supervisor of j, whose program is at path.
func startProcess(j job, path string) (*process, error) {
	ends, err := openPipes()
	if err != nil {
		return nil, err
	}
	s := &supervised{process: newProcess(j), pipes: ends, group: j.group, gone: make(chan struct{})}
	s.process.stop = s.stop
	if s.supervisor, err = supervisorOf(j, path, ends); err == nil {
		err = orphanage.start(s.supervisor)
	}
	ends.closeTheirs()
	if err != nil {
		ends.closeOurs()
		return nil, err
	}
	stdout, stderr := s.writers(j)
	s.drained.Go(func() { drain(stdout, ends.stdoutR) })
	s.drained.Go(func() { drain(stderr, ends.stderrR) })
	go s.follow()
	return s.process, nil
}

// supervisorOf describes the supervisor's process; supervise reads its arguments.
func supervisorOf(j job, path string, ends *pipes) (*exec.Cmd, error) {
	plan, err := planText(j)
	if err != nil {
		return nil, err
	}
	attr := &syscall.SysProcAttr{Setsid: true} // a session for the command, without a terminal
	if j.plan != nil {
		j.plan.Attr(attr)
	}
	files := []*os.File{ends.lifelineR, ends.statusW}
	grouped := ""
	if j.group != nil {
		files, grouped = append(files, j.group.File()), "group"
	}
	umask := ""
	if j.umask != nil {
		umask = strconv.Itoa(*j.umask)
	}
	args := []string{superviseName, superviseArg, strconv.FormatInt(j.grace.Milliseconds(), 10), grouped, plan, umask, path}
	return &exec.Cmd{
		Path:        ownProgram,
		Args:        append(args, j.command()...),
		Env:         supervisorEnv(j.env),
		Dir:         j.dir, // which the command inherits
		Stdout:      ends.stdoutW,
		Stderr:      ends.stderrW,
		ExtraFiles:  files,
		SysProcAttr: attr,
	}, nil
}

// follow waits for the supervisor's end, which comes when nothing of the
// command is left, and then for what is still in the pipes.
func (s *supervised) follow() {
	// A status other than 0 is that of a supervisor that was killed, whatever
	// its report says. Else the report tells.
	killed := s.supervisor.Wait() != nil
	close(s.gone)
	orphanage.forget(s.supervisor)
	s.pipes.limitReads(time.Now().Add(drainLimit))
	text, _ := io.ReadAll(io.LimitReader(s.pipes.statusR, reportMax)) // cut short by an error, it is judged as it is
	r := parseReport(string(text))
	if killed || r.verdict == lost {
		r = report{err: s.clear()}
	}
	s.drained.Wait()
	s.pipes.closeOurs()
	s.done <- r
}

// clear ends what a supervisor left that was killed. The command was killed with
// it; what that had started is in their group, or comes to this process.
func (s *supervised) clear() error {
	if s.group != nil {
		_ = s.group.Kill()
	}
	return orphanage.end(clearLimit)
}

// stop has the supervisor end the command and all that it started.
func (s *supervised) stop() {
	s.overruling.Do(func() { go s.overrule() })
	_ = s.pipes.lifelineW.Close() // closed twice only when the run is over anyway, or floods
	// A command may have stopped its supervisor. If that is gone, all is well.
	_ = s.supervisor.Process.Signal(syscall.SIGCONT)
}

// overrule kills a supervisor that does not stop: code that is not confined can
// have it stand still, or run out of what it needs. The first process of a
// namespace takes all others of that along.
func (s *supervised) overrule() {
	timer := time.NewTimer(stopPatience)
	defer timer.Stop()
	select {
	case <-s.gone:
	case <-timer.C:
		_ = s.supervisor.Process.Kill() // fails only if it has just ended
	}
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

package run

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Start starts c under a supervisor, or in a unit.
func Start(c *Cmd) (*Process, error) {
	if c.Unit != "" {
		return startUnit(c), nil
	}
	ends, err := openPipes()
	if err != nil {
		return nil, err
	}
	supervisor, err := supervisorOf(c, ends)
	if err == nil {
		err = supervisor.Start()
	}
	ends.closeTheirs()
	if err != nil {
		ends.closeOurs()
		return nil, err
	}
	p := &Process{
		cmd: c, done: make(chan ended, 1), killAfter: c.Grace + killAfter, remaining: make(chan struct{}),
		stop: func() { // twice does no harm
			_, _ = ends.lifelineW.Write([]byte{0})
			_ = ends.lifelineW.Close()
		},
		kill: func() { _ = supervisor.Process.Kill() },
	}
	c.Output.begin(p.Stop)
	var drained sync.WaitGroup
	drained.Go(func() { ends.drain(&c.Output.stdout, ends.stdoutR) })
	drained.Go(func() { ends.drain(&c.Output.stderr, ends.stderrR) })
	report := make(chan string, 1)
	go func() { report <- readReport(ends.statusR, p.remaining) }()
	go func() {
		// The supervisor ends when no process of the command is left. With a status
		// other than 0 it was killed, and its report does not count.
		killed := supervisor.Wait() != nil
		if killed && c.Group != nil {
			_ = c.Group.Kill() // removing the group reports what is left
		}
		if killed && c.guarded() { // the supervisor, which the guard had started, ends the command
			closeAll(ends.lifelineW)
		}
		ends.limitReads(time.Now().Add(drainLimit))
		r := parseReport(<-report)
		if killed {
			r = Result{}
		}
		drained.Wait()
		ends.closeOurs()
		p.done <- ended{Result: r}
	}()
	return p, nil
}

// supervisorOf describes the supervisor's process; supervise parses its arguments.
func supervisorOf(c *Cmd, ends *pipes) (*exec.Cmd, error) {
	plan := ""
	attr := &syscall.SysProcAttr{Setsid: true} // a session for the command, without a terminal
	if c.Plan != nil {
		text, err := json.Marshal(c.Plan)
		if err != nil {
			return nil, err
		}
		plan = string(text)
		c.Plan.Attr(attr)
	}
	files := []*os.File{ends.lifelineR, ends.statusW}
	grouped := ""
	if c.Group != nil {
		files, grouped = append(files, c.Group.File()), "group"
	}
	umask := ""
	if c.Umask != nil {
		umask = strconv.Itoa(*c.Umask)
	}
	stay := ""
	if c.Stay {
		stay = "stay"
	}
	args := []string{superviseName}
	if c.guarded() {
		args = append(args, guardArg)
	}
	args = append(args, superviseArg, strconv.FormatInt(c.Grace.Milliseconds(), 10), grouped, plan, umask, stay, c.Path)
	return &exec.Cmd{
		Path:        ownProgram,
		Args:        append(args, c.argv()...),
		Env:         supervisorEnv(c.Env),
		Dir:         c.Dir, // which the command inherits
		Stdin:       c.stdin(),
		Stdout:      ends.stdoutW,
		Stderr:      ends.stderrW,
		ExtraFiles:  files,
		SysProcAttr: attr,
	}, nil
}

// guarded reports whether the supervisor needs a guard: a control group or a namespace of
// processes ends with all that is in it.
func (c *Cmd) guarded() bool {
	return c.Guard && c.Group == nil && (c.Plan == nil || !c.Plan.Namespaces)
}

// stdin is the standard input of the supervisor, which the command inherits.
func (c *Cmd) stdin() io.Reader {
	if c.Stdin == nil {
		return nil
	}
	return c.Stdin
}

// supervisorEnv is the environment of a supervisor whose command gets env.
func supervisorEnv(env []string) []string {
	marked := []string{"GOMAXPROCS=1", "GOGC=off"}
	for _, entry := range env {
		marked = append(marked, envMark+entry)
	}
	return marked
}

// reportMax is the size in bytes of the longest report.
const reportMax = 4 << 10

// readReport reads the supervisor's lines up to their end, or as far as they came.
// It closes remaining at the line that says that the command has ended and others
// have not.
func readReport(r io.Reader, remaining chan struct{}) string {
	var text []byte
	chunk := make([]byte, 512)
	for seen := false; len(text) < reportMax; {
		n, err := r.Read(chunk)
		text = append(text, chunk[:n]...)
		if !seen && bytes.HasPrefix(text, []byte(remainingLine)) {
			seen = true
			close(remaining)
		}
		if err != nil {
			break
		}
	}
	return string(text)
}

// parseReport parses a supervisor's lines, "END NUMBER" or "confine REASON". Other
// lines are skipped: without a good one the Result is Lost. The first line of a
// command that was not started counts, else the last.
func parseReport(text string) (r Result) {
	for line := range strings.Lines(text) {
		word, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if !strings.HasSuffix(line, "\n") || r.End == NotStarted || r.End == NotConfined {
			continue
		}
		if End(word) == NotConfined {
			r = Result{End: NotConfined, Reason: rest}
			continue
		}
		n, err := strconv.ParseUint(rest, 10, 31)
		if err != nil {
			continue
		}
		switch end := End(word); end {
		case Exited, Signaled, NotStarted:
			r = Result{End: end, Number: int(n)}
		}
	}
	return r
}

// pipes connect exc with a supervisor and its command. All are closed on exec:
// os/exec hands over only the ends that it is given.
type pipes struct {
	lifelineR, lifelineW *os.File
	statusR, statusW     *os.File
	stdoutR, stdoutW     *os.File
	stderrR, stderrW     *os.File

	limited atomic.Bool // limitReads was called
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
	p.limited.Store(true)
	for _, f := range []*os.File{p.statusR, p.stdoutR, p.stderrR} {
		_ = f.SetReadDeadline(t) // pipes have deadlines
	}
}

// closeAll closes files that need no flush. Files that are nil or closed already
// do no harm.
func closeAll(files ...*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}

// buffers holds the read buffers of runs.
var buffers = sync.Pool{New: func() any { return new([32 << 10]byte) }}

// drain reads r to its end, or to an error, into w, which never fails. The time in which w
// blocks does not count against the limit of reads: what is in the pipe is still read.
func (p *pipes) drain(w io.Writer, r io.Reader) {
	buf := buffers.Get().(*[32 << 10]byte)
	defer buffers.Put(buf)
	for {
		n, err := r.Read(buf[:])
		began := time.Now()
		_, _ = w.Write(buf[:n])
		if err != nil {
			return
		}
		if p.limited.Load() && time.Since(began) > drainLimit/2 {
			_ = r.(*os.File).SetReadDeadline(time.Now().Add(drainLimit))
		}
	}
}

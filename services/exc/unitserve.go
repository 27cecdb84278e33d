package exc

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"zino/pkg/wire"
	"zino/services/exc/cgroup"
)

const (
	// runFlag has the program run one command for the connection that is its
	// standard input.
	runFlag = "--run"
	// runCaller is the user who may ask for that, beside root and the own one.
	runCaller = "zino-exc"
	// requestLimit is how long the request may take to come.
	requestLimit = 10 * time.Second
	// outputChunk is how much output goes into one packet.
	outputChunk = 32 << 10
)

// TakeRun reports whether the program was asked to run one command, and takes
// the flag that says so off its arguments.
func TakeRun() bool {
	i := slices.Index(os.Args, runFlag)
	if i < 1 {
		return false
	}
	os.Args = slices.Delete(os.Args, i, i+1)
	return true
}

// Run runs the one command that is asked for on the connection that is standard
// input, in this process's unit. The program's main must have called Supervise.
func Run(log *slog.Logger) error {
	f := os.NewFile(0, "standard input")
	c, err := net.FileConn(f)
	if err != nil {
		return fmt.Errorf("%s: standard input must be a connection (StandardInput=socket): %w", runFlag, err)
	}
	conn, ok := c.(*net.UnixConn)
	if !ok {
		return errors.Join(fmt.Errorf("%s: standard input is no Unix socket", runFlag), c.Close())
	}
	if err := beOpaque(); err != nil {
		return errors.Join(err, conn.Close())
	}
	// The host ends a unit with SIGTERM for all of its processes. This one has
	// still to tell what became of the command.
	ending, stop := signal.NotifyContext(context.Background(), unix.SIGTERM)
	defer stop()
	return errors.Join(runFor(ending, conn, log), conn.Close())
}

// runFor answers the one request on a connection. The command is ended early
// when ctx is.
func runFor(ctx context.Context, conn *net.UnixConn, log *slog.Logger) error {
	uid, err := peerUID(conn)
	if err != nil {
		return err
	}
	if !mayRun(uid) {
		return fmt.Errorf("user %d may not run code here: only %s and root may", uid, runCaller)
	}
	if err := conn.SetReadDeadline(time.Now().Add(requestLimit)); err != nil {
		return err
	}
	req, err := readRun(conn)
	if err != nil {
		return err
	}
	if err := conn.SetReadDeadline(time.Time{}); err != nil {
		return err
	}
	return serveRun(ctx, conn, req, log)
}

// mayRun reports whether a user may have code run. In a user namespace that
// shows others as nobody (PrivateUsers=yes) the socket's mode alone decides.
func mayRun(uid int) bool {
	if uid == 0 || uid == os.Geteuid() || uid == overflow() && !allUsersSeen() {
		return true
	}
	caller, err := user.Lookup(runCaller)
	return err == nil && caller.Uid == strconv.Itoa(uid)
}

// overflow is the number that the kernel shows for users it cannot show.
func overflow() int {
	text, err := os.ReadFile("/proc/sys/kernel/overflowuid")
	if err != nil {
		return 65534
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return 65534
	}
	return n
}

// allUsersSeen reports whether every user is shown under its own number.
func allUsersSeen() bool {
	text, err := os.ReadFile("/proc/self/uid_map")
	return err != nil || strings.Join(strings.Fields(string(text)), " ") == "0 0 4294967295"
}

// readRun reads the request.
func readRun(r io.Reader) (req unitRun, err error) {
	payload, err := wire.NewReader(r).Next()
	if err != nil {
		return req, fmt.Errorf("no request came: %w", err)
	}
	typ, err := wire.ReplyType(payload)
	if err == nil && typ != typeRun {
		err = fmt.Errorf("a packet of type %q where a request to run was expected", typ)
	}
	if err == nil {
		err = wire.Decode(payload, &req)
	}
	if err == nil && len(req.Argv) == 0 {
		err = errors.New("the request names no command")
	}
	return req, err
}

// serveRun runs what is asked for and tells what it came to.
func serveRun(ctx context.Context, conn *net.UnixConn, req unitRun, log *slog.Logger) error {
	out := &packets{w: conn}
	here, before := unitGroup()
	r, err := runHere(ctx, conn, req, out, log)
	if err != nil {
		r = report{verdict: unconfined, why: err.Error()}
	}
	end := unitEnd{Verdict: string(r.verdict), Number: r.number, Why: r.why}
	end.account(here, before, req.Limits)
	return out.send(typeEnd, end)
}

// runHere runs the request's command in a directory of its own, until it ends,
// or the caller or the host wants its end.
func runHere(ctx context.Context, conn *net.UnixConn, req unitRun, out *packets, log *slog.Logger) (report, error) {
	space, err := openWorkspace(os.TempDir(), log)
	if err != nil {
		return report{}, err
	}
	defer space.close()
	j, err := req.job(space)
	if err != nil {
		return report{}, err
	}
	j.tap = func(name string, _ *capture) io.Writer { return &sent{out, name} }
	path, err := locate(j.argv[0])
	if err != nil {
		return report{verdict: unstarted, number: int(unix.ENOENT)}, nil
	}
	p, err := startProcess(j, path)
	if err != nil {
		return report{}, err
	}
	go func() {
		_, _ = conn.Read(make([]byte, 1)) // whatever comes, or the end: the caller has had enough
		p.stop()
	}()
	defer context.AfterFunc(ctx, p.stop)()
	o, err := p.wait(context.WithoutCancel(ctx), 0)
	return o.report, err
}

// job is the command of a request, with a home in space.
func (req unitRun) job(space *workspace) (job, error) {
	home, err := space.newDir()
	if err != nil {
		return job{}, err
	}
	j := job{argv: req.Argv, env: append(slices.Clone(req.Env), "HOME="+home, "TMPDIR="+home), grace: stopGrace, scoped: true}
	dir := req.Dir
	if dir == "" {
		dir = home
	}
	if req.Script != nil {
		file, _, err := space.place(req.Script.Text, req.Script.Extension)
		if err != nil {
			return job{}, err
		}
		j.script = &script{file: file}
	}
	if _, err := directory(dir); err != nil {
		return job{}, err
	}
	return j.in(dir), nil
}

// unitGroup is the control group of the unit, nil if it has none of its own,
// and what it has taken so far.
func unitGroup() (*cgroup.Group, cgroup.Usage) {
	here, err := cgroup.Here()
	if err != nil {
		return nil, cgroup.Usage{}
	}
	return here, here.Usage()
}

// account adds what the unit, whose group is here, has taken since before. It
// is nil if that is not known.
func (e *unitEnd) account(here *cgroup.Group, before cgroup.Usage, limits []string) {
	if here == nil {
		e.Unlimited = limits
		return
	}
	e.Unlimited = slices.DeleteFunc(slices.Clone(limits), here.Limited)
	u := here.Usage()
	ms := (u.CPU - before.CPU).Milliseconds()
	e.CPUMS = &ms
	if u.Peak >= 0 {
		e.PeakBytes = &u.Peak
	}
	if u.OutOfMemory > 0 {
		e.Limit = cgroup.Memory
	} else if u.TasksDenied > 0 && e.Number != 0 {
		e.Limit = cgroup.Tasks
	}
}

// sent sends what is written to it as output. A caller who is gone takes
// nothing, which is no reason to stop before the command has ended.
type sent struct {
	out    *packets
	stream string
}

// Write sends p. It never fails.
func (s *sent) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		n := min(len(rest), outputChunk)
		_ = s.out.send(typeOutput, unitOutput{s.stream, base64.StdEncoding.EncodeToString(rest[:n])})
		rest = rest[n:]
	}
	return len(p), nil
}

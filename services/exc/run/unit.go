package run

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"zino/pkg/wire"
	"zino/services/exc/cgroup"
	"zino/services/exc/sandbox"
)

const (
	// UnitSocket is where the host starts a command in a unit of its own.
	UnitSocket = "/run/zino-run/run.sock"
	// unitDialLimit is how long the host may take to answer there.
	unitDialLimit = 5 * time.Second
	// unitFlag has the program run one command for the connection that is its
	// standard input.
	unitFlag = "--run"
	// unitCaller is the user that may ask for that, besides root and this user.
	unitCaller = "zino-exc"
	// requestLimit is how long the request may take to come.
	requestLimit = 10 * time.Second
	// outputChunk is how much output goes into one packet.
	outputChunk = 32 << 10
)

// ErrSilent: a unit did not report how its command ended.
var ErrSilent = errors.New("the unit of the run broke off, or does not answer: what ran there may go on until the host ends it (systemctl list-units 'zino-run@*')")

// A command in a unit of its own is asked for on a socket that starts a unit
// for each connection. There goes one packet to it, of type run; back come
// packets of type output while the command runs, and one of type end. Closing
// the connection's other direction asks for the command's end: it gets SIGTERM
// and then SIGKILL, and its end is reported as ever.
const (
	typeRun    = "run"
	typeOutput = "output"
	typeEnd    = "end"
)

// unitRun is what is to be run.
type unitRun struct {
	// Argv is the command's name and its arguments.
	Argv []string `json:"argv"`
	// Env is its environment.
	Env []string `json:"env"`
	// Dir is where it begins; empty: a directory of its own.
	Dir string `json:"dir,omitzero"`
	// Script is a file whose path becomes the last argument.
	Script *unitScript `json:"script,omitzero"`
	// Limits are the names of configured limits.
	Limits []string `json:"limits,omitzero"`
}

// unitScript is the file of a unitRun.
type unitScript struct {
	Text      string `json:"text"`
	Extension string `json:"extension,omitzero"`
}

// unitOutput is some output of the command.
type unitOutput struct {
	// Stream is "stdout" or "stderr".
	Stream string `json:"stream"`
	// Data are the bytes in base64: they need not be text.
	Data string `json:"data"`
}

// Usage is what a unit has taken, as far as it is known.
type Usage struct {
	CPUMS     *int64 `json:"cpu_ms,omitzero"`
	PeakBytes *int64 `json:"peak_bytes,omitzero"`
	// Limit is the limit that the command met.
	Limit string `json:"limit,omitzero"`
	// Unlimited are those of the limits that the unit does not have.
	Unlimited []string `json:"unlimited,omitzero"`
}

// unitEnd is how the command ended.
type unitEnd struct {
	// Verdict and Number are those of a supervisor's report; Why is what could
	// not be done, if the verdict is "confine".
	Verdict string `json:"verdict"`
	Number  int    `json:"number,omitzero"`
	Why     string `json:"why,omitzero"`
	Usage
}

func (e unitEnd) result() Result {
	r := Result{End: End(e.Verdict), Number: e.Number, Reason: e.Why, Unit: &e.Usage}
	switch r.End {
	case Exited, Signaled, NotStarted, NotConfined:
		return r
	}
	return Result{Unit: &e.Usage}
}

// packets writes packets to a connection, one at a time.
type packets struct {
	mu sync.Mutex
	w  io.Writer
}

func (p *packets) send(typ string, v any) error {
	payload, err := wire.AppendObject(nil, typ, v)
	if err != nil {
		return err
	}
	frame, err := wire.AppendFrame(nil, payload)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	_, err = p.w.Write(frame)
	return err
}

// peerUID is the user at the other end of a connection; at a socket that listens
// it is the user that made it listen.
func peerUID(c *net.UnixConn) (uid int, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *unix.Ucred
	var failed error
	err = raw.Control(func(fd uintptr) { cred, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	if err = errors.Join(err, failed); err != nil {
		return 0, fmt.Errorf("cannot tell the user at the other end: %w", err)
	}
	return int(cred.Uid), nil
}

// dialUnit connects to the socket for units, which must be root's or this
// user's: no other user may read the code.
func dialUnit(ctx context.Context, socket string) (*net.UnixConn, error) {
	dialer := net.Dialer{Timeout: unitDialLimit}
	c, err := dialer.DialContext(ctx, "unix", socket)
	if err != nil {
		return nil, fmt.Errorf("%w: zino-run.socket of a system installation listens there", err)
	}
	conn := c.(*net.UnixConn)
	uid, err := peerUID(conn)
	if err == nil && uid != 0 && uid != os.Geteuid() {
		err = fmt.Errorf("%s is a socket of user %d: it must be root's", socket, uid)
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

// StartUnit starts c in a unit that the host starts for a connection to socket.
// limits are the names of the configured limits.
func StartUnit(ctx context.Context, c *Cmd, socket string, limits []string) (*Process, error) {
	conn, err := dialUnit(ctx, socket)
	if err != nil {
		return nil, err
	}
	req := unitRun{Argv: c.Args, Env: c.Env, Dir: c.Dir, Limits: limits}
	if c.Script != nil {
		req.Script = &unitScript{c.Script.Text, c.Script.Ext}
	}
	if err := (&packets{w: conn}).send(typeRun, req); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	p := &Process{cmd: c, done: make(chan ended, 1), stopLimit: StopLimit, kill: func() {}}
	p.stop = func() {
		_ = conn.CloseWrite()
		_ = conn.SetReadDeadline(time.Now().Add(StopLimit - time.Second))
	}
	c.Output.begin(p.Stop)
	go func() {
		end := ended{err: ErrSilent}
		in := wire.NewReader(conn)
		for {
			payload, err := in.Next()
			if err != nil {
				break // the host ended the unit
			}
			over, err := take(&c.Output.stdout, &c.Output.stderr, payload, &end)
			if err != nil || over {
				break
			}
		}
		_ = conn.Close()
		p.done <- end
	}()
	return p, nil
}

// take parses a packet of a unit. The error is that of a malformed one.
func take(stdout, stderr io.Writer, payload []byte, end *ended) (over bool, err error) {
	typ, err := wire.ReplyType(payload)
	if err != nil {
		return false, err
	}
	switch typ {
	case typeOutput:
		var o unitOutput
		if err := wire.Decode(payload, &o); err != nil {
			return false, err
		}
		data, err := base64.StdEncoding.DecodeString(o.Data)
		if err != nil {
			return false, err
		}
		switch o.Stream {
		case "stdout":
			_, err = stdout.Write(data)
		case "stderr":
			_, err = stderr.Write(data)
		}
		return false, err
	case typeEnd:
		var e unitEnd
		err = wire.Decode(payload, &e)
		*end = ended{Result: e.result()}
		return true, err
	}
	return false, nil
}

// TakeUnitFlag reports whether the program was asked to run one command, and
// removes the flag that says so from its arguments.
func TakeUnitFlag() bool {
	i := slices.Index(os.Args, unitFlag)
	if i < 1 {
		return false
	}
	os.Args = slices.Delete(os.Args, i, i+1)
	return true
}

// ServeUnit runs the one command that is asked for on the connection that is
// standard input, in this process's unit.
func ServeUnit(log *slog.Logger) error {
	f := os.NewFile(0, "standard input")
	c, err := net.FileConn(f)
	if err != nil {
		return fmt.Errorf("%s: standard input must be a connection (StandardInput=socket): %w", unitFlag, err)
	}
	conn, ok := c.(*net.UnixConn)
	if !ok {
		return errors.Join(fmt.Errorf("%s: standard input is not a Unix socket", unitFlag), c.Close())
	}
	// Keep the command from looking into this process.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return errors.Join(os.NewSyscallError("prctl(PR_SET_DUMPABLE)", err), conn.Close())
	}
	// The host ends a unit with SIGTERM for all of its processes. This one has
	// still to report how the command ended.
	ending, stop := signal.NotifyContext(context.Background(), unix.SIGTERM)
	defer stop()
	return errors.Join(ServeConn(ending, conn, log), conn.Close())
}

// ServeConn answers the one request on a connection. The command is ended early
// when ctx is.
func ServeConn(ctx context.Context, conn *net.UnixConn, log *slog.Logger) error {
	uid, err := peerUID(conn)
	if err != nil {
		return err
	}
	if !mayRun(uid) {
		return fmt.Errorf("user %d may not run code here: only %s and root may", uid, unitCaller)
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
	out := &packets{w: conn}
	here, before := unitGroup()
	r, err := runHere(ctx, conn, req, out, log)
	if err != nil {
		r = Result{End: NotConfined, Reason: err.Error()}
	}
	end := unitEnd{Verdict: string(r.End), Number: r.Number, Why: r.Reason}
	end.account(here, before, req.Limits)
	return out.send(typeEnd, end)
}

// mayRun reports whether a user may have code run. In a user namespace that
// shows others as nobody (PrivateUsers=yes) the socket's mode alone decides.
func mayRun(uid int) bool {
	if uid == 0 || uid == os.Geteuid() || uid == overflow() && !allUsersSeen() {
		return true
	}
	caller, err := user.Lookup(unitCaller)
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

// runHere runs the request's command in a directory of its own, until it ends,
// or the caller or the host wants its end.
func runHere(ctx context.Context, conn *net.UnixConn, req unitRun, out *packets, log *slog.Logger) (Result, error) {
	dir, err := os.MkdirTemp("", "zino-run-")
	if err != nil {
		return Result{}, err
	}
	defer func() {
		if err := os.RemoveAll(dir); err != nil {
			log.Warn("cannot remove the directory of a command", "error", err)
		}
	}()
	// The code is not in the home: an analyser that starts there would load it.
	home, code := filepath.Join(dir, "home"), filepath.Join(dir, "code")
	if err := errors.Join(os.Mkdir(home, 0o700), os.Mkdir(code, 0o700)); err != nil {
		return Result{}, err
	}
	c := &Cmd{
		Args: req.Argv, Env: append(slices.Clone(req.Env), "HOME="+home, "TMPDIR="+home), Grace: Grace,
		Plan: &sandbox.Plan{ScopeOnly: true},
		Output: &Output{Tap: func(stream string, p []byte) { // a caller that is gone gets nothing
			for rest := p; len(rest) > 0; {
				n := min(len(rest), outputChunk)
				_ = out.send(typeOutput, unitOutput{stream, base64.StdEncoding.EncodeToString(rest[:n])})
				rest = rest[n:]
			}
		}},
	}
	if req.Script != nil {
		c.Script = &Script{File: filepath.Join(code, "code"+req.Script.Extension)}
		if filepath.Dir(c.Script.File) != code {
			return Result{}, fmt.Errorf("file extension %q leads out of the directory", req.Script.Extension)
		}
		if err := os.WriteFile(c.Script.File, []byte(req.Script.Text), 0o600); err != nil {
			return Result{}, err
		}
	}
	c.Chdir(cmp.Or(req.Dir, home))
	if err := unix.Access(c.Dir+"/.", unix.X_OK); err != nil {
		return Result{}, &os.PathError{Op: "access", Path: c.Dir, Err: err}
	}
	if c.Path, err = exec.LookPath(c.Args[0]); err != nil {
		return Result{End: NotStarted, Number: int(unix.ENOENT)}, nil
	}
	p, err := Start(c)
	if err != nil {
		return Result{}, err
	}
	go func() {
		_, _ = conn.Read(make([]byte, 1)) // anything, or the end: the caller wants the command's end
		p.Stop()
	}()
	defer context.AfterFunc(ctx, p.Stop)()
	return p.Wait(context.WithoutCancel(ctx))
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

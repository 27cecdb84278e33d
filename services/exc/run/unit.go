package run

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
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
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"zino/pkg/rpc"
	"zino/pkg/wire"
	"zino/proto"
	"zino/services/exc/cgroup"
	"zino/services/exc/sandbox"
)

const (
	// UnitSocket is where the host starts a command in a unit of its own.
	UnitSocket = "/run/zino-run/run.sock"
	// PipeSocket is where the host starts a program with input in a unit of its own.
	PipeSocket = "/run/zino-run/pipe.sock"
	// PipeNetSocket is the same for a program that may use the network.
	PipeNetSocket = "/run/zino-run/pipe-net.sock"
	// HomeSocket is where the host starts a program with input that keeps a home.
	HomeSocket = "/run/zino-run/home.sock"
	// HomeNetSocket is the same for a program that may use the network.
	HomeNetSocket = "/run/zino-run/home-net.sock"
	// unitFlag has the program run one command for the connection that is its
	// standard input, pipeFlag a program with input.
	unitFlag = "--run"
	pipeFlag = "--pipe"
	// unitCaller is the user that may ask for that, besides root and this user.
	unitCaller = "zino-exc"
	// outputChunk is how much output goes into one packet.
	outputChunk = 32 << 10
)

// ErrSilent: a unit hung up without a report of how its command ended.
var ErrSilent = errors.New("the unit of the run broke off, or does not answer: what ran there may go on until the host ends it (systemctl list-units 'zino-run@*')")

// startUnit starts c in a unit that the host starts for a connection to c.Unit.
// Stopping hangs up on it: the command is ended, and its end is not reported. The
// unit itself stops a command at its limits; a unit that does not is given
// StopLimit more.
func startUnit(c *Cmd) *Process {
	ctx, cancel := context.WithCancel(context.Background())
	req := proto.RunCommand{
		Argv: c.Args, Env: c.Env, Dir: c.Dir, Umask: c.Umask, Limits: c.UnitLimits,
		TimeoutMS: c.Limit.Milliseconds(), GraceMS: c.Grace.Milliseconds(), OutputMax: c.Output.Ceiling,
		Home: c.UnitHome, HomeMax: c.UnitHomeMax,
	}
	if c.Script != nil {
		req.Script = &proto.RunScript{Text: c.Script.Text, Extension: c.Script.Ext}
	}
	c.Output.Ceiling = 0
	slower := *c
	if c.Limit > 0 {
		slower.Limit += StopLimit
	}
	p := &Process{cmd: &slower, stop: cancel, kill: cancel, done: make(chan ended, 1), killAfter: killAfter}
	c.Output.begin(p.Stop)
	var stdin *os.File
	if c.Stdin != nil { // which the caller closes
		fd, err := unix.FcntlInt(c.Stdin.Fd(), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			cancel()
			p.done <- ended{err: os.NewSyscallError("fcntl", err)}
			return p
		}
		stdin = os.NewFile(uintptr(fd), "standard input")
	}
	go func() {
		defer cancel()
		client := &rpc.Client{Service: "run", Path: c.Unit}
		defer client.Close() // which ends the unit
		if stdin != nil {
			defer closeAll(stdin)
			client.Dialed = func(nc net.Conn) error { return passFile(nc, stdin) }
		}
		end, err := rpc.CallEvents(ctx, client, proto.UnitRun, req, c.Output.packet)
		switch {
		case err == nil:
			p.done <- ended{Result: unitResult(end)}
		case ctx.Err() != nil:
			p.done <- ended{Result: Result{End: Stopped}}
		case errors.Is(err, rpc.ErrConnect):
			p.done <- ended{Result: Result{End: NotConfined, Reason: err.Error() + ": " + unitName(c) + " of a system installation listens there"}}
		case errors.Is(err, proto.ErrInvalid): // its home is too large
			p.done <- ended{err: err}
		case errors.Is(err, proto.ErrDenied):
			p.done <- ended{Result: Result{End: NotConfined, Reason: err.Error()}}
		default:
			p.done <- ended{err: fmt.Errorf("%w: %w", ErrSilent, err)}
		}
	}()
	return p
}

// unitName is the name of the unit that listens for c.
func unitName(c *Cmd) string {
	if c.Stdin == nil {
		return "zino-run.socket"
	}
	return "zino-" + strings.TrimSuffix(filepath.Base(c.Unit), ".sock") + ".socket"
}

// passFile sends an open file over a connection. Another user may open it anew, as
// /dev/stdin.
func passFile(nc net.Conn, f *os.File) error {
	conn, ok := nc.(*net.UnixConn)
	if !ok {
		return errors.New("not a Unix socket")
	}
	if err := f.Chmod(0o666); err != nil {
		return err
	}
	_, _, err := conn.WriteMsgUnix([]byte{0}, unix.UnixRights(int(f.Fd())), nil)
	return err
}

// receiveFile receives what passFile has sent.
func receiveFile(conn *net.UnixConn) (*os.File, error) {
	text, rights := make([]byte, 1), make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := conn.ReadMsgUnix(text, rights)
	if err != nil {
		return nil, err
	}
	messages, err := unix.ParseSocketControlMessage(rights[:n])
	if err != nil || len(messages) != 1 {
		return nil, errors.New("no file came with the connection")
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		return nil, errors.New("no file came with the connection")
	}
	unix.CloseOnExec(fds[0])
	return os.NewFile(uintptr(fds[0]), "standard input"), nil
}

// packet writes a packet of a unit to its stream. Packets of other types are
// ignored.
func (o *Output) packet(typ string, payload []byte) error {
	if typ != proto.TypeOutput {
		return nil
	}
	var piece proto.RunOutput
	if err := wire.DecodeReply(payload, &piece); err != nil {
		return err
	}
	data, err := base64.StdEncoding.DecodeString(piece.Data)
	if err != nil {
		return err
	}
	switch piece.Stream {
	case o.stdout.name:
		_, err = o.stdout.Write(data)
	case o.stderr.name:
		_, err = o.stderr.Write(data)
	}
	return err
}

func unitResult(end proto.RunEnd) Result {
	r := Result{End: End(end.Verdict), Number: end.Number, Reason: end.Why}
	switch r.End {
	case Exited, Signaled, NotStarted, NotConfined:
	default:
		r = Result{}
	}
	r.TimedOut, r.Flooded, r.Unit = end.Limit == "time", end.Limit == "output", &end
	return r
}

// TakeUnitFlag returns the flag by which the program was asked to run one command,
// with input or without, and removes it from its arguments; empty: it was not.
func TakeUnitFlag() string {
	for _, flag := range []string{unitFlag, pipeFlag} {
		if i := slices.Index(os.Args, flag); i >= 1 {
			os.Args = slices.Delete(os.Args, i, i+1)
			return flag
		}
	}
	return ""
}

// ServeUnit runs the one command that is asked for on the connection that is
// standard input, in this process's unit. flag is that of TakeUnitFlag.
func ServeUnit(flag string, log *slog.Logger) error {
	conn, err := StdinConn(flag)
	if err != nil {
		return err
	}
	if err := Hide(); err != nil {
		return errors.Join(err, conn.Close())
	}
	// The host ends a unit with SIGTERM for all of its processes. This one has
	// still to report how the command ended.
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGTERM)
	defer stop()
	if flag == pipeFlag {
		return ServePipe(ctx, conn, os.Getenv("STATE_DIRECTORY"), log)
	}
	return ServeConn(ctx, conn, log)
}

// ServePipe is ServeConn for a program with input, which comes first. Homes of programs
// are kept in homes; empty: there are none.
func ServePipe(ctx context.Context, conn *net.UnixConn, homes string, log *slog.Logger) error {
	stdin, err := receiveFile(conn)
	if err != nil {
		return errors.Join(err, conn.Close())
	}
	defer closeAll(stdin)
	return serveConn(ctx, conn, stdin, homes, log)
}

// StdinConn returns the connection that a program with that flag has as its standard
// input.
func StdinConn(flag string) (*net.UnixConn, error) {
	c, err := net.FileConn(os.NewFile(0, "standard input"))
	if err != nil {
		return nil, fmt.Errorf("%s: standard input must be a connection (StandardInput=socket): %w", flag, err)
	}
	conn, ok := c.(*net.UnixConn)
	if !ok {
		return nil, errors.Join(fmt.Errorf("%s: standard input is not a Unix socket", flag), c.Close())
	}
	return conn, nil
}

// Hide keeps a command from looking into this process.
func Hide() error {
	return os.NewSyscallError("prctl(PR_SET_DUMPABLE)", unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0))
}

// ServeConn answers the one request on a connection. The command is ended early
// when ctx is.
func ServeConn(ctx context.Context, conn *net.UnixConn, log *slog.Logger) error {
	return serveConn(ctx, conn, nil, "", log)
}

// serveConn is ServeConn with standard input, nil: none, and the directory of homes that
// are kept, empty: none.
func serveConn(ctx context.Context, conn *net.UnixConn, stdin *os.File, homes string, log *slog.Logger) error {
	l := &oneListener{conn: conn, closed: make(chan struct{})}
	s := rpc.NewServer("run", log)
	s.Only(unitCallers())
	var asked atomic.Bool
	rpc.HandleEvents(s, proto.UnitRun, func(request context.Context, req proto.RunCommand, out *rpc.Out) (proto.RunEnd, error) {
		if len(req.Argv) == 0 {
			return proto.RunEnd{}, proto.Errorf(proto.CodeInvalid, "argv is empty: name a command")
		}
		if asked.Swap(true) {
			return proto.RunEnd{}, proto.Errorf(proto.CodeInvalid, "a unit runs one command: connect again for another")
		}
		here, err := cgroup.Here()
		if err != nil {
			here = nil // the unit has no group of its own
		}
		before := time.Duration(0)
		if here != nil {
			before = here.Usage().CPU
		}
		r, err := runHere(ctx, request, req, stdin, homes, out, log)
		if errors.Is(err, proto.ErrInvalid) {
			return proto.RunEnd{}, err
		}
		if err != nil {
			r = Result{End: NotConfined, Reason: err.Error()}
		}
		return unitEnd(r, here, before, req.Limits), nil
	})
	rpc.Handle(s, proto.UnitRemoveHome, func(_ context.Context, req proto.RemoveHome) (proto.Empty, error) {
		dir, err := homeIn(homes, req.Home)
		if err == nil {
			err = RemoveAll(dir)
		}
		return proto.Empty{}, err
	})
	defer context.AfterFunc(ctx, func() { l.Close() })()
	err := s.Serve(l)
	if errors.Is(err, net.ErrClosed) {
		err = nil
	}
	// The command ends with ctx, and its end is still sent.
	return errors.Join(err, s.Shutdown(context.Background()))
}

// oneListener is a listener that accepts one connection and ends with it.
type oneListener struct {
	conn     *net.UnixConn
	accepted atomic.Bool
	once     sync.Once
	closed   chan struct{}
}

func (l *oneListener) Accept() (net.Conn, error) {
	if !l.accepted.Swap(true) {
		return acceptedConn{l.conn, l}, nil
	}
	<-l.closed
	return nil, net.ErrClosed
}

func (l *oneListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *oneListener) Addr() net.Addr { return l.conn.LocalAddr() }

// acceptedConn closes its listener with itself.
type acceptedConn struct {
	*net.UnixConn
	listener *oneListener
}

func (c acceptedConn) Close() error { return errors.Join(c.listener.Close(), c.UnixConn.Close()) }

// unitCallers are the users that may have code run. In a user namespace that shows
// others under the overflow number (PrivateUsers=yes) the socket's mode decides.
func unitCallers() rpc.Callers {
	callers := rpc.Callers{UIDs: []int{0, os.Geteuid()}, Text: "root, " + unitCaller}
	if caller, err := user.Lookup(unitCaller); err == nil {
		if uid, err := strconv.Atoi(caller.Uid); err == nil {
			callers.UIDs = append(callers.UIDs, uid)
		}
	}
	if !allUsersSeen() {
		callers.UIDs = append(callers.UIDs, overflowUID())
	}
	return callers
}

// overflowUID is the number that the kernel shows for users that a namespace does
// not map.
func overflowUID() int {
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

// runHere runs the command of a request in a directory of its own, until it ends,
// the caller hangs up or the host wants its end.
func runHere(ending, request context.Context, req proto.RunCommand, stdin *os.File, homes string, out *rpc.Out, log *slog.Logger) (Result, error) {
	dir, err := os.MkdirTemp("", "zino-run-")
	if err != nil {
		return Result{}, err
	}
	defer func() {
		if err := os.RemoveAll(dir); err != nil {
			log.Warn("cannot remove the directory of a command", "error", err)
		}
	}()
	c, err := UnitCmd(req, dir, homes)
	if err != nil {
		return Result{}, err
	}
	c.Output.Tap = func(stream string, p []byte) {
		for len(p) > 0 {
			n := min(len(p), outputChunk)
			// An error means that the caller has hung up: request is canceled then.
			_ = out.Event(proto.TypeOutput, proto.RunOutput{Stream: stream, Data: base64.StdEncoding.EncodeToString(p[:n])})
			p = p[n:]
		}
	}
	if c.Path, err = exec.LookPath(c.Args[0]); err != nil {
		return Result{End: NotStarted, Number: int(unix.ENOENT)}, nil
	}
	if stdin != nil {
		c.Stdin, c.Plan.Input = stdin, true
	}
	p, err := Start(c)
	closeAll(stdin) // the program has it
	if err != nil {
		return Result{}, err
	}
	defer context.AfterFunc(ending, p.Stop)()
	return p.Wait(request)
}

// UnitCmd is the command of a request, with a home below dir, or one of homes that is
// kept. The code is not in the home: an analyser that starts there would load it as a
// module.
func UnitCmd(req proto.RunCommand, dir, homes string) (*Cmd, error) {
	tmp, code := filepath.Join(dir, "home"), filepath.Join(dir, "code")
	if err := errors.Join(os.Mkdir(tmp, 0o700), os.Mkdir(code, 0o700)); err != nil {
		return nil, err
	}
	plan, home := &sandbox.Plan{ScopeOnly: true}, tmp
	if req.Home != "" {
		var err error
		if home, err = homeIn(homes, req.Home); err != nil {
			return nil, err
		}
		if err := OpenHome(home, req.HomeMax); err != nil {
			return nil, err
		}
		plan.Home = home
	}
	c := &Cmd{
		Args: req.Argv, Env: append(slices.Clone(req.Env), "HOME="+home, "TMPDIR="+tmp), Umask: req.Umask,
		Grace: time.Duration(req.GraceMS) * time.Millisecond, Limit: time.Duration(req.TimeoutMS) * time.Millisecond,
		Output: &Output{Ceiling: req.OutputMax},
		Plan:   plan,
	}
	if req.Script != nil {
		c.Script = &Script{File: filepath.Join(code, "code"+req.Script.Extension)}
		if filepath.Dir(c.Script.File) != code {
			return nil, fmt.Errorf("file extension %q leads out of the directory", req.Script.Extension)
		}
		if err := os.WriteFile(c.Script.File, []byte(req.Script.Text), 0o600); err != nil {
			return nil, err
		}
	}
	c.Chdir(cmp.Or(req.Dir, home))
	if err := unix.Access(c.Dir+"/.", unix.X_OK); err != nil {
		return nil, &os.PathError{Op: "access", Path: c.Dir, Err: err}
	}
	return c, nil
}

// unitEnd reports a result, and what the unit, whose group is here, has taken
// since its CPU time was before. here is nil if that is not known.
func unitEnd(r Result, here *cgroup.Group, before time.Duration, limits []string) proto.RunEnd {
	end := proto.RunEnd{Verdict: string(r.End), Number: r.Number, Why: r.Reason, Unlimited: limits}
	switch {
	case r.TimedOut:
		end.Limit = "time"
	case r.Flooded:
		end.Limit = "output"
	}
	if here == nil {
		return end
	}
	end.Unlimited = slices.DeleteFunc(slices.Clone(limits), here.Limited)
	u := here.Usage()
	end.CPUMS, end.PeakBytes = new((u.CPU - before).Milliseconds()), u.PeakBytes()
	end.Limit = cmp.Or(end.Limit, u.Exceeded(r.Number != 0))
	return end
}

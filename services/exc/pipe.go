package exc

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io/fs"
	"log/slog"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"zino/pkg/environ"
	"zino/pkg/gate"
	"zino/pkg/rpc"
	"zino/pkg/wire"
	"zino/proto"
	"zino/services/exc/files"
	"zino/services/exc/run"
)

const (
	toolPipe = "pipe" // in the audit
	// pipeGrace is the time between SIGTERM and SIGKILL of a program with input.
	pipeGrace = 2 * time.Second
	// lastOutput is how long a caller may accept no output of a program that is ended.
	lastOutput = 2 * time.Second
)

// pipes are the programs with input that run, by id.
type pipes struct {
	mu   sync.Mutex
	open map[string]*pipe
}

// pipe is the standard input of a program.
type pipe struct {
	uid   int // of its caller
	w     *os.File
	write chan struct{} // has a token while something is written
}

// pipe runs a program with input.
func (s *Service) pipe(ctx context.Context, req proto.Pipe, out *rpc.Out) (proto.PipeResult, error) {
	if err := checkPipe(req); err != nil {
		return proto.PipeResult{}, err
	}
	req.Argv = slices.Clone(req.Argv)
	rpc.Note(ctx, slog.String("name", req.Name))
	c, err := newTurnCall(req.SessionID, req.Turn, "", false, "")
	if err != nil {
		return proto.PipeResult{}, err
	}
	c.tool = toolPipe
	if c.mask, err = s.masker(nil, req.Env); err != nil {
		return proto.PipeResult{}, err
	}
	input, err := wire.AppendObject(nil, "", notedPipe{req.Name, req.Argv})
	if err != nil {
		return proto.PipeResult{}, err
	}
	s.note(c, input)
	err = s.admitPipe(req, c)
	if err == nil {
		err = s.audit.Ready()
	}
	if err != nil {
		return proto.PipeResult{}, s.refuse(c, err)
	}
	stopping, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-s.draining:
			cancel()
		case <-stopping.Done():
		}
	}()
	result, err := once(stopping, s, c, nil, steps[proto.PipeResult]{
		run: func(ctx context.Context) (proto.PipeResult, error) {
			result, err := s.runPipe(ctx, req, c, out)
			c.ended(result.Confinement, &result.ExitCode, err)
			return result, asError(err)
		},
	})
	if errors.Is(err, context.Canceled) && ctx.Err() == nil {
		err = cmp.Or(s.turns.refused(c), error(errStopping))
	}
	return result, err
}

// admitPipe is admit for a program. One that belongs to no turn is a server: where calls
// need tokens, it needs one of its own.
func (s *Service) admitPipe(req proto.Pipe, c *turnCall) error {
	if req.SessionID != "" || req.Turn != "" || s.guard == nil || req.Token != "" && !gate.IsServer(req.Token) {
		return s.admit(req.Token, "", c, cmp.Or(req.Root, req.Cwd), req.Sandbox, req.Network)
	}
	level, network, err := s.host.settle(req.Sandbox, req.Network)
	if err != nil {
		return err
	}
	names := slices.Sorted(maps.Keys(req.Env))
	dir := cmp.Or(req.Root, req.Cwd)
	input, err := wire.AppendObject(nil, "", serverInput{req.Name, req.Argv, append([]string{}, names...)})
	if err != nil {
		return err
	}
	want := gate.Server{Definition: gate.ServerDefinition(req.Argv, names, dir), Sandbox: level, Network: network}
	if err := s.guard.Server(req.Token, want, proto.AskedCall{Tool: toolPipe, Input: input, Root: dir, Cwd: dir, Sandbox: level, Network: network}); err != nil {
		return err
	}
	if req.Token != "" && req.Base != nil { // its names are not signed
		return proto.Errorf(proto.CodeDenied, "the token of the server is refused: base is not part of its definition")
	}
	c.ticket = ticket{turn: gate.Turn{Mode: gate.Yolo, By: os.Geteuid()}, root: dir, level: level, network: network}
	return nil
}

// serverInput describes a server to the daemon.
type serverInput struct {
	Name string   `json:"name,omitzero"`
	Argv []string `json:"argv"`
	Env  []string `json:"env"` // names
}

// notedPipe is the input of a pipe in the audit: its variables are not part of it.
type notedPipe struct {
	Name string   `json:"name,omitzero"`
	Argv []string `json:"argv"`
}

// checkPipe returns the error of a request that cannot be carried out.
func checkPipe(req proto.Pipe) error {
	switch {
	case len(req.Argv) == 0 || req.Argv[0] == "":
		return proto.Errorf(proto.CodeInvalid, "argv is empty: name a program")
	case slices.ContainsFunc(req.Argv, func(arg string) bool { return strings.ContainsRune(arg, 0) }):
		return proto.Errorf(proto.CodeInvalid, "argv holds a NUL character")
	case req.Stdin != nil && len(*req.Stdin) > proto.PipeStdinMax:
		return proto.Errorf(proto.CodeTooLarge, "stdin has %d bytes: at most %d, more with pipe_write", len(*req.Stdin), proto.PipeStdinMax)
	case math.IsNaN(req.TimeoutS) || req.TimeoutS < 0 || req.TimeoutS > timeoutMax:
		return proto.Errorf(proto.CodeInvalid, "timeout_s is %v: use 0 (no limit) to %d seconds", req.TimeoutS, timeoutMax)
	case req.Home != "" && !run.IsHome(req.Home):
		return badHome(req.Home)
	}
	return nil
}

// runPipe runs the program of a request.
func (s *Service) runPipe(ctx context.Context, req proto.Pipe, call *turnCall, out *rpc.Out) (result proto.PipeResult, err error) {
	level, network, err := s.host.settle(req.Sandbox, req.Network)
	if err != nil {
		return result, err
	}
	keeps := kept{}
	if req.Home != "" {
		s.homes.use(req.Home)
		defer s.homes.close(req.Home)
		if level != proto.LevelUnit {
			keeps.home = filepath.Join(s.homes.dir, req.Home)
			if err := run.OpenHome(keeps.home, s.homes.max); err != nil {
				return result, err
			}
		}
	}
	cmd, b, err := s.pipeCmd(ctx, req, level, network, call, keeps)
	if err != nil {
		return result, err
	}
	defer b.close()
	stdin, input, err := os.Pipe()
	if err != nil {
		return result, cannotStart(err)
	}
	defer input.Close()
	cmd.Stdin = stdin
	send := &pipeOutput{out: out}
	cmd.Output.Tap = send.tap
	// A caller that reads nothing must not keep a program from ending.
	defer context.AfterFunc(ctx, func() { out.SetWriteTimeout(lastOutput) })()
	if cmd.Limit > 0 {
		defer time.AfterFunc(cmd.Limit, func() { out.SetWriteTimeout(lastOutput) }).Stop()
	}
	send.mu.Lock() // until the first packet is sent
	p, err := run.Start(cmd)
	closeAll(stdin)
	if err != nil {
		send.mu.Unlock()
		return result, cannotStart(err)
	}
	in := &pipe{uid: rpc.PeerUID(ctx), w: input, write: make(chan struct{}, 1)}
	if req.Stdin != nil {
		in.write <- struct{}{}
		go func() {
			_, _ = input.WriteString(*req.Stdin) // a program need not read all of it
			closeAll(input)
			<-in.write
		}()
	}
	id := s.pipes.add(in)
	defer s.pipes.remove(id)
	confinement := *b.report(run.Result{})
	confinement.CPUMS, confinement.PeakBytes = nil, nil
	err = out.Event(proto.TypePipeStarted, proto.PipeStarted{Pipe: id, Confinement: confinement})
	send.mu.Unlock()
	if err != nil {
		p.Stop() // the caller is gone
	}
	r, lines, err := b.end(ctx, p)
	if err != nil {
		return result, err
	}
	send.end(lines)
	switch {
	case r.End == run.NotStarted:
		return result, proto.Errorf(proto.CodeNotFound, "%s", r.Failure(req.Argv[0]))
	case r.Interrupted:
		return result, context.Canceled
	}
	result = proto.PipeResult{ExitCode: r.ExitCode(), TimedOut: r.TimedOut, Confinement: b.report(r)}
	if r.TimedOut {
		result.ExitCode = -1
	}
	return result, nil
}

// pipeCmd describes the program of a request, and confines it.
func (s *Service) pipeCmd(ctx context.Context, req proto.Pipe, level proto.Level, network bool, call *turnCall, keeps kept) (*run.Cmd, *Sandbox, error) {
	c, err := s.clientOf(req.Base, req.Root, req.Cwd, req.Umask)
	if err != nil {
		return nil, nil, err
	}
	own, err := environ.List(req.Env)
	if err != nil {
		return nil, nil, proto.Errorf(proto.CodeInvalid, "env: %v", err)
	}
	c.env = overlay(c.env, own)
	if c.root == "" && !level.Confined() {
		c.root = keeps.home
	}
	dir := c.root
	if c.root != "" || !level.Confined() {
		if dir, err = await(ctx, s.limit, func(context.Context) (string, error) { return directory(c.root) }); err != nil {
			if e, ok := errors.AsType[*files.Error](err); ok {
				err = proto.Errorf(proto.CodeInvalid, "%s", e.Message)
			}
			return nil, nil, err
		}
	}
	cmd := s.command(c, req.Argv...)
	cmd.Grace, cmd.Limit, cmd.Guard = pipeGrace, time.Duration(req.TimeoutS*float64(time.Second)), true
	cmd.Output.Max = 16 << 10 // for Sandbox.explain
	if strings.Contains(req.Argv[0], "/") && !filepath.IsAbs(req.Argv[0]) {
		req.Argv[0] = filepath.Join(dir, req.Argv[0])
	}
	if cmd.Path, err = c.locate(req.Argv[0]); err != nil && level != proto.LevelUnit {
		code := proto.CodeNotFound
		if errors.Is(err, fs.ErrPermission) {
			code = proto.CodeDenied
		}
		return nil, nil, proto.Errorf(code, "cannot start %s: %v", req.Argv[0], err)
	}
	if dir != "" {
		cmd.Chdir(dir)
	}
	var b *Sandbox
	if c.root == "" {
		b, err = s.newSandbox(ctx, &call.ticket.turn, level, network, "", cmd, keeps)
	} else {
		b, err = s.sandboxFor(ctx, &call.ticket.turn, level, &network, c.root, cmd, keeps)
	}
	if err != nil {
		return nil, nil, err
	}
	cmd.Output.Ceiling = 0 // it may run for days
	if level == proto.LevelUnit {
		units := s.host.pipes
		if req.Home != "" && s.homes.unitProblem() == nil {
			units, cmd.UnitHome, cmd.UnitHomeMax = s.homes.units, req.Home, s.homes.max
		}
		b.network, cmd.Unit = network, units[0]
		if network {
			cmd.Unit = units[1]
		}
	}
	if cmd.Plan != nil {
		cmd.Plan.Input = true
	}
	cmd.Env = overlay(cmd.Env, own)
	return cmd, b, nil
}

// overlay returns env with the entries of more, in place of those with the same names.
func overlay(env, more []string) []string {
	names := map[string]bool{}
	for _, entry := range more {
		name, _, _ := strings.Cut(entry, "=")
		names[name] = true
	}
	env = slices.DeleteFunc(slices.Clone(env), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return names[name]
	})
	return append(env, more...)
}

// pipeOutput sends the output of a program. A caller that does not read blocks it, and the
// program with it.
type pipeOutput struct {
	out *rpc.Out

	mu             sync.Mutex
	stdout, stderr run.Text
}

// tap is an Output's Tap.
func (o *pipeOutput) tap(stream string, p []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	text := &o.stdout
	if stream == "stderr" {
		text = &o.stderr
	}
	text.Add(p, proto.PipeOutputMax, func(text string) { o.send(stream, text) })
}

// end sends what is left of the streams, and lines of standard error.
func (o *pipeOutput) end(lines []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.stdout.End(func(text string) { o.send("stdout", text) })
	o.stderr.End(func(text string) { o.send("stderr", text) })
	for _, line := range lines {
		o.send("stderr", line+"\n")
	}
}

// send sends one packet. An error means that the caller has hung up: the context of the
// request is cancelled then.
func (o *pipeOutput) send(stream, text string) {
	_ = o.out.Event(proto.TypePipeOutput, proto.PipeOutput{Stream: stream, Text: text})
}

// add adds the input of a program, and returns its id.
func (p *pipes) add(in *pipe) (id string) {
	var random [16]byte
	_, _ = rand.Read(random[:]) // it never fails
	id = hex.EncodeToString(random[:])
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open[id] = in
	return id
}

// get returns the input of a program for that user.
func (p *pipes) get(id string, uid int) (*pipe, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch in := p.open[id]; {
	case in == nil:
		return nil, proto.Errorf(proto.CodeNotFound, "no pipe %q: its program has ended, or was never started", id)
	case in.uid != uid:
		return nil, proto.Errorf(proto.CodeDenied, "the pipe belongs to another user than uid %d", uid)
	default:
		return in, nil
	}
}

func (p *pipes) remove(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.open, id)
}

// writePipe writes to the standard input of a program.
func (s *Service) writePipe(ctx context.Context, req proto.PipeWrite) (proto.Empty, error) {
	in, err := s.pipes.get(req.Pipe, rpc.PeerUID(ctx))
	if err != nil {
		return proto.Empty{}, err
	}
	select {
	case in.write <- struct{}{}:
	case <-ctx.Done():
		return proto.Empty{}, ctx.Err()
	}
	defer func() { <-in.write }()
	late := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(late)
		_ = in.w.SetWriteDeadline(time.Unix(1, 0))
	})
	_, err = in.w.WriteString(req.Text)
	if !stop() {
		<-late
		_ = in.w.SetWriteDeadline(time.Time{})
	}
	if err == nil && req.Close {
		err = in.w.Close()
	}
	switch {
	case err == nil:
		return proto.Empty{}, nil
	case ctx.Err() != nil:
		return proto.Empty{}, ctx.Err()
	}
	if _, ended := s.pipes.get(req.Pipe, in.uid); ended != nil {
		return proto.Empty{}, ended
	}
	if errors.Is(err, os.ErrClosed) {
		err = errors.New("the standard input of this program is closed")
	} else if errors.Is(err, syscall.EPIPE) {
		err = errors.New("the program does not read its standard input any more")
	}
	return proto.Empty{}, proto.Errorf(proto.CodeInvalid, "%v", err)
}

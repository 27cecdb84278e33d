package exc

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"zino/pkg/rpc"
	"zino/pkg/wire"
	"zino/proto"
	"zino/services/exc/files"
	"zino/services/exc/run"
)

// Codes of errors beside those of package files.
const (
	codeUnknownTool = "unknown_tool"
	codeExec        = "exec_error" // the shell cannot be started
	codeSandbox     = "sandbox"    // it cannot be confined as asked
)

// call carries out a call of a tool. Only a caller that hung up, and a service that
// stops, are errors; everything else is a result.
func (s *Service) call(ctx context.Context, req proto.Call, out *rpc.Out) (proto.CallResult, error) {
	var live *run.Live
	if req.Events && req.Tool == toolBash {
		live = run.NewLive(func(o proto.ToolOutput) error { return out.Event(proto.TypeToolOutput, o) })
		defer live.Stop()
	}
	reply, err := s.carryOut(ctx, req, live)
	if e, ok := errors.AsType[*files.Error](asResult(err)); ok {
		return proto.CallResult{Result: failure(e), Confinement: reply.confinement}, nil
	}
	if err != nil {
		return proto.CallResult{}, err
	}
	result, err := success(reply.Data)
	return proto.CallResult{Result: result, Diff: reply.Diff, Confinement: reply.confinement}, err
}

// reply is the result of a call.
type reply struct {
	files.Reply
	confinement *proto.Confinement // nil if it was not run
}

const toolBash = "bash"

// carryOut runs the tool. An error of type *files.Error is the call's result.
func (s *Service) carryOut(ctx context.Context, req proto.Call, live *run.Live) (reply, error) {
	ctx, leave, err := s.enter(ctx)
	if err != nil {
		return reply{}, err
	}
	defer leave()
	switch req.Tool {
	case files.Read, files.Write, files.Edit:
		return s.onFile(ctx, req)
	case toolBash:
		return s.bash(ctx, req, live)
	}
	return reply{}, &files.Error{
		Code:    codeUnknownTool,
		Message: fmt.Sprintf("Unknown tool %q: there are read, write, edit and bash.", req.Tool),
	}
}

// success is the envelope of data, a struct.
func success(data any) (proto.Raw, error) {
	b, err := wire.AppendObject([]byte(`{"ok":true,"data":`), "", data)
	return append(b, '}'), err
}

// failure is the envelope of an error.
func failure(e *files.Error) proto.Raw {
	b := wire.AppendString([]byte(`{"ok":false,"error":{"code":`), e.Code)
	b = wire.AppendString(append(b, `,"message":`...), e.Message)
	return append(b, "}}"...)
}

// shell is the program that runs the commands of the tool bash.
const shell = "sh"

// bashData is the data of a result of bash.
type bashData struct {
	Stdout    string `json:"stdout"`             // bad UTF-8 as U+FFFD
	Stderr    string `json:"stderr"`             // likewise
	ExitCode  int    `json:"exit_code"`          // the exit status, -N for death by signal N, -1 for a timeout
	TimedOut  bool   `json:"timed_out"`          // the time limit ended the command
	Truncated bool   `json:"truncated,omitzero"` // the middle of an output was left out
	// Interrupted says that the command was ended with the turn, or with exc.
	Interrupted bool `json:"interrupted,omitzero"`
}

// bash carries out a call of bash, {command}.
func (s *Service) bash(ctx context.Context, req proto.Call, live *run.Live) (reply, error) {
	command, err := commandOf(req.Input)
	if err != nil {
		return reply{}, err
	}
	c, err := s.clientOf(req.Env, req.Root, req.Cwd, req.Umask)
	if err != nil {
		return reply{}, err
	}
	dir, err := await(ctx, s.limit, func(context.Context) (string, error) { return directory(c.root) })
	if err != nil {
		return reply{}, err
	}
	cmd := s.command(c, shell, "-c", command)
	if cmd.Path, err = c.locate(shell); err != nil {
		return reply{}, noShell(err)
	}
	cmd.Chdir(dir)
	cmd.Output.Files = s.outputs
	if req.OutputBytes > 0 {
		cmd.Output.Max = min(req.OutputBytes, run.PacketRoom)
	}
	if live != nil {
		cmd.Output.Tap = live.Tap
	}
	b, err := s.sandboxFor(ctx, req.Sandbox, req.Network, c.root, cmd)
	if err != nil {
		return reply{}, err
	}
	defer b.close()
	p, err := run.Start(cmd)
	if err != nil {
		return reply{}, noShell(err)
	}
	r, err := b.wait(ctx, p)
	if !errors.Is(err, run.ErrUnkillable) { // else processes that are left may still write
		cmd.Output.Close(err == nil && !r.Interrupted)
	}
	if err != nil {
		return reply{}, err
	}
	if r.End == run.NotStarted {
		return reply{}, &files.Error{Code: codeExec, Message: r.Failure(shell)}
	}
	v := s.result(r, shell)
	data := bashData{v.Stdout, v.Stderr, v.ExitCode, v.TimedOut, v.Truncated, v.Interrupted}
	return reply{files.Reply{Data: data}, b.report(r)}, nil
}

// commandOf reads the input of bash.
func commandOf(input []byte) (string, error) {
	var in struct {
		Command string `json:"command"`
	}
	if err := files.Decode(input, &in); err != nil {
		return "", err
	}
	if strings.ContainsRune(in.Command, 0) {
		return "", &files.Error{Code: files.InvalidInput, Message: "The command holds a NUL character."}
	}
	return in.Command, nil
}

// noShell is the error of a shell that cannot be started.
func noShell(err error) error {
	if _, ok := errors.AsType[*refusal](err); ok {
		return err
	}
	return &files.Error{Code: codeExec, Message: "Cannot start " + shell + ": " + err.Error()}
}

package exc

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"zino/pkg/rpc"
	"zino/pkg/wire"
	"zino/proto"
	"zino/services/exc/calls"
	"zino/services/exc/files"
	"zino/services/exc/run"
)

// Codes of errors beside those of package files.
const (
	codeUnknownTool = "unknown_tool"
	codeExec        = "exec_error" // the shell cannot be started
	codeSandbox     = "sandbox"    // it cannot be confined as asked
)

// call carries out a call of a tool. A caller that hung up, a service that stops and
// an invalid key are errors; everything else is a result.
func (s *Service) call(ctx context.Context, req proto.Call, out *rpc.Out) (proto.CallResult, error) {
	key, recovers := req.Key, req.Recover
	if req.Tool == files.Read && req.Grant == "" { // it changes nothing: it is carried out again
		key, recovers = "", false
	}
	input, err := wire.Line(req.Input)
	if err != nil {
		input = req.Input
	}
	c, err := newTurnCall(req.SessionID, req.Turn, key, recovers, req.Since, []byte(req.Tool), []byte(cmp.Or(req.Root, req.Cwd)), input)
	if err != nil {
		return proto.CallResult{}, err
	}
	c.tool = req.Tool
	if c.mask, err = s.masker(req.Mask, req.Env); err != nil {
		return proto.CallResult{}, err
	}
	if c.id == "" {
		c.id = req.Key[strings.LastIndexByte(req.Key, '/')+1:] // of read, for the audit
	}
	s.note(c, input)
	err = s.admit(req.Token, req.Grant, c, cmp.Or(req.Root, req.Cwd), req.Sandbox, req.Network)
	if c.ticket.ask = req.Ask; err == nil {
		err = s.audit.Ready()
	}
	if err != nil {
		return proto.CallResult{}, s.refuse(c, err)
	}
	if c.key != "" {
		req.Input = bytes.Clone(req.Input) // the call outlives the request
	}
	var live *run.Live
	if req.Events && req.Tool == toolBash {
		live = run.NewLive(func(o proto.ToolOutput) error { return out.Event(proto.TypeToolOutput, o) })
		defer live.Stop()
	}
	result, err := once(ctx, s, c, live, steps[proto.CallResult]{
		run: func(ctx context.Context) (proto.CallResult, error) {
			if err := s.permitCall(ctx, c, &req); err != nil {
				c.ended(nil, nil, err)
				return c.result(reply{}, err)
			}
			r, err := s.carryOut(ctx, req, c)
			c.ended(r.confinement, exitOf(r), err)
			return c.result(r, err)
		},
		settle: func(ctx context.Context, begun calls.Call) (proto.CallResult, bool, error) {
			reply, settled, err := s.settle(ctx, req, begun, c)
			if !settled {
				return proto.CallResult{}, false, err
			}
			c.ended(reply.confinement, exitOf(reply), err)
			result, err := c.result(reply, err)
			if result.Undo = c.why; begun.Job != "" {
				result.Undo = s.captureJob(ctx, begun.Job)
			}
			return result, true, err
		},
		kept: func(r proto.CallResult) proto.CallResult {
			if len(r.Attachments) > 0 { // up to 10 MiB
				r.Attachments, r.Result = nil, c.masked(failure(notKept))
			}
			return r
		},
		failed:    func(e *files.Error) proto.CallResult { return proto.CallResult{Result: c.masked(failure(e))} },
		mark:      func(r *proto.CallResult) { r.Recovered = true },
		uncovered: func(r *proto.CallResult, why string) { r.Undo = why },
	})
	if err == nil && req.Events && s.firstNotice(c, result.Undo) {
		err = out.Event(proto.TypeNotice, proto.Notice{Kind: proto.NoticeUndo, Text: result.Undo})
	}
	return result, c.maskedError(err)
}

// notKept is the result of a repeated read of an image or PDF file.
var notKept = &files.Error{Code: proto.ToolInterrupted, Message: "The file was read before the turn was interrupted, and its content was not kept: read it again."}

// result is the result of a call that has ended. Errors that the model can read
// are results.
func (c *turnCall) result(r reply, err error) (proto.CallResult, error) {
	if e, ok := errors.AsType[*files.Error](asResult(err)); ok {
		return proto.CallResult{Result: c.masked(failure(e)), Confinement: r.confinement}, nil
	}
	if err != nil {
		return proto.CallResult{}, err
	}
	result, err := success(r.Data)
	answer := proto.CallResult{Result: c.masked(result), Diff: maskText(c.mask, r.Diff), Confinement: r.confinement}
	if p, ok := r.Data.(files.Picture); ok {
		answer.Attachments = []proto.FileData{{Name: maskText(c.mask, filepath.Base(p.Path)), MediaType: p.MediaType, Data: r.Picture}}
	}
	return answer, err
}

// reply is the result of a call.
type reply struct {
	files.Reply
	confinement *proto.Confinement // nil if it was not run
}

const toolBash = "bash"

// carryOut runs the tool. An error of type *files.Error is the call's result.
func (s *Service) carryOut(ctx context.Context, req proto.Call, c *turnCall) (reply, error) {
	switch req.Tool {
	case files.Read, files.Write, files.Edit:
		return s.onFile(ctx, req, func(ctx context.Context, st start) error {
			err := s.permitPlan(ctx, c, req, *st.plan)
			if err != nil || req.Tool == files.Read && c.key == "" {
				return err
			}
			return s.begin(ctx, c, st)
		})
	case toolBash:
		return s.bash(ctx, req, c)
	}
	return reply{}, &files.Error{
		Code:    codeUnknownTool,
		Message: fmt.Sprintf("Unknown tool %q: there are read, write, edit and bash.", req.Tool),
	}
}

// settle decides a call that has begun, and whose end is not recorded. A change of a
// file was made if the file has the planned content, and is made now if the file is
// as it was.
func (s *Service) settle(ctx context.Context, req proto.Call, begun calls.Call, call *turnCall) (r reply, settled bool, err error) {
	if begun.Job != "" {
		return s.recoverJob(ctx, req, begun.Job, call)
	}
	if req.Tool == files.Read {
		return reply{}, false, nil
	}
	if begun.After == "" { // a command, which ended with the exc before this one
		return reply{}, true, interrupted
	}
	var now *start
	look := req
	look.Tool, look.Input = files.Write, files.Looks(req.Input)
	r, _ = s.onFile(ctx, look, func(_ context.Context, st start) error {
		now = &st
		return context.Canceled
	})
	switch {
	case ctx.Err() != nil:
		return reply{}, false, ctx.Err()
	case now != nil && now.plan.Before == begun.After:
		call.why = s.captureMade(ctx, call, *now, begun)
		made := files.Call{Tool: req.Tool, Root: now.root, Input: req.Input}
		r.Reply, err = files.Made(made, now.plan.Path, begun.Before == "", s.undo.Image(begun.Before))
		return r, true, err
	case now != nil && now.plan.Before == begun.Before:
		return reply{}, false, nil
	}
	return r, true, interrupted
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
	// Job is the job that goes on in the background, with Running until it has ended.
	Job     string `json:"job,omitzero"`
	Running bool   `json:"running,omitzero"`
	// Note says that the sandbox may be why the command failed.
	Note string `json:"note,omitzero"`
}

// bash carries out a call of bash, {command}.
func (s *Service) bash(ctx context.Context, req proto.Call, call *turnCall) (reply, error) {
	in, err := bashInputOf(req.Input)
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
	if call.session != "" {
		return s.bashJob(ctx, req, in, c, dir, call)
	}
	cmd := s.command(c, shell, "-c", in.Command)
	if cmd.Path, err = c.locate(shell); err != nil {
		return reply{}, noShell(err)
	}
	cmd.Chdir(dir)
	cmd.Output.Files = s.outputs
	if req.OutputBytes > 0 {
		cmd.Output.Max = min(req.OutputBytes, run.PacketRoom)
	}
	cmd.Output.Tap, cmd.Output.Mask = call.tap, call.mask
	b, err := s.sandboxFor(ctx, &call.ticket.turn, req.Sandbox, req.Network, c.root, cmd, kept{})
	if err != nil {
		return reply{}, err
	}
	defer b.close()
	if err := s.begin(ctx, call, start{root: dir, level: b.level}); err != nil {
		return reply{}, err
	}
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
	data := bashData{Stdout: v.Stdout, Stderr: v.Stderr, ExitCode: v.ExitCode, TimedOut: v.TimedOut, Truncated: v.Truncated, Interrupted: v.Interrupted}
	return reply{files.Reply{Data: data}, b.report(r)}, nil
}

// bashInput is the input of bash. Without a session only Command counts.
type bashInput struct {
	Command    string `json:"command"`
	TimeoutS   *int   `json:"timeout_s,omitzero"`
	Background bool   `json:"background,omitzero"`
	Wake       bool   `json:"wake,omitzero"`
	Escalate   string `json:"escalate,omitzero"` // why it needs less confinement
}

// timeoutMax is the longest timeout_s of bash, in seconds.
const timeoutMax = 86400

// bashInputOf reads the input of bash.
func bashInputOf(input []byte) (in bashInput, err error) {
	if err := files.Decode(input, &in); err != nil {
		return in, err
	}
	if strings.ContainsRune(in.Command, 0) {
		return in, &files.Error{Code: files.InvalidInput, Message: "The command holds a NUL character."}
	}
	if in.TimeoutS != nil && (*in.TimeoutS < 0 || *in.TimeoutS > timeoutMax) {
		return in, &files.Error{Code: files.InvalidInput, Message: fmt.Sprintf("timeout_s is %d: use 0 (no limit) to %d seconds.", *in.TimeoutS, timeoutMax)}
	}
	return in, nil
}

// noShell is the error of a shell that cannot be started.
func noShell(err error) error {
	if _, ok := errors.AsType[*refusal](err); ok {
		return err
	}
	return &files.Error{Code: codeExec, Message: "Cannot start " + shell + ": " + err.Error()}
}

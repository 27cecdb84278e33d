package exc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"zino/pkg/mask"
	"zino/proto"
	"zino/services/exc/calls"
	"zino/services/exc/files"
	"zino/services/exc/run"
)

// execute runs code. A caller that hung up, a host that cannot start anything and an
// invalid key are errors; everything else is a result.
func (s *Service) execute(ctx context.Context, req proto.Execute) (proto.Result, error) {
	c, err := newTurnCall(req.SessionID, req.Turn, req.Key, req.Recover, req.Since, []byte("execute_"+req.Executor), []byte(cmp.Or(req.Root, req.Cwd)), []byte(req.Code))
	if err != nil {
		return proto.Result{}, err
	}
	c.tool = "execute_" + req.Executor
	if c.mask, err = s.masker(req.Mask, req.Env); err != nil {
		return proto.Result{}, err
	}
	s.note(c, []byte(req.Code))
	err = s.admit(req.Token, req.Grant, c, cmp.Or(req.Root, req.Cwd), req.Sandbox, req.Network)
	if c.ticket.ask = req.Ask; err == nil {
		err = s.audit.Ready()
	}
	if err != nil {
		return proto.Result{}, s.refuse(c, err)
	}
	failed := func(e *files.Error) proto.Result {
		r := refused(e.Message)
		r.Interrupted = e == interrupted
		return r
	}
	result, err := once(ctx, s, c, nil, steps[proto.Result]{
		run: func(ctx context.Context) (proto.Result, error) {
			result, err := s.runCode(ctx, req, c)
			c.ended(result.Confinement, &result.ExitCode, err)
			switch e, _ := errors.AsType[*files.Error](err); {
			case e != nil && e.Code == proto.ToolNotRecorded:
				result, err = failed(e), nil
			case e != nil && e.Code == files.Denied:
				err = proto.Errorf(proto.CodeDenied, "%s", e.Message)
			}
			result.Stderr = maskText(c.mask, result.Stderr)
			result.Masked = mask.Count([]byte(result.Stdout)) + mask.Count([]byte(result.Stderr))
			return result, err
		},
		settle:    func(context.Context, calls.Call) (proto.Result, bool, error) { return failed(interrupted), true, nil }, // it ended with the exc before this one
		failed:    failed,
		mark:      func(r *proto.Result) { r.Recovered = true },
		uncovered: func(r *proto.Result, why string) { r.Undo = why },
	})
	result.UndoNotice = err == nil && s.firstNotice(c, result.Undo)
	return result, c.maskedError(err)
}

// runCode runs the code of a request.
func (s *Service) runCode(ctx context.Context, req proto.Execute, call *turnCall) (proto.Result, error) {
	tool, ok := s.catalog.Snapshot().Executor(req.Executor)
	if !ok {
		return refused(unknownExecutor(req.Executor)), nil
	}
	if err := s.permitCode(ctx, call, req.Executor, tool.Executor, req.Code); err != nil {
		return proto.Result{}, err
	}
	c, err := s.clientOf(req.Env, req.Root, req.Cwd, req.Umask)
	if err != nil {
		return proto.Result{}, err
	}
	path, err := c.locate(tool.Executor)
	if err != nil {
		return refused("Command not found: " + tool.Executor), nil
	}
	cmd := s.command(c, tool.Executor)
	cmd.Path, cmd.Output.Mask = path, call.mask
	if c.root != "" {
		if _, err := await(ctx, s.limit, func(context.Context) (string, error) { return directory(c.root) }); err != nil {
			return refused(err.Error()), ctx.Err()
		}
		cmd.Chdir(c.root)
	}
	file, remove, err := s.files.place(req.Code, tool.FileExtension)
	if err != nil {
		return proto.Result{}, err
	}
	defer remove()
	cmd.Script = &run.Script{File: file, Text: req.Code, Ext: tool.FileExtension}
	b, err := s.sandboxFor(ctx, &call.ticket.turn, req.Sandbox, req.Network, c.root, cmd, kept{})
	if err != nil {
		return proto.Result{}, asError(err)
	}
	defer b.close()
	if err := s.begin(ctx, call, start{root: c.root, level: b.level}); err != nil {
		return proto.Result{}, err
	}
	p, err := run.Start(cmd)
	if err != nil {
		return proto.Result{}, asError(cannotStart(err))
	}
	over := s.review(ctx, tool, req.Code, b.level)
	r, err := b.wait(ctx, p)
	over()
	if err != nil {
		return proto.Result{}, asError(err)
	}
	result := s.result(r, tool.Executor)
	result.Confinement = b.report(r)
	return result, nil
}

// result is a run's result for the caller.
func (s *Service) result(r run.Result, command string) proto.Result {
	reply := proto.Result{ExitCode: r.ExitCode(), Stdout: r.Stdout, Stderr: r.Stderr, Truncated: r.Truncated, TimedOut: r.TimedOut, Interrupted: r.Interrupted}
	switch {
	case r.TimedOut:
		reply.ExitCode = -1
		reply.Stderr = withLine(reply.Stderr, "Execution timed out after "+strconv.FormatFloat(s.timeout, 'f', -1, 64)+"s.")
	case r.Flooded:
		reply.Stderr = withLine(reply.Stderr, "Execution stopped: more than "+run.ByteCount(s.ceiling)+" of output.")
	default:
		if why := r.Failure(command); why != "" {
			reply.Stderr = withLine(reply.Stderr, why)
		}
	}
	return reply
}

// withLine adds a last line to text.
func withLine(text, line string) string {
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	return text + line
}

func unknownExecutor(name string) string { return "Unknown executor: " + name }

// refused is the result of code that was not run.
func refused(why string) proto.Result {
	return proto.Result{ExitCode: -1, Stderr: why}
}

// cannotStart is the error of a host that is out of processes or files.
func cannotStart(err error) error {
	if _, ok := errors.AsType[*refusal](err); ok {
		return err
	}
	return &proto.Error{Code: proto.CodeBusy, Message: fmt.Sprintf("exc cannot start a process: %v: try again, or raise the limits", err)}
}

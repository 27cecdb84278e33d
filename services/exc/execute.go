package exc

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"zino/pkg/catalog"
	"zino/proto"
)

// execute runs code. Whatever becomes of it is a result: only a caller that
// hung up, and a host that cannot start anything, make an error.
func (s *Service) execute(ctx context.Context, req proto.Execute) (proto.Result, error) {
	tool, ok := s.catalog.Snapshot().Executor(req.Executor)
	if !ok {
		return refused(unknownExecutor(req.Executor)), nil
	}
	c, err := s.clientOf(req.Env, req.Root, req.Cwd, req.Umask)
	if err != nil {
		return proto.Result{}, err
	}
	path, err := c.locate(tool.Executor)
	if err != nil {
		return refused("Command not found: " + tool.Executor), nil
	}
	ctx, leave, err := s.enter(ctx)
	if err != nil {
		return proto.Result{}, err
	}
	defer leave()
	if err := s.reach(ctx, c.root); err != nil {
		return refused(err.Error()), ctx.Err()
	}
	a, err := s.arrange(ctx, wish{string(req.Sandbox), req.Network, c, path})
	if err != nil {
		return proto.Result{}, asError(err)
	}
	defer a.release()
	r, err := s.runCode(ctx, a, c, req, tool, path)
	return r, asError(err)
}

// runCode runs code as arranged with the program at path.
func (s *Service) runCode(ctx context.Context, a *arrangement, c client, req proto.Execute, tool catalog.Tool, path string) (proto.Result, error) {
	file, remove, err := s.files.place(req.Code, tool.FileExtension)
	if err != nil {
		return proto.Result{}, err
	}
	defer remove()
	j := s.job(c, tool.Executor)
	j.script = &script{file, req.Code, tool.FileExtension}
	if c.root != "" {
		j = j.in(c.root)
	}
	p, err := a.start(j, path)
	if err != nil {
		return proto.Result{}, cannotStart(err)
	}
	over := s.review(ctx, tool, req.Code, a.level)
	o, err := p.wait(ctx, s.limit)
	over()
	if err == nil {
		o, err = a.conclude(o)
	}
	if err != nil {
		return proto.Result{}, err
	}
	r := s.result(o, tool.Executor)
	r.Confinement = a.report(o)
	return r, nil
}

// reach is the error for a directory to run in that is of no use.
func (s *Service) reach(ctx context.Context, root string) error {
	if root == "" {
		return nil
	}
	_, err := await(ctx, s.limit, func(context.Context) (string, error) { return directory(root) })
	return err
}

// job is the run of a command for a client.
func (s *Service) job(c client, argv ...string) job {
	return job{argv: argv, env: c.env, umask: c.umask, grace: stopGrace, outputMax: s.outputMax}
}

// result words an outcome for the caller.
func (s *Service) result(o outcome, command string) proto.Result {
	r := proto.Result{ExitCode: o.exitCode(), Stdout: o.stdout, Stderr: o.stderr, Truncated: o.truncated, Interrupted: o.interrupted}
	if o.timedOut {
		r.ExitCode, r.TimedOut = -1, true
		r.Stderr = withLine(r.Stderr, "Execution timed out after "+strconv.FormatFloat(s.timeout, 'f', -1, 64)+"s.")
	} else if o.flooded {
		r.Stderr = withLine(r.Stderr, "Execution stopped: more than "+bytesText(s.floodMax)+" of output.")
	} else if why := o.complaint(command); why != "" {
		r.Stderr = withLine(r.Stderr, why)
	}
	return r
}

// withLine adds a last line to text.
func withLine(text, line string) string {
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	return text + line
}

func unknownExecutor(name string) string { return "Unknown executor: " + name }

// refused is the result of code that did not run.
func refused(why string) proto.Result {
	return proto.Result{ExitCode: -1, Stderr: why}
}

// cannotStart is the error of a host that has no process or file to spare.
func cannotStart(err error) error {
	if _, ok := errors.AsType[*refusal](err); ok {
		return err
	}
	return &proto.Error{Code: proto.CodeBusy, Message: fmt.Sprintf("exc cannot start a process: %v: try again, or raise the limits", err)}
}

package exc

import (
	"context"
	"errors"
	"fmt"

	"zino/pkg/rpc"
	"zino/pkg/wire"
	"zino/proto"
	"zino/services/exc/files"
)

// Codes of errors beside those of package files.
const (
	codeUnknownTool = "unknown_tool"
	codeExec        = "exec_error" // the shell cannot be started
	codeSandbox     = "sandbox"    // it cannot be confined as asked
)

// call carries out a call of a tool. Whatever becomes of it is a result: only a
// caller that hung up, and a service that stops, make an error.
func (s *Service) call(ctx context.Context, req proto.Call, out *rpc.Out) (proto.CallResult, error) {
	shown := (*live)(nil)
	if req.Events && req.Tool == toolBash {
		shown = startLive(func(o proto.ToolOutput) error { return out.Event(proto.TypeToolOutput, o) })
		defer shown.stop()
	}
	reply, err := s.carryOut(ctx, req, shown)
	if e, ok := errors.AsType[*files.Error](asResult(err)); ok {
		return proto.CallResult{Result: failure(e), Confinement: reply.confinement}, nil
	}
	if err != nil {
		return proto.CallResult{}, err
	}
	result, err := success(reply.Data)
	return proto.CallResult{Result: result, Diff: reply.Diff, Confinement: reply.confinement}, err
}

// reply is what a call came to.
type reply struct {
	files.Reply
	confinement *proto.Confinement // nil if it did not come to that
}

// Names of the tools.
const (
	toolRead  = "read"
	toolWrite = "write"
	toolEdit  = "edit"
	toolBash  = "bash"
)

// carryOut has the tool do its work. An error of type *files.Error is the
// call's result.
func (s *Service) carryOut(ctx context.Context, req proto.Call, shown *live) (reply, error) {
	ctx, leave, err := s.enter(ctx)
	if err != nil {
		return reply{}, err
	}
	defer leave()
	switch req.Tool {
	case toolRead:
		return s.onFile(ctx, req, (*files.Files).Read)
	case toolWrite:
		return s.onFile(ctx, req, (*files.Files).Write)
	case toolEdit:
		return s.onFile(ctx, req, (*files.Files).Edit)
	case toolBash:
		return s.bash(ctx, req, shown)
	}
	return reply{}, &files.Error{
		Code:    codeUnknownTool,
		Message: fmt.Sprintf("Unknown tool %q: there are read, write, edit and bash.", req.Tool),
	}
}

// onFile carries out a tool that works on a file.
func (s *Service) onFile(ctx context.Context, req proto.Call, tool func(*files.Files, context.Context, string, []byte) (files.Reply, error)) (reply, error) {
	c, err := s.clientOf(req.Env, req.Root, req.Cwd, req.Umask)
	if err != nil {
		return reply{}, err
	}
	level, network, err := s.sandbox.settle(wish{level: string(req.Sandbox), network: req.Network})
	if err != nil {
		return reply{}, err
	}
	if err := s.levelProblem(ctx, level); err != nil {
		return reply{}, &refusal{level, err}
	}
	how := &proto.Confinement{Sandbox: proto.Level(level), Network: network, Means: []string{}}
	input := append([]byte(nil), req.Input...) // it may be read when the request's buffer is gone
	r, err := await(ctx, s.limit, func(ctx context.Context) (files.Reply, error) {
		root, err := directory(c.root)
		if err != nil {
			return files.Reply{}, err
		}
		tools, release, err := s.bounded(level, c, req.Tool != toolRead)
		if err != nil {
			return files.Reply{}, err
		}
		defer release()
		if err := withUmask(c.umask); err != nil {
			return files.Reply{}, err
		}
		return tool(tools, ctx, root, input)
	})
	if level != levelOff {
		how.Means = append(how.Means, "paths")
	}
	return reply{r, how}, err
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

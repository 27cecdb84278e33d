package agr

import (
	"errors"
	"fmt"

	"zino/pkg/rpc"
	"zino/pkg/wire"
	"zino/proto"
)

// callExc forwards a call of one of exc's tools to exc, and its output to the caller
// as it arrives.
func (t *turn) callExc(c *call, _ fields) result {
	answer, err := rpc.CallEvents(t.ctx, t.exc, proto.ExcCall, proto.Call{
		Tool: c.name, Input: c.input, Root: t.req.Root, Sandbox: t.req.Sandbox, Network: t.req.Network,
		Env: t.req.Env, Cwd: t.req.Cwd, Umask: t.req.Umask, OutputBytes: t.outputBytes, Events: t.req.Events,
	}, func(typ string, payload []byte) error {
		if typ != proto.TypeToolOutput {
			return nil
		}
		var output proto.ToolOutput
		if err := wire.DecodeReply(payload, &output); err != nil {
			return fmt.Errorf("exc answered with a malformed packet: %w", err)
		}
		output.ID = c.id
		return t.report(t.out.Event, typ, output)
	})
	if err == nil && !isEnvelope(answer.Result) {
		err = errors.New("exc answered with something that is not a result")
	}
	if err != nil {
		return failed(err)
	}
	return result{data: answer.Result, diff: answer.Diff, confined: answer.Confinement}
}

// execute runs code in exc.
func (t *turn) execute(executor, code string) (proto.Result, error) {
	return rpc.Call(t.ctx, t.exc, proto.ExcExecute, proto.Execute{
		Executor: executor, Code: code, Root: t.req.Root, Sandbox: t.req.Sandbox, Network: t.req.Network,
		Env: t.req.Env, Cwd: t.req.Cwd, Umask: t.req.Umask,
	})
}

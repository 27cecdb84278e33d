package agr

import (
	"bytes"
	"context"
	"slices"
	"sync"

	"zino/pkg/rpc"
	"zino/proto"
	"zino/services/agr/toolbox"
)

// executor is a fake exc: it records code and calls, and answers as run and call
// say.
type executor struct {
	mu  sync.Mutex
	ran []proto.Execute
	run func(ctx context.Context, req proto.Execute) (proto.Result, error)

	called []proto.Call
	call   func(ctx context.Context, req proto.Call, out *rpc.Out) (proto.CallResult, error)
}

// does sets how code is run from now on.
func (e *executor) does(run func(ctx context.Context, req proto.Execute) (proto.Result, error)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.run = run
}

// returns sets the result of all runs from now on; at first it is empty.
func (e *executor) returns(result proto.Result) {
	e.does(func(context.Context, proto.Execute) (proto.Result, error) { return result, nil })
}

func (e *executor) register(s *rpc.Server) {
	rpc.Handle(s, proto.ExcExecute, e.execute)
	rpc.HandleEvents(s, proto.ExcCall, e.tool)
}

func (e *executor) execute(ctx context.Context, req proto.Execute) (proto.Result, error) {
	e.mu.Lock()
	e.ran = append(e.ran, req)
	run := e.run
	e.mu.Unlock()
	if run == nil {
		return proto.Result{}, nil
	}
	return run(ctx, req)
}

// runs returns what has been executed.
func (e *executor) runs() []proto.Execute {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.ran)
}

// code returns what has been executed, each as executor:code.
func (e *executor) code() (all []string) {
	for _, x := range e.runs() {
		all = append(all, x.Executor+":"+x.Code)
	}
	return all
}

// carries sets how calls are carried out from now on.
func (e *executor) carries(call func(ctx context.Context, req proto.Call, out *rpc.Out) (proto.CallResult, error)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.call = call
}

// answers sets the results of calls from now on; at first they are empty texts.
func (e *executor) answers(result func(proto.Call) proto.Raw) {
	e.carries(func(_ context.Context, req proto.Call, _ *rpc.Out) (proto.CallResult, error) {
		return proto.CallResult{Result: result(req)}, nil
	})
}

func (e *executor) tool(ctx context.Context, req proto.Call, out *rpc.Out) (proto.CallResult, error) {
	e.mu.Lock()
	req.Input = bytes.Clone(req.Input) // it lies in the connection's buffer
	e.called = append(e.called, req)
	call := e.call
	e.mu.Unlock()
	if call == nil {
		return proto.CallResult{Result: toolbox.Said("")}, nil
	}
	return call(ctx, req, out)
}

// calls returns what has been called.
func (e *executor) calls() []proto.Call {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.called)
}

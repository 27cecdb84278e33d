package agr

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"zino/pkg/catalog"
	"zino/pkg/rpc"
	"zino/pkg/wire"
	"zino/proto"
	"zino/services/agr/toolbox"
)

// sideBySide is how many calls are carried out at once.
const sideBySide = 8

// performAll carries out the calls of a session's answer. Those that follow
// each other and change nothing go side by side. All others go one after the
// other: what one of them changes, the next may rely on.
func (t *turn) performAll() error {
	for rest := t.calls; len(rest) > 0; {
		n := 0
		for n < len(rest) && t.changesNothing(rest[n]) {
			n++
		}
		n = max(n, 1)
		if err := t.together(rest[:n]); err != nil {
			return err
		}
		rest = rest[n:]
	}
	return nil
}

func (t *turn) changesNothing(c call) bool {
	if t.forPages(c) {
		return c.name == toolbox.PageList
	}
	tool, ok := t.s.cat.Snapshot().Function(c.name)
	return c.name == toolbox.Read || ok && !toolbox.Own(c.name) && tool.Builtin == catalog.Recall
}

// together carries out calls side by side and waits for all of them.
func (t *turn) together(calls []call) error {
	if len(calls) == 1 {
		return t.perform(&calls[0])
	}
	var all sync.WaitGroup
	errs := make([]error, len(calls))
	places := make(chan struct{}, sideBySide)
	for i := range calls {
		places <- struct{}{}
		all.Go(func() {
			errs[i] = t.perform(&calls[i])
			<-places
		})
	}
	all.Wait()
	return cmp.Or(errs...)
}

func (t *turn) perform(c *call) error {
	o, err := t.tellCall(*c, func() outcome { return t.outcomeOf(c) })
	if err == nil {
		c.result = o.envelope()
	}
	return err
}

// outcomeOf carries out one call of a session. The name is looked at first.
func (t *turn) outcomeOf(c *call) outcome {
	snapshot := t.s.cat.Snapshot()
	own, pages, task := toolbox.Own(c.name), t.forPages(*c), c.name == toolbox.Task && len(snapshot.Skills) > 0
	tool, known := snapshot.Function(c.name)
	switch {
	case c.fault != nil:
		return outcome{fault: c.fault}
	case !own && !pages && !task && !known:
		return unknownTool(c.name, snapshot, t.session.pages)
	}
	fields, err := argumentsOf(c.arguments)
	switch {
	case err != nil && task:
		return malformedTask(err)
	case err != nil:
		return malformedCall(err)
	case own:
		return t.callExc(c)
	case pages:
		return t.usePages(c.name, fields)
	}
	if missing, ok := lacks(fields, required(tool, task)); ok {
		return refused(fmt.Sprintf("The field %q is missing.", missing))
	}
	if task {
		return t.delegate(fields)
	}
	return t.use(tool, fields)
}

// required are the arguments without which nothing can be done, whatever the
// tool's file says of them.
func required(tool catalog.Tool, task bool) []string {
	switch {
	case task:
		return []string{"skill", "request"}
	case tool.Builtin == catalog.Remember:
		return []string{"text"}
	case tool.Builtin == catalog.Recall:
		return []string{"query"}
	}
	return []string{"code"}
}

// lacks returns the first of the names that has no field.
func lacks(fields map[string]json.RawMessage, names []string) (missing string, ok bool) {
	for _, name := range names {
		if raw, ok := fields[name]; !ok || string(raw) == "null" {
			return name, true
		}
	}
	return "", false
}

// callExc has exc carry out one of its own tools.
func (t *turn) callExc(c *call) outcome {
	req := proto.Call{
		Tool: c.name, Input: c.input, Root: t.req.Root, Sandbox: t.req.Sandbox, Network: t.req.Network,
		Env: t.req.Env, Cwd: t.req.Cwd, Umask: t.req.Umask, OutputBytes: t.s.outputBytes, Events: t.req.Events,
	}
	answer, err := rpc.CallEvents(t.ctx, t.s.exc, proto.ExcCall, req, func(typ string, payload []byte) error {
		return t.tellOutput(c.id, typ, payload)
	})
	if err == nil && !toolbox.IsResult(answer.Result) {
		err = errors.New("exc answered with something that is not a result")
	}
	if err != nil {
		return failed(err)
	}
	return outcome{result: answer.Result, diff: answer.Diff, confined: answer.Confinement}
}

// tellOutput passes on what a tool prints, with the call that it belongs to.
func (t *turn) tellOutput(id, typ string, payload []byte) error {
	if typ != proto.TypeToolOutput {
		return nil
	}
	var output proto.ToolOutput
	if err := wire.DecodeReply(payload, &output); err != nil {
		return fmt.Errorf("exc answered with something that is not a packet: %w", err)
	}
	output.ID = id
	return t.report(typ, output)
}

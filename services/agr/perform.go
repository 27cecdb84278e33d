package agr

import (
	"cmp"
	"fmt"
	"strings"
	"sync"
	"time"

	"zino/pkg/catalog"
	"zino/pkg/gate"
	"zino/proto"
)

// perform carries out calls of a session. Successive calls that change nothing, or
// that start sub-agents, run side by side; all others run one after the other, since
// each may rely on what the one before changed. A checkpoint precedes each batch,
// except those of calls that may have run already.
func (t *turn) perform(calls []call) error {
	if err := t.out.Flush(); err != nil { // the caller reads the text while the tools run
		return err
	}
	t.findTools(calls)
	for rest := calls; len(rest) > 0; {
		n := 1
		for n < len(rest) && rest[0].joins(&rest[n]) {
			n++
		}
		batch := rest[:n]
		rest = rest[n:]
		if !batch[0].recovers {
			if _, err := t.checkpoint(batch[0].step, proto.PointCalls, batch...); err != nil {
				return err
			}
		}
		if batch[0].delegated {
			if err := t.startAgents(batch); err != nil {
				return err
			}
			continue
		}
		if len(batch) == 1 {
			if err := t.performOne(&batch[0]); err != nil {
				return err
			}
			continue
		}
		errs := make([]error, len(batch))
		var all sync.WaitGroup
		slots := make(chan struct{}, sideBySide)
		for i := range batch {
			slots <- struct{}{}
			all.Go(func() {
				errs[i] = t.performOne(&batch[i])
				<-slots
			})
		}
		all.Wait()
		if err := cmp.Or(errs...); err != nil {
			return err
		}
	}
	return nil
}

// joins reports whether another call is part of the same batch.
func (c *call) joins(other *call) bool {
	return c.recovers == other.recovers && (c.tool.reads && other.tool.reads || c.delegated && other.delegated)
}

// findTools looks up the tools of the calls.
func (t *turn) findTools(calls []call) {
	snapshot := t.cat.Snapshot()
	list := offered(snapshot, t.kit)
	for i := range calls {
		c, known := &calls[i], false
		if c.tool, known = find(snapshot, t.kit, list, c.name); !known && !c.recovers && c.failure == nil {
			c.failure = &toolError{code: proto.ToolUnknown, message: fmt.Sprintf("There is no tool '%s'. There are: %s.", c.name, strings.Join(toolNames(list), ", "))}
		}
		if c.delegated = t.delegates(c); c.delegated {
			c.failure = t.permit(c.tool.gate)
			c.delegated = c.failure == nil
		}
	}
}

// permit returns why a tool that agr itself carries out is not used; nil if it is.
func (t *turn) permit(tool string) *toolError {
	turn, err := t.guard.Turn(t.req.Token)
	if err == nil {
		err = turn.Fits(t.req.SessionID, t.req.Turn, cmp.Or(t.req.Root, t.req.Cwd))
	}
	if err != nil {
		return failed(err).err
	}
	call := gate.Call{Tool: tool, Root: t.req.Root, Sandbox: t.guard.Level(turn)}
	if tool == catalog.Remember && t.propose {
		call.Action = "propose"
	}
	if why := t.guard.Permit(turn, call); why != "" {
		return &toolError{code: proto.ToolDenied, message: why}
	}
	return nil
}

func (t *turn) performOne(c *call) error {
	started := time.Now()
	if err := t.reportStart(c); err != nil {
		return err
	}
	return t.conclude(c, t.carryOut(c), started)
}

// conclude keeps and reports the result of a call, except of one that is canceled
// with the turn.
func (t *turn) conclude(c *call, r result, started time.Time) error {
	if err := t.ended(); err != nil {
		return err
	}
	n := 0
	r = t.masked(r)
	r.data, r.err = r.envelope(), nil
	if !c.waitsForJob() {
		n = t.loops.count(c, r.data)
	}
	if n == t.loopWarn && n > 0 {
		r.data = withNote(r.data, fmt.Sprintf("This exact call has now returned the same result %d times.", n))
	}
	c.result = r.data
	if err := t.reportEnd(c, r, started); err != nil {
		return err
	}
	return t.warnOfLoop(c, n)
}

// carryOut carries out a call of a session. The name is checked first.
func (t *turn) carryOut(c *call) result {
	if c.failure != nil {
		return result{err: c.failure}
	}
	if c.recovers && c.tool.recover == interrupt {
		return interrupted()
	}
	f, err := argumentsOf(c.arguments)
	if err != nil && c.name == proto.TaskTool {
		return malformedTask(err)
	}
	if err != nil {
		return malformedCall(err)
	}
	if missing, ok := f.lacks(c.tool.required...); ok {
		return refused("The field %q is missing.", missing)
	}
	if c.tool.gate != "" {
		if e := t.permit(c.tool.gate); e != nil {
			return result{err: e}
		}
	}
	return c.tool.call(t, c, f)
}

// carryOutBlock carries out a block of a plain run. Errors are results for the model
// and do not end the turn.
func (t *turn) carryOutBlock(e Event) result {
	if e.Kind == Task {
		f, err := object(e.Body)
		if err != nil {
			return malformedTask(err)
		}
		if e := t.permit(proto.TaskTool); e != nil {
			return result{err: e}
		}
		return t.runTask(f)
	}
	name, arguments, err := parseCall(e.Body)
	if err != nil {
		return malformedCall(err)
	}
	tool, ok := t.cat.Snapshot().Function(name)
	if !ok {
		return result{err: &toolError{proto.ToolUnknown, fmt.Sprintf("Unknown tool function '%s'", name), false}}
	}
	f, err := argumentsOf(arguments)
	if err != nil {
		return malformedCall(err)
	}
	if tool.Builtin != "" {
		if e := t.permit(tool.Builtin); e != nil {
			return result{err: e}
		}
	}
	return t.use(tool, &call{}, f)
}

package agr

import (
	"cmp"
	"fmt"
	"strings"
	"sync"
	"time"

	"zino/pkg/audit"
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
			if err := t.delegate(batch); err != nil {
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
		c.delegated = t.delegates(c)
	}
}

func (t *turn) performOne(c *call) error {
	f, r := t.prepare(c)
	if r.end != nil {
		return r.end
	}
	started := time.Now()
	if err := t.reportStart(c); err != nil {
		return err
	}
	if !r.final() {
		r = c.tool.call(t, c, f)
		c.carried = true
	}
	return t.conclude(c, r, started)
}

// record records a call that agr itself has carried out, for the audit.
func (t *turn) record(c *call, r result, started time.Time) {
	if t.audit == nil || c.tool.gate == "" {
		return
	}
	kind, d := proto.AuditCall, audit.Call{Tool: c.tool.gate, OK: r.err == nil, By: -1, DurationMS: time.Since(started).Milliseconds()}
	if m := t.madeMask(); m.err == nil {
		input, _ := m.masker.JSON(c.input)
		d.Input = audit.Head(input)
	}
	if turn, err := t.guard.Turn(t.req.Token); err == nil {
		d.By, d.Mode = turn.By, string(turn.Mode)
	}
	if r.err != nil {
		d.Code = r.err.code
		if r.err.code == proto.ToolDenied {
			kind, d.Reason = proto.AuditDenied, r.err.message // of the gate: it has no secrets
		}
	}
	t.audit.Record(kind, audit.Event{Session: t.req.SessionID, Turn: t.req.Turn, Call: c.id, Data: d})
}

// conclude keeps and reports the result of a call, except of one that is canceled
// with the turn, or that waits for a person when the turn ends.
func (t *turn) conclude(c *call, r result, started time.Time) error {
	if err := cmp.Or(t.ended(), r.end); err != nil {
		return err
	}
	t.record(c, r, started)
	n := 0
	r = t.masked(r)
	r.data, r.err = r.envelope(), nil
	if !c.waitsForJob() {
		n = t.loops.count(c, r.data)
	}
	if n == t.loopWarn && n > 0 {
		r.data = withMember(r.data, "note", fmt.Sprintf("This exact call has now returned the same result %d times.", n))
	}
	var problems []string
	if r.kept, problems = t.keepFiles(r.files); problems != nil {
		r.data = withMember(r.data, "note", strings.Join(problems, "; "))
	}
	data, err := t.postHooks(c, r.data)
	if err != nil {
		return err
	}
	r.data, c.result, c.files = data, data, r.kept
	if err := t.reportEnd(c, r, started); err != nil {
		return err
	}
	return t.warnOfLoop(c, n)
}

// prepare checks a call of a session, the name first. The result is not final for one that
// may be carried out.
func (t *turn) prepare(c *call) (fields, result) {
	if c.failure != nil {
		return nil, result{err: c.failure}
	}
	if t.hookEnd.Load() != nil && !c.recovers {
		return nil, failed(proto.Errorf(proto.CodeDenied, hookEnded))
	}
	if c.recovers && c.tool.recover == interrupt {
		return nil, interrupted()
	}
	f, err := argumentsOf(c.arguments)
	if err != nil && c.name == proto.TaskTool {
		return nil, malformedTask(err)
	}
	if err != nil {
		return nil, malformedCall(err)
	}
	if missing, ok := f.lacks(c.tool.required...); ok {
		return nil, refused("The field %q is missing.", missing)
	}
	gate := c.tool.gate
	if gate == "" && c.ask() != "" && !c.tool.byService && !c.recovers {
		gate = c.name // no other service asks
	}
	if gate != "" {
		if err := cmp.Or(t.audit.Ready(), t.permit(c, gate)); err != nil {
			return nil, failed(err)
		}
	}
	return f, result{}
}

// carryOutBlock carries out a block of a plain run. Errors are results for the model
// and do not end the turn.
func (t *turn) carryOutBlock(e Event) result {
	var c call
	if e.Kind == Task {
		f, err := object(e.Body)
		if err != nil {
			return malformedTask(err)
		}
		if err := t.permit(&c, proto.TaskTool); err != nil {
			return failed(err)
		}
		return t.runTask(&c, f)
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
		if err := t.permit(&c, tool.Builtin); err != nil {
			return failed(err)
		}
	}
	return t.use(tool, &c, f)
}

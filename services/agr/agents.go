package agr

import (
	"encoding/json"
	"strings"
	"time"

	"zino/proto"
)

// delegates reports whether a call starts a sub-agent, and checks its arguments.
func (t *turn) delegates(c *call) bool {
	if !t.kit.agents || c.name != proto.TaskTool || c.failure != nil {
		return false
	}
	f, err := argumentsOf(c.arguments)
	if err != nil {
		return false
	}
	if name, err := f.text("skill"); err != nil || name != proto.AgentSkill {
		return false
	}
	request, err := f.text("request")
	var write bool
	if raw, ok := f["write"]; ok && err == nil {
		err = json.Unmarshal(raw, &write)
	}
	switch {
	case err != nil:
		c.failure = malformedTask(err).err
	case strings.TrimSpace(request) == "":
		c.failure = refused("Empty task request.").err
	}
	return c.failure == nil
}

// delegate starts sub-agents for a batch of calls, except for those that are not allowed.
func (t *turn) delegate(batch []call) error {
	var allowed []*call
	for i := range batch {
		c := &batch[i]
		err := error(nil)
		if !c.recovers { // else it was allowed
			err = t.permit(c, c.tool.gate)
		}
		if err == nil {
			allowed = append(allowed, c)
			continue
		}
		r := failed(err)
		if r.end != nil {
			return r.end
		}
		if err := t.reportStart(c); err != nil {
			return err
		}
		if err := t.conclude(c, r, time.Now()); err != nil {
			return err
		}
	}
	if len(allowed) == 0 {
		return nil
	}
	return t.startAgents(allowed)
}

// startAgents has the caller carry out a batch of calls, each by a turn of its own.
func (t *turn) startAgents(batch []*call) error {
	started := time.Now()
	at := proto.Checkpoint{Turn: t.req.Turn, Step: batch[0].step, Point: proto.PointDelegate}
	for _, c := range batch {
		if err := t.reportStart(c); err != nil {
			return err
		}
		at.Batch = append(at.Batch, c.id)
	}
	next, err := t.wait(at)
	if err != nil {
		return err
	}
	for _, c := range batch {
		if u, ok := next.Usage[c.id]; ok {
			t.spend(u)
			c.usage = &u
		}
		r := result{data: next.Results[c.id]}
		if !isEnvelope(r.data) {
			r = result{err: &toolError{code: proto.ToolFailed, message: "The sub-agent has no result."}}
		}
		if err := t.conclude(c, r, started); err != nil {
			return err
		}
	}
	return nil
}

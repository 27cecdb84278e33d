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

// startAgents has the caller carry out a batch of calls, each by a turn of its own.
func (t *turn) startAgents(batch []call) error {
	started := time.Now()
	for i := range batch {
		if err := t.reportStart(&batch[i]); err != nil {
			return err
		}
	}
	next, err := t.checkpoint(batch[0].step, proto.PointDelegate, batch...)
	if err != nil {
		return err
	}
	for i := range batch {
		c := &batch[i]
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

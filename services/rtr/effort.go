package rtr

import (
	"fmt"
	"strings"

	"zino/proto"
	"zino/services/rtr/provider"
)

// effortKey is a level of reasoning effort at a model.
type effortKey struct{ endpoint, model, level string }

// unsupported is an effort that a model does not take.
type unsupported struct {
	why     string
	session string // the last one that was sent the notice
}

// effort returns the provider's word for the effort that the request asks for,
// "" if it asks for none or the model does not take it.
func (c *call) effort(t *target) string {
	if c.in.Effort == "" || !t.remote() {
		return ""
	}
	word := provider.EffortWord(t.wire(), t.caps.Model, c.in.Effort)
	if word == "" {
		why := "does not reason"
		if takes := provider.EffortsOf(t.wire(), t.caps.Model); len(takes) > 0 {
			why = "takes " + strings.Join(takes, ", ")
		}
		c.dropEffort(t, "it "+why)
		return ""
	}
	c.s.effortLock.Lock()
	known, refused := c.s.noEffort[c.effortKey(t)]
	c.s.effortLock.Unlock()
	if refused {
		c.dropEffort(t, known.why)
		return ""
	}
	return word
}

func (c *call) effortKey(t *target) effortKey {
	return effortKey{t.caps.Endpoint, t.caps.Model, c.in.Effort}
}

// withoutEffort prepares to ask a model again that has refused an effort, or the
// summaries of its reasoning, which OpenAI gives verified organizations only.
func (c *call) withoutEffort(t *target, f *provider.Fault) {
	if !f.Summary {
		c.dropEffort(t, firstLine(f))
		return
	}
	c.s.log.Info("no summaries of the reasoning", "model", t.caps.Model, "error", firstLine(f))
	c.s.effortLock.Lock()
	c.s.noSummary[t.caps.Endpoint+" "+t.caps.Model] = true
	c.s.effortLock.Unlock()
}

func (c *call) noSummary(t *target) bool {
	c.s.effortLock.Lock()
	defer c.s.effortLock.Unlock()
	return c.s.noSummary[t.caps.Endpoint+" "+t.caps.Model]
}

// dropEffort remembers for the life of the process that a model does not take
// an effort, and sends a notice, once to a session.
func (c *call) dropEffort(t *target, why string) {
	key := c.effortKey(t)
	c.s.effortLock.Lock()
	known, ok := c.s.noEffort[key]
	c.s.noEffort[key] = unsupported{why, c.in.SessionID}
	c.s.effortLock.Unlock()
	if !ok || known.session != c.in.SessionID {
		c.notice(proto.Notice{Kind: "warning", Text: fmt.Sprintf("%s is asked without the effort %q: %s", t.caps.Model, c.in.Effort, why)})
	}
}

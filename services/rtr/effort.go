package rtr

import (
	"fmt"
	"strings"
	"sync"

	"zino/services/rtr/wire"
)

// effortKey is a level of reasoning effort at a model.
type effortKey struct{ endpoint, model, level string }

// efforts is what the models and endpoints of this process have refused.
type efforts struct {
	mu          sync.Mutex
	refused     map[effortKey]string // why
	noSummary   map[effortKey]bool   // without a level
	noResponses map[string]string    // by endpoint: why
}

func newEfforts() *efforts {
	return &efforts{refused: map[effortKey]string{}, noSummary: map[effortKey]bool{}, noResponses: map[string]string{}}
}

// askEffort has a request ask for the effort that the caller wants, unless the
// target's model is known not to take it.
func (c *call) askEffort(t *target, req *wire.Request) {
	if c.in.Effort == "" || !t.remote() {
		return
	}
	e := c.s.efforts
	e.mu.Lock()
	why, refused := e.refused[c.effortKey(t)]
	req.NoSummary = e.noSummary[effortKey{t.caps.Endpoint, t.caps.Model, ""}]
	e.mu.Unlock()
	word := wire.EffortWord(t.wire(), t.caps.Model, c.in.Effort)
	takes := wire.EffortsOf(t.wire(), t.caps.Model)
	switch {
	case refused:
		c.noticeEffort(t, why)
	case len(takes) == 0:
		c.noticeEffort(t, "it does not reason")
	case word == "":
		c.noticeEffort(t, "it takes "+strings.Join(takes, ", "))
	default:
		req.Effort = word
	}
}

func (c *call) effortKey(t *target) effortKey {
	return effortKey{t.caps.Endpoint, t.caps.Model, c.in.Effort}
}

// refuseEffort remembers, for the life of the process, that a model has refused
// the effort, or summaries of its reasoning, which OpenAI makes for verified
// organizations only.
func (c *call) refuseEffort(t *target, f *wire.Fault) {
	e := c.s.efforts
	e.mu.Lock()
	defer e.mu.Unlock()
	if f.Summary {
		c.s.log.Info("no summaries of the reasoning", "model", t.caps.Model, "error", firstLine(f))
		e.noSummary[effortKey{t.caps.Endpoint, t.caps.Model, ""}] = true
		return
	}
	e.refused[c.effortKey(t)] = firstLine(f)
}

// noticeEffort warns that a model is asked without the effort.
func (c *call) noticeEffort(t *target, why string) {
	c.warn(warning{t.caps.Endpoint, t.caps.Model, "effort " + c.in.Effort}, fmt.Sprintf("%s is asked without the effort %q: %s", t.caps.Model, c.in.Effort, why))
}

// refuseResponses remembers, for the life of the process, that an endpoint has no
// Responses API. All targets are decided again.
func (c *call) refuseResponses(t *target, f *wire.Fault) {
	e := c.s.efforts
	e.mu.Lock()
	e.noResponses[t.caps.Endpoint] = firstLine(f)
	e.mu.Unlock()
	if c.s.turn(c.ctx) == nil {
		clear(c.s.chosen)
		c.s.endTurn()
	}
}

// whyNoResponses returns why an endpoint is known to have no Responses API,
// empty if it is not.
func (e *efforts) whyNoResponses(endpoint string) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.noResponses[endpoint]
}

// warnOfWire warns that chat completions are used in place of Responses.
func (c *call) warnOfWire(t *target) {
	if t.noResponses != "" {
		c.warn(warning{t.caps.Endpoint, "", "wire"}, fmt.Sprintf("%s has no Responses API (%s): chat completions are used. Set wire = \"chat\" in [[rtr.model]] to ask them at once", t.caps.Endpoint, t.noResponses))
	}
}

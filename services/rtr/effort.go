package rtr

import (
	"fmt"
	"strings"
	"sync"

	"zino/proto"
	"zino/services/rtr/provider"
)

// effortKey is a level of reasoning effort at a model.
type effortKey struct{ endpoint, model, level string }

// efforts is what the models of this process have refused.
type efforts struct {
	mu        sync.Mutex
	refused   map[effortKey]string // why
	noSummary map[effortKey]bool   // without a level
	noticed   map[effortKey]string // the last session that was sent the notice
}

func newEfforts() *efforts {
	return &efforts{refused: map[effortKey]string{}, noSummary: map[effortKey]bool{}, noticed: map[effortKey]string{}}
}

// askEffort has a request ask for the effort that the caller wants, unless the
// target's model is known not to take it.
func (c *call) askEffort(t *target, req *provider.Request) {
	if c.in.Effort == "" || !t.remote() {
		return
	}
	e := c.s.efforts
	e.mu.Lock()
	why, refused := e.refused[c.effortKey(t)]
	req.NoSummary = e.noSummary[effortKey{t.caps.Endpoint, t.caps.Model, ""}]
	e.mu.Unlock()
	word := provider.EffortWord(t.wire(), t.caps.Model, c.in.Effort)
	takes := provider.EffortsOf(t.wire(), t.caps.Model)
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
func (c *call) refuseEffort(t *target, f *provider.Fault) {
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

// noticeEffort tells the caller, once in a session, that a model is asked without
// the effort.
func (c *call) noticeEffort(t *target, why string) {
	key := c.effortKey(t)
	e := c.s.efforts
	e.mu.Lock()
	session, ok := e.noticed[key]
	e.noticed[key] = c.in.SessionID
	e.mu.Unlock()
	if !ok || session != c.in.SessionID {
		c.notice(proto.Notice{Kind: "warning", Text: fmt.Sprintf("%s is asked without the effort %q: %s", t.caps.Model, c.in.Effort, why)})
	}
}

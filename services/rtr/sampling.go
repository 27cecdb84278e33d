package rtr

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"zino/pkg/config"
	"zino/proto"
	"zino/services/rtr/wire"
)

// warning is what a session is warned of once.
type warning struct{ endpoint, model, about string }

// warnOfSampling sends a notice, once to a session, if the request sets a sampling
// parameter that the model does not take. Defaults are dropped silently.
func (c *call) warnOfSampling(t *target) {
	usual := config.Default().Agent
	if t.traits.NoTemperature && c.in.Temperature != usual.Temperature {
		c.warnOfParameter(t, "temperature", c.in.Temperature)
	}
	if t.traits.NoTopP && c.in.TopP != usual.TopP {
		c.warnOfParameter(t, "top_p", c.in.TopP)
	}
}

func (c *call) warnOfParameter(t *target, name string, value float64) {
	c.warn(warning{t.caps.Endpoint, t.caps.Model, name}, fmt.Sprintf("%s does not take %s: %v is not sent", t.caps.Model, name, value))
}

// warn sends a notice, once to a session.
func (c *call) warn(key warning, text string) {
	c.s.warnLock.Lock()
	session, warned := c.s.warned[key]
	c.s.warned[key] = c.in.SessionID
	c.s.warnLock.Unlock()
	if !warned || session != c.in.SessionID {
		c.notice(proto.Notice{Kind: "warning", Text: text})
	}
}

// withoutSampling returns the target without the sampling parameter that the model
// refused, nil if the error is about something else, such as a value out of range.
// It is remembered until the provider is chosen anew.
func (c *call) withoutSampling(t *target, f *wire.Fault) *target {
	said := strings.ToLower(f.Message)
	says := func(words ...string) bool {
		return slices.ContainsFunc(words, func(word string) bool { return strings.Contains(said, word) })
	}
	if f.Status != http.StatusBadRequest && f.Status != http.StatusUnprocessableEntity || !says("support", "deprecated", "not allowed", "not permitted", "only the default") {
		return nil
	}
	without := *t
	without.traits.NoTemperature = t.traits.NoTemperature || says("temperature")
	without.traits.NoTopP = t.traits.NoTopP || says("top_p", "topp")
	if without.traits == t.traits {
		return nil
	}
	if c.s.turn(c.ctx) == nil {
		for w, have := range c.s.chosen {
			if have == t {
				c.s.chosen[w] = &without
			}
		}
		c.s.endTurn()
	}
	return &without
}

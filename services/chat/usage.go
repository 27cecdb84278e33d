package chat

import (
	"cmp"
	"fmt"
	"math"
	"strings"

	"zino/proto"
)

// usage is what the session has consumed, as far as the daemon reported it.
type usage struct {
	dollars float64
	unknown bool // of some inferences the cost is unknown
	known   bool // of some it is known
	tokens  int64
	last    int64 // tokens of the last inference
}

// fullAt is how much of the context is used, in percent, when the status line warns.
const fullAt = 80

// used counts an inference.
func (c *chat) used(i proto.InferenceUsage) {
	c.usage.add(i.InputTokens+i.OutputTokens, i.CostUSD)
	c.lastUsed(i)
	if c.turn != nil && c.turn == c.changedIn { // the next turn has another model
		return
	}
	c.provider, c.model = cmp.Or(i.Provider, c.provider), cmp.Or(i.Model, c.model)
}

// lastUsed notes how full the context is after an inference.
func (c *chat) lastUsed(i proto.InferenceUsage) {
	c.usage.last = i.InputTokens + i.OutputTokens
	if i.ContextWindow > 0 {
		c.windows[cmp.Or(i.Model, c.model)] = int64(i.ContextWindow)
	}
}

// add adds tokens and their cost.
func (u *usage) add(tokens int64, dollars *float64) {
	u.tokens += tokens
	if dollars == nil {
		u.unknown = true
		return
	}
	u.known = true
	u.dollars += *dollars
}

// addAgent adds what a sub-agent has used. It has a context of its own.
func (u *usage) addAgent(more proto.Usage) { u.add(more.InputTokens+more.OutputTokens, more.CostUSD) }

// cost formats what the session has cost: dollars with up to four decimals, "≥" if that is
// not all, or tokens if nothing is known.
func (u *usage) cost() string {
	switch {
	case u.known && u.unknown: // rounded down: it is a lower bound
		return fmt.Sprintf("≥ $%.2f", math.Floor(u.dollars*100)/100)
	case u.unknown:
		return tokens(u.tokens) + " tokens"
	case u.dollars >= 0.1:
		return fmt.Sprintf("$%.2f", u.dollars)
	}
	s := fmt.Sprintf("$%.4f", u.dollars)
	return strings.TrimSuffix(strings.TrimSuffix(s, "0"), "0")
}

// context formats how full a context of so many tokens is; 0: its size is unknown. full
// reports that it is time to hand the session over.
func (u *usage) context(window int64) (s string, full bool) {
	if window <= 0 {
		if u.last == 0 {
			return "", false
		}
		return tokens(u.last), false
	}
	percent := u.last * 100 / window
	if percent < fullAt {
		return fmt.Sprintf("%d %%", percent), false
	}
	return fmt.Sprintf("%d %% · /handoff", percent), true
}

// contextText is the context of the session in the status line.
func (c *chat) contextText() string {
	s, _ := c.usage.context(c.windows[c.model])
	return s
}

// tokens formats a number of tokens.
func tokens(n int64) string {
	switch {
	case n < 1000:
		return fmt.Sprint(n)
	case n < 999_500:
		return fmt.Sprintf("%dk", (n+500)/1000)
	}
	return fmt.Sprintf("%.1fM", float64(n)/1e6)
}

package chat

import (
	"fmt"

	"zino/proto"
)

// usage is what the session has consumed, as far as it was reported.
type usage struct {
	cents   float64 // US dollars
	unknown bool    // of some inferences the cost is unknown
	known   bool    // of some it is known
	tokens  int64
	last    int64 // tokens of the last inference
	window  int64 // the model's context, in tokens; 0: unknown
}

func (u *usage) add(i proto.InferenceUsage) {
	u.tokens += i.InputTokens + i.OutputTokens
	u.last = i.InputTokens + i.OutputTokens
	if i.ContextWindow > 0 {
		u.window = int64(i.ContextWindow)
	}
	if i.CostUSD == nil {
		u.unknown = true
		return
	}
	u.known = true
	u.cents += *i.CostUSD
}

// cost formats what the session has cost.
func (u *usage) cost() string {
	switch {
	case u.known && u.unknown:
		return fmt.Sprintf("≥ $%.2f", u.cents)
	case u.known && u.cents > 0 && u.cents < 0.1:
		return fmt.Sprintf("$%.4f", u.cents)
	case u.known || !u.unknown:
		return fmt.Sprintf("$%.2f", u.cents)
	}
	return tokens(u.tokens) + " tokens"
}

// context formats how full the model's context is.
func (u *usage) context() string {
	if u.window > 0 {
		percent := u.last * 100 / u.window
		if percent >= 80 {
			return fmt.Sprintf("%d %% · /handoff", percent)
		}
		return fmt.Sprintf("%d %%", percent)
	}
	if u.last == 0 {
		return ""
	}
	return tokens(u.last)
}

// tokens formats a number of tokens.
func tokens(n int64) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%dk", (n+500)/1000)
}

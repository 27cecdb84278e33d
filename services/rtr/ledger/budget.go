package ledger

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"zino/proto"
)

// The limits' keys.
const (
	usdPerDay        = "usd_per_day"
	tokensPerDay     = "tokens_per_day"
	usdPerSession    = "usd_per_session"
	tokensPerSession = "tokens_per_session"
)

// limit is a configured limit and what stands against it. Amounts are tokens,
// or nanodollars if it is one of money.
type limit struct {
	key                   string
	value                 float64 // as configured
	most, spent, reserved int64
	money                 bool
	ends                  time.Time // zero: with the session
	in                    string    // the file that sets it, for remedies
}

// standing lists the configured limits as they stand on the day of at.
func (l *Ledger) standing(today, session account, at time.Time) (limits []limit) {
	ends := endOf(at)
	limits = append(
		list(usdPerDay, l.limits.USDPerDay, tokensPerDay, l.limits.TokensPerDay, today, ends),
		list(usdPerSession, l.limits.USDPerSession, tokensPerSession, l.limits.TokensPerSession, session, time.Time{})...)
	for i := range limits {
		limits[i].in = l.limits.in()
	}
	return limits
}

// list lists the limits that one account is held against.
func list(moneyKey string, money float64, tokenKey string, tokens int64, a account, ends time.Time) (limits []limit) {
	if money > 0 {
		limits = append(limits, limit{moneyKey, money, max(1, nano(money)), a.spent.nano, a.reserved.nano, true, ends, ""})
	}
	if tokens > 0 {
		limits = append(limits, limit{tokenKey, float64(tokens), tokens, a.spent.tokens, a.reserved.tokens, false, ends, ""})
	}
	return limits
}

// left is what may still be used, 0 or less if nothing may.
func (l *limit) left() int64 { return l.most - plus(l.spent, l.reserved) }

// unbounded is the room for an answer where a limit sets no bound to it.
const unbounded = math.MaxInt64

// room is how many output tokens fit beside the input of a request, -1 if not
// even that does.
func (l *limit) room(a *Ask) int64 {
	left := l.left()
	if left <= 0 {
		return -1
	}
	if !l.money {
		return max(-1, left-a.Input)
	}
	if a.Price == nil {
		return unbounded
	}
	if left -= upTo(a.Price.dearest(), a.Input); left < 0 {
		return -1
	}
	if a.Price.Output <= 0 {
		return unbounded
	}
	tokens := int64(min(float64(left)/nanoPerToken(a.Price.Output), most))
	for tokens > 0 && upTo(a.Price.Output, tokens) > left {
		tokens-- // a fraction was rounded
	}
	return tokens
}

// nanoPerToken is a price per million tokens in nanodollars per token.
func nanoPerToken(price float64) float64 { return price * 1e3 }

// upTo is what tokens cost in nanodollars, rounded up.
func upTo(price float64, tokens int64) int64 {
	return int64(min(math.Ceil(nanoPerToken(price)*float64(tokens)), most))
}

// sum is what a request takes at most, if its answer has that many tokens.
func (a *Ask) sum(output int64) sum {
	s := sum{tokens: plus(a.Input, output)}
	if a.Price != nil {
		s.nano = plus(upTo(a.Price.dearest(), a.Input), upTo(a.Price.Output, output))
	}
	return s
}

// grant decides how long the answer may be: what was asked for, or what the
// limits leave of it, half of that if it may be lowered; 0 if nothing sets a
// bound.
func grant(limits []limit, a *Ask) (int64, error) {
	granted, least := a.Output, a.Output
	if granted == 0 {
		granted = unbounded
		least = max(a.Least, 1)
	} else if a.Least > 0 {
		least = min(a.Least, a.Output)
	}
	for _, l := range limits {
		room := l.room(a)
		if room < least {
			return 0, l.refusal(a.sum(least))
		}
		if a.Least > 0 && room < granted {
			room = max(least, room/2) // the other half is for those who ask meanwhile
		}
		granted = min(granted, room)
	}
	if granted == unbounded {
		granted = 0
	}
	return granted, nil
}

// refusal says which limit is reached, how it stands, when it ends and what to
// do. need is what the request would take at the least.
func (l *limit) refusal(need sum) error {
	what := "is reached"
	if l.left() > 0 {
		what = fmt.Sprintf("leaves too little for this request, which may take %s", l.amount(need.of(l.money)))
	}
	remedy := fmt.Sprintf("raise [budget] %s%s", l.key, l.in)
	if l.ends.IsZero() {
		remedy = "start a new session, or " + remedy
	} else {
		remedy = fmt.Sprintf("the limit starts anew at %s: wait until then, or %s", l.ends.Format(time.RFC3339), remedy)
	}
	return &proto.Error{Code: proto.CodeBudget, Message: fmt.Sprintf(
		"[budget] %s = %s %s: %s spent and %s reserved for requests under way or lost; %s",
		l.key, strconv.FormatFloat(l.value, 'f', -1, 64), what, l.amount(l.spent), l.amount(l.reserved), remedy)}
}

// of is the part of a sum that a limit counts.
func (s sum) of(money bool) int64 {
	if money {
		return s.nano
	}
	return s.tokens
}

// amount is an amount for people.
func (l *limit) amount(n int64) string {
	if l.money {
		return fmt.Sprintf("$%.4f", usd(n))
	}
	return fmt.Sprintf("%d tokens", n)
}

// unpriced is the refusal where money is limited and nobody can tell how much
// a request may take.
func (l *limit) unpriced(a *Ask) error {
	return &proto.Error{Code: proto.CodeBudget, Message: fmt.Sprintf(
		"[budget] %s = %s cannot be kept, as no price is known for the model %s of %s: set its price in [[rtr.model]]%s, or limit tokens (%s) instead of money",
		l.key, strconv.FormatFloat(l.value, 'f', -1, 64), a.Model, a.Provider, l.in, tokensPerDay)}
}

// state is the limit for a report.
func (l *limit) state() proto.BudgetState {
	s := proto.BudgetState{Name: l.key, Limit: l.value, Spent: float64(l.spent), Reserved: float64(l.reserved)}
	if l.money {
		s.Spent, s.Reserved = usd(l.spent), usd(l.reserved)
	}
	if !l.ends.IsZero() {
		s.Ends = l.ends.Format(time.RFC3339)
	}
	return s
}

// endOf is when the local day of t ends. Where clocks go forward at midnight
// the next day begins later than that.
func endOf(t time.Time) time.Time {
	year, month, d := t.Date()
	end := time.Date(year, month, d+1, 0, 0, 0, 0, t.Location())
	for dayOf(end) == dayOf(t) {
		end = end.Add(15 * time.Minute)
	}
	return end
}

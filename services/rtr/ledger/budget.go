package ledger

import (
	"fmt"
	"math"
	"slices"
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

// limit is a configured limit and what counts against it. Amounts are tokens, or
// nanodollars if it is a limit of money.
type limit struct {
	key                  string
	value                float64 // as configured
	max, spent, reserved int64
	money                bool
	ends                 time.Time // zero: with the session
	in                   string    // the file that sets it, for remedies
}

// limitsAt lists the configured limits on the day of at.
func (l *Ledger) limitsAt(t *totals, session string, at time.Time) (list []limit) {
	year, month, d := at.Date()
	ends := time.Date(year, month, d+1, 0, 0, 0, 0, at.Location())
	for dayOf(ends) == dayOf(at) { // clocks go forward at midnight: the next day begins later
		ends = ends.Add(15 * time.Minute)
	}
	today, own, in := t.days[dayOf(at)], t.sessions[session], l.limits.in()
	usd := func(key string, value float64, a account, ends time.Time) {
		if value > 0 {
			list = append(list, limit{key, value, max(1, nano(value)), a.spent.nano, a.reserved.nano, true, ends, in})
		}
	}
	tokens := func(key string, value int64, a account, ends time.Time) {
		if value > 0 {
			list = append(list, limit{key, float64(value), value, a.spent.tokens, a.reserved.tokens, false, ends, in})
		}
	}
	usd(usdPerDay, l.limits.USDPerDay, today, ends)
	tokens(tokensPerDay, l.limits.TokensPerDay, today, ends)
	usd(usdPerSession, l.limits.USDPerSession, own, time.Time{})
	tokens(tokensPerSession, l.limits.TokensPerSession, own, time.Time{})
	return list
}

// left returns the unused part of the limit, 0 or less if it is used up.
func (l *limit) left() int64 { return l.max - plus(l.spent, l.reserved) }

// unbounded is the room for an answer if no limit bounds it.
const unbounded = math.MaxInt64

// room is how many output tokens fit beside the input of a request, -1 if the
// input does not fit.
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
	if left -= upTo(a.Price.maxInput(), a.Input); left < 0 {
		return -1
	}
	if a.Price.Output <= 0 {
		return unbounded
	}
	tokens := int64(min(float64(left)/nanoPerToken(a.Price.Output), amountMax))
	for tokens > 0 && upTo(a.Price.Output, tokens) > left {
		tokens-- // a fraction was rounded
	}
	return tokens
}

// nanoPerToken is a price per million tokens in nanodollars per token.
func nanoPerToken(price float64) float64 { return price * 1e3 }

// upTo returns the cost of tokens in nanodollars, rounded up.
func upTo(price float64, tokens int64) int64 {
	return int64(min(math.Ceil(nanoPerToken(price)*float64(tokens)), amountMax))
}

// sum returns the highest usage of a request with that many tokens of output.
func (a *Ask) sum(output int64) sum {
	s := sum{tokens: plus(a.Input, output)}
	if a.Price != nil {
		s.nano = plus(upTo(a.Price.maxInput(), a.Input), upTo(a.Price.Output, output))
	}
	return s
}

// grant decides whether a request may be made, and the limit of its answer in tokens:
// the limit requested, or what the budgets leave of it, half of that if it may be
// lowered; 0 without a limit. known is false if the request's cost will
// stay unknown.
func grant(limits []limit, a *Ask, known bool) (int64, error) {
	if i := slices.IndexFunc(limits, func(l limit) bool { return l.money }); i >= 0 && !known {
		l := limits[i]
		return 0, &proto.Error{Code: proto.CodeBudget, Message: fmt.Sprintf(
			"[budget] %s = %s cannot be kept, as no price is known for the model %s of %s: set its price in [[rtr.model]]%s, or limit tokens (%s) instead of money",
			l.key, strconv.FormatFloat(l.value, 'f', -1, 64), a.Model, a.Provider, l.in, tokensPerDay)}
	}
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
			room = max(least, room/2) // the other half is for requests meanwhile
		}
		granted = min(granted, room)
	}
	if granted == unbounded {
		granted = 0
	}
	return granted, nil
}

// refusal says which limit is reached, how it stands, when it ends and what to
// do; details is when it ends. need is what the request would use at the least.
func (l *limit) refusal(need sum) error {
	what := "is reached"
	if l.left() > 0 {
		n := need.tokens
		if l.money {
			n = need.nano
		}
		what = fmt.Sprintf("leaves too little for this request, which may take %s", l.amount(n))
	}
	remedy, ends := fmt.Sprintf("raise [budget] %s%s", l.key, l.in), ""
	if l.ends.IsZero() {
		remedy = "start a new session, or " + remedy
	} else {
		ends = l.ends.UTC().Format(time.RFC3339)
		remedy = fmt.Sprintf("the limit starts anew at %s: wait until then, or %s", l.ends.Format(time.RFC3339), remedy)
	}
	return &proto.Error{Code: proto.CodeBudget, Details: ends, Message: fmt.Sprintf(
		"[budget] %s = %s %s: %s spent and %s reserved for requests under way or lost; %s",
		l.key, strconv.FormatFloat(l.value, 'f', -1, 64), what, l.amount(l.spent), l.amount(l.reserved), remedy)}
}

// amount is an amount for people.
func (l *limit) amount(n int64) string {
	if l.money {
		return fmt.Sprintf("$%.4f", usd(n))
	}
	return fmt.Sprintf("%d tokens", n)
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

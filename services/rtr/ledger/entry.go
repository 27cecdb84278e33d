package ledger

import (
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"zino/pkg/wire"
	"zino/proto"
)

const (
	// amountMax is the highest number of tokens or nanodollars of a line: 9
	// million dollars. Every integer up to it is exact in a float64.
	amountMax = 1 << 53
	// nameMax is the number of bytes to which names of sessions, providers and
	// models are cut. Clients choose them, and a line must not grow without bound.
	nameMax = 256
	// lineMax is the length in bytes from which a line is not read: lines that
	// are written here are far below it.
	lineMax = 64 << 10
)

// entry is a line of the file; the package's comment has its kinds.
type entry struct {
	Time       string   `json:"time"` // RFC 3339
	ID         string   `json:"id"`
	Session    string   `json:"session,omitzero"`
	Provider   string   `json:"provider,omitzero"`
	Model      string   `json:"model,omitzero"`
	Reserved   *amount  `json:"reserved,omitzero"`
	Unknown    bool     `json:"unknown,omitzero"`
	Canceled   bool     `json:"canceled,omitzero"`
	Input      *int64   `json:"input_tokens,omitzero"`
	Output     *int64   `json:"output_tokens,omitzero"`
	CacheRead  int64    `json:"cache_read_tokens,omitzero"`
	CacheWrite int64    `json:"cache_write_tokens,omitzero"`
	Reasoning  int64    `json:"reasoning_tokens,omitzero"`
	Cost       *float64 `json:"cost_usd,omitzero"`
	PricesOf   string   `json:"prices_of,omitzero"`

	at time.Time // Time
}

// amount is the highest possible usage of a request.
type amount struct {
	Tokens int64   `json:"tokens"`
	USD    float64 `json:"usd"`
}

type kind int

const (
	invalidLine kind = iota
	reserved         // a request begins
	settled          // it ended, and this is what it used
	abandoned        // it ended, and what it used is unknown
	canceled         // it never reached the provider
)

func (e *entry) kind() kind {
	used := e.Input != nil && e.Output != nil
	switch {
	case e.Canceled && !e.Unknown && !used && e.Reserved == nil:
		return canceled
	case e.Canceled, used && (e.Unknown || e.Reserved != nil):
		return invalidLine
	case used:
		return settled
	case e.Reserved != nil && e.Unknown:
		return abandoned
	case e.Reserved != nil:
		return reserved
	}
	return invalidLine
}

// parse parses a line. It reports false for a line that is not an entry, such as a
// partial one or one with a negative number.
func parse(line []byte) (e entry, ok bool) {
	if len(line) >= lineMax || wire.Decode(line, &e) != nil || e.kind() == invalidLine || !e.plausible() {
		return e, false
	}
	var err error
	e.at, err = time.Parse(time.RFC3339, e.Time)
	return e, err == nil
}

func (e *entry) plausible() bool {
	for _, n := range []*int64{e.Input, e.Output, &e.CacheRead, &e.CacheWrite, &e.Reasoning} {
		if n != nil && (*n < 0 || *n > amountMax) {
			return false
		}
	}
	if r := e.Reserved; r != nil && (r.Tokens < 0 || r.Tokens > amountMax || !isAmount(r.USD)) {
		return false
	}
	return e.Cost == nil || isAmount(*e.Cost)
}

func isAmount(usd float64) bool { return usd >= 0 && usd*1e9 <= amountMax }

func (e *entry) text() ([]byte, error) { return wire.AppendObject(nil, "", e) }

// use makes e the line of a request that used u.
func (e *entry) use(u *proto.Usage) {
	input, output := counted(u.InputTokens), counted(u.OutputTokens)
	e.Input, e.Output = &input, &output
	e.CacheRead, e.CacheWrite, e.Reasoning = counted(u.CacheReadTokens), counted(u.CacheWriteTokens), counted(u.ReasoningTokens)
	if u.CostUSD != nil && isAmount(*u.CostUSD) {
		e.Cost = u.CostUSD
	}
}

func (e *entry) usage() proto.Usage {
	return proto.Usage{
		InputTokens: *e.Input, OutputTokens: *e.Output,
		CacheReadTokens: e.CacheRead, CacheWriteTokens: e.CacheWrite, ReasoningTokens: e.Reasoning,
	}
}

func counted(tokens int64) int64 { return min(max(tokens, 0), amountMax) }

// sum is what the request counts for against a budget: what it used, or what
// was reserved for it.
func (e *entry) sum() sum {
	if e.Reserved != nil {
		return sum{e.Reserved.Tokens, nano(e.Reserved.USD)}
	}
	s := sum{}
	if e.Input != nil && e.Output != nil {
		s.tokens = *e.Input + *e.Output
	}
	if e.Cost != nil {
		s.nano = nano(*e.Cost)
	}
	return s
}

// sum is an amount of tokens and of money. Money is counted in whole
// nanodollars, so that sums do not depend on their order.
type sum struct{ tokens, nano int64 }

func (s *sum) add(t sum) { s.tokens, s.nano = plus(s.tokens, t.tokens), plus(s.nano, t.nano) }

func (s *sum) sub(t sum) { s.tokens, s.nano = s.tokens-t.tokens, s.nano-t.nano }

// plus adds two numbers from 0 on, up to the highest int64.
func plus(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// nano is an amount of US dollars in whole nanodollars, at most amountMax.
func nano(usd float64) int64 { return int64(min(math.Round(usd*1e9), amountMax)) }

func usd(nano int64) float64 { return float64(nano) / 1e9 }

// cleanName returns a name in the form of the file.
func cleanName(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= nameMax {
		return s
	}
	cut := nameMax
	for !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut]
}

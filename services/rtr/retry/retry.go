// Package retry decides when a provider may be asked.
//
// A [Limiter] is shared by all requests to one provider: so many at once, so many
// a minute, and none before the time that the provider's headers name. A [Backoff]
// gives the pauses between the attempts of one request. [After] and [Exhausted]
// read the waits that a provider asks for.
package retry

import (
	"math"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"
)

const (
	// MaxRetries is the highest number of retries of one request.
	MaxRetries = 4
	// MaxOwn limits the total of a request's pauses that the provider did not ask for.
	MaxOwn = 30 * time.Second
	// MaxAsked is the longest wait asked for by a provider that is honoured. A
	// longer one is an error that says when it ends.
	MaxAsked = 5 * time.Minute
	// Longest is the longest valid wait: a spending limit may last for a month.
	// Longer ones count as not given.
	Longest = 32 * 24 * time.Hour

	firstPause = 500 * time.Millisecond // doubled with each retry
	jitter     = 0.25                   // the share of a pause that is taken off at random, at most
)

// Backoff holds the pauses between the attempts of one request. It is not safe for
// concurrent use.
type Backoff struct {
	random  func() float64
	pause   time.Duration // before the next retry, if the provider asks for none
	retries int           // left
	own     time.Duration // left of MaxOwn
}

// NewBackoff returns the pauses of a new request. random gives numbers in [0, 1)
// for the jitter; nil is math/rand.
func NewBackoff(random func() float64) *Backoff {
	if random == nil {
		random = rand.Float64
	}
	return &Backoff{random: random, pause: firstPause, retries: MaxRetries, own: MaxOwn}
}

// Next returns how long to wait before the request is sent again. asked is the
// wait that the provider asks for, 0 for none; it is kept exactly and does not
// count against MaxOwn.
//
// ok is false if the request must be given up: its retries or MaxOwn are used up,
// or asked is above MaxAsked. wait is asked then.
func (b *Backoff) Next(asked time.Duration) (wait time.Duration, ok bool) {
	asked = max(asked, 0)
	if b.retries == 0 || asked > MaxAsked {
		return asked, false
	}
	b.retries--
	own := b.pause - time.Duration(jitter*b.random()*float64(b.pause))
	b.pause = min(2*b.pause, MaxOwn)
	if asked > 0 {
		return asked, true
	}
	if own > b.own {
		return 0, false
	}
	b.own -= own
	return own, true
}

// buckets are the headers of rate limits: the limit, what remains of it, and when
// it is reset.
var buckets = [][3]string{
	{"anthropic-ratelimit-requests-limit", "anthropic-ratelimit-requests-remaining", "anthropic-ratelimit-requests-reset"},
	{"anthropic-ratelimit-tokens-limit", "anthropic-ratelimit-tokens-remaining", "anthropic-ratelimit-tokens-reset"},
	{"anthropic-ratelimit-input-tokens-limit", "anthropic-ratelimit-input-tokens-remaining", "anthropic-ratelimit-input-tokens-reset"},
	{"anthropic-ratelimit-output-tokens-limit", "anthropic-ratelimit-output-tokens-remaining", "anthropic-ratelimit-output-tokens-reset"},
	{"x-ratelimit-limit-requests", "x-ratelimit-remaining-requests", "x-ratelimit-reset-requests"}, // OpenAI
	{"x-ratelimit-limit-tokens", "x-ratelimit-remaining-tokens", "x-ratelimit-reset-tokens"},
	{"x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"}, // OpenRouter
}

// After returns the wait that Retry-After-Ms or Retry-After asks for, 0 without them.
func After(h http.Header, now time.Time) time.Duration {
	if ms, err := strconv.ParseFloat(strings.TrimSpace(h.Get("Retry-After-Ms")), 64); err == nil {
		if wait := scaled(ms, time.Millisecond); wait > 0 {
			return wait
		}
	}
	return ParseWait(h.Get("Retry-After"), ServerTime(h, now))
}

// Exhausted returns the wait until every rate limit of which nothing remains is
// reset, 0 if none is used up.
func Exhausted(h http.Header, now time.Time) (wait time.Duration) {
	now = ServerTime(h, now)
	for _, b := range buckets {
		if h.Get(b[0]) == "0" {
			continue // some servers send 0 for no limit
		}
		if left, err := strconv.ParseInt(strings.TrimSpace(h.Get(b[1])), 10, 64); err == nil && left == 0 {
			wait = max(wait, ParseWait(h.Get(b[2]), now))
		}
	}
	return wait
}

// ServerTime returns the provider's time of an answer, now if the answer has no date. Points
// in time are relative to it, so a wrong clock on this host does no harm.
func ServerTime(h http.Header, now time.Time) time.Time {
	if date, err := http.ParseTime(h.Get("Date")); err == nil {
		return date
	}
	return now
}

// ParseWait parses a wait as providers write it: seconds ("20", "1.5"), durations
// ("6m0s", "17ms"), points in time (an HTTP date, RFC 3339, seconds or milliseconds
// since 1970). It returns 0 for a point in the past, for a wait above Longest, and
// for anything else.
func ParseWait(text string, now time.Time) time.Duration {
	text = strings.TrimSpace(text)
	if n, err := strconv.ParseFloat(text, 64); err == nil {
		// The size tells seconds from points in time: 1e9 s are 31 years, or
		// September 2001.
		switch {
		case n >= 1e11 && n < 1e15:
			return believable(time.UnixMilli(int64(n)).Sub(now))
		case n >= 1e9 && n < 1e15:
			return believable(time.Unix(int64(n), 0).Sub(now))
		}
		return scaled(n, time.Second)
	}
	if d, err := time.ParseDuration(text); err == nil {
		return believable(d)
	}
	if at, err := http.ParseTime(text); err == nil {
		return believable(at.Sub(now))
	}
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return believable(at.Sub(now))
	}
	return 0
}

func scaled(n float64, unit time.Duration) time.Duration {
	ns := n * float64(unit)
	if math.IsNaN(ns) || ns > float64(Longest) {
		return 0
	}
	return believable(time.Duration(max(ns, 0)))
}

func believable(d time.Duration) time.Duration {
	if d < 0 || d > Longest {
		return 0
	}
	return d
}

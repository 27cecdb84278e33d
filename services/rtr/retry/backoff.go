package retry

import (
	"math/rand/v2"
	"time"
)

const (
	// MaxRetries is how many times one request is sent again at most.
	MaxRetries = 4
	// MaxOwn is the most that a request waits in all of its own accord, the
	// waits that a provider asked for left out.
	MaxOwn = 30 * time.Second
	// MaxAsked is the longest wait of a provider's that is honoured. Whoever
	// asks for more is not waited for: the user is told when to come back.
	MaxAsked = 5 * time.Minute

	firstPause = 500 * time.Millisecond // doubled with each retry
	jitter     = 0.25                   // the share of a pause that chance may take off
)

// Backoff is the pauses between the attempts of one request. It is not safe
// for concurrent use.
type Backoff struct {
	random  func() float64
	pause   time.Duration // before the next retry, if the provider asks for nothing
	retries int           // left
	own     time.Duration // left of MaxOwn
}

// NewBackoff returns the pauses of a new request. random gives numbers in
// [0, 1) for the jitter; nil stands for math/rand.
func NewBackoff(random func() float64) *Backoff {
	if random == nil {
		random = rand.Float64
	}
	return &Backoff{random: random, pause: firstPause, retries: MaxRetries, own: MaxOwn}
}

// Next returns how long to wait before the request is sent again. asked is
// what the provider asked for, if hasAsked; it is kept to the letter, however
// much was waited before. A wish of zero or less is none.
//
// ok is false when the request must be given up: its retries or its own time
// are used up, or the provider asks for more than MaxAsked. wait is then what
// the provider asked for, 0 if it did not ask.
func (b *Backoff) Next(asked time.Duration, hasAsked bool) (wait time.Duration, ok bool) {
	if !hasAsked || asked < 0 {
		asked = 0
	}
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

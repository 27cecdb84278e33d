package retry

import (
	"net/http"
	"time"
)

// Observe takes in the status and the headers of an answer, whatever became of
// it. Where an allowance of requests or tokens is used up, or a 429, 503 or
// 529 asks to wait, nobody starts until then, as with Pause. What makes no
// sense is ignored.
func (l *Limiter) Observe(status int, h http.Header) {
	now := l.now()
	wait := exhausted(h, now)
	if refuses(status) {
		wait = max(wait, retryAfter(h, now))
	}
	l.Pause(wait)
}

// Pause lets nobody start for d, at most for MaxAsked; 0 and less is no pause.
// It is for waits that stand in a body (Verdict.Wait), where Observe cannot
// see them. A pause is never shortened, as answers may come out of order.
func (l *Limiter) Pause(d time.Duration) {
	if d <= 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if until := l.now().Add(min(d, MaxAsked)); until.After(l.paused) {
		l.paused = until
		l.admit()
	}
}

// refuses tells the statuses of a provider that has too much to do.
func refuses(status int) bool {
	const overloaded = 529 // Anthropic's
	return status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable || status == overloaded
}

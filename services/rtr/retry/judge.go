package retry

import (
	"net/http"
	"strconv"
	"time"
)

// Class says what can be done about a refusal.
type Class int

const (
	// Stop: the same request would be refused again, by any provider perhaps.
	Stop Class = iota
	// Retry: the request may be sent again after a pause.
	Retry
	// WaitLong: a daily quota or a spending limit is used up. This provider is
	// not asked again; another may be.
	WaitLong
)

// String returns stop, retry or wait_long.
func (c Class) String() string {
	switch c {
	case Stop:
		return "stop"
	case Retry:
		return "retry"
	case WaitLong:
		return "wait_long"
	}
	return "class " + strconv.Itoa(int(c))
}

// Verdict is what a refusal means for the request that met with it.
type Verdict struct {
	Class Class
	// Wait is how long the provider asks to wait. It can be longer than
	// anyone would, for a WaitLong up to a month, and is 0 for a Stop.
	Wait    time.Duration
	HasWait bool // Wait > 0
}

// Judge judges an answer by its HTTP status, headers and body, each as far as
// it is known: h and body may be nil, the body cut off or no JSON at all.
// Status 0 and 2xx stand for an error that came where an answer was due; the
// status is then taken from the body, if it holds one.
//
// Spending limits and daily quotas are never retried, nor are 400, 401, 403,
// 404 and 413, whatever else is said. Then the provider's own x-should-retry
// decides, then the codes in the body, then the status.
func Judge(status int, h http.Header, body []byte, now time.Time) Verdict {
	said := readComplaint(body, now)
	inBody := status == 0 || status/100 == 2
	if inBody {
		status = said.status
	}
	v := Verdict{Class: classify(status, h.Get("X-Should-Retry"), said, inBody)}
	switch v.Class {
	case Retry:
		v.Wait = first(retryAfter(h, now), said.delay, said.reset, exhausted(h, now))
	case WaitLong:
		// Not said.delay: with a daily quota Gemini still asks to come back
		// within a minute, only to refuse again.
		v.Wait = first(retryAfter(h, now), said.reset)
	}
	v.HasWait = v.Wait > 0
	return v
}

// JudgeBody judges an error that came inside a stream, without a status.
func JudgeBody(body []byte, now time.Time) Verdict {
	return Judge(0, nil, body, now)
}

// classify weighs what is known. Codes for a fault of the provider's count
// only where there is no status beside them to say better.
func classify(status int, shouldRetry string, said complaint, inBody bool) Class {
	switch {
	case said.lasting || status == http.StatusPaymentRequired:
		return WaitLong
	case final(status) || shouldRetry == "false":
		return Stop
	case shouldRetry == "true" || said.throttled || inBody && said.failing || passing(status):
		return Retry
	}
	return Stop
}

// final tells the statuses that no other word can make worth a retry.
func final(status int) bool {
	switch status {
	case http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound,
		http.StatusRequestEntityTooLarge:
		return true
	}
	return false
}

// passing tells the statuses of what may be over soon.
func passing(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusTooManyRequests:
		return true
	}
	return status >= 500 && status <= 599
}

// first returns the first wait that is one.
func first(waits ...time.Duration) time.Duration {
	for _, wait := range waits {
		if wait > 0 {
			return wait
		}
	}
	return 0
}

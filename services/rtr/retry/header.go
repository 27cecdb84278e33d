package retry

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// maxBelieved is the longest wait that is taken seriously: a spending limit
// may last for a month. What is longer is nonsense and counts as not said.
const maxBelieved = 32 * 24 * time.Hour

// bucket names the headers of one allowance.
type bucket struct{ limit, remaining, reset string }

var buckets = []bucket{
	anthropic("requests"), anthropic("tokens"), anthropic("input-tokens"), anthropic("output-tokens"),
	openAI("requests"), openAI("tokens"),
	{"x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"}, // OpenRouter
}

func anthropic(kind string) bucket {
	prefix := "anthropic-ratelimit-" + kind
	return bucket{prefix + "-limit", prefix + "-remaining", prefix + "-reset"}
}

func openAI(kind string) bucket {
	return bucket{"x-ratelimit-limit-" + kind, "x-ratelimit-remaining-" + kind, "x-ratelimit-reset-" + kind}
}

// retryAfter is the wait that an answer's headers ask for, 0 if they do not.
func retryAfter(h http.Header, now time.Time) time.Duration {
	if ms, err := strconv.ParseFloat(strings.TrimSpace(h.Get("Retry-After-Ms")), 64); err == nil {
		if wait := scaled(ms, time.Millisecond); wait > 0 {
			return wait
		}
	}
	return parseWait(h.Get("Retry-After"), providerTime(h, now))
}

// exhausted is the wait until all allowances of which nothing remains are
// there again, 0 if none is used up.
func exhausted(h http.Header, now time.Time) (wait time.Duration) {
	now = providerTime(h, now)
	for _, b := range buckets {
		if h.Get(b.limit) == "0" {
			continue // some servers say so where there is no limit
		}
		if left, err := strconv.ParseInt(strings.TrimSpace(h.Get(b.remaining)), 10, 64); err == nil && left == 0 {
			wait = max(wait, parseWait(h.Get(b.reset), now))
		}
	}
	return wait
}

// providerTime is the provider's time of an answer, as far as it gives one. Points
// in time are read against it, so that a wrong clock on this side does no harm.
func providerTime(h http.Header, now time.Time) time.Time {
	if date, err := http.ParseTime(h.Get("Date")); err == nil {
		return date
	}
	return now
}

// parseWait reads what providers write for a time to wait: seconds ("20",
// "1.5"), durations ("6m0s", "17ms"), points in time (an HTTP date, RFC 3339),
// and the latter as seconds or milliseconds since 1970. It returns 0 for what
// is past, too long to be believed, or none of these.
func parseWait(text string, now time.Time) time.Duration {
	text = strings.TrimSpace(text)
	if n, err := strconv.ParseFloat(text, 64); err == nil {
		return numberWait(n, now)
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

// numberWait tells seconds from points in time by their size: 1e9 s are 31
// years, or September 2001.
func numberWait(n float64, now time.Time) time.Duration {
	const epochSeconds, epochMillis, end = 1e9, 1e11, 1e15
	switch {
	case n >= epochMillis && n < end:
		return believable(time.UnixMilli(int64(n)).Sub(now))
	case n >= epochSeconds && n < end:
		return believable(time.Unix(int64(n), 0).Sub(now))
	}
	return scaled(n, time.Second)
}

// scaled is n units as a believable duration.
func scaled(n float64, unit time.Duration) time.Duration {
	ns := n * float64(unit)
	if math.IsNaN(ns) || ns > float64(maxBelieved) {
		return 0
	}
	return believable(time.Duration(max(ns, 0)))
}

func believable(d time.Duration) time.Duration {
	if d < 0 || d > maxBelieved {
		return 0
	}
	return d
}

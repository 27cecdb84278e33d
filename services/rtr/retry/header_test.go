package retry

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// noon is the time of tests in which no time passes.
var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// headers reads lines of "Name: value".
func headers(lines string) http.Header {
	h := http.Header{}
	for line := range strings.Lines(lines) {
		name, value, _ := strings.Cut(line, ":")
		h.Add(name, strings.TrimSpace(value))
	}
	return h
}

var waits = []struct {
	text string
	want time.Duration
}{
	{"20", 20 * time.Second},
	{" 1.5 ", 1500 * time.Millisecond},
	{"0", 0},
	{"-3", 0},
	{"2764800", Longest},
	{"2764801", 0},
	{"6m0s", 6 * time.Minute},
	{"1s", time.Second},
	{"17ms", 17 * time.Millisecond},
	{"2m59.56s", 179560 * time.Millisecond},
	{"45.837906927s", 45837906927},
	{"-1s", 0},
	{"999999h", 0},
	{"99999999999999h", 0},
	{"Sat, 21 Nov 2026 12:00:40 GMT", 40 * time.Second},
	{"Saturday, 21-Nov-26 12:00:40 GMT", 40 * time.Second},
	{"Sat, 21 Nov 2026 11:59:00 GMT", 0},
	{"2026-11-21T12:00:30Z", 30 * time.Second},
	{"2026-11-21T13:00:30.5+01:00", 30500 * time.Millisecond},
	{"2026-11-21T11:00:00Z", 0},
	{"9999-12-31T23:59:59Z", 0},
	{"1795262460", time.Minute},
	{"1795262460500", 60500 * time.Millisecond},
	{"1795262399", 0},
	{"1e300", 0},
	{"1e14", 0},
	{"Inf", 0},
	{"-Inf", 0},
	{"NaN", 0},
	{"", 0},
	{"soon", 0},
	{"Sat, 21 Nov", 0},
}

func TestParseWait(t *testing.T) {
	for _, tt := range waits {
		if got := ParseWait(tt.text, noon); got != tt.want {
			t.Errorf("%q: %v, want %v", tt.text, got, tt.want)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	for _, tt := range []struct {
		name, lines string
		want        time.Duration
	}{
		{"nothing", "", 0},
		{"seconds", "Retry-After: 20", 20 * time.Second},
		{"milliseconds first", "Retry-After: 20\nRetry-After-Ms: 1500", 1500 * time.Millisecond},
		{"milliseconds in parts", "retry-after-ms: 0.5", 500 * time.Microsecond},
		{"milliseconds without sense", "Retry-After: 20\nRetry-After-Ms: NaN", 20 * time.Second},
		{"zero milliseconds", "Retry-After: 20\nRetry-After-Ms: 0", 20 * time.Second},
		{"far too many", "Retry-After-Ms: 1e300", 0},
		{"date", "Retry-After: Sat, 21 Nov 2026 12:00:40 GMT", 40 * time.Second},
		{"date by the provider's clock", "Retry-After: Sat, 21 Nov 2026 18:30:40 GMT\nDate: Sat, 21 Nov 2026 18:30:00 GMT", 40 * time.Second},
		{"date by our clock", "Retry-After: Sat, 21 Nov 2026 12:00:40 GMT\nDate: today", 40 * time.Second},
		{"seconds need no clock", "Retry-After: 5\nDate: Sat, 21 Nov 2020 18:30:00 GMT", 5 * time.Second},
	} {
		if got := After(headers(tt.lines), noon); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

var allowances = []struct {
	name, lines string
	want        time.Duration
}{
	{"nothing", "", 0},
	{"some left", "x-ratelimit-remaining-requests: 1\nx-ratelimit-reset-requests: 6m0s", 0},
	{"OpenAI, requests", "x-ratelimit-limit-requests: 60\nx-ratelimit-remaining-requests: 0\nx-ratelimit-reset-requests: 1m0s", time.Minute},
	{"OpenAI, tokens", "x-ratelimit-remaining-requests: 59\nx-ratelimit-reset-requests: 1s\nx-ratelimit-remaining-tokens: 0\nx-ratelimit-reset-tokens: 17ms", 17 * time.Millisecond},
	{"both: the longer", "x-ratelimit-remaining-requests: 0\nx-ratelimit-reset-requests: 2s\nx-ratelimit-remaining-tokens: 0\nx-ratelimit-reset-tokens: 1s", 2 * time.Second},
	{"Anthropic, requests", "anthropic-ratelimit-requests-limit: 50\nanthropic-ratelimit-requests-remaining: 0\nanthropic-ratelimit-requests-reset: 2026-11-21T12:00:07Z", 7 * time.Second},
	{"Anthropic, tokens", "anthropic-ratelimit-tokens-remaining: 0\nanthropic-ratelimit-tokens-reset: 2026-11-21T12:00:08Z", 8 * time.Second},
	{"Anthropic, input", "anthropic-ratelimit-input-tokens-remaining: 0\nanthropic-ratelimit-input-tokens-reset: 2026-11-21T12:00:09Z", 9 * time.Second},
	{"Anthropic, output", "anthropic-ratelimit-output-tokens-remaining: 0\nanthropic-ratelimit-output-tokens-reset: 2026-11-21T12:00:10Z", 10 * time.Second},
	{"Anthropic, another clock", "Date: Sat, 21 Nov 2026 07:00:00 GMT\nanthropic-ratelimit-tokens-remaining: 0\nanthropic-ratelimit-tokens-reset: 2026-11-21T07:00:08Z", 8 * time.Second},
	{"OpenRouter", "X-RateLimit-Limit: 20\nX-RateLimit-Remaining: 0\nX-RateLimit-Reset: 1795262430000", 30 * time.Second},
	{"no limit at all", "x-ratelimit-limit-tokens: 0\nx-ratelimit-remaining-tokens: 0\nx-ratelimit-reset-tokens: 1m0s", 0},
	{"less than none", "x-ratelimit-remaining-tokens: -1\nx-ratelimit-reset-tokens: 1m0s", 0},
	{"not a number", "x-ratelimit-remaining-tokens: none\nx-ratelimit-reset-tokens: 1m0s", 0},
	{"no reset", "x-ratelimit-remaining-tokens: 0", 0},
	{"reset without sense", "x-ratelimit-remaining-tokens: 0\nx-ratelimit-reset-tokens: soon", 0},
	{"reset in the past", "anthropic-ratelimit-tokens-remaining: 0\nanthropic-ratelimit-tokens-reset: 2026-11-21T11:00:00Z", 0},
	{"reset in a century", "anthropic-ratelimit-tokens-remaining: 0\nanthropic-ratelimit-tokens-reset: 2126-11-21T11:00:00Z", 0},
}

func TestExhausted(t *testing.T) {
	for _, tt := range allowances {
		if got := Exhausted(headers(tt.lines), noon); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

// FuzzHeaders checks that every wait is within its bounds, and that a Limiter
// pauses for MaxAsked at most.
func FuzzHeaders(f *testing.F) {
	for _, tt := range allowances {
		f.Add(429, tt.lines)
	}
	for _, tt := range waits {
		f.Add(503, "Retry-After: "+tt.text)
		f.Add(529, "Retry-After-Ms: "+tt.text+"\nDate: "+tt.text)
	}
	f.Fuzz(func(t *testing.T, status int, lines string) {
		h := headers(lines)
		for _, wait := range []time.Duration{After(h, noon), Exhausted(h, noon)} {
			if wait < 0 || wait > Longest {
				t.Errorf("a wait of %v", wait)
			}
		}
		l := New(0, 0, func() time.Time { return noon })
		l.Observe(status, h)
		if paused := l.Paused(); paused < 0 || paused > MaxAsked {
			t.Errorf("paused for %v", paused)
		}
	})
}

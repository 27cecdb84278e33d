package retry

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

const (
	gemini = `{"error":{"code":429,"message":"You exceeded your current quota, please check your plan and billing details.\n* Quota exceeded for metric: x, limit: 20\nPlease retry in 36.429760048s.","status":"RESOURCE_EXHAUSTED","details":[` +
		`{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{"quotaMetric":"generativelanguage.googleapis.com/generate_content_free_tier_requests","quotaId":"GenerateRequestsPer%sPerProjectPerModel-FreeTier","quotaValue":"20"}]},` +
		`{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"36s"}]}}`
	freePerDay = `{"error":{"message":"Rate limit exceeded: free-models-per-day. Add 10 credits to unlock 1000 free model requests per day","code":429,"metadata":{"headers":{"X-RateLimit-Limit":"50","X-RateLimit-Remaining":"0","X-RateLimit-Reset":"1795305600000"},"provider_name":null}}}`
)

// refusals are what providers send, and what it means.
var refusals = []struct {
	name   string
	status int
	lines  string // of the headers
	body   string
	class  Class
	wait   time.Duration
}{
	// Statuses alone.
	{"400", 400, "Retry-After: 5", ``, Stop, 0},
	{"401", 401, "", `{"error":{"message":"Incorrect API key","type":"invalid_request_error","code":"invalid_api_key"}}`, Stop, 0},
	{"402", 402, "", `{"type":"error","error":{"type":"billing_error","message":"pay"}}`, WaitLong, 0},
	{"403", 403, "", `{}`, Stop, 0},
	{"404", 404, "", `not found`, Stop, 0},
	{"408", 408, "", ``, Retry, 0},
	{"409", 409, "", `null`, Retry, 0},
	{"413", 413, "", `{"error":{"message":"too large","code":"rate_limit_exceeded"}}`, Stop, 0},
	{"422", 422, "", `{"detail":[{"msg":"field required"}]}`, Stop, 0},
	{"429", 429, "", ``, Retry, 0},
	{"429 with a wait", 429, "Retry-After: 7", `{"error":"slow"}`, Retry, 7 * time.Second},
	{"429 for years", 429, "Retry-After: 99999999", ``, Retry, 0},
	{"500", 500, "", `<html>`, Retry, 0},
	{"502", 502, "", `[]`, Retry, 0},
	{"503 until", 503, "Retry-After: Sat, 21 Nov 2026 12:01:00 GMT", ``, Retry, time.Minute},
	{"504", 504, "", ``, Retry, 0},
	{"529", 529, "", `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`, Retry, 0},
	{"307", 307, "", ``, Stop, 0},
	{"600", 600, "", ``, Stop, 0},

	// What the provider says itself.
	{"do not retry", 500, "X-Should-Retry: false\nRetry-After: 5", ``, Stop, 0},
	{"retry", 422, "X-Should-Retry: true\nRetry-After: 5", ``, Retry, 5 * time.Second},
	{"neither", 500, "X-Should-Retry: maybe", ``, Retry, 0},
	{"never a 400", 400, "X-Should-Retry: true", ``, Stop, 0},
	{"never a spending limit", 429, "X-Should-Retry: true", `{"error":{"code":"insufficient_quota"}}`, WaitLong, 0},

	// OpenAI.
	{"insufficient_quota", 429, "Retry-After: 5", `{"error":{"message":"You exceeded your current quota","type":"insufficient_quota","param":null,"code":"insufficient_quota"}}`, WaitLong, 5 * time.Second},
	{"credit_balance_exhausted", 429, "", `{"error":{"type":"insufficient_quota","code":"credit_balance_exhausted"}}`, WaitLong, 0},
	{"organization_spend_limit_exceeded", 429, "", `{"error":{"code":"organization_spend_limit_exceeded"}}`, WaitLong, 0},
	{"project_spend_limit_exceeded", 429, "", `{"error":{"code":"project_spend_limit_exceeded"}}`, WaitLong, 0},
	{"organization_usage_limit_exceeded", 429, "", `{"error":{"code":"organization_usage_limit_exceeded"}}`, WaitLong, 0},
	{"rate_limit_exceeded", 429, "", `{"error":{"message":"Rate limit reached for m on tokens per min (TPM): Limit 100000. Please try again in 1m2.5s. Visit us.","type":"tokens","code":"rate_limit_exceeded"}}`, Retry, 62500 * time.Millisecond},
	{"two times in words", 429, "", `{"error":{"message":"Try again in 2s (or retry in 9s)."}}`, Retry, 2 * time.Second},
	{"headers before words", 429, "Retry-After-Ms: 1200", `{"error":{"message":"Please try again in 2s.","code":"rate_limit_exceeded"}}`, Retry, 1200 * time.Millisecond},
	{"reset of what is used up", 429, "x-ratelimit-remaining-requests: 0\nx-ratelimit-reset-requests: 12s\nx-ratelimit-remaining-tokens: 9\nx-ratelimit-reset-tokens: 1m0s", `{"error":{"code":"rate_limit_exceeded"}}`, Retry, 12 * time.Second},
	{"slow_down", 503, "Retry-After: 3", `{"error":{"code":"slow_down"}}`, Retry, 3 * time.Second},
	{"slow_down, odd status", 420, "", `{"error":{"code":"slow_down"}}`, Retry, 0},
	{"server_is_overloaded", 503, "", `{"error":{"code":"server_is_overloaded"}}`, Retry, 0},
	{"a fault beside a status that says better", 422, "", `{"error":{"type":"api_error"}}`, Stop, 0},

	// Anthropic.
	{"rate_limit_error", 429, "retry-after: 11\nanthropic-ratelimit-tokens-remaining: 0\nanthropic-ratelimit-tokens-reset: 2026-11-21T12:00:20Z", `{"type":"error","error":{"type":"rate_limit_error","message":"slow"},"request_id":"r"}`, Retry, 11 * time.Second},
	{"spend limit", 429, "", `{"type":"error","error":{"type":"rate_limit_error","message":"m","details":{"error_code":"enforced_spend_limit_reached"}}}`, WaitLong, 0},
	{"no credit", 400, "", `{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low to access the Anthropic API."}}`, WaitLong, 0},
	{"own limit", 400, "", `{"type":"error","error":{"type":"invalid_request_error","message":"You have reached your specified API usage limits. You will regain access on 2026-12-01."}}`, WaitLong, 0},

	// Gemini.
	{"per minute", 429, "", strings.Replace(gemini, "%s", "Minute", 1), Retry, 36 * time.Second},
	{"per minute, in a list", 429, "", "[" + strings.Replace(gemini, "%s", "Minute", 1) + "]", Retry, 36 * time.Second},
	{"per day", 429, "", strings.Replace(gemini, "%s", "Day", 1), WaitLong, 0},
	{"per day, by its metric", 429, "", `{"error":{"code":429,"details":[1,{"violations":[2,{"quotaMetric":"g/generate_requests_per_model_per_day"}]}]}}`, WaitLong, 0},
	{"words only", 429, "", `{"error":{"code":429,"message":"Quota exceeded.\nPlease retry in 45.5s.\n* more","status":"RESOURCE_EXHAUSTED"}}`, Retry, 45500 * time.Millisecond},
	{"UNAVAILABLE", 503, "", `{"error":{"code":503,"message":"overloaded","status":"UNAVAILABLE"}}`, Retry, 0},
	{"INVALID_ARGUMENT", 400, "", `{"error":{"code":400,"status":"INVALID_ARGUMENT"}}`, Stop, 0},

	// OpenRouter.
	{"free models per day", 429, "X-RateLimit-Remaining: 0\nX-RateLimit-Reset: 1795305600000", freePerDay, WaitLong, 12 * time.Hour},
	{"limit_source", 429, "", `{"error":{"code":"429","metadata":{"limit_source":"openrouter_free_tier_daily"}}}`, WaitLong, 0},
	{"free models per minute", 429, "", `{"error":{"message":"free-models-per-min","code":429,"metadata":{"headers":{"X-RateLimit-Remaining":"0","X-RateLimit-Reset":"1795262430000"}}}}`, Retry, 30 * time.Second},
	{"retry-after in the body", 429, "", `{"error":{"code":429,"metadata":{"headers":{"Retry-After":"8","X":1}}}}`, Retry, 8 * time.Second},

	// In a stream.
	{"nothing", 0, "", ``, Stop, 0},
	{"no JSON", 0, "", `overloaded`, Stop, 0},
	{"unknown", 0, "", `{"error":{"message":"boom"}}`, Stop, 0},
	{"list of nothing", 0, "", `[[]]`, Stop, 0},
	{"overloaded_error", 200, "Retry-After: 2", `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`, Retry, 2 * time.Second},
	{"api_error", 0, "", `{"type":"error","error":{"type":"api_error"}}`, Retry, 0},
	{"timeout_error", 0, "", `{"type":"error","error":{"type":"timeout_error"}}`, Retry, 0},
	{"rate_limit_error in it", 0, "", `{"type":"error","error":{"type":"rate_limit_error"}}`, Retry, 0},
	{"invalid_request_error", 0, "", `{"type":"error","error":{"type":"invalid_request_error"}}`, Stop, 0},
	{"spend limit in it", 0, "", `{"type":"error","error":{"type":"rate_limit_error","details":{"error_code":"enforced_spend_limit_reached"}}}`, WaitLong, 0},
	{"status as a number", 0, "", `{"choices":[{"finish_reason":"error"}],"error":{"code":502,"message":"upstream"}}`, Retry, 0},
	{"status in digits", 0, "", `{"error":{"code":"503"}}`, Retry, 0},
	{"401 in it", 0, "", `{"error":{"code":401,"type":"api_error"}}`, Stop, 0},
	{"402 in it", 0, "", `{"error":{"code":402,"message":"Insufficient credits"}}`, WaitLong, 0},
	{"code as text", 0, "", `{"error":"overloaded_error"}`, Retry, 0},
	{"failed response", 0, "", `{"type":"response.failed","response":{"status":"failed","error":{"code":"rate_limit_exceeded","message":"Please try again in 11.054s."}}}`, Retry, 11054 * time.Millisecond},
	{"failed for good", 0, "", `{"type":"response.failed","response":{"error":{"code":"insufficient_quota"}}}`, WaitLong, 0},
	{"error event", 0, "", `{"type":"error","code":"server_error","message":"m","param":null}`, Retry, 0},
	{"error beside a response", 0, "", `{"response":{"id":1},"error":{"code":"server_error"}}`, Retry, 0},
}

func TestJudge(t *testing.T) {
	for _, tt := range refusals {
		want := Verdict{Class: tt.class, Wait: tt.wait, HasWait: tt.wait > 0}
		if got := Judge(tt.status, headers(tt.lines), []byte(tt.body), noon); got != want {
			t.Errorf("%s: %+v, want %+v", tt.name, got, want)
		}
		if tt.status != 0 {
			continue
		}
		if got := JudgeBody([]byte(tt.body), noon); got != want {
			t.Errorf("%s, body alone: %+v, want %+v", tt.name, got, want)
		}
	}
}

func TestClassNames(t *testing.T) {
	for class, want := range map[Class]string{Stop: "stop", Retry: "retry", WaitLong: "wait_long", 7: "class 7"} {
		if class.String() != want {
			t.Errorf("%s, want %s", class, want)
		}
	}
}

// TestCutBody holds that a body which was cut off anywhere is judged by its
// status, not worse.
func TestCutBody(t *testing.T) {
	for i := range len(freePerDay) {
		if got := Judge(429, nil, []byte(freePerDay[:i]), noon); got != (Verdict{Class: Retry}) {
			t.Fatalf("cut at %d: %+v", i, got)
		}
	}
}

// FuzzJudge holds what is true of every verdict, whatever comes.
func FuzzJudge(f *testing.F) {
	for _, tt := range refusals {
		f.Add(tt.status, tt.lines, []byte(tt.body))
	}
	f.Fuzz(func(t *testing.T, status int, lines string, body []byte) {
		h := headers(lines)
		v := Judge(status, h, body, noon)
		if v.Class < Stop || v.Class > WaitLong {
			t.Errorf("no such class: %v", v.Class)
		}
		if v.Wait < 0 || v.Wait > maxBelieved || v.HasWait != (v.Wait > 0) {
			t.Errorf("a wait that is none: %+v", v)
		}
		if v.Class == Stop && v.HasWait {
			t.Errorf("a wait for nothing: %+v", v)
		}
		if v.Class == Retry && (final(status) || status == http.StatusPaymentRequired) {
			t.Errorf("%d is retried", status)
		}
		if again := Judge(status, h, body, noon); again != v {
			t.Errorf("%+v, then %+v", v, again)
		}
	})
}

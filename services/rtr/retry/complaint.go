package retry

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Codes of errors, in lower case, as they stand in the fields code, type,
// status and error_code.
var (
	// lastingCodes: money or a quota is used up.
	lastingCodes = set("insufficient_quota", "credit_balance_exhausted", "billing_hard_limit_reached",
		"billing_not_active", "billing_error", "enforced_spend_limit_reached")
	// throttledCodes: too much was asked at once, whatever the status says.
	throttledCodes = set("rate_limit_exceeded", "slow_down", "server_is_overloaded", "overloaded_error",
		"rate_limit_error", "resource_exhausted")
	// failingCodes: the provider failed.
	failingCodes = set("api_error", "timeout_error", "server_error",
		"internal", "unavailable", "deadline_exceeded", "aborted")
)

// lastingWords stand in the messages of limits that have no code.
var lastingWords = []string{
	"free-models-per-day",       // OpenRouter
	"credit balance is too low", // Anthropic, with status 400
	"reached your specified api usage limits",
}

// complaint is what the body of a refusal says.
type complaint struct {
	status                      int // 0: none
	lasting, throttled, failing bool
	delay                       time.Duration // to wait, by its fields or its words
	reset                       time.Duration // until a limit in its fields is reset
}

func set(words ...string) map[string]bool {
	m := make(map[string]bool, len(words))
	for _, word := range words {
		m[word] = true
	}
	return m
}

// readComplaint reads the body of a refusal, or the data of an error event. A
// body that is no JSON says nothing.
func readComplaint(body []byte, now time.Time) (c complaint) {
	var v any
	if json.Unmarshal(body, &v) == nil {
		c.read(v, now)
	}
	return c
}

// read finds the error in the shapes that providers give it: {"error":{…}},
// {"error":"text"}, the error itself, one in a list (Gemini), and one in the
// response that failed (OpenAI's Responses).
func (c *complaint) read(v any, now time.Time) {
	if list, ok := v.([]any); ok && len(list) > 0 {
		v = list[0]
	}
	outer, _ := v.(map[string]any)
	if response, ok := outer["response"].(map[string]any); ok && outer["error"] == nil {
		outer = response
	}
	c.fields(outer, now)
	switch inner := outer["error"].(type) {
	case map[string]any:
		c.fields(inner, now)
	case string:
		c.code(inner)
		c.words(inner)
	}
}

// fields reads the fields of an error, or of what an error stands in.
func (c *complaint) fields(m map[string]any, now time.Time) {
	for _, key := range []string{"type", "status", "code"} {
		c.code(m[key])
	}
	if text, ok := m["message"].(string); ok {
		c.words(text)
	}
	switch details := m["details"].(type) {
	case map[string]any: // Anthropic
		c.code(details["error_code"])
	case []any:
		for _, detail := range details {
			if detail, ok := detail.(map[string]any); ok {
				c.googleDetail(detail, now)
			}
		}
	}
	if metadata, ok := m["metadata"].(map[string]any); ok {
		c.routerMetadata(metadata, now)
	}
}

// code takes in one code: a word, or an HTTP status as a number or in digits.
func (c *complaint) code(v any) {
	switch v := v.(type) {
	case float64:
		if v >= 400 && v <= 599 {
			c.status = int(v)
		}
	case string:
		if n, err := strconv.Atoi(v); err == nil {
			c.code(float64(n))
			return
		}
		word := strings.ToLower(v)
		limit := strings.HasSuffix(word, "_spend_limit_exceeded") || strings.HasSuffix(word, "_usage_limit_exceeded")
		c.lasting = c.lasting || limit || lastingCodes[word]
		c.throttled = c.throttled || throttledCodes[word]
		c.failing = c.failing || failingCodes[word]
	}
}

// words takes in a message: what it says of limits, and "try again in 1.2s".
func (c *complaint) words(message string) {
	message = strings.ToLower(message)
	for _, phrase := range lastingWords {
		c.lasting = c.lasting || strings.Contains(message, phrase)
	}
	for _, phrase := range []string{"try again in ", "retry in "} {
		_, after, found := strings.Cut(message, phrase)
		if !found || c.delay > 0 {
			continue
		}
		if end := strings.IndexAny(after, " \t\n"); end >= 0 {
			after = after[:end]
		}
		if d, err := time.ParseDuration(strings.TrimRight(after, ".,;)")); err == nil {
			c.delay = believable(d)
		}
	}
}

// googleDetail takes in one of the typed details of Google's errors.
func (c *complaint) googleDetail(detail map[string]any, now time.Time) {
	if text, ok := detail["retryDelay"].(string); ok {
		c.delay = first(parseWait(text, now), c.delay)
	}
	violations, _ := detail["violations"].([]any)
	for _, violation := range violations {
		fields, _ := violation.(map[string]any)
		for _, key := range []string{"quotaId", "quotaMetric"} {
			text, _ := fields[key].(string)
			c.lasting = c.lasting || perDay(text)
		}
	}
}

// perDay tells the names of daily quotas, such as
// GenerateRequestsPerDayPerProjectPerModel and requests_per_model_per_day.
func perDay(quota string) bool {
	return strings.Contains(strings.ReplaceAll(strings.ToLower(quota), "_", ""), "perday")
}

// routerMetadata takes in what OpenRouter adds to an error: a kind of its own,
// whose limit it was, and the headers that a stream has no place for.
func (c *complaint) routerMetadata(metadata map[string]any, now time.Time) {
	c.code(metadata["error_type"])
	if source, ok := metadata["limit_source"].(string); ok && strings.HasSuffix(source, "_daily") {
		c.lasting = true
	}
	headers, _ := metadata["headers"].(map[string]any)
	h := http.Header{}
	for name, value := range headers {
		if text, ok := value.(string); ok {
			h.Set(name, text)
		}
	}
	c.delay = first(retryAfter(h, now), c.delay)
	c.reset = exhausted(h, now)
}

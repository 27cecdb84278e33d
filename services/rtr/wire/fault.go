package wire

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	openai "github.com/sashabaranov/go-openai"

	"zino/pkg/sse"
	"zino/pkg/text"
	"zino/proto"
	"zino/services/rtr/retry"
)

// Class says whether a failed request may be retried.
type Class string

const (
	// Stop: the same request would fail again.
	Stop Class = "stop"
	// Retry: the request may be sent again after a pause.
	Retry Class = "retry"
	// WaitLong: a daily quota or a spending limit is used up. This provider is not
	// asked again; another may be.
	WaitLong Class = "wait_long"
)

// meaning is a row of the table that classifies a provider's errors. A row matches
// if all of its conditions do. class, code and hint each come from the first
// matching row that sets them; refuses are collected from all matching rows.
type meaning struct {
	// status lists HTTP statuses; 4xx and 5xx match a class of them, and "inside"
	// matches an error inside an answer, with any status.
	status string
	// says lists the error's codes and types, in lower case; * is a wildcard at
	// either end. Words with a + are facts about the request.
	says string
	// text lists substrings of the error's text, in lower case: | means or, & means
	// and, and | binds tighter. but, in the same form, must not match.
	text, but string

	class   Class
	code    proto.Code
	refuses string // what the model or endpoint rejects: see Fault.Refuses
	hint    string // what to do; names in braces are replaced
}

const (
	quotaHint = "The quota or the credit of this key is used up: raise it at {provider}, or ask another model with --model (zino models lists them)."

	// tooLong lists the messages for a conversation that does not fit the model.
	tooLong = "context_length_exceeded" + // the code of OpenAI and many others
		"|maximum context length" + // OpenAI, OpenRouter, vLLM, Mistral, DeepSeek
		"|exceeds the context window" + // OpenAI
		"|prompt is too long" + // Anthropic
		"|exceed context limit" + // Anthropic, for prompt and max_tokens together
		"|request_too_large" + // Anthropic's code
		"|exceeds the maximum number of tokens" + // Gemini
		"|exceeds the context length|prompt too long" + // Ollama
		"|exceed_context_size|exceeds the available context size" + // llama.cpp
		"|greater than the context length|context size has been exceeded" + // LM Studio
		"|maximum prompt length" + // xAI
		"|reduce the length of the messages" + // Groq
		"|input is too long for requested model" + // Bedrock
		"|request too large|request body too large" + // gateways, GitHub
		"|exceeded model token limit" + // Moonshot
		"|context window exceeds limit" // MiniMax

	unsupported = "support|deprecated|not allowed|not permitted|only the default"
)

// meanings is the table. Spending limits and daily quotas are never retried, nor
// are 400, 401, 403, 404 and 413; then the provider's x-should-retry decides, then
// the error's codes, then its status. Codes for a failing server are used only for
// errors inside an answer, which have no HTTP status of their own.
var meanings = []meaning{
	{status: "413", class: Stop, code: proto.CodeTooLarge},
	{status: "inside 400 422 500", text: tooLong, but: "max_tokens & is too large", class: Stop, code: proto.CodeTooLarge},

	{status: "402", class: WaitLong, code: proto.CodeDenied, hint: quotaHint},
	{says: "insufficient_quota credit_balance_exhausted billing_hard_limit_reached billing_not_active billing_error enforced_spend_limit_reached", class: WaitLong, hint: quotaHint},
	{says: "*_spend_limit_exceeded *_usage_limit_exceeded *_daily *perday*", class: WaitLong, hint: quotaHint},
	{text: "free-models-per-day|credit balance is too low|reached your specified api usage limits", class: WaitLong, hint: quotaHint}, // OpenRouter, Anthropic

	{status: "401", says: "+no-key", hint: "{endpoint} wants a key: set {key}."},
	{status: "401 403", class: Stop, code: proto.CodeDenied, hint: "Check the key for {endpoint}: {key}."},
	{status: "400", says: "api_key_invalid", hint: "Check the key for {endpoint}: {key}."}, // Gemini
	{status: "404", says: "+responses", but: "model|deployment|item with id|{name}", refuses: "responses"},
	{status: "405 501", says: "+responses", refuses: "responses"},
	{status: "404", says: "+responses", hint: `Check {base} ({endpoint}) and the model ({model}; --model or [service] model). If it has no Responses API, set wire = "chat" in [[rtr.model]].`},
	{status: "404", says: "+model", hint: "Check {base} ({endpoint}) and the model ({model}; --model or [service] model)."},
	{status: "404", class: Stop, code: proto.CodeNotFound},
	{status: "400", says: "+chat-tools", text: "tools & reasoning", hint: `Set tools = "text" in [[rtr.model]]{effort-off}.`},
	{status: "400 422", says: "+schema", text: "schema|response_format|responsejsonschema|response_mime_type|output_config|output_format|text.format|structured", refuses: "schema"},
	{status: "400 422", says: "+effort", text: "effort|thinking|think value|reasoning", refuses: "effort"},
	{status: "400 422", says: "+summary", text: "summar", refuses: "summary"}, // OpenAI summarizes for verified organizations only
	{status: "400 422", text: "temperature & " + unsupported, refuses: "temperature"},
	{status: "400 422", text: "top_p|topp & " + unsupported, refuses: "top_p"},
	{status: "400", class: Stop, code: proto.CodeInvalid},

	{says: "+x-should-retry:false", class: Stop},
	{says: "+x-should-retry:true", class: Retry},
	{says: "rate_limit_exceeded slow_down server_is_overloaded overloaded_error rate_limit_error resource_exhausted", class: Retry},
	{status: "inside", says: "api_error timeout_error server_error internal unavailable deadline_exceeded aborted", class: Retry},
	{status: "408", class: Retry, code: proto.CodeTimeout},
	{status: "429", hint: "Try again later, or ask another model with --model (zino models lists them)."},
	{status: "409 429", class: Retry, code: proto.CodeBusy},
	{status: "4xx", class: Stop, code: proto.CodeInvalid},
	{status: "5xx", class: Retry, code: proto.CodeUnavailable},
	{class: Stop, code: proto.CodeUnavailable},
}

func (m *meaning) holds(status int, inside bool, said *refusal, name string) bool {
	if m.status != "" && !slices.ContainsFunc(strings.Fields(m.status), func(s string) bool {
		return s == "inside" && inside || s == strconv.Itoa(status) || strings.HasSuffix(s, "xx") && s[0] == '0'+byte(status/100)
	}) {
		return false
	}
	if m.says != "" && !slices.ContainsFunc(strings.Fields(m.says), func(pattern string) bool {
		part := strings.Trim(pattern, "*")
		return slices.ContainsFunc(said.codes, func(code string) bool {
			switch {
			case part == pattern:
				return code == part
			case strings.HasSuffix(pattern, "*"):
				return strings.Contains(code, part)
			}
			return strings.HasSuffix(code, part)
		})
	}) {
		return false
	}
	contains := func(parts string) bool {
		for all := range strings.SplitSeq(parts, " & ") {
			if !slices.ContainsFunc(strings.Split(all, "|"), func(part string) bool { return strings.Contains(said.text, part) }) {
				return false
			}
		}
		return true
	}
	return (m.text == "" || contains(m.text)) && (m.but == "" || !contains(strings.ReplaceAll(m.but, "{name}", name)))
}

// Fault is a failed exchange: the error for the caller, and whether to retry, wait
// or change the request.
type Fault struct {
	*reported
	Class Class
	// Wait is how long the provider asks to wait, 0 if it does not: for WaitLong
	// up to a month.
	Wait time.Duration
	// Header is the header of an answer with an error status, else nil.
	Header http.Header
	// TooLong is true if the conversation does not fit the model.
	TooLong bool
	// Refuses lists what the model or the endpoint rejects: "effort",
	// "summary" (of the reasoning), "temperature", "top_p", "schema", "responses" (the API).
	Refuses []string
	// Unsent is true if the request cannot have reached the model.
	Unsent bool
}

// reported is an alias, so that the embedded field does not hide the method Error.
type reported = proto.Error

func (f *Fault) Unwrap() error { return f.reported }

// With returns a copy of the fault with another error for the caller.
func (f *Fault) With(e *proto.Error) *Fault {
	other := *f
	other.reported = e
	return &other
}

// Values of proto.Error.Kind.
const (
	kindHTTP    = "http_status"
	kindTimeout = "timeout"
	kindParse   = "parse"
	kindAPI     = "api_error"
)

// Limits in bytes for a provider's text in a message and in the details.
const (
	maxMessage = 500
	maxDetails = 2000
)

// refusal is the parsed body of an error.
type refusal struct {
	message      string // the provider's message
	status       int    // an HTTP status, 0 if missing
	codes        []string
	text         string // codes and messages, without the request that some providers echo
	delay, reset time.Duration
}

// readRefusal parses the forms of errors: {"error":{…}}, {"error":"text"}, the
// error object itself, a list (Gemini), an error in a failed response (OpenAI's
// Responses), and text that is not JSON. go-openai's type parses only the first, and
// has no fields for details, metadata and waits.
func readRefusal(body []byte, now time.Time) refusal {
	var v any
	if json.Unmarshal(body, &v) != nil {
		return refusal{text: strings.ToLower(string(body))}
	}
	var r refusal
	r.message, r.status = messageIn(v)
	var form openai.ErrorResponse
	if json.Unmarshal(body, &form) == nil && form.Error != nil && form.Error.Message != "" {
		r.message = strings.TrimSpace(form.Error.Message)
	}
	r.gather(v, now)
	r.text = strings.ToLower(r.text)
	for _, phrase := range []string{"try again in ", "retry in "} {
		if _, after, found := strings.Cut(r.text, phrase); found && r.delay == 0 {
			after, _, _ = strings.Cut(strings.ReplaceAll(after, "\n", " "), " ")
			if d, err := time.ParseDuration(strings.TrimRight(after, ".,;)")); err == nil && d > 0 && d <= retry.Longest {
				r.delay = d
			}
		}
	}
	return r
}

// messageIn finds an error's message and its HTTP status in decoded JSON.
func messageIn(v any) (words string, status int) {
	switch v := v.(type) {
	case string:
		return strings.TrimSpace(v), 0
	case []any:
		if len(v) > 0 {
			return messageIn(v[0])
		}
	case map[string]any:
		for _, key := range []string{"error", "response", "message", "detail", "msg", "type"} {
			if key == "response" && v["error"] != nil {
				continue
			}
			if words, status = messageIn(v[key]); words != "" || status != 0 {
				break
			}
		}
		for _, key := range []string{"code", "status"} {
			if n := statusIn(v[key]); n != 0 && status == 0 {
				status = n
			}
		}
	}
	return words, status
}

// statusIn parses an error's HTTP status, a number or a string of digits.
func statusIn(v any) int {
	n, ok := v.(float64)
	if s, isText := v.(string); isText {
		digits, err := strconv.Atoi(s)
		n, ok = float64(digits), err == nil
	}
	if !ok || n < 400 || n > 599 {
		return 0
	}
	return int(n)
}

// gather collects the codes, the text and the waits of an error from all members
// that providers use for them. OpenRouter forwards another provider's error as raw
// text.
func (r *refusal) gather(v any, now time.Time) {
	switch v := v.(type) {
	case string:
		r.text += v + "\n"
	case []any:
		for _, element := range v {
			r.gather(element, now)
		}
	case map[string]any:
		for _, key := range []string{"error", "response", "message", "detail", "msg", "code", "type", "param", "metadata", "raw"} {
			r.gather(v[key], now)
		}
		for _, key := range []string{"error", "code", "type", "status", "error_code", "error_type", "reason", "limit_source", "quotaId", "quotaMetric"} {
			if s, ok := v[key].(string); ok {
				s = strings.ToLower(s)
				if strings.HasPrefix(key, "quota") { // GenerateRequestsPerDayPerModel, requests_per_day
					s = strings.ReplaceAll(s, "_", "")
				}
				r.codes = append(r.codes, s)
			}
		}
		if s, ok := v["retryDelay"].(string); ok && r.delay == 0 {
			r.delay = retry.ParseWait(s, now)
		}
		// Once a stream has begun, OpenRouter sends headers in the error's metadata.
		if headers, ok := v["headers"].(map[string]any); ok {
			h := http.Header{}
			for name, value := range headers {
				if s, ok := value.(string); ok {
					h.Set(name, s)
				}
			}
			r.delay, r.reset = retry.After(h, now), retry.Exhausted(h, now)
		}
		inner := refusal{} // of details, use codes and waits, not text
		for _, key := range []string{"details", "violations"} {
			inner.gather(v[key], now)
		}
		r.codes = append(r.codes, inner.codes...)
		if r.delay == 0 {
			r.delay = inner.delay
		}
	}
}

// refused returns the error that a provider reports: with an HTTP status that is
// not 2xx, or inside an answer, for which status is 0. facts are matched by
// meaning.says.
func (ep *Endpoint) refused(status int, header http.Header, body []byte, req *Request, facts ...string) *Fault {
	now := retry.ServerTime(header, time.Now())
	said, inside := readRefusal(body, now), status == 0
	f := &Fault{reported: &proto.Error{Kind: kindHTTP}, Header: header}
	if inside {
		status, f.Kind = said.status, kindAPI
	}
	f.Status = status
	if ep.Key == "" {
		facts = append(facts, "+no-key")
	}
	said.codes = append(said.codes, facts...)
	said.codes = append(said.codes, "+x-should-retry:"+header.Get("X-Should-Retry"))
	hint, model := "", ""
	if req != nil {
		model = req.Model
	}
	for _, m := range meanings {
		if !m.holds(status, inside, &said, strings.ToLower(bareName(model))) {
			continue
		}
		if f.Class == "" {
			f.Class = m.class
		}
		if f.Code == "" {
			f.Code = m.code
		}
		if hint == "" {
			hint = m.hint
		}
		if m.refuses != "" {
			f.Refuses = append(f.Refuses, m.refuses)
		}
	}
	f.TooLong = f.Code == proto.CodeTooLarge
	switch f.Class {
	case Retry:
		f.Wait = firstWait(retry.After(header, now), said.delay, said.reset, retry.Exhausted(header, now))
	case WaitLong:
		// Not said.delay: even when a daily quota is used up, Gemini's retryDelay is
		// less than a minute.
		f.Wait = firstWait(retry.After(header, now), said.reset)
	}

	words, raw := said.message, ep.beside(body, said.message)
	switch {
	case words != "":
		words = ep.mask.text(words, maxMessage)
	case inside && status != 0:
		words = fmt.Sprintf("error %d, %s", status, http.StatusText(status))
	case inside:
		words = "no completion and no reason"
	case bytes.HasPrefix(bytes.TrimSpace(body), []byte("<")):
		words = http.StatusText(status) + " (a web page, not a model's answer)"
	case raw != "" && !json.Valid(body):
		words = ep.mask.text(string(body), maxMessage)
	default:
		words = http.StatusText(status)
	}
	if raw == words {
		raw = ""
	}
	if f.Message = "the provider reports: " + words; !inside {
		f.Message = fmt.Sprintf("HTTP %d: %s", status, words)
	}
	effortOff := ""
	if off := EffortWord("openai", model, "off"); off != "" && req != nil && req.Effort != off {
		effortOff = ", or ask with --effort off"
	}
	hint = strings.NewReplacer("{provider}", ep.Provider, "{endpoint}", ep.Name, "{key}", ep.KeyHint, "{base}", ep.BaseHint,
		"{model}", oneLine(model, 200), "{effort-off}", effortOff).Replace(hint)
	f.Details = strings.TrimSpace(hint + " " + raw)
	return f
}

// firstWait returns the first positive wait.
func firstWait(waits ...time.Duration) time.Duration {
	for _, wait := range waits {
		if wait > 0 {
			return wait
		}
	}
	return 0
}

// plain returns a provider's answer on one line. JSON is encoded again, as its
// escapes could hide a secret from the mask.
func (ep *Endpoint) plain(body []byte) string {
	var v any
	if json.Unmarshal(body, &v) == nil {
		var buf bytes.Buffer
		enc := json.NewEncoder(&buf)
		enc.SetEscapeHTML(false)
		if enc.Encode(v) == nil {
			body = buf.Bytes()
		}
	}
	return ep.mask.text(string(body), maxDetails)
}

// beside returns a provider's answer without its message, on one line.
func (ep *Endpoint) beside(body []byte, message string) string {
	var v any
	if json.Unmarshal(body, &v) != nil {
		return ep.plain(body)
	}
	if v = without(v, message); v == nil {
		return ""
	}
	rest, err := json.Marshal(v)
	if err != nil {
		return ep.plain(body)
	}
	return ep.plain(rest)
}

// without removes a text from decoded JSON, and the objects and lists that this
// leaves empty.
func without(v any, text string) any {
	switch v := v.(type) {
	case string:
		if text != "" && strings.TrimSpace(v) == text {
			return nil
		}
	case map[string]any:
		for key, inner := range v {
			if v[key] = without(inner, text); v[key] == nil {
				delete(v, key)
			}
		}
		if len(v) == 0 {
			return nil
		}
	case []any:
		for i := range v {
			v[i] = without(v[i], text)
		}
		if v = slices.DeleteFunc(v, func(inner any) bool { return inner == nil }); len(v) == 0 {
			return nil
		}
		return v
	}
	return v
}

func fault(class Class, code proto.Code, kind, message string) *Fault {
	return &Fault{reported: &proto.Error{Code: code, Kind: kind, Message: message}, Class: class}
}

// explain turns an error of a request or a read into the error for the caller.
func (x *exchange) explain(err error) error {
	switch {
	case x.caller.Err() != nil:
		return x.caller.Err()
	case errors.Is(err, sse.ErrTooLong):
		return x.tooLarge()
	case errors.Is(err, errSilent):
		return fault(Stop, proto.CodeUnavailable, kindParse, x.Name+" sends a stream without end that holds no part of an answer: check "+x.BaseHint)
	case context.Cause(x.ctx) == errStalled && x.silent > x.stall*(silentFactor-1) && x.unsaid > 0:
		return fault(Stop, proto.CodeTimeout, kindTimeout, fmt.Sprintf(
			"the model at %s sent no part of an answer for %gs, only comments: try again, or raise [rtr] stall_timeout", x.Name, (x.stall*silentFactor).Seconds()))
	case context.Cause(x.ctx) == errStalled:
		return fault(Stop, proto.CodeTimeout, kindTimeout, fmt.Sprintf(
			"the model at %s sent nothing for %gs: try again, or raise [rtr] stall_timeout", x.Name, x.byteTimeout().Seconds()))
	}
	return x.unreachable(err)
}

// unreachable returns the error for an endpoint that cannot be reached, or whose
// connection broke.
func (ep *Endpoint) unreachable(err error) error {
	if f, ok := errors.AsType[*Fault](err); ok {
		return f
	}
	if e, ok := errors.AsType[*proto.Error](err); ok {
		return &Fault{reported: e, Class: Stop}
	}
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err // the text of url.Error contains the URL with its credentials
	}
	f := fault(Retry, proto.CodeUnavailable, kindAPI, "")
	what := "the connection to the model at %s broke: %s: try again"
	if slow, ok := errors.AsType[net.Error](err); ok && slow.Timeout() {
		f.Code, f.Kind = proto.CodeTimeout, kindTimeout
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		f.Unsent = true
		if what = "cannot reach the model at %s: %s (is it running? see " + ep.BaseHint + ")"; !IsLocal(ep.Base) {
			what = "cannot reach the model at %s: %s (check the network, the name server, and a proxy or firewall between; the address is set by " + ep.BaseHint + ")"
		}
	}
	_, verify := errors.AsType[*tls.CertificateVerificationError](err)
	_, header := errors.AsType[tls.RecordHeaderError](err)
	_, unknown := errors.AsType[x509.UnknownAuthorityError](err)
	if verify || header || unknown || strings.Contains(err.Error(), "server gave HTTP response to HTTPS client") {
		f.Unsent, f.Class = true, Stop
		what = "no safe connection to %s: %s (see " + ep.BaseHint + "; SSL_CERT_FILE names certificates to trust)"
	}
	f.Message = fmt.Sprintf(what, ep.Name, ep.mask.text(err.Error(), maxMessage))
	return f
}

// failed returns the error that a provider reports inside an answer.
func (ep *Endpoint) failed(data []byte) *Fault { return ep.refused(0, nil, data, nil) }

// notStreamed returns the error for JSON in place of a stream.
func (x *exchange) notStreamed(body []byte) *Fault {
	var v struct {
		Error json.RawMessage `json:"error"`
		Kind  string          `json:"object"`
	}
	if json.Unmarshal(body, &v) != nil || says(v.Error) || v.Kind == "error" {
		return x.failed(body)
	}
	remedy := "set [rtr] streaming = false if it cannot stream"
	if x.alwaysStreams {
		remedy = "check " + x.BaseHint
	}
	f := fault(Stop, proto.CodeUnavailable, kindParse, x.Name+" answered with JSON where a stream was asked for: "+remedy)
	f.Details = x.plain(body)
	return f
}

// says reports whether the value of an error member is not empty.
func says(raw json.RawMessage) bool {
	return !slices.Contains([]string{"", "null", "false", `""`, "{}", "[]"}, string(raw))
}

// unusable returns the error for an endpoint that does not speak the protocol.
func (ep *Endpoint) unusable(what string) *Fault {
	return fault(Stop, proto.CodeUnavailable, kindParse, fmt.Sprintf("%s %s: check %s", ep.Name, what, ep.BaseHint))
}

// webPage returns the error for HTML in place of an answer.
func (ep *Endpoint) webPage(in io.Reader) *Fault {
	f := ep.unusable("answered with a web page, not with a model's answer")
	page, _ := io.ReadAll(io.LimitReader(in, maxDetails)) // use what could be read
	f.Details = ep.mask.text(string(page), maxDetails)
	return f
}

// garbled returns the error for data in an unknown form.
func (ep *Endpoint) garbled(what string, data []byte) *Fault {
	f := fault(Stop, proto.CodeUnavailable, kindParse, "the provider "+what)
	f.Details = ep.plain(data)
	return f
}

// unparsed returns the error for an event that is not valid JSON.
func (ep *Endpoint) unparsed(data []byte) *Fault {
	return ep.garbled("sent data that is not JSON, or not in the form of an answer", data)
}

// cut returns the error for a stream that ends too early.
func (ep *Endpoint) cut() *Fault {
	return fault(Retry, proto.CodeUnavailable, kindAPI, "the provider's stream ended before the answer was complete (no end mark): try again")
}

func (ep *Endpoint) tooLarge() *Fault {
	return fault(Stop, proto.CodeTooLarge, kindParse, fmt.Sprintf("the model's answer is longer than %d MiB", MaxAnswer>>20))
}

// mask replaces secrets in text from providers and proxies, which echo keys and
// whole headers in their errors.
type mask struct{ secrets *strings.Replacer }

const hidden = "[hidden]"

// authorization matches credentials by the scheme or header name before them.
var authorization = regexp.MustCompile(`(?i)\b((?:bearer|basic)\s+)[A-Za-z0-9+/_.~=-]{16,}|\b((?:authorization|x-api-key|api-key)["']?\s*[:=]\s*["']?(?:(?:bearer|basic)\s+)?)[A-Za-z0-9+/_.~=-]{4,}`)

func newMask(key string, user *url.Userinfo, more ...string) mask {
	secrets := append([]string{key}, more...)
	if password, ok := user.Password(); ok {
		secrets = append(secrets, base64.StdEncoding.EncodeToString([]byte(user.Username()+":"+password)), password)
	}
	var pairs []string
	for _, s := range secrets {
		if len(s) < 4 {
			continue // a placeholder for a server without a key: hiding each "x" would garble the text
		}
		quoted, err := json.Marshal(s)
		if err != nil {
			quoted = nil // cannot happen: every string can be encoded
		}
		for _, form := range []string{
			s, strings.Trim(string(quoted), `"`), url.QueryEscape(s), url.PathEscape(s),
			strings.ToUpper(s), base64.RawStdEncoding.EncodeToString([]byte(s)), base64.RawURLEncoding.EncodeToString([]byte(s)),
		} {
			if form != "" {
				pairs = append(pairs, form, hidden)
			}
		}
	}
	return mask{strings.NewReplacer(pairs...)}
}

// text sanitizes external text for an error message: no secret, one line, no
// control characters, at most limit bytes.
func (m mask) text(s string, limit int) string {
	s = authorization.ReplaceAllString(m.secrets.Replace(s), "$1$2"+hidden)
	return oneLine(s, limit)
}

// oneLine returns text on one line, without Unicode bidi controls, cut at limit
// bytes.
func oneLine(s string, limit int) string {
	s = text.OneLine(strings.Map(func(r rune) rune {
		if unicode.Is(unicode.Bidi_Control, r) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD")))
	if len(s) > limit {
		s = text.Head(s, limit) + "…"
	}
	return s
}

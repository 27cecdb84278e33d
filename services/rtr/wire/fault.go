package wire

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"zino/pkg/sse"
	"zino/proto"
	"zino/services/rtr/retry"
)

const (
	maxMessage = 500  // bytes of a provider's words in a message
	maxDetails = 2000 // and in the details
)

// The kinds of error that proto.Error names.
const (
	kindHTTP    = "http_status"
	kindTimeout = "timeout"
	kindParse   = "parse"
	kindAPI     = "api_error"
)

// Fault is a failed exchange: what the caller is told, and what may be done
// about it.
type Fault struct {
	*told
	// Verdict says whether the same request may be made again, and when.
	Verdict retry.Verdict
	// Header are the header lines of an answer with an error's status.
	Header http.Header
	// TooLong is true if the provider says that the conversation does not fit
	// the model.
	TooLong bool
	// Effort is true if the provider refuses the reasoning that was asked for.
	Effort bool
	// Summary is true if that was a summary of the reasoning, and not the effort.
	Summary bool
	// NoResponses is true if the endpoint has no Responses API.
	NoResponses bool
	// Unsent is true if the request cannot have reached the model.
	Unsent bool
}

// told is what the caller is told, by a name that leaves room for the method.
type told = proto.Error

// Unwrap returns what the caller is told.
func (f *Fault) Unwrap() error { return f.told }

func fault(class retry.Class, code proto.Code, kind, message string) *Fault {
	return &Fault{told: &proto.Error{Code: code, Kind: kind, Message: message}, Verdict: retry.Verdict{Class: class}}
}

// explain turns the error of a request or of a read into the caller's.
func (x *exchange) explain(err error) error {
	switch {
	case x.caller.Err() != nil:
		return x.caller.Err()
	case context.Cause(x.ctx) == errStalled && x.silent > x.limit*(silentFactor-1) && x.unsaid > 0:
		return fault(retry.Stop, proto.CodeTimeout, kindTimeout, fmt.Sprintf(
			"the model at %s sent no part of an answer for %gs, only comments: try again, or raise [rtr] stall_timeout", x.Name, (x.limit*silentFactor).Seconds()))
	case context.Cause(x.ctx) == errStalled:
		return fault(retry.Stop, proto.CodeTimeout, kindTimeout, fmt.Sprintf(
			"the model at %s sent nothing for %gs: try again, or raise [rtr] stall_timeout", x.Name, x.patience().Seconds()))
	}
	return x.unreachable(err)
}

// broken words an error of reading a stream.
func (x *exchange) broken(err error) error {
	switch {
	case errors.Is(err, sse.ErrTooLong):
		return x.tooLarge()
	case errors.Is(err, errSilent):
		return fault(retry.Stop, proto.CodeUnavailable, kindParse, x.Name+" sends a stream without end that holds no part of an answer: check "+x.BaseHint)
	}
	return err
}

// unreachable is the error of an endpoint that cannot be reached, or whose
// connection broke.
func (ep *Endpoint) unreachable(err error) error {
	if worded, ok := errors.AsType[*proto.Error](err); ok {
		return &Fault{told: worded, Verdict: retry.Verdict{Class: retry.Stop}}
	}
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err // its text repeats the URL, credentials and all
	}
	f := fault(retry.Retry, proto.CodeUnavailable, kindAPI, "")
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
	if untrusted(err) {
		f.Unsent, f.Verdict.Class = true, retry.Stop
		what = "no safe connection to %s: %s (see " + ep.BaseHint + "; SSL_CERT_FILE names certificates to trust)"
	}
	f.Message = fmt.Sprintf(what, ep.Name, ep.mask.text(err.Error(), maxMessage))
	return f
}

// untrusted reports whether the server's certificate, or its speaking plain
// HTTP where TLS is due, is what is wrong.
func untrusted(err error) bool {
	_, verify := errors.AsType[*tls.CertificateVerificationError](err)
	_, header := errors.AsType[tls.RecordHeaderError](err)
	_, unknown := errors.AsType[x509.UnknownAuthorityError](err)
	return verify || header || unknown || strings.Contains(err.Error(), "server gave HTTP response to HTTPS client")
}

// refused is the error of an answer with an HTTP status that is not 2xx.
func (x *exchange) refused(status int, header http.Header, body []byte) *Fault {
	f := &Fault{told: x.refusal(status, body), Verdict: retry.Judge(status, header, body, time.Now()), Header: header}
	if status == http.StatusNotFound && x.req != nil {
		f.Details = strings.TrimSpace(fmt.Sprintf("Check %s (%s) and the model (%s; --model or [service] model). %s%s", x.BaseHint, x.Name, oneLine(x.req.Model, 200), x.missing, f.Details))
	}
	f.NoResponses = x.missing != "" && lacksPath(status, body, x.req.Model)
	f.Effort = x.refusesEffort(status, body)
	f.Summary = f.Effort && !x.req.NoSummary && strings.Contains(errorText(body), "summar")
	return f.judgeLength(status, body)
}

func (ep *Endpoint) refusal(status int, body []byte) *proto.Error {
	message, _ := complaint(body)
	raw := ep.beside(body, message)
	switch {
	case message != "":
		message = ep.mask.text(message, maxMessage)
	case bytes.HasPrefix(bytes.TrimSpace(body), []byte("<")):
		message = http.StatusText(status) + " (a web page, not a model's answer)"
	case len(raw) > 0 && !json.Valid(body):
		message = ep.mask.text(string(body), maxMessage)
	default:
		message = http.StatusText(status)
	}
	out := &proto.Error{Code: codeOf(status), Kind: kindHTTP, Status: status, Message: fmt.Sprintf("HTTP %d: %s", status, message)}
	if raw == message {
		raw = ""
	}
	if bytes.Contains(body, []byte("API_KEY_INVALID")) { // how Gemini says 401
		status = http.StatusUnauthorized
	}
	out.Details = strings.TrimSpace(ep.hint(status) + raw)
	return out
}

// hint says what to look at.
func (ep *Endpoint) hint(status int) string {
	switch {
	case status == http.StatusUnauthorized && ep.Key == "":
		return ep.Name + " wants a key: set " + ep.KeyHint + ". "
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return "Check the key for " + ep.Name + ": " + ep.KeyHint + ". "
	}
	return ""
}

// plain is the provider's answer in one line. JSON is written anew, as its
// escapes could hide a secret.
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

// beside is what a provider's answer says besides its message, in one line.
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

// without removes a text from decoded JSON, with the objects and lists that hold
// nothing else.
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

// failed is the error of a provider that reports one after status 200.
func (ep *Endpoint) failed(data []byte) *Fault {
	message, status := complaint(data)
	f := fault(retry.Stop, proto.CodeUnavailable, kindAPI, "")
	f.Status, f.Details = status, ep.beside(data, message)
	f.Verdict = retry.JudgeBody(data, time.Now())
	if status != 0 {
		f.Code = codeOf(status)
		if message == "" {
			message = fmt.Sprintf("error %d, %s", status, http.StatusText(status))
		}
	}
	if message == "" {
		message = "no completion and no reason"
	}
	message = ep.mask.text(message, maxMessage)
	if message == f.Details {
		f.Details = ""
	}
	f.Message = "the provider reports: " + message
	return f.judgeLength(0, data)
}

// notStreamed is the error of JSON in place of a stream.
func (x *exchange) notStreamed(body []byte) *Fault {
	var v struct {
		Error json.RawMessage `json:"error"`
		Kind  string          `json:"object"`
	}
	if json.Unmarshal(body, &v) != nil || says(v.Error) || v.Kind == "error" {
		return x.failed(body)
	}
	remedy := x.remedy
	if remedy == "" {
		remedy = "check " + x.BaseHint
	}
	f := fault(retry.Stop, proto.CodeUnavailable, kindParse, x.Name+" answered with JSON where a stream was asked for: "+remedy)
	f.Details = x.plain(body)
	return f
}

// says reports whether the value of an error key says anything.
func says(raw json.RawMessage) bool {
	switch string(raw) {
	case "", "null", "false", `""`, "{}", "[]":
		return false
	}
	return true
}

// unusable is the error of an endpoint that does not speak the protocol.
func (ep *Endpoint) unusable(what string) *Fault {
	return fault(retry.Stop, proto.CodeUnavailable, kindParse, fmt.Sprintf("%s %s: check %s", ep.Name, what, ep.BaseHint))
}

// webPage is the error of HTML in place of an answer.
func (ep *Endpoint) webPage(in io.Reader) *Fault {
	f := ep.unusable("answered with a web page, not with a model's answer")
	page, _ := io.ReadAll(io.LimitReader(in, maxDetails)) // as much of it as comes
	f.Details = ep.mask.text(string(page), maxDetails)
	return f
}

// garbled is the error of data in no form that is known.
func (ep *Endpoint) garbled(what string, data []byte) *Fault {
	f := fault(retry.Stop, proto.CodeUnavailable, kindParse, "the provider "+what)
	f.Details = ep.plain(data)
	return f
}

// unparsed is the error of an event that is not JSON.
func (ep *Endpoint) unparsed(data []byte) *Fault {
	return ep.garbled("sent data that is not JSON, or not in the form of an answer", data)
}

// cut is the error of a stream that ends too early.
func (ep *Endpoint) cut() *Fault {
	return fault(retry.Retry, proto.CodeUnavailable, kindAPI, "the provider's stream ended before the answer was complete (no end mark): try again")
}

func (ep *Endpoint) tooLarge() *Fault {
	return fault(retry.Stop, proto.CodeTooLarge, kindParse, fmt.Sprintf("the model's answer is longer than %d MiB", MaxAnswer>>20))
}

// With returns the fault with other words for the caller.
func (f *Fault) With(told *proto.Error) *Fault {
	other := *f
	other.told = told
	return &other
}

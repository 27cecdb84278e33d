package rtr

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"

	"zino/proto"
)

const (
	maxMessage = 500  // bytes of a provider's words in a message
	maxDetails = 2000 // and in the details
)

// explain turns the error of a request or of a read into the caller's.
func (x *exchange) explain(err error) error {
	switch {
	case x.caller.Err() != nil:
		return x.caller.Err()
	case context.Cause(x.ctx) == errStalled:
		return &proto.Error{Code: proto.CodeTimeout, Message: fmt.Sprintf(
			"the model at %s sent nothing for %gs: try again, or raise [rtr] stall_timeout", x.name, x.limit.Seconds())}
	}
	return x.unreachable(err)
}

// unreachable is the error of an endpoint that cannot be reached, or whose
// connection broke.
func (e *endpoint) unreachable(err error) error {
	if worded, ok := errors.AsType[*proto.Error](err); ok {
		return worded
	}
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err // its text repeats the URL, credentials and all
	}
	out := &proto.Error{Code: proto.CodeUnavailable}
	if slow, ok := errors.AsType[net.Error](err); ok && slow.Timeout() {
		out.Code = proto.CodeTimeout
	}
	what := "the connection to the model at %s broke: %s"
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		what = "cannot reach the model at %s: %s (is it running? see [api] base_url)"
	}
	out.Message = fmt.Sprintf(what, e.name, e.mask.text(err.Error(), maxMessage))
	return out
}

// refused is the error of an answer with an HTTP status that is not 2xx.
func (e *endpoint) refused(status int, body []byte) *proto.Error {
	message, _ := complaint(body)
	raw := e.plain(body)
	switch {
	case message != "":
		message = e.mask.text(message, maxMessage)
	case bytes.HasPrefix(bytes.TrimSpace(body), []byte("<")):
		message = http.StatusText(status) + " (a web page, not a model's answer)"
	case len(raw) > 0 && !json.Valid(body):
		message = e.mask.text(string(body), maxMessage)
	default:
		message = http.StatusText(status)
	}
	out := &proto.Error{Code: codeOf(status), Status: status, Message: fmt.Sprintf("HTTP %d: %s", status, message)}
	if raw == message {
		raw = ""
	}
	out.Details = strings.TrimSpace(e.hint(status) + raw)
	return out
}

// hint says what to look at.
func (e *endpoint) hint(status int) string {
	switch {
	case status == http.StatusUnauthorized && e.key == "":
		return e.name + " wants a key: set [api] key, LLM_API_KEY or OPENAI_API_KEY. "
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return "Check [api] key, LLM_API_KEY and OPENAI_API_KEY for " + e.name + ". "
	case status == http.StatusNotFound:
		return fmt.Sprintf("Check [api] base_url (%s) and [service] model (%s). ", e.name, oneLine(e.model, 200))
	}
	return ""
}

// plain is the provider's answer in one line. JSON is written anew, as its
// escapes could hide a secret.
func (e *endpoint) plain(body []byte) string {
	var v any
	if json.Unmarshal(body, &v) == nil {
		var buf bytes.Buffer
		enc := json.NewEncoder(&buf)
		enc.SetEscapeHTML(false)
		if enc.Encode(v) == nil {
			body = buf.Bytes()
		}
	}
	return e.mask.text(string(body), maxDetails)
}

// failed is the error of a provider that reports one after status 200.
func (e *endpoint) failed(data []byte) *proto.Error {
	message, status := complaint(data)
	out := &proto.Error{Code: proto.CodeUnavailable, Status: status, Details: e.plain(data)}
	if status != 0 {
		out.Code = codeOf(status)
		if message == "" {
			message = fmt.Sprintf("error %d, %s", status, http.StatusText(status))
		}
	}
	if message == "" {
		message = "no completion and no reason"
	}
	message = e.mask.text(message, maxMessage)
	if message == out.Details {
		out.Details = ""
	}
	out.Message = "the provider reports: " + message
	return out
}

// unusable is the error of an endpoint that does not speak the protocol.
func (e *endpoint) unusable(what string) error {
	return &proto.Error{Code: proto.CodeUnavailable, Message: fmt.Sprintf("%s %s: check [api] base_url", e.name, what)}
}

// garbled is the error of an event that is not JSON.
func (e *endpoint) garbled(data []byte) error {
	return &proto.Error{
		Code: proto.CodeUnavailable, Message: "the provider sent data that is not JSON, or not in the form of a completion",
		Details: e.plain(data),
	}
}

func (e *endpoint) cut() error {
	return &proto.Error{
		Code:    proto.CodeUnavailable,
		Message: "the provider's stream ended before the answer was complete (no finish_reason and no [DONE]): try again",
	}
}

func (e *endpoint) tooLarge() error {
	return &proto.Error{Code: proto.CodeTooLarge, Message: "the provider's answer is larger than 16 MiB"}
}

// codeOf classifies an HTTP status.
func codeOf(status int) proto.Code {
	switch {
	case status == 401 || status == 402 || status == 403:
		return proto.CodeDenied
	case status == 404:
		return proto.CodeNotFound
	case status == 408:
		return proto.CodeTimeout
	case status == 409 || status == 429:
		return proto.CodeBusy
	case status == 413:
		return proto.CodeTooLarge
	case status >= 400 && status < 500:
		return proto.CodeInvalid
	}
	return proto.CodeUnavailable
}

// complaint finds a provider's words, and an HTTP status where there is one,
// in the shapes that errors have: {"error":{"message":…,"code":…}},
// {"error":"text"}, {"message":…}, {"detail":…}, and any of them in a list.
func complaint(body []byte) (message string, status int) {
	var v any
	if json.Unmarshal(body, &v) != nil {
		return "", 0
	}
	return words(v)
}

func words(v any) (message string, status int) {
	switch v := v.(type) {
	case string:
		return strings.TrimSpace(v), 0
	case []any:
		if len(v) > 0 {
			return words(v[0])
		}
	case map[string]any:
		for _, key := range []string{"error", "message", "detail", "msg", "type"} {
			if message, status = words(v[key]); message != "" || status != 0 {
				break
			}
		}
		for _, key := range []string{"code", "status"} {
			if n, ok := v[key].(float64); ok && status == 0 && n >= 400 && n < 600 {
				status = int(n)
			}
		}
	}
	return message, status
}

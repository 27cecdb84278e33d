package wire

import (
	"encoding/json"
	"strings"

	"zino/proto"
)

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

package fakellm

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Legal returns an error for the first part of a completion request that its
// provider rejects, or that breaks a rule which some providers of the wire enforce:
// the order of messages, calls without results and results without calls, empty and
// missing members. It returns nil for a legal request and for other requests.
func (r *Request) Legal() error {
	var check func(*Request) error
	switch path := r.Path; {
	case strings.HasSuffix(path, "/chat/completions"):
		check = legalOpenAI
	case strings.HasSuffix(path, "/responses"):
		check = legalResponses
	case strings.HasSuffix(path, "/messages"):
		check = legalAnthropic
	case strings.Contains(path, "enerateContent"):
		check = legalGemini
	case path == "/api/chat":
		check = legalOllama
	default:
		return nil
	}
	switch limit := map[bool]int{true: geminiBody, false: openaiBody}[strings.Contains(r.Path, "enerateContent")]; {
	case len(r.Body) > limit:
		return fmt.Errorf("the body has %d bytes, above %d", len(r.Body), limit)
	case strings.Count(string(r.Body), `;base64,`) > openaiImages:
		return errors.New("too many images")
	}
	if !utf8.Valid(r.Body) {
		return errors.New("the body is not UTF-8")
	}
	return check(r)
}

// The roles of messages, on every wire.
const (
	system    = "system"
	user      = "user"
	assistant = "assistant"
	tool      = "tool"
)

// ref names a call, or the call that a result is for.
type ref struct {
	id, name string
	loose    bool // a result whose id is optional
}

// answers reports whether r is a result of the call.
func (r ref) answers(call ref) bool {
	return (r.id == call.id || r.loose && r.id == "") && (r.name == "" || r.name == call.name)
}

func (r ref) String() string { return strings.TrimSpace(r.id + " " + r.name) }

// said holds the parts of a message that matter for the order.
type said struct {
	role    string
	calls   []ref
	results []ref
}

// ordered checks that the first message is the user's, that results of all calls
// follow immediately, and that there are no other results.
func ordered(list []said) error {
	var open []ref
	begun := false
	for i, m := range list {
		if m.role != system && !begun && m.role != user {
			return fmt.Errorf("messages[%d]: the first one is not the user's", i)
		}
		begun = begun || m.role == user
		var err error
		if open, err = settle(open, m); err != nil {
			return fmt.Errorf("messages[%d]: %w", i, err)
		}
	}
	switch {
	case !begun:
		return errors.New("messages: none is the user's")
	case len(open) > 0:
		return fmt.Errorf("messages: the call %v has no result", open[0])
	}
	return nil
}

// settle removes the calls answered by a message from open, and adds its calls.
func settle(open []ref, m said) ([]ref, error) {
	for _, result := range m.results {
		i := slices.IndexFunc(open, result.answers)
		if i < 0 {
			return nil, fmt.Errorf("a result for %v, which is not a call before it", result)
		}
		open = slices.Delete(open, i, i+1)
	}
	if len(open) > 0 && m.role != tool {
		return nil, fmt.Errorf("stands before the result of the call %v", open[0])
	}
	for _, call := range m.calls {
		if call.id != "" && slices.ContainsFunc(open, func(c ref) bool { return c.id == call.id }) {
			return nil, fmt.Errorf("two calls have the id %s", call.id)
		}
		open = append(open, call)
	}
	return open, nil
}

// alternating checks that user and assistant alternate, and that the last message
// is the user's.
func alternating(list []said) error {
	for i := 1; i < len(list); i++ {
		if list[i].role == list[i-1].role {
			return fmt.Errorf("messages[%d]: two in a row of the role %s", i, list[i].role)
		}
	}
	if len(list) > 0 && list[len(list)-1].role == assistant {
		return fmt.Errorf("messages[%d]: the last one is not the user's", len(list)-1)
	}
	return nil
}

// distinct checks that the names of tools are unique and not empty.
func distinct(names []string) error {
	for i, name := range names {
		if name == "" {
			return fmt.Errorf("tools[%d]: no name", i)
		}
		if slices.Contains(names[:i], name) {
			return fmt.Errorf("tools[%d]: a second one of the name %s", i, name)
		}
	}
	return nil
}

// absent reports whether a member is missing or null.
func absent(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }

// isObject reports whether a member is an object; it is valid JSON.
func isObject(raw json.RawMessage) bool { return bytes.HasPrefix(raw, []byte("{")) }

func isText(raw json.RawMessage) bool { return bytes.HasPrefix(raw, []byte(`"`)) }

func decodeBody(raw []byte, v any) error {
	if err := json.Unmarshal(raw, v); err != nil {
		return fmt.Errorf("the body: %w", err)
	}
	return nil
}

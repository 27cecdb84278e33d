package agr

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"zino/pkg/wire"
	"zino/proto"
)

const (
	maxCalls   = 1024        // calls of one answer that are carried out
	sideBySide = 8           // calls that are carried out at once
	unnamed    = "tool_call" // name for a call without one, which providers would reject
)

var errNoName = errors.New(`the field "name" is missing`)

// call is a tool call: a native one, or a block in the model's text.
type call struct {
	raw       proto.Raw // in OpenAI's form, to be sent back to the model
	id        string    // unique within the answer
	name      string
	arguments proto.Raw  // as the model wrote them, normally an object; may be empty
	input     proto.Raw  // the arguments as an object, for events
	failure   *toolError // why a malformed call cannot be carried out
	block     bool
	tool      tool               // set by perform
	delegated bool               // the caller carries it out, as a sub-agent: set by perform
	asked     proto.Raw          // the input of the model, if a hook has changed it
	verdict   *proto.HookVerdict // of hooks; nil: they have decided nothing
	carried   bool               // it was carried out, or the attempt was made
	result    proto.Raw
	files     []proto.Attachment // of the result
	usage     *proto.Usage       // of the sub-agent

	step     int    // the inference of the turn that asked for it
	recovers bool   // it is one of an earlier attempt and may have run
	since    string // when it was asked for, of one that recovers
}

// readCalls appends the native calls of a session's answer to those in its text. The
// calls alone decide whether the loop continues, since the stop reason sent with
// them depends on the provider. The calls of an answer that reached the token limit
// are dropped if none is complete: the next one would be cut, too.
func (in *inference) readCalls(answer proto.Text) error {
	if len(answer.ToolCalls) > 0 {
		native, err := wire.Elements(answer.ToolCalls)
		if err != nil {
			return fmt.Errorf("the field tool_calls of its answer: %w", err)
		}
		for i, raw := range native {
			c, err := nativeCall(proto.Raw(raw))
			if err != nil {
				return fmt.Errorf("the field tool_calls of its answer: element %d: %w", i, err)
			}
			in.calls = append(in.calls, c)
		}
	}
	if len(answer.State) > 0 && !wire.Valid(answer.State) {
		return errors.New("the field reasoning_state of its answer is malformed")
	}
	in.answer = answer
	complete := func(c call) bool { return c.block || len(c.arguments) > 0 && wire.Valid(c.arguments) }
	if answer.StopReason == "length" && !slices.ContainsFunc(in.calls, complete) {
		in.calls, in.answer.State = nil, nil // the state belongs to the calls
	}
	ids := map[string]bool{}
	for i := range in.calls {
		c := &in.calls[i]
		if c.identify(ids); i >= maxCalls && c.failure == nil {
			c.failure = &toolError{code: proto.ToolTooManyCalls, message: fmt.Sprintf(
				"Not run: at most %d tool calls of a reply are run, and this is number %d. Call it again if it is still needed.", maxCalls, i+1)}
		}
	}
	in.called = len(in.calls) > 0
	if in.called && len(bytes.TrimSpace(in.text)) == 0 {
		in.text = nil // only white space around blocks
	}
	return nil
}

// nativeCall reads a call in OpenAI's form.
func nativeCall(raw proto.Raw) (call, error) {
	var fields struct {
		ID       string `json:"id"`
		Function struct {
			Name      string    `json:"name"`
			Arguments proto.Raw `json:"arguments"`
		} `json:"function"`
	}
	err := wire.DecodeReply(raw, &fields)
	c := call{raw: raw, id: fields.ID, name: fields.Function.Name, arguments: unquoted(fields.Function.Arguments)}
	c.input = inputOf(c.arguments)
	if c.name == "" {
		c.name, c.failure = unnamed, malformedCall(errNoName).err
		c.raw = withID(c.openAI(), c.id)
	}
	return c, err
}

// blockCall parses a block of the text as a call in the provider's form. A malformed
// block is a call, too: its failure is sent back to the model.
func blockCall(e Event) call {
	body := bytes.ToValidUTF8(e.Body, []byte("\ufffd")) // a copy: the parser reuses its buffer
	c := call{block: true}
	if e.Kind == Task {
		c.name, c.arguments = proto.TaskTool, body
		if _, err := object(body); err != nil {
			c.failure = malformedTask(err).err
		}
	} else {
		name, arguments, err := parseCall(body)
		if err == nil && name == "" {
			err = errNoName
		}
		if err != nil {
			c.failure = malformedCall(err).err
		}
		c.name, c.arguments = cmp.Or(name, unnamed), arguments
	}
	if c.input = inputOf(c.arguments); c.failure != nil {
		c.input = malformedInput(body)
	}
	c.raw = c.openAI()
	return c
}

// openAI encodes the call in OpenAI's form, without an identifier.
func (c *call) openAI() proto.Raw {
	b := wire.AppendString(proto.Raw(`{"type":"function","function":{"name":`), c.name)
	return append(wire.AppendString(append(b, `,"arguments":`...), []byte(c.input)), "}}"...)
}

// identify gives the call a new identifier if its own is empty or used by an earlier
// call, or cannot be part of a key of exc. Every provider accepts nine letters and
// digits.
func (c *call) identify(used map[string]bool) {
	for c.id == "" || used[c.id] || strings.Contains(c.id, "/") {
		c.id = rand.Text()[:9]
		c.raw = withID(c.raw, c.id)
	}
	used[c.id] = true
}

// withID returns an object with its member id replaced.
func withID(raw proto.Raw, id string) proto.Raw {
	b := wire.AppendString(proto.Raw(`{"id":`), id)
	for key, value := range wire.Members(raw) {
		if string(key) != "id" {
			b = append(wire.AppendString(append(b, ','), key), ':')
			b = append(b, value...)
		}
	}
	return append(b, '}')
}

// inputOf returns the arguments of a call as an object on one line. Malformed
// arguments become a string under the key for malformed input.
func inputOf(arguments proto.Raw) proto.Raw {
	if _, err := argumentsOf(arguments); err != nil {
		return malformedInput(arguments)
	}
	if len(arguments) == 0 || string(arguments) == "null" {
		return proto.Raw("{}")
	}
	line, err := wire.Line(unquoted(arguments))
	if err != nil {
		return malformedInput(arguments)
	}
	return line
}

func malformedInput(text []byte) proto.Raw {
	return append(wire.AppendString(proto.Raw(`{"`+proto.MalformedInput+`":`), text), '}')
}

// unquoted returns the text of a JSON string, and other values unchanged: some
// servers send arguments as an object.
func unquoted(arguments proto.Raw) proto.Raw {
	var text string
	if len(arguments) == 0 || json.Unmarshal(arguments, &text) != nil {
		return arguments
	}
	return proto.Raw(strings.TrimSpace(text))
}

// parseCall reads {"name": …, "arguments": …}.
func parseCall(body []byte) (name string, arguments proto.Raw, err error) {
	f, err := object(body)
	if err != nil {
		return "", nil, err
	}
	name, err = f.text("name")
	return name, proto.Raw(f["arguments"]), err
}

// fields are the members of an object.
type fields map[string]json.RawMessage

// argumentsOf parses a call's arguments: an object, or a string that contains one,
// as some models write it. Missing arguments are an object without fields.
func argumentsOf(arguments proto.Raw) (fields, error) {
	if len(arguments) == 0 || string(arguments) == "null" {
		return nil, nil
	}
	var quoted string
	if json.Unmarshal(arguments, &quoted) == nil {
		arguments = proto.Raw(quoted)
	}
	f, err := object(arguments)
	if err != nil {
		return nil, fmt.Errorf("arguments: %w", err)
	}
	return f, nil
}

// object decodes one JSON object; its keys are case-sensitive.
func object(body []byte) (f fields, err error) {
	body = bytes.TrimSpace(body)
	if len(body) == 0 {
		return nil, errors.New("the block is empty")
	}
	if json.Valid(body) && body[0] != '{' {
		return nil, errors.New("expected an object")
	}
	err = json.Unmarshal(body, &f)
	return f, err
}

// text returns an optional field that must be a string.
func (f fields) text(name string) (s string, err error) {
	raw, ok := f[name]
	if !ok || string(raw) == "null" {
		return "", nil
	}
	if json.Unmarshal(raw, &s) != nil {
		return "", fmt.Errorf("%s must be a string", name)
	}
	return s, nil
}

// count returns an optional field that must be a whole number from 1 to most.
func (f fields) count(name string, absent, most int) (int, error) {
	return f.number(name, absent, 1, most)
}

// number returns an optional field that must be a whole number from least to most.
// Models also write it as a string.
func (f fields) number(name string, absent, least, most int) (int, error) {
	raw, ok := f[name]
	if !ok || string(raw) == "null" {
		return absent, nil
	}
	var number json.Number
	err := json.Unmarshal(raw, &number)
	n, rangeErr := strconv.ParseFloat(string(number), 64)
	if k := int(n); err == nil && rangeErr == nil && float64(k) == n && least <= k && k <= most {
		return k, nil
	}
	return 0, fmt.Errorf("%s must be a whole number from %d to %d", name, least, most)
}

// lacks returns the first of the names that has no field.
func (f fields) lacks(names ...string) (missing string, ok bool) {
	for _, name := range names {
		if raw, ok := f[name]; !ok || string(raw) == "null" {
			return name, true
		}
	}
	return "", false
}

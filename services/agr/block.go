package agr

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"

	"zino/pkg/wire"
	"zino/proto"
	"zino/services/agr/toolbox"
)

// unnamed is the name of a call that has none.
const unnamed = "tool_call"

// blockCall makes a call of a block in the text, as if the model had called the
// function in its provider's form. Whatever the block holds, it is a call that
// can go back to the model: one that cannot be carried out has its fault with
// it.
func blockCall(e Event) call {
	body := bytes.ToValidUTF8(e.Body, []byte("\ufffd")) // a copy: the parser's goes
	c := call{block: true}
	if e.Kind == Task {
		c.readTask(body)
	} else {
		c.readToolCall(body)
	}
	if c.input = inputOf(c.arguments); c.fault != nil {
		c.input = malformedInput(body)
	}
	c.raw = c.written()
	return c
}

// readTask reads the body of a <task>.
func (c *call) readTask(body []byte) {
	c.name, c.arguments = toolbox.Task, body
	if _, err := object(body); err != nil {
		c.fault = malformedTask(err).fault
	}
}

// readToolCall reads the body of a <tool_call>.
func (c *call) readToolCall(body []byte) {
	name, arguments, err := parseCall(body)
	if err == nil && name == "" {
		err = errNoName
	}
	if err != nil {
		c.fault = malformedCall(err).fault
	}
	c.name, c.arguments = cmp.Or(name, unnamed), arguments
}

var errNoName = errors.New(`the field "name" is missing`)

// written is the call in OpenAI's form, without an identifier.
func (c *call) written() proto.Raw {
	b := wire.AppendString(proto.Raw(`{"type":"function","function":{"name":`), c.name)
	return append(wire.AppendString(append(b, `,"arguments":`...), []byte(c.input)), "}}"...)
}

// inputOf is the arguments of a call as an object in one line, which files of
// lines can hold. What is none stands in it as a text.
func inputOf(arguments proto.Raw) proto.Raw {
	if _, err := argumentsOf(arguments); err != nil {
		return malformedInput(arguments)
	}
	if len(arguments) == 0 || string(arguments) == "null" {
		return proto.Raw("{}")
	}
	object := bytes.TrimSpace(unquoted(arguments))
	var line bytes.Buffer
	if err := json.Compact(&line, object); err != nil {
		return malformedInput(arguments)
	}
	return line.Bytes()
}

func malformedInput(text []byte) proto.Raw {
	return append(wire.AppendString(proto.Raw(`{"_malformed":`), text), '}')
}

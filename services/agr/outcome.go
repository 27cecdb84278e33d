package agr

import (
	"errors"
	"fmt"
	"strings"

	"zino/pkg/catalog"
	"zino/proto"
	"zino/services/agr/toolbox"
)

// outcome is what a call came to: the first of these that is set. It has two
// forms, one for the text of a plain run and one for sessions and events.
type outcome struct {
	fault  *fault
	result proto.Raw     // of a tool of exc's or for pages, in the form of sessions
	ran    *proto.Result // of code
	text   string        // of any other tool

	diff     string             // what was changed in a file
	confined *proto.Confinement // how it was run
}

// plain is what the model is given in the text of a plain run.
func (o outcome) plain() string {
	switch {
	case o.fault != nil && o.fault.complete:
		return o.fault.message
	case o.fault != nil:
		return "Error: " + o.fault.message
	case o.ran != nil:
		return resultText(*o.ran)
	}
	return o.text
}

// envelope is what the model is given in a session.
func (o outcome) envelope() proto.Raw {
	switch {
	case o.fault != nil:
		return toolbox.Failed(o.fault.code, o.fault.message)
	case o.result != nil:
		return o.result
	case o.ran != nil:
		return toolbox.Ran(*o.ran)
	}
	return toolbox.Said(o.text)
}

// fault is why a call has no other outcome.
type fault struct {
	code     string // one of toolbox's
	message  string
	complete bool // the message stands in a text as it is
}

// malformedCall words what is wrong with a call, as one line.
func malformedCall(err error) outcome {
	return outcome{fault: &fault{toolbox.InvalidInput, "Malformed tool_call JSON: " + strings.ReplaceAll(err.Error(), "\n", "; "), true}}
}

func malformedTask(err error) outcome {
	return outcome{fault: &fault{toolbox.InvalidInput, "Malformed task JSON: " + err.Error(), true}}
}

// refused is a call whose arguments are well-formed and of no use.
func refused(message string) outcome {
	return outcome{fault: &fault{toolbox.InvalidInput, message, false}}
}

// failed is a call that somebody else could not carry out.
func failed(err error) outcome { return outcome{fault: &fault{codeOf(err), err.Error(), false}} }

func codeOf(err error) string {
	switch {
	case errors.Is(err, proto.ErrUnavailable):
		return toolbox.Unavailable
	case errors.Is(err, proto.ErrTimeout):
		return toolbox.Timeout
	case errors.Is(err, proto.ErrDenied):
		return toolbox.Denied
	}
	return toolbox.ToolError
}

// unknownFunction is the outcome in a plain run, whose prompt has a list of the
// functions.
func unknownFunction(name string) outcome {
	return outcome{fault: &fault{toolbox.UnknownTool, fmt.Sprintf("Unknown tool function '%s'", name), false}}
}

// unknownTool is the outcome in a session, whose tools may include those for
// pages.
func unknownTool(name string, snapshot *catalog.Snapshot, pages bool) outcome {
	message := fmt.Sprintf("There is no tool '%s'. There are: %s.", name, strings.Join(toolbox.Names(snapshot, pages), ", "))
	return outcome{fault: &fault{toolbox.UnknownTool, message, false}}
}

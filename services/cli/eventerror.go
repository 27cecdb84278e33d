package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"zino/pkg/visible"
	"zino/proto"
)

// kinds are those of the errors of a turn.
var kinds = []string{"http_status", "timeout", "parse", "api_error", "usage", "session", "internal"}

// kindOf is the kind of an error.
func kindOf(err error) string {
	if _, ok := errors.AsType[usageError](err); ok {
		return "usage"
	}
	e, ok := errors.AsType[*proto.Error](err)
	switch {
	case !ok:
		return "internal"
	case slices.Contains(kinds, e.Kind):
		return e.Kind
	case e.Code == proto.CodeInvalid:
		return "usage"
	case e.Code == proto.CodeNotFound:
		return "session"
	case e.Code == proto.CodeTimeout:
		return "timeout"
	}
	return "internal"
}

// messageOf is an error's text without the names of the services that it came
// through: a person is shown what went wrong, not on which way it was reported.
func messageOf(err error) string {
	message := err.Error()
	for _, hop := range []string{"Agentic runtime error: ", "rtr error: "} { // on its way from the provider
		message = strings.TrimPrefix(message, hop)
	}
	if e, ok := errors.AsType[*proto.Error](err); ok && e.Service != "" {
		if rest, found := strings.CutPrefix(message, e.Service+" "); found { // "mem list_sessions: …"
			if method, rest, found := strings.Cut(rest, ": "); found && strings.Trim(method, "abcdefghijklmnopqrstuvwxyz_") == "" {
				message = rest
			}
		}
	}
	return message
}

// errorText is an error as it is printed: one line, and the provider's own words
// below it.
func errorText(err error) string {
	text := fmt.Sprintf("Error [%s]: %s\n", kindOf(err), oneLine(errors.New(messageOf(err))))
	e, ok := errors.AsType[*proto.Error](err)
	if !ok || strings.TrimSpace(e.Details) == "" {
		return text
	}
	const label = "  Details: "
	details := strings.TrimSpace(visible.Text(e.Details))
	return text + label + strings.ReplaceAll(details, "\n", "\n"+strings.Repeat(" ", len(label))) + "\n"
}

// complain prints an error. With --json a turn that did not begin is a header and
// an error event, too.
func (a *app) complain(err error) {
	if a.agent && a.askedJSON() && (a.lines == nil || !a.lines.begun) {
		lines := &jsonLines{w: a.out, terminal: isTerminal(a.out)}
		if lines.begin("") == nil {
			lines.end(turnEnd{}, err) // an error of standard output has nowhere else to go
		}
	}
	fmt.Fprint(a.err, errorText(err))
}

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

// errorText is an error as a turn tells it: one line, and the provider's own
// words below it.
func errorText(err error) string {
	message := oneLine(err)
	for _, hop := range []string{"Agentic runtime error: ", "rtr error: "} { // on its way from the provider
		message = strings.TrimPrefix(message, hop)
	}
	text := fmt.Sprintf("Error [%s]: %s\n", kindOf(err), message)
	e, ok := errors.AsType[*proto.Error](err)
	if !ok || strings.TrimSpace(e.Details) == "" {
		return text
	}
	const label = "  Details: "
	details := strings.TrimSpace(visible.Text(e.Details))
	return text + label + strings.ReplaceAll(details, "\n", "\n"+strings.Repeat(" ", len(label))) + "\n"
}

// complain tells an error in the way of the command that runs.
func (a *app) complain(err error) {
	text := "zino: " + oneLine(err) + "\n"
	if a.agent {
		text = errorText(err)
	}
	fmt.Fprint(a.err, text)
}

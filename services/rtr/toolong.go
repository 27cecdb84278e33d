package rtr

import (
	"errors"
	"fmt"
	"strings"

	"zino/proto"
	"zino/services/rtr/provider"
)

// fits refuses a conversation that the target's model cannot hold, before it
// costs anything, as far as it is known what the model holds. A plain request
// is left to the provider, which counts better.
func (c *call) fits(t *target, req *provider.Request) error {
	tokens := req.Size() / bytesPerToken
	if c.in.SessionID == "" && !c.in.Events || t.context <= 0 || tokens <= t.context {
		return nil
	}
	return &proto.Error{Code: proto.CodeTooLarge, Kind: "session", Message: c.withWayOut(fmt.Sprintf(
		"the conversation has about %d tokens, more than the %d that %s holds. If the model can hold more, set context of [[rtr.model]]",
		tokens, t.context, t.caps.Model))}
}

// advised adds to a provider's complaint about the length what can be done.
func (c *call) advised(err error) error {
	f, ok := errors.AsType[*provider.Fault](err)
	if !ok || !f.TooLong {
		return err
	}
	told := *errors.Unwrap(f).(*proto.Error)
	told.Message = c.withWayOut(told.Message)
	return f.With(&told)
}

// withWayOut adds a sentence on how to go on where a session is too long.
func (c *call) withWayOut(message string) string {
	id := c.in.SessionID
	foreign := func(r rune) bool {
		return !strings.ContainsRune("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-", r)
	}
	if id == "" || strings.ContainsFunc(id, foreign) { // what is no id would not be found either
		return message
	}
	return strings.TrimRight(message, ". ") + ". Go on in a new session: zino handoff --from-session " + id + ` --goal "…"`
}

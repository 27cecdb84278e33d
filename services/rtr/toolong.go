package rtr

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"zino/pkg/config"
	"zino/proto"
	"zino/services/rtr/retry"
	"zino/services/rtr/wire"
)

// fits refuses a conversation that the target's model cannot hold, before it
// costs anything, as far as it is known what the model holds. A plain request
// is left to the provider, which counts better.
func (c *call) fits(t *target, req *wire.Request) error {
	tokens := req.Size() / bytesPerToken
	if c.in.SessionID == "" && !c.in.Events || t.context <= 0 || tokens <= t.context {
		return nil
	}
	return &proto.Error{Code: proto.CodeTooLarge, Kind: "session", Message: c.withWayOut(fmt.Sprintf(
		"the conversation has about %d tokens, more than the %d that %s holds. If the model can hold more, set context of [[rtr.model]]",
		tokens, t.context, t.caps.Model))}
}

// advised adds to a provider's refusal what can be done about it.
func (c *call) advised(t *target, err error) error {
	f, ok := errors.AsType[*wire.Fault](err)
	if !ok {
		return err
	}
	told := *errors.Unwrap(f).(*proto.Error)
	switch {
	case f.TooLong:
		told.Message = c.withWayOut(told.Message)
	case f.Verdict.Class == retry.WaitLong:
		told.Details = strings.TrimSpace("The quota or the credit of this key is used up: raise it at " + t.caps.Provider + ", or ask another model with --model (zino models lists them). " + told.Details)
	case f.Status == http.StatusBadRequest && t.wire() == "openai" && t.caps.NativeTools && len(c.req.Tools) > 0 && refusesToolsWithReasoning(told.Message):
		remedy := `Set tools = "text" in [[rtr.model]]`
		if c.in.Effort != "off" && wire.EffortWord(t.wire(), t.caps.Model, "off") != "" {
			remedy += ", or ask with --effort off"
		}
		told.Details = strings.TrimSpace(remedy + ". " + told.Details)
	default:
		return err
	}
	return f.With(&told)
}

// refusesToolsWithReasoning reports whether an error is OpenAI's for a model that
// takes tools on chat completions only if it does not reason.
func refusesToolsWithReasoning(message string) bool {
	message = strings.ToLower(message)
	return strings.Contains(message, "tools") && strings.Contains(message, "reasoning")
}

// suggestTime bounds how long an error waits for a list of models.
const suggestTime = 3 * time.Second

// suggested adds to the last 404 of a request what may have been meant.
func (c *call) suggested(err error) error {
	f, ok := errors.AsType[*wire.Fault](err)
	if !ok || f.Status != http.StatusNotFound || c.asked == nil {
		return err
	}
	told := *errors.Unwrap(f).(*proto.Error)
	told.Details = c.whatIsThere(c.asked) + told.Details
	return f.With(&told)
}

// whatIsThere says which models of a provider have the nearest names, or that the
// base URL lacks its /v1.
func (c *call) whatIsThere(t *target) string {
	ctx, cancel := context.WithTimeout(c.ctx, suggestTime)
	defer cancel()
	models, err := c.s.modelsAt(ctx, t)
	if e, refused := errors.AsType[*proto.Error](err); refused && e.Status == http.StatusNotFound && t.caps.Provider == "openai" && !strings.Contains(t.ep.Base, "/v1") {
		return fmt.Sprintf("Nothing answers below %s: the base URL of such a server mostly ends in /v1. ", t.ep.Name)
	}
	var names []string
	for _, m := range models {
		if m.Name == t.caps.Model {
			return ""
		}
		names = append(names, m.Name)
	}
	var nearest []string
	for len(names) > 0 && len(nearest) < 3 {
		name := config.Nearest(t.caps.Model, names)
		nearest = append(nearest, name)
		names = slices.DeleteFunc(names, func(other string) bool { return other == name })
	}
	if nearest == nil {
		return ""
	}
	return fmt.Sprintf("%s has no model %q; the nearest are %s: choose one with --model (zino models lists all). ", t.caps.Provider, t.caps.Model, strings.Join(nearest, ", "))
}

// withWayOut adds a sentence on how to go on where a session is too long.
func (c *call) withWayOut(message string) string {
	id := c.in.SessionID
	foreign := func(r rune) bool {
		return !strings.ContainsRune("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-", r)
	}
	if c.in.NoSave {
		return strings.TrimRight(message, ". ") + ". This session is not stored: begin a new one with what is needed of it"
	}
	if id == "" || strings.ContainsFunc(id, foreign) { // what is no id would not be found either
		return message
	}
	return strings.TrimRight(message, ". ") + ". Go on in a new session: zino handoff --from-session " + id + ` --goal "…"`
}

package rtr

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"zino/pkg/audit"
	"zino/pkg/config"
	"zino/pkg/message"
	"zino/pkg/rpc"
	"zino/proto"
	"zino/services/rtr/ledger"
	"zino/services/rtr/retry"
	"zino/services/rtr/wire"
)

// request is one request to the router, with all its attempts.
type request struct {
	s      *Service
	ctx    context.Context
	in     proto.Infer
	out    *rpc.Out
	req    wire.Request    // without what depends on the target
	answer *wire.Answer    // of the present attempt
	asked  *target         // the last one, nil before the first
	passed bool            // a part of an answer went to the caller: no attempt may follow
	files  []wire.Message  // the messages with the attachments for the target; nil: there are none
	lost   map[string]bool // attachments that the caller cannot give
	schema json.RawMessage // of the answer; empty: none
	strict bool            // providers take schema in their own form
	limit  *proto.Error    // of a model that asks for a long pause, for a caller that parks
}

func (s *Service) infer(ctx context.Context, in proto.Infer, out *rpc.Out) (proto.Text, error) {
	r := &request{s: s, ctx: ctx, in: in, out: out}
	if err := r.read(); err != nil {
		return proto.Text{}, err
	}
	if !s.set.streaming {
		out.Collect()
	}
	r.req.Stream, r.req.Whole = out.Streaming(), !s.set.streaming
	sel := selector{provider: in.Provider, model: in.Model}
	text, err := r.ask(sel)
	var before []string // the errors of the models asked before the last one
	for _, next := range s.fallbacks(sel) {
		if !r.mayFallBack(err) {
			break
		}
		before = append(before, firstLine(err))
		r.notice(proto.Notice{Kind: "fallback", Text: fmt.Sprintf("%s; asking %s instead", firstLine(err), strings.TrimSpace(next.provider+" "+next.model))})
		text, err = r.ask(next)
	}
	if f, ok := errors.AsType[*wire.Fault](err); ok && f.Status == http.StatusNotFound && r.asked != nil {
		e := *errors.Unwrap(f).(*proto.Error)
		e.Details = r.suggestion(r.asked) + e.Details
		err = &e
	}
	e, ok := errors.AsType[*proto.Error](err)
	if !ok {
		return text, err
	}
	if r.limit != nil { // no other model answered
		e = r.limit
	}
	if e.Code == proto.CodeBudget && !r.parks() {
		e = proto.Errorf(e.Code, "%s", e.Message) // without details
	}
	all := *e // without a chain
	all.Message = strings.Join(append(before, e.Message), "; then ")
	return text, &all
}

// read parses and validates the request.
func (r *request) read() (err error) {
	raw := r.in.Messages
	if r.req.Messages, err = wire.ReadMessages(raw); err != nil {
		return err
	}
	if r.in.System != "" {
		raw = message.Close(message.Join(message.Append(nil, "system", r.in.System), raw))
		if r.req.Messages, err = wire.ReadMessages(raw); err != nil {
			return err
		}
	}
	r.req.Raw, r.req.Temperature, r.req.TopP = raw, r.in.Temperature, r.in.TopP
	if r.schema, r.strict, err = wire.ReadSchema(r.in.OutputSchema); err != nil {
		return err
	}
	r.req.Tools, err = wire.ReadTools(r.in.Tools)
	switch {
	case r.in.OnLimit != "" && r.in.OnLimit != proto.OnLimitStop && !r.parks():
		return &proto.Error{Code: proto.CodeInvalid, Message: `Invalid request: field "on_limit": expected "stop" or "park"`}
	case r.in.MaxTokens < 0:
		return &proto.Error{Code: proto.CodeInvalid, Message: `Invalid request: field "max_tokens": expected 0 or more`}
	case r.in.Effort != "" && !slices.Contains(config.Efforts, r.in.Effort):
		return &proto.Error{Code: proto.CodeInvalid, Message: `Invalid request: field "effort": expected one of ` + strings.Join(config.Efforts, ", ")}
	case !isProvider(r.in.Provider):
		return &proto.Error{Code: proto.CodeInvalid, Message: unknownProvider(r.in.Provider)}
	}
	return err
}

// mayFallBack reports whether another provider may succeed after an error. An
// invalid request is invalid for all of them, and a budget is shared by all.
func (r *request) mayFallBack(err error) bool {
	if err == nil || r.passed || r.ctx.Err() != nil {
		return false
	}
	if f, ok := errors.AsType[*wire.Fault](err); ok {
		return !f.TooLong && f.Status != 400 && f.Status != 413 && f.Status != 422
	}
	return errors.Is(err, proto.ErrUnavailable) || errors.Is(err, proto.ErrBusy) || errors.Is(err, proto.ErrLimit)
}

// ask asks one target, with retries.
func (r *request) ask(sel selector) (proto.Text, error) {
	t, err := r.s.target(r.ctx, sel)
	if err != nil {
		return proto.Text{}, err
	}
	if t.caps.Fallback && r.in.NeedModel {
		return proto.Text{}, &proto.Error{Code: proto.CodeUnavailable, Message: "no model is connected and none answers on this host: " +
			connectFully() + ", start a model server on loopback, or set provider = \"offline\""}
	}
	t = r.s.learn(r.ctx, t)
	r.asked = t
	if err := r.attach(t); err != nil {
		return proto.Text{}, err
	}
	backoff := retry.NewBackoff(nil)
	for attempt := 1; ; attempt++ {
		text, err := r.attempt(t)
		f, failed := errors.AsType[*wire.Fault](err)
		if failed && t.caps.Found && f.Unsent {
			r.s.replace(r.ctx, t, nil) // the server may have gone: look again next time
		}
		if !failed || r.passed || r.ctx.Err() != nil {
			return text, err
		}
		// Leave out what the model refuses, and ask again at once.
		if slices.Contains(f.Refuses, "schema") {
			r.refuseSchema(t, f)
			attempt--
			continue
		}
		if without := r.withoutSampling(t, f); without != nil {
			t = without
			attempt--
			continue
		}
		if slices.Contains(f.Refuses, "responses") && t.anyWire {
			r.refuseResponses(t, f)
			return r.ask(sel)
		}
		if slices.Contains(f.Refuses, "effort") {
			r.refuseEffort(t, f)
			attempt--
			continue
		}
		if f.Wait > longestPause && f.Class != wire.Stop && r.parks() {
			return text, f.With(r.limited(errors.Unwrap(f).(*proto.Error), f.Wait))
		}
		if f.Class != wire.Retry {
			return text, err
		}
		wait, more := backoff.Next(f.Wait)
		if !more {
			return text, givenUp(f, wait, attempt)
		}
		r.notice(proto.Notice{
			Kind: "retry", WaitMS: wait.Milliseconds(), Provider: t.caps.Provider,
			Text: fmt.Sprintf("%s; asking again in %s (%d of %d)", firstLine(f), seconds(wait), attempt, retry.MaxRetries),
		})
		if err := r.s.pause(r.ctx, wait); err != nil {
			return text, err
		}
	}
}

// givenUp adds to an error why it is not retried again.
func givenUp(f *wire.Fault, wait time.Duration, attempts int) error {
	e := *errors.Unwrap(f).(*proto.Error)
	switch {
	case wait > retry.MaxAsked:
		e.Message += fmt.Sprintf(" (come back in %s)", seconds(wait))
	case attempts > 1:
		e.Message += fmt.Sprintf(" (asked %d times)", attempts)
	}
	return f.With(&e)
}

// parks reports whether the caller wants to know when a long pause ends, to wait for it.
func (r *request) parks() bool { return r.in.OnLimit == proto.OnLimitPark }

// limited returns the error limit for a pause, and keeps it: it is the answer unless
// another model answers.
func (r *request) limited(cause *proto.Error, pause time.Duration) *proto.Error {
	e := *cause
	// Details has whole seconds: round up.
	e.Code, e.Details = proto.CodeLimit, time.Now().Add(pause+time.Second).UTC().Format(time.RFC3339)
	if r.limit == nil || e.Details < r.limit.Details {
		r.limit = &e
	}
	return &e
}

// longestPause is the longest pause of a provider that a request waits for. A longer
// one is an error that says when it ends.
const longestPause = 30 * time.Second

const (
	// bytesPerToken is the approximate number of bytes of JSON in a token. It is
	// used before a request, when no count is known, and never in the ledger.
	bytesPerToken = 4
	// leastAnswer is the lowest limit, in tokens, that a budget sets for an answer
	// without a limit of its own.
	leastAnswer = 16
	// usualAnswer is reserved for an answer where the provider has no limit.
	usualAnswer = 16384
	// unseenTokens estimates the tokens that a model generated and rtr did not
	// receive when an answer was abandoned.
	unseenTokens = 256
)

// attempt asks a target once.
func (r *request) attempt(t *target) (proto.Text, error) {
	if !t.remote() {
		return r.exchange(t, r.req)
	}
	if r.s.noLedger != nil {
		return proto.Text{}, r.s.noLedger
	}
	req := r.requestFor(t)
	r.warnOfSampling(t)
	if t.noResponses != "" {
		r.warn(warning{t.caps.Endpoint, "", "wire"}, fmt.Sprintf("%s has no Responses API (%s): chat completions are used. Set wire = \"chat\" in [[rtr.model]] to ask them at once", t.caps.Endpoint, t.noResponses))
	}
	// Refuse a session that exceeds the model's context before it costs anything. A
	// plain request is left to the provider, which counts exactly.
	tokens := req.Size() / bytesPerToken
	if (r.in.SessionID != "" || r.in.Events) && t.context > 0 && tokens > t.context {
		return proto.Text{}, &proto.Error{Code: proto.CodeTooLarge, Kind: "session", Message: r.withWayOut(fmt.Sprintf(
			"the conversation has about %d tokens, more than the %d that %s holds. If the model can hold more, set context of [[rtr.model]]",
			tokens, t.context, t.caps.Model))}
	}
	if pause := t.limiter.Paused(); pause > longestPause {
		e := t.busy(pause)
		if r.parks() {
			e = r.limited(e, pause)
		}
		return proto.Text{}, e
	}
	release, err := t.limiter.Acquire(r.ctx, func(wait time.Duration) {
		about := ""
		if wait > 0 {
			about = ", in about " + seconds(wait)
		}
		r.notice(proto.Notice{Kind: "wait", WaitMS: wait.Milliseconds(), Provider: t.caps.Provider, Text: "waiting until " + t.caps.Provider + " may be asked" + about})
	})
	if err != nil {
		return proto.Text{}, err
	}
	defer release()
	reserved, err := r.reserve(t, &req)
	if err != nil {
		return proto.Text{}, err
	}
	if t.wire() == "anthropic" && wire.TooShortToThink(&req) {
		r.warnOfEffort(t, fmt.Sprintf("max_tokens %d leaves no room for thinking", req.MaxTokens))
	}
	text, err := r.exchange(t, req)
	f, failed := errors.AsType[*wire.Fault](err)
	// A refused request costs nothing; the cost of an answer that was cut off is
	// known only if the provider reported it. The ledger logs its own errors.
	switch {
	case failed && (f.Unsent || f.Header != nil):
		_ = reserved.Cancel()
	case err != nil && text.Usage != nil:
		// The tokens received are a lower bound: providers count the tokens of an
		// answer at its end only.
		text.Usage.OutputTokens = max(text.Usage.OutputTokens, int64(r.answer.Size())/bytesPerToken)
		_ = reserved.Settle(text.Usage)
	case err != nil:
		_ = reserved.Abandon(int64(r.answer.Size())/bytesPerToken*2 + unseenTokens)
	default:
		_ = reserved.Settle(text.Usage)
	}
	if failed && f.TooLong {
		e := *errors.Unwrap(f).(*proto.Error)
		e.Message = r.withWayOut(e.Message)
		return text, f.With(&e)
	}
	return text, err
}

// busy is the error of a provider that asked for a long pause.
func (t *target) busy(pause time.Duration) *proto.Error {
	return proto.Errorf(proto.CodeBusy, "%s asks not to be asked before %s: try again then", t.caps.Provider, time.Now().Add(pause).Local().Format("15:04:05"))
}

// exchange makes the request and collects the answer.
func (r *request) exchange(t *target, req wire.Request) (proto.Text, error) {
	r.answer = &wire.Answer{}
	started, digest := time.Now(), r.digest()
	err := t.infer(r.ctx, t.ep, &req, r)
	text := proto.Text{Content: r.answer.Text(), Usage: r.answer.Usage()}
	if err == nil {
		text = r.answer.Finished()
	}
	text.Provider, text.Model, text.ContextWindow = t.caps.Provider, t.caps.Model, t.window
	if f, ok := errors.AsType[*wire.Fault](err); ok && f.Class == wire.Retry {
		t.limiter.Pause(f.Wait)
	}
	r.record(t, text, err, <-digest, started)
	return text, err
}

// digest computes the digest of the request's messages while the model is asked.
func (r *request) digest() <-chan string {
	digest := make(chan string, 1)
	if r.s.audit == nil {
		close(digest)
		return digest
	}
	go func() { digest <- audit.Digest(r.req.Raw) }()
	return digest
}

// record records a request to a provider.
func (r *request) record(t *target, text proto.Text, err error, digest string, started time.Time) {
	d := audit.Infer{Provider: t.caps.Provider, Model: t.caps.Model, Digest: digest, Usage: text.Usage, DurationMS: time.Since(started).Milliseconds()}
	if err != nil {
		d.Code = string(rpc.CodeOf(err))
	}
	r.s.audit.Record(proto.AuditInfer, audit.Event{Session: r.in.SessionID, Data: d})
}

// requestFor fits the request to the target.
func (r *request) requestFor(t *target) wire.Request {
	req := r.req
	req.Model, req.Traits, req.Context = t.caps.Model, t.traits, t.context
	req.MaxTokens = cmp.Or(r.in.MaxTokens, r.s.set.maxTokens)
	r.askEffort(t, &req)
	if r.files != nil {
		req.Messages = wire.PlaceFiles(r.files, t.wire(), len(req.Tools) > 0 && !t.traits.TextTools)
	}
	described := req.Tools
	if t.traits.TextTools {
		req.Tools = nil
	}
	if len(req.Tools) == 0 {
		req.Messages = wire.WithTextTools(wire.AsText(req.Messages), described)
	}
	if len(r.schema) > 0 {
		if r.takesSchema(t, len(described) > 0) {
			req.Schema = r.schema
		} else {
			req.Messages = wire.WithSchema(req.Messages, r.schema)
		}
	}
	return req
}

// takesSchema reports whether the target is asked for an answer by the schema in its own
// form.
func (r *request) takesSchema(t *target, tools bool) bool {
	e := &r.s.efforts
	e.mu.Lock()
	defer e.mu.Unlock()
	return r.strict && t.traits.Schema && !(tools && (t.traits.SchemaAlone || t.traits.TextTools)) &&
		!e.noSchema[effortKey{t.caps.Endpoint, t.caps.Model, ""}]
}

// refuseSchema remembers that a model refuses schemas: it gets them in the prompt.
func (r *request) refuseSchema(t *target, f *wire.Fault) {
	e := &r.s.efforts
	e.mu.Lock()
	e.noSchema[effortKey{t.caps.Endpoint, t.caps.Model, ""}] = true
	e.mu.Unlock()
	r.notice(proto.Notice{Kind: proto.NoticeWarning, Text: fmt.Sprintf("%s does not take the JSON Schema in its own form (%s): asking by prompt", t.caps.Model, firstLine(f))})
}

// reserve reserves the highest possible cost of the request in the budget.
func (r *request) reserve(t *target, req *wire.Request) (*ledger.Reservation, error) {
	ask := ledger.Ask{
		Session: r.in.SessionID, Provider: t.caps.Provider, Model: t.caps.Model,
		Input: int64(len(req.Raw)+len(r.in.Tools))/bytesPerToken + wire.FileTokens(r.files), Output: int64(req.MaxTokens),
		Price: t.price, ReportsCost: t.caps.Provider == "openrouter",
	}
	if req.MaxTokens == 0 {
		ask.Output, ask.Least = cmp.Or(int64(t.maxTokens), usualAnswer), leastAnswer
	}
	reserved, err := r.s.ledger.Reserve(r.ctx, ask)
	if err == nil && (reserved.Output < ask.Output || req.MaxTokens+t.maxTokens > 0) {
		req.MaxTokens = int(reserved.Output)
	}
	return reserved, err
}

// Event takes an event of the answer and passes on what the caller wants.
func (r *request) Event(e wire.Event) error {
	r.answer.Event(e)
	switch e.Kind {
	case wire.Text:
		r.passed = r.passed || r.out.Streaming()
		return r.out.Text(e.Delta)
	case wire.Reasoning:
		if r.in.Events && r.out.Streaming() {
			r.passed = true
			return r.out.Event("reasoning", proto.Reasoning{Text: string(e.Delta)})
		}
	}
	return nil
}

// Flush sends the collected text.
func (r *request) Flush() error { return r.out.Flush() }

// notice logs a notice, and sends it to a caller that asked for events.
func (r *request) notice(n proto.Notice) {
	r.s.log.Info("notice", "kind", n.Kind, "text", n.Text, "trace", rpc.Trace(r.ctx))
	if r.in.Events && r.out.Streaming() {
		_ = r.out.Event("notice", n) // a caller that has gone is noticed with the next packet
	}
}

// warning is the key of a notice that a session gets once.
type warning struct{ endpoint, model, about string }

// warn sends a notice, once to a session.
func (r *request) warn(key warning, text string) {
	r.s.warnLock.Lock()
	session, warned := r.s.warned[key]
	r.s.warned[key] = r.in.SessionID
	r.s.warnLock.Unlock()
	if !warned || session != r.in.SessionID {
		r.notice(proto.Notice{Kind: "warning", Text: text})
	}
}

// warnOfSampling warns that a sampling parameter of the request is not sent, as the
// model refuses it. Defaults are dropped silently.
func (r *request) warnOfSampling(t *target) {
	if !t.traits.NoTemperature && !t.traits.NoTopP {
		return
	}
	usual := config.Default().Agent
	for _, p := range []struct {
		name         string
		refused      bool
		value, usual float64
	}{{"temperature", t.traits.NoTemperature, r.in.Temperature, usual.Temperature}, {"top_p", t.traits.NoTopP, r.in.TopP, usual.TopP}} {
		if p.refused && p.value != p.usual {
			r.warn(warning{t.caps.Endpoint, t.caps.Model, p.name}, fmt.Sprintf("%s does not take %s: %v is not sent", t.caps.Model, p.name, p.value))
		}
	}
}

// withoutSampling returns the target without the sampling parameters that the model
// refused, nil if the error is about something else, such as a value out of range.
// It is kept until the provider is resolved again.
func (r *request) withoutSampling(t *target, f *wire.Fault) *target {
	without := *t
	without.traits.NoTemperature = t.traits.NoTemperature || slices.Contains(f.Refuses, "temperature")
	without.traits.NoTopP = t.traits.NoTopP || slices.Contains(f.Refuses, "top_p")
	if without.traits == t.traits {
		return nil
	}
	r.s.replace(r.ctx, t, &without)
	return &without
}

// effortKey is a level of reasoning effort at a model.
type effortKey struct{ endpoint, model, level string }

// efforts records what models and endpoints refused, for the life of the process.
type efforts struct {
	mu          sync.Mutex
	refused     map[effortKey]string // why
	noSummary   map[effortKey]bool   // without a level
	noSchema    map[effortKey]bool   // likewise
	noResponses map[string]string    // by endpoint: why
}

// askEffort sets the effort of the caller's request, unless the target's model is
// known to refuse it.
func (r *request) askEffort(t *target, req *wire.Request) {
	if r.in.Effort == "" || !t.remote() {
		return
	}
	e := &r.s.efforts
	e.mu.Lock()
	why, refused := e.refused[effortKey{t.caps.Endpoint, t.caps.Model, r.in.Effort}]
	req.NoSummary = e.noSummary[effortKey{t.caps.Endpoint, t.caps.Model, ""}]
	e.mu.Unlock()
	word := wire.EffortWord(t.wire(), t.caps.Model, r.in.Effort)
	takes := wire.EffortsOf(t.wire(), t.caps.Model)
	switch {
	case refused:
		r.warnOfEffort(t, why)
	case len(takes) == 0:
		r.warnOfEffort(t, "it does not reason")
	case word == "":
		r.warnOfEffort(t, "it takes "+strings.Join(takes, ", "))
	default:
		req.Effort = word
	}
}

// warnOfEffort warns that a model is asked without the effort.
func (r *request) warnOfEffort(t *target, why string) {
	r.warn(warning{t.caps.Endpoint, t.caps.Model, "effort " + r.in.Effort}, fmt.Sprintf("%s is asked without the effort %q: %s", t.caps.Model, r.in.Effort, why))
}

// refuseEffort remembers that a model refuses the effort, or summaries of its
// reasoning.
func (r *request) refuseEffort(t *target, f *wire.Fault) {
	e := &r.s.efforts
	e.mu.Lock()
	defer e.mu.Unlock()
	if slices.Contains(f.Refuses, "summary") {
		r.s.log.Info("no summaries of the reasoning", "model", t.caps.Model, "error", firstLine(f))
		e.noSummary[effortKey{t.caps.Endpoint, t.caps.Model, ""}] = true
		return
	}
	e.refused[effortKey{t.caps.Endpoint, t.caps.Model, r.in.Effort}] = firstLine(f)
}

// refuseResponses remembers that an endpoint has no Responses API. All targets are
// resolved again.
func (r *request) refuseResponses(t *target, f *wire.Fault) {
	e := &r.s.efforts
	e.mu.Lock()
	e.noResponses[t.caps.Endpoint] = firstLine(f)
	e.mu.Unlock()
	if r.s.lock(r.ctx) == nil {
		clear(r.s.resolved)
		r.s.unlock()
	}
}

// whyNoResponses returns why an endpoint is known to have no Responses API, empty if
// it is not.
func (e *efforts) whyNoResponses(endpoint string) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.noResponses[endpoint]
}

// suggestTime bounds how long an error waits for a list of models.
const suggestTime = 3 * time.Second

// suggestion adds to a 404 which models of the provider have the nearest names, or
// that the base URL lacks its /v1.
func (r *request) suggestion(t *target) string {
	ctx, cancel := context.WithTimeout(r.ctx, suggestTime)
	defer cancel()
	models, err := r.s.modelsAt(ctx, t)
	if e, refused := errors.AsType[*proto.Error](err); refused && e.Status == http.StatusNotFound && t.caps.Provider == "openai" && !strings.Contains(t.ep.Base, "/v1") {
		return fmt.Sprintf("Nothing answers below %s: the base URL of such a server mostly ends in /v1. ", t.ep.Name)
	}
	var names, nearest []string
	for _, m := range models {
		if m.Name == t.caps.Model {
			return ""
		}
		names = append(names, m.Name)
	}
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

// withWayOut adds how to continue where a session is too long.
func (r *request) withWayOut(text string) string {
	id := r.in.SessionID
	foreign := func(c rune) bool {
		return !strings.ContainsRune("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-", c)
	}
	switch {
	case r.in.NoSave:
		return strings.TrimRight(text, ". ") + ". This session is not stored: begin a new one with what is needed of it"
	case id == "" || strings.ContainsFunc(id, foreign): // not a session's name: it would not be found
		return text
	}
	return strings.TrimRight(text, ". ") + ". Go on in a new session: zino handoff --from-session " + id + ` --goal "…"`
}

// firstLine is an error's text for a notice.
func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

// seconds formats a wait.
func seconds(d time.Duration) string {
	if d >= time.Minute {
		return d.Round(time.Second).String()
	}
	return fmt.Sprintf("%.3gs", d.Seconds())
}

package repl

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"zino/proto"
	"zino/services/repl/page"
)

// timeoutMax bounds the timeout of a request.
const timeoutMax = 24 * time.Hour

// waiting is a caller of eval. answer has room for one outcome.
type waiting struct {
	key    string
	agent  string
	cause  string // why the request is taken back, "" for none
	answer chan result
}

type result struct {
	proto.Evaluated
	err error
}

func (w *waiting) fail(err error) { w.answer <- result{err: err} }

// Eval runs code in a realm and waits for what comes of it. When ctx ends, code
// that was not sent is not run, and for other code the realm is told that nobody
// waits any more.
func (s *Service) Eval(ctx context.Context, req proto.Eval) (proto.Evaluated, error) {
	if err := checkEval(req); err != nil {
		return proto.Evaluated{}, err
	}
	if req.Sandbox.Confined() && !s.cfg.FromSandbox {
		return proto.Evaluated{}, &proto.Error{Code: proto.CodeDenied, Message: fmt.Sprintf(
			"Code is not run in pages at sandbox level %.40s, because pages are not confined. To allow it, set [repl] from_sandbox = true, or use --sandbox off.", req.Sandbox)}
	}
	t, err := s.connected(req.Page)
	if err != nil {
		return proto.Evaluated{}, err
	}
	if !s.work.begin() {
		return proto.Evaluated{}, unavailable()
	}
	defer s.work.end()
	w, err := t.ask(req)
	if err != nil {
		return proto.Evaluated{}, err
	}
	select {
	case r := <-w.answer:
		return r.Evaluated, r.err
	case <-ctx.Done():
		t.abort(w)
		return proto.Evaluated{}, ctx.Err()
	}
}

func checkEval(req proto.Eval) error {
	field, why := "", ""
	switch {
	case strings.TrimSpace(req.Code) == "":
		field, why = "code", "there is none"
	case req.TimeoutMS < 0 || req.TimeoutMS > timeoutMax.Milliseconds():
		field, why = "timeout_ms", fmt.Sprintf("it is 0 to %d", timeoutMax.Milliseconds())
	default:
		return nil
	}
	return &proto.Error{Code: proto.CodeInvalid, Message: fmt.Sprintf("Invalid request: field %q: %s", field, why)}
}

// ask hands code to the page.
func (t *transcript) ask(req proto.Eval) (*waiting, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.closed:
		return nil, unavailable()
	case t.realm == nil:
		return nil, notConnected(req.Page)
	}
	w := &waiting{key: random(8), agent: req.Agent, answer: make(chan result, 1)}
	if w.agent == "" {
		w.agent = "agent"
	}
	t.evals[w.key] = w
	t.apply(page.Eval{
		At: time.Now(), Key: w.key, Agent: req.Agent, Code: req.Code, Timeout: time.Duration(req.TimeoutMS) * time.Millisecond,
	})
	if t.useless {
		w.cause = "not run: the page's file cannot be used: " + t.fault
		t.withdraw(w)
	}
	return w, nil
}

// abort takes a caller's request back, unless it has come to its end.
func (t *transcript) abort(w *waiting) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.closed {
		t.withdraw(w)
	}
}

// withdraw is abort. mu is held.
func (t *transcript) withdraw(w *waiting) {
	if t.evals[w.key] != nil {
		t.apply(page.Abort{At: time.Now(), Key: w.key})
	}
}

// evaluated is an outcome as a caller gets it.
func evaluated(e page.Done, file string) result {
	if e.Reason == "busy" {
		return result{err: &proto.Error{Code: proto.CodeBusy, Message: e.Error + ". Try again later."}}
	}
	r := proto.Evaluated{
		OK: e.OK, Value: e.Value, Error: e.Error, Background: []proto.RealmEvent{}, Omitted: e.Omitted,
		DurationMS: e.Duration.Milliseconds(), File: file,
	}
	if e.OK {
		r.Kind = "text"
		if e.JSON {
			r.Kind = "json"
		}
	}
	for _, c := range e.Background {
		r.Background = append(r.Background, realmEvent(c))
	}
	return result{Evaluated: r}
}

// realmEvent is captured, turned round.
func realmEvent(c page.Captured) proto.RealmEvent {
	kind, _, _ := strings.Cut(c.Type, ".")
	if kind != "console" {
		kind = c.Type
	}
	return proto.RealmEvent{Type: kind, Level: c.Level, Source: c.Type, Message: c.Message, Stack: c.Stack}
}

// connected is the transcript of the one connected page that is meant: by its
// name with its id, by its id, or by a name that it alone has.
func (s *Service) connected(name string) (*transcript, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.live[name]; r != nil {
		return r.t, nil
	}
	if t := s.transcripts[name]; t != nil && t.status.live {
		return t, nil
	}
	var found []string
	var one *transcript
	for _, r := range s.live {
		if r.attached.Name == name {
			one, found = r.t, append(found, r.t.base)
		}
	}
	switch len(found) {
	case 0:
		return nil, notConnected(name)
	case 1:
		return one, nil
	}
	slices.Sort(found)
	return nil, &proto.Error{Code: proto.CodeInvalid, Message: fmt.Sprintf("%d pages are called %q. Say which one: %s", len(found), name, strings.Join(found, ", "))}
}

func notConnected(name string) *proto.Error {
	return &proto.Error{Code: proto.CodeNotFound, Message: fmt.Sprintf("No page %.100q is connected. debug.md lists those that are.", name)}
}

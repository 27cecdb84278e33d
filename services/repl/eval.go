package repl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"zino/pkg/audit"
	"zino/pkg/gate"
	"zino/pkg/rpc"
	"zino/pkg/wire"
	"zino/proto"
	"zino/services/repl/page"
)

// valueMax is the most bytes of a value in an answer; of a longer one it has what the
// file shows.
const valueMax = 1 << 20

// timeoutMax is the longest timeout of a request.
const timeoutMax = 24 * time.Hour

// evalCall is a caller of eval.
type evalCall struct {
	key    string
	agent  string
	cause  string          // why the request is withdrawn, "" if it is not
	answer chan evalAnswer // has room for one
}

type evalAnswer struct {
	proto.Evaluated
	err error
}

// Eval runs code in a page and waits for the result: see evaluate. The call of a model is
// recorded for the audit.
func (s *Service) Eval(ctx context.Context, req proto.Eval) (proto.Evaluated, error) {
	started := time.Now()
	reply, err := s.evaluate(ctx, req)
	if s.audit != nil && req.Token != "" {
		s.record(req, reply, err, time.Since(started))
	}
	return reply, err
}

// record records a call of a model. Its code is there as a digest alone: this service cannot
// mask secrets.
func (s *Service) record(req proto.Eval, reply proto.Evaluated, err error, took time.Duration) {
	kind, d := proto.AuditCall, audit.Call{Tool: "page_eval", Digest: audit.Digest([]byte(req.Code)), OK: reply.OK, By: -1, Sandbox: req.Sandbox, DurationMS: took.Milliseconds()}
	event := audit.Event{}
	if turn, err := s.guard.Turn(req.Token); err == nil {
		d.By, d.Mode, event.Session, event.Turn = turn.By, string(turn.Mode), turn.Session, turn.Turn
	}
	if parts := strings.Split(req.Key, "/"); len(parts) == 4 {
		event.Call = parts[3]
	}
	if e, ok := errors.AsType[*proto.Error](err); ok {
		d.Code = string(e.Code)
		if e.Code == proto.CodeDenied {
			kind, d.Reason = proto.AuditDenied, e.Message
		}
	}
	event.Data = d
	s.audit.Record(kind, event)
}

// evaluate runs code in a page and waits for the result. When ctx ends, code that was
// not sent is not run; for code that was sent the page gets a cancel packet.
func (s *Service) evaluate(ctx context.Context, req proto.Eval) (proto.Evaluated, error) {
	field, why := "", ""
	switch {
	case strings.TrimSpace(req.Code) == "":
		field, why = "code", "it is empty"
	case req.TimeoutMS < 0 || req.TimeoutMS > timeoutMax.Milliseconds():
		field, why = "timeout_ms", fmt.Sprintf("it is 0 to %d", timeoutMax.Milliseconds())
	}
	if field != "" {
		return proto.Evaluated{}, &proto.Error{Code: proto.CodeInvalid, Message: fmt.Sprintf("Invalid request: field %q: %s", field, why)}
	}
	err := s.permit(ctx, req)
	l, pageErr := s.connectedLog(req.Page)
	if err == nil || errors.Is(err, proto.ErrApproval) { // no person is asked about a page that is not there
		err = cmp.Or(pageErr, err)
	}
	if err != nil {
		return proto.Evaluated{}, err
	}
	if !s.work.begin() {
		return proto.Evaluated{}, unavailable()
	}
	defer s.work.end()
	c, err := l.eval(req)
	if err != nil {
		return proto.Evaluated{}, err
	}
	select {
	case a := <-c.answer:
		return a.Evaluated, a.err
	case <-ctx.Done():
		l.mu.Lock()
		defer l.mu.Unlock()
		if !l.closed {
			l.abort(c)
		}
		return proto.Evaluated{}, ctx.Err()
	}
}

// permit returns nil if code may be run: the mode of the turn whose model asks, the policy,
// and the token of an approval decide about it. A person is not asked for a token.
func (s *Service) permit(ctx context.Context, req proto.Eval) error {
	turn, level, network := gate.Turn{Mode: gate.Yolo}, req.Sandbox, true
	byModel := s.guard.ByModel(req.Token, rpc.PeerUID(ctx))
	if byModel {
		var err error
		if turn, err = s.guard.Turn(req.Token); err != nil {
			return err
		}
		level, network = s.guard.Level(turn)
	}
	if turn.Mode == gate.Yolo && level.Confined() && !s.cfg.FromSandbox {
		return proto.Errorf(proto.CodeDenied,
			"Code is not run in pages at sandbox level %.40s, because pages are not confined. To allow it, set [repl] from_sandbox = true, or use --sandbox off.", level)
	}
	if !byModel {
		return nil
	}
	input := wire.AppendString([]byte(`{"page":`), req.Page)
	input = append(wire.AppendString(append(input, `,"code":`...), req.Code), '}')
	if req.TimeoutMS > 0 {
		input = fmt.Appendf(input[:len(input)-1], `,"timeout_ms":%d}`, req.TimeoutMS)
	}
	root := gate.Root(turn.Root)
	return s.guard.Permit(&gate.Request{
		Turn: turn, Call: gate.Call{Tool: "page_eval", Root: root, Sandbox: level, FromSandbox: s.cfg.FromSandbox},
		Input: input, Root: root, Dir: root, Network: network, Key: req.Key, Grant: req.Grant, Once: true, Ask: req.Ask,
	})
}

// eval requests code to be run.
func (l *pageLog) eval(req proto.Eval) (*evalCall, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed:
		return nil, unavailable()
	case l.page == nil:
		return nil, notConnected(req.Page)
	}
	c := &evalCall{key: random(8), agent: req.Agent, answer: make(chan evalAnswer, 1)}
	if c.agent == "" {
		c.agent = "agent"
	}
	l.evals[c.key] = c
	l.apply(page.Eval{
		At: time.Now(), Key: c.key, Agent: req.Agent, Code: req.Code, Timeout: time.Duration(req.TimeoutMS) * time.Millisecond,
	})
	if l.permanent {
		c.cause = "not run: the page's file cannot be used: " + l.fault
		l.abort(c)
	}
	return c, nil
}

// abort withdraws a caller's request, unless it has ended. mu is locked.
func (l *pageLog) abort(c *evalCall) {
	if l.evals[c.key] != nil {
		l.apply(page.Abort{At: time.Now(), Key: c.key})
	}
}

// evaluated returns the answer to a caller whose request has ended.
func evaluated(d page.Done, file string) evalAnswer {
	if d.Reason == "busy" {
		return evalAnswer{err: &proto.Error{Code: proto.CodeBusy, Message: d.Error + ". Try again later."}}
	}
	r := proto.Evaluated{
		OK: d.OK, Kind: "text", Background: []proto.PageEvent{}, Omitted: d.Omitted,
		DurationMS: d.Duration.Milliseconds(), File: file,
	}
	text := d.Value
	if !d.OK {
		text = d.Error
	}
	if len(text) > valueMax && d.Whole != "" {
		text, r.Whole = d.Inline, d.Whole
	} else if len(text) > valueMax { // the file cannot be used
		text, d.JSON = strings.ToValidUTF8(text[:valueMax], "")+"\n... (the rest is left out) ...", false
	}
	r.Value, r.Error = &text, ""
	if !d.OK {
		r.Value, r.Error = nil, text
	}
	if d.JSON {
		r.Kind = "json"
	}
	for _, c := range d.Background {
		kind, _, _ := strings.Cut(c.Type, ".")
		if kind != "console" {
			kind = c.Type
		}
		r.Background = append(r.Background, proto.PageEvent{Type: kind, Level: c.Level, Source: c.Type, TS: c.Time, Place: c.Place, Message: c.Message, Stack: c.Stack})
	}
	return evalAnswer{Evaluated: r}
}

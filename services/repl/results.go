package repl

import (
	"context"
	"fmt"
	"strings"
	"time"

	"zino/proto"
	"zino/services/repl/page"
)

const (
	// givenMax is how many jobs are remembered. Answers to others are refused.
	givenMax = 32
	// usualWholeMax limits the bytes of a value with all of its parts.
	usualWholeMax = 64 << 20
)

// given is a job that was given out.
type given struct {
	job, agent, nonce string

	over  bool     // the request has ended; a result is late
	parts []string // what the page has sent of the value before the result
	size  int      // bytes of all parts, also of those that were dropped
}

// givenJob returns a job that was given out, or nil.
func (l *pageLog) givenJob(job string) *given {
	for _, g := range l.given {
		if g.job == job {
			return g
		}
	}
	return nil
}

// join returns a text with the parts before it. If the request ended before the
// result came, they were dropped.
func (g *given) join(last string) string {
	parts := append(g.parts, last)
	g.parts = nil
	if g.over && g.size > 0 {
		return fmt.Sprintf("... (%d bytes before this were dropped, the request had ended) ...\n%s", g.size, last)
	}
	return strings.Join(parts, "")
}

// Part takes a part of a job's value or error. Parts are joined with the result that
// follows them.
func (s *Service) Part(_ context.Context, req proto.JobPart) (proto.Empty, error) {
	return s.withJob(req.ID, req.Nonce, req.Job, func(l *pageLog, g *given) error {
		switch {
		case g.over:
			g.size += len(req.Text)
			return jobUnknown()
		case g.size+len(req.Text) > s.wholeMax:
			return &proto.Error{Code: proto.CodeTooLarge, Message: fmt.Sprintf("The value is longer than %d bytes: end it with what was sent.", s.wholeMax)}
		}
		g.parts, g.size = append(g.parts, req.Text), g.size+len(req.Text)
		return nil
	})
}

// Result takes the result of a job. An answer to a job that was not given to this
// page, or that is answered already, is the error unknown.
func (s *Service) Result(_ context.Context, req proto.JobResult) (proto.Empty, error) {
	kind := req.Kind
	if kind != "" && kind != "json" && kind != "text" {
		return proto.Empty{}, &proto.Error{Code: proto.CodeInvalid, Message: `Invalid request: field "kind": it is "json" or "text"`}
	}
	if strings.HasPrefix(req.Job, lookPrefix) {
		return s.looked(req)
	}
	return s.withJob(req.ID, req.Nonce, req.Job, func(l *pageLog, g *given) error {
		text := &req.Value
		if !req.OK {
			text = &req.Error
		}
		*text = g.join(*text)
		return l.applyToJob(page.Result{At: time.Now(), Job: req.Job, OK: req.OK, JSON: kind == "json", Value: req.Value, Error: req.Error})
	})
}

// Started takes a page's report that a job has begun.
func (s *Service) Started(_ context.Context, req proto.JobStarted) (proto.Empty, error) {
	return s.withJob(req.ID, req.Nonce, req.Job, func(l *pageLog, _ *given) error {
		return l.applyToJob(page.Started{At: time.Now(), Job: req.Job})
	})
}

// withJob calls do with a job that was given to the page, with its log locked.
func (s *Service) withJob(id, nonce, job string, do func(*pageLog, *given) error) (proto.Empty, error) {
	p, err := s.livePage(id, nonce)
	if err != nil {
		return proto.Empty{}, err
	}
	l := p.log
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return proto.Empty{}, unavailable()
	}
	g := l.givenJob(job)
	if g == nil || !equal(g.nonce, nonce) || l.page != p {
		return proto.Empty{}, jobUnknown()
	}
	return proto.Empty{}, do(l, g)
}

// applyToJob applies an event that a page reports about a job. mu is locked.
func (l *pageLog) applyToJob(e page.Event) error {
	for _, a := range l.apply(e) {
		if _, ok := a.(page.Unknown); ok {
			return jobUnknown()
		}
	}
	return nil
}

func jobUnknown() *proto.Error {
	return &proto.Error{Code: proto.CodeUnknown, Message: "No such job is out: it was never given to this page, or it has been answered."}
}

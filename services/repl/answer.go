package repl

import (
	"context"
	"crypto/subtle"
	"time"

	"zino/proto"
	"zino/services/repl/page"
)

// eventsMax is how many events of one packet are looked at: with more of them the
// ones in the middle would be left out in any case.
const eventsMax = 10_000

// Result takes what came of a job. An answer to a job that was not given to this
// realm, or that is answered already, is the error unknown.
func (s *Service) Result(_ context.Context, req proto.JobResult) (proto.Empty, error) {
	kind := req.Kind
	if kind != "" && kind != "json" && kind != "text" {
		return proto.Empty{}, &proto.Error{Code: proto.CodeInvalid, Message: `Invalid request: field "kind": it is "json" or "text"`}
	}
	return s.tell(req.ID, req.Nonce, req.Job, func(now time.Time) page.Event {
		return page.Result{At: now, Job: req.Job, OK: req.OK, JSON: kind == "json", Value: req.Value, Error: req.Error}
	})
}

// Started takes a realm's word that a job has begun.
func (s *Service) Started(_ context.Context, req proto.JobStarted) (proto.Empty, error) {
	return s.tell(req.ID, req.Nonce, req.Job, func(now time.Time) page.Event {
		return page.Started{At: now, Job: req.Job}
	})
}

// tell applies what a realm says about a job to its transcript.
func (s *Service) tell(id, nonce, job string, event func(time.Time) page.Event) (proto.Empty, error) {
	r, err := s.realm(id, nonce)
	if err != nil {
		return proto.Empty{}, err
	}
	t := r.t
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return proto.Empty{}, unavailable()
	}
	if g, ok := t.holder(job); !ok || !equal(g.nonce, nonce) || t.realm != r {
		return proto.Empty{}, unknownJob()
	}
	for _, e := range t.apply(event(time.Now())) {
		if _, ok := e.(page.Unknown); ok {
			return proto.Empty{}, unknownJob()
		}
	}
	return proto.Empty{}, nil
}

// Events takes what happened in a realm beside its jobs.
func (s *Service) Events(_ context.Context, req proto.RealmEvents) (proto.Empty, error) {
	r, err := s.realm(req.ID, req.Nonce)
	if err != nil || len(req.Events) == 0 {
		return proto.Empty{}, err
	}
	events := make([]page.Captured, 0, min(len(req.Events), eventsMax))
	for _, e := range req.Events[:min(len(req.Events), eventsMax)] {
		events = append(events, captured(e))
	}
	t := r.t
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed || t.realm != r {
		return proto.Empty{}, unavailable()
	}
	t.apply(page.Background{At: time.Now(), Events: events})
	return proto.Empty{}, nil
}

// captured is an event as the page takes it. Its source is what it says, or made
// of type and level: "console.log".
func captured(e proto.RealmEvent) page.Captured {
	source := e.Source
	if source == "" {
		source = e.Type
		if e.Type == "console" && e.Level != "" {
			source += "." + e.Level
		}
	}
	return page.Captured{Type: source, Level: e.Level, Message: e.Message, Stack: e.Stack}
}

// realm is the live realm with that id and nonce.
func (s *Service) realm(id, nonce string) (*Realm, error) {
	s.mu.Lock()
	r := s.live[id]
	s.mu.Unlock()
	if r == nil || !equal(r.attached.Nonce, nonce) {
		return nil, &proto.Error{Code: proto.CodeUnknown, Message: "No page with that id and nonce is connected. Attach first."}
	}
	s.heard(r.t, func(*status) {})
	return r, nil
}

// equal compares secrets in a time that says nothing of them.
func equal(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

func unknownJob() *proto.Error {
	return &proto.Error{Code: proto.CodeUnknown, Message: "No such job is out: it was never given to this page, or it has been answered."}
}

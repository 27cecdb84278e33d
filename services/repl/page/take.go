package page

import (
	"fmt"
	"slices"
	"time"
)

// queueMax is how many Evals may wait.
const queueMax = 16

// take takes the event in. It changes memory only.
func (s *step) take() {
	switch e := s.event.(type) {
	case Connected:
		s.live = true
	case Gone:
		s.gone()
	case Started:
		s.begun(e)
	case Result:
		s.result(e)
	case Background:
		for _, c := range e.Events {
			s.capture(c)
		}
	case Eval:
		s.eval(e)
	case Abort:
		s.abort(e.Key)
	}
	s.expire()
}

func (s *step) gone() {
	s.live = false
	if j := s.run; j != nil && j.given && j.outcome == nil {
		s.fail(reasonGone, "page closed or reloaded: the request was not answered")
	}
}

func (s *step) begun(e Started) {
	if !s.out(e.Job) {
		s.effect(Unknown{e.Job})
		return
	}
	j := s.change()
	if j.started = s.now; j.sent.IsZero() {
		j.sent = s.now
	}
}

// out reports whether a job is the one that was given out and not answered.
func (s *step) out(id string) bool {
	j := s.run
	return j != nil && j.id == id && j.given && j.outcome == nil
}

func (s *step) result(e Result) {
	r := outcome{ok: e.OK, json: e.JSON, body: e.Value}
	if !e.OK {
		r.json, r.body = false, e.Error
	}
	if s.out(e.Job) {
		s.conclude(r)
		return
	}
	i := slices.IndexFunc(s.late, func(l lateJob) bool { return l.id == e.Job })
	if i < 0 {
		s.effect(Unknown{e.Job})
		return
	}
	l := s.late[i]
	s.late = slices.Concat(s.late[:i], s.late[i+1:])
	s.capture(lateResult(l, s.now, r))
	s.last = "late"
}

// lateResult is the note about an answer that nobody waited for.
func lateResult(l lateJob, now time.Time, r outcome) Captured {
	kind, level := "result", "info"
	if !r.ok {
		kind, level = "error", "error"
	}
	return Captured{Type: "late " + kind, Level: level, Message: fmt.Sprintf(
		"late %s of the request of %s at %s, %s after it was sent:\n%s", kind, l.agent, l.asked, span(now.Sub(l.sent)), r.body)}
}

func (s *step) capture(c Captured) {
	if s.bg.total == 0 {
		s.bgSince = s.now
	}
	s.bg.add(s.o.shape(c), s.o.BodyMax)
}

func (s *step) eval(e Eval) {
	e.Agent = s.o.agent(e.Agent)
	if e.Timeout <= 0 {
		e.Timeout = s.o.Timeout
	}
	switch {
	case isBlank([]byte(e.Code)):
		s.effect(Done{Key: e.Key, Error: "there is no code to run"})
	case len(s.queue) >= queueMax:
		s.effect(Done{Key: e.Key, Error: fmt.Sprintf("%d requests wait for this page already", queueMax), Reason: reasonBusy})
	default:
		s.queue = append(slices.Clip(s.queue), e)
	}
}

func (s *step) abort(key string) {
	if i := slices.IndexFunc(s.queue, func(e Eval) bool { return e.Key == key }); i >= 0 {
		s.queue = slices.Concat(s.queue[:i], s.queue[i+1:])
		s.effect(Done{Key: key, Error: "aborted", Reason: reasonAborted})
		return
	}
	if j := s.run; j != nil && j.key == key && key != "" && j.outcome == nil {
		s.fail(reasonAborted, "interrupted: who asked for it does not wait for the answer any more; the code may still be at work")
	}
}

// expire ends what has waited too long.
func (s *step) expire() {
	if j := s.run; j != nil && j.outcome == nil && !s.now.Before(j.deadline()) {
		text := "timeout: the page did not answer within " + span(j.timeout) + "; the code may still be at work"
		if !j.given {
			text = "timeout: the page was not there to take the request within " + span(j.timeout) + "; it was not run"
		}
		s.fail(reasonTimeout, text)
	}
	s.queue = slices.DeleteFunc(slices.Clone(s.queue), func(e Eval) bool {
		over := !s.now.Before(e.At.Add(e.Timeout))
		if over {
			s.effect(Done{Key: e.Key, Error: "timeout: the request did not get its turn within " + span(e.Timeout), Reason: reasonTimeout})
		}
		return over
	})
}

// timers asks for Ticks at the ends of what waits.
func (s *step) timers() {
	if s.run != nil && s.run.outcome == nil {
		s.wakeAt(s.run.deadline())
	}
	for _, e := range s.queue {
		s.wakeAt(e.At.Add(e.Timeout))
	}
}

package turnlog

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"zino/pkg/wire"
	"zino/proto"
)

// follows lists the states that may follow a state of a turn; "" is before its first
// event.
var follows = map[string][]string{
	"":                  {proto.TurnQueued, proto.TurnRunning},
	proto.TurnQueued:    {proto.TurnRunning, proto.TurnInterrupted},
	proto.TurnRunning:   afterRunning,
	proto.TurnResumed:   afterRunning,
	proto.TurnParked:    {proto.TurnResumed, proto.TurnInterrupted, proto.TurnContinued},
	proto.TurnDone:      nil,
	proto.TurnContinued: nil,
}

var afterRunning = []string{
	proto.TurnDone, proto.TurnError, proto.TurnInterrupted, proto.TurnContinued, proto.TurnParked, proto.TurnResumed,
}

// Check returns an error for each event that is not legal at its place: the states of
// turns follow each other as in the reference of LogTurn, every call has one result,
// steps are not reused, messages are delivered once, and nothing follows a turn's end.
// Events without a turn are not checked.
func Check(id string, events iter.Seq2[[]byte, int64]) error {
	c := checker{log: New(id, 0), settled: map[string]int{}}
	for raw, next := range events {
		at := c.log.Next
		for _, problem := range c.event(raw) {
			c.errs = append(c.errs, fmt.Errorf("%d: %s", at, problem))
		}
		c.log.Add(raw, next)
	}
	if len(c.owed) > 0 {
		c.errs = append(c.errs, fmt.Errorf("%d: not withdrawn: %s", c.log.Next, strings.Join(c.owed, ", ")))
	}
	return errors.Join(c.errs...)
}

type checker struct {
	log     *Log
	settled map[string]int // by turn: the last step with a result
	owed    []string       // ids of says that a failed turn must withdraw
	errs    []error
}

// event returns what is wrong with the next event.
func (c *checker) event(raw []byte) (problems []string) {
	e := parse(raw)
	report := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	switch e.kind {
	case proto.TypeTurn:
		c.turn(raw, report)
		return problems
	case proto.TypeSay:
		c.say(raw, report)
		return problems
	}
	t := c.log.Turn(str(e.turnID))
	if t == nil {
		return nil // of no turn, or of a turn of another session
	}
	if e.kind == proto.TypeHook || e.kind == proto.TypeMode && t.End == 0 { // also of one that is parked or queued
		return nil
	}
	// Results come before the resumed event of the attempt that settles their calls.
	whileParked := e.kind == proto.TypeToolResult || e.kind == proto.TypeInterrupted || e.kind == proto.TypeError
	if t.State != proto.TurnRunning && t.State != proto.TurnResumed && !(t.State == proto.TurnParked && whileParked) {
		report("%s of turn %s, which is %s", e.kind, t.ID, t.State)
		return problems
	}
	calls := c.log.Calls(t)
	step := int(number(e.step))
	switch e.kind {
	case proto.TypeMessage:
		if len(calls) > 0 && !isTrue(e.partial) {
			report("message before the result of call %s", calls[0].ID)
		}
		say := str(e.say)
		undelivered := slices.ContainsFunc(t.Says, func(s Say) bool { return s.ID == say })
		switch {
		case isTrue(e.partial) && step == 0:
		case !e.fromUser():
			c.step(t, step, report)
		case say != "" && say != t.Say && !undelivered:
			report("say %s is delivered, but it is not waiting", say)
		}
	case proto.TypeToolUse:
		c.step(t, step, report)
		if id := str(e.id); slices.ContainsFunc(calls, func(call proto.OpenCall) bool { return call.ID == id }) {
			report("two calls %s without result", id)
		}
	case proto.TypeUsage:
		c.step(t, step, report)
	case proto.TypeToolResult:
		id := str(e.useID)
		i := slices.IndexFunc(calls, func(call proto.OpenCall) bool { return call.ID == id })
		if i < 0 {
			report("result of %s, which is not an open call", id)
			break
		}
		if calls[i].Step != step {
			report("result of step %d for call %s of step %d", step, id, calls[i].Step)
		}
		c.settled[t.ID] = max(c.settled[t.ID], step)
	}
	return problems
}

// step checks the number of an inference.
func (c *checker) step(t *Turn, step int, report func(string, ...any)) {
	if step < max(t.Step, 1) || step <= c.settled[t.ID] {
		report("step %d of turn %s is used again", step, t.ID)
	}
}

// turn checks a turn event.
func (c *checker) turn(raw []byte, report func(string, ...any)) {
	var s proto.LogTurn
	if err := wire.DecodeReply(raw, &s); err != nil {
		report("turn event: %v", err)
		return
	}
	if s.SessionID != c.log.ID {
		return
	}
	t, state := c.log.Turn(s.Turn), ""
	if t != nil {
		state = t.State
	}
	if !slices.Contains(follows[state], s.State) {
		report("turn %s goes from %q to %q", s.Turn, state, s.State)
		return
	}
	if s.State == proto.TurnInterrupted && t.Say != "" {
		c.owed = slices.DeleteFunc(c.owed, func(id string) bool { return id == t.Say })
	}
	switch {
	case s.State == proto.TurnRunning:
		if a := c.log.Active(); a != nil {
			report("turn %s starts while %s is %s", s.Turn, a.ID, a.State)
		}
		if len(c.owed) > 0 {
			report("turn %s starts before these are withdrawn: %s", s.Turn, strings.Join(c.owed, ", "))
		}
	case s.State == proto.TurnParked:
		calls := c.log.Calls(t)
		for _, id := range s.Pending {
			if !slices.ContainsFunc(calls, func(call proto.OpenCall) bool { return call.ID == id }) {
				report("turn %s is parked with the pending call %s, which is not open", t.ID, id)
			}
		}
	case proto.TurnEnded(s.State) && state != proto.TurnQueued:
		for _, call := range c.log.Calls(t) {
			report("turn %s ends without a result of call %s", t.ID, call.ID)
		}
		if s.State == proto.TurnDone && len(t.Says) > 0 {
			report("turn %s is done, but %s was not delivered", t.ID, t.Says[0].ID)
		}
		if s.State == proto.TurnError || s.State == proto.TurnInterrupted {
			for _, r := range c.log.toReturn(t) {
				c.owed = append(c.owed, r.Say)
			}
		}
	}
}

// say checks a say event.
func (c *checker) say(raw []byte, report func(string, ...any)) {
	var s proto.LogSay
	if err := wire.DecodeReply(raw, &s); err != nil {
		report("say event: %v", err)
		return
	}
	if s.Withdrawn {
		c.owed = slices.DeleteFunc(c.owed, func(id string) bool { return id == s.Say })
		return
	}
	if t := c.log.Turn(s.Turn); t != nil && t.End > 0 {
		report("say %s of turn %s, which is %s", s.Say, t.ID, t.State)
	}
	if slices.ContainsFunc(c.log.says, func(other Say) bool { return other.ID == s.Say }) {
		report("say %s is stored twice", s.Say)
	}
}

// Package turnlog reads a session log: what it says about the session's turns, and its
// events as packets of turn_follow. It neither connects to mem nor writes.
//
//	log := turnlog.New(id, 0)
//	for event, next := range turnlog.Events(reply.Events, reply.Offsets) {
//		log.Add(event, next)
//	}
//	for _, turn := range log.Open() { … }
package turnlog

import (
	"iter"
	"slices"

	"zino/pkg/wire"
	"zino/proto"
)

const (
	requestsMax = 20 // turns that Requested considers, besides open ones
	saysMax     = 64 // says that Said considers
)

// Log is what a session log says about its turns up to an offset.
type Log struct {
	// ID is the session. Turns of other sessions, copied into the log by hand, are
	// ignored.
	ID string
	// Meta is the log's first line.
	Meta proto.LogMeta
	// Next is the offset behind the last event.
	Next int64
	// Updated is the time of the last event, in RFC 3339, UTC.
	Updated string
	// Turns are all turns in the order of their first events.
	Turns []*Turn
	// Todo is the last list of what is to be done.
	Todo []proto.TodoItem
	// Request is the request of the last turn that has one, those of commands left out.
	Request proto.Raw
	// Jobs are the background jobs with wake whose end the log does not have, neither
	// in a result nor as a message.
	Jobs []string
	// Timeouts counts how often a hook was stopped for its time, by the hash of its command.
	Timeouts map[string]int

	byID   map[string]*Turn
	active *Turn       // running, resumed or parked
	calls  []openCall  // without a result, of all turns and of none
	says   []Say       // the last ones, delivered or not
	user   int64       // offset of the last message of the user, or -1
	asked  *Turn       // its turn
	failed proto.Error // of the last error event
}

// Turn is one turn of the session.
type Turn struct {
	// ID is the turn's id.
	ID string
	// State is that of the last turn event: one of proto.Turn….
	State string
	// Reason is that of the last turn event.
	Reason string
	// By is the user who started it; nil if unknown.
	By *proto.By
	// Request and Message are those of the first turn event; nil after the end.
	// Message is empty unless the turn was queued.
	Request proto.Raw
	Message string
	// RequestID, Lifetime, Attached, Command, Say and Job are those of the first turn
	// event.
	RequestID string
	Lifetime  string
	Attached  bool
	Command   bool
	Say       string
	Job       string
	// Text is the start of the user's message, on one line of up to 80 characters.
	Text string
	// Root is the root of the request.
	Root string
	// Until, Approval and Pending are those of the parked event, while parked.
	Until    string
	Approval string
	Pending  []string
	// Discarded is that of the parked event, while parked.
	Discarded string
	// Says are the messages of turn_say that were neither delivered nor withdrawn; of a
	// continued turn those that it took along.
	Says []Say
	// Repairs is how often its answer was asked for again: see output_schema of chat.
	Repairs int
	// Stops is how often a hook of Stop had it go on.
	Stops int
	// Attempts is the number of the last attempt to resume, 0 after a step that was
	// stored.
	Attempts int
	// Tries counts how often the turn was parked for a limit or a budget.
	Tries int
	// Step is the number of the last inference that was stored.
	Step int
	// Usage is the sum over its inferences and its sub-agents; CostUSD is nil while
	// unknown.
	Usage proto.Usage
	// Tokens are those of the last inference, input and output. Window is the size of
	// its model's context in tokens, 0 if unknown.
	Tokens, Window int64
	// Results are the bytes of the calls' results since the last inference.
	Results int64
	// Parent is the call that started it as a sub-agent; nil: none did.
	Parent *proto.LogParent
	// Agents are the first AgentsMax of its calls that start sub-agents.
	Agents []AgentCall
	// Begun is the offset behind the events of its start: the user's message, or the
	// queued event.
	Begun int64
	// First is the offset of the turn's first event, Start that of its running event,
	// or of the queued one until then, and End the one behind its last turn event, 0
	// while it is open.
	First, Start, End int64
	// Parked is the offset behind the last parked event.
	Parked int64
	// Started and Updated are the times of its first and its last event.
	Started, Updated string
	// To and ToTurn are where a continued turn goes on.
	To, ToTurn string

	text            []byte // the last inference's text as a JSON string
	provider, model string // of the last inference
}

// Asked reports whether the log has a message of the user.
func (l *Log) Asked() bool { return l.user >= 0 }

// Say is a message of turn_say.
type Say struct {
	ID, Turn, Mode, Text, Context, RequestID string
	// By is the user; nil for a message about a job.
	By *proto.By
}

type openCall struct {
	turn string
	proto.OpenCall
}

// New returns the log of a session before its first event. from is the offset of the
// event that is added first: 0, or what ReplayFrom returned.
func New(id string, from int64) *Log {
	return &Log{ID: id, Next: from, byID: map[string]*Turn{}, user: -1}
}

// Events returns the events of an answer of mem with the offsets behind them. It ends
// with the shorter one of the lists.
func Events(list proto.Raw, offsets []int64) iter.Seq2[[]byte, int64] {
	return func(yield func([]byte, int64) bool) {
		for event := range wire.Items(list) {
			if len(offsets) == 0 || !yield(event, offsets[0]) {
				return
			}
			offsets = offsets[1:]
		}
	}
}

// Turn returns a turn, nil if the log has none with that id.
func (l *Log) Turn(id string) *Turn { return l.byID[id] }

// Active returns the turn that is running, resumed or parked, or nil.
func (l *Log) Active() *Turn { return l.active }

// Open returns the turns that have not ended: the active one, then the queued ones in
// order.
func (l *Log) Open() []*Turn {
	var open []*Turn
	for _, t := range l.Turns {
		if t.End == 0 && t.State != proto.TurnQueued {
			open = append(open, t)
		}
	}
	for _, t := range l.Turns {
		if t.State == proto.TurnQueued {
			open = append(open, t)
		}
	}
	return open
}

// Requested returns the turn that a turn_start or turn_say with that request_id started
// or queued: an open one, one of the last 20, or nil.
func (l *Log) Requested(requestID string) *Turn {
	if requestID == "" {
		return nil
	}
	for i, t := range slices.Backward(l.Turns) {
		if t.RequestID == requestID && (t.End == 0 || i >= len(l.Turns)-requestsMax) {
			return t
		}
	}
	return nil
}

// Said returns the message that a turn_say with that request_id added, delivered or not.
// It considers the last 64.
func (l *Log) Said(requestID string) (Say, bool) {
	for _, s := range slices.Backward(l.says) {
		if requestID != "" && s.RequestID == requestID {
			return s, true
		}
	}
	return Say{}, false
}

// Calls returns the calls of a turn without result, with the action for a resumed turn:
// run for those that were not started when the turn was parked, recover for all others.
func (l *Log) Calls(t *Turn) []proto.OpenCall {
	var calls []proto.OpenCall
	for _, c := range l.calls {
		if c.turn != t.ID {
			continue
		}
		c.Action = proto.ActionRecover
		if slices.Contains(t.Pending, c.ID) {
			c.Action = proto.ActionRun
		}
		calls = append(calls, c.OpenCall)
	}
	return calls
}

// Superseded reports whether the user's last message came after a turn was parked and
// belongs to another turn.
func (l *Log) Superseded(t *Turn) bool {
	return t.State == proto.TurnParked && l.user >= t.Parked && l.asked != t
}

// OpenTodo returns the entries of the last list that are not done.
func (l *Log) OpenTodo() []proto.TodoItem {
	return slices.DeleteFunc(slices.Clone(l.Todo), func(i proto.TodoItem) bool { return i.Status == "done" })
}

// ReasonWithdrawn is the reason of a turn that turn_say queued, and that ended with the
// turn before it.
const ReasonWithdrawn = "withdrawn"

// Last returns the last turn, without those that were withdrawn before they ran; nil if
// the log has none.
func (l *Log) Last() *Turn {
	for _, t := range slices.Backward(l.Turns) {
		if t.Reason != ReasonWithdrawn {
			return t
		}
	}
	return nil
}

// Start returns the offset at which a follower of the session begins: at the open turn,
// else at the last one, else at the last message of the user, else at the end.
func (l *Log) Start() int64 {
	if open := l.Open(); len(open) > 0 {
		return open[0].Start
	}
	if t := l.Last(); t != nil {
		return t.Start
	}
	if l.user >= 0 {
		return l.user
	}
	return l.Next
}

// ReplayFrom returns the offset from which a new Log must read for its packets to be
// complete from an offset on: the start of the first turn that was open there.
func (l *Log) ReplayFrom(from int64) int64 {
	for _, t := range l.Turns {
		if t.First < from && (t.End == 0 || t.End > from) {
			return t.First
		}
	}
	return from
}

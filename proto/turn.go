package proto

import (
	"crypto/rand"
	"slices"
	"strings"
)

// States of a turn, in the log and in packets. The last turn event of a turn
// decides. A running turn without an end whose session no process has locked has
// crashed.
const (
	TurnQueued      = "queued"      // behind another turn of its session, or over running_max
	TurnWaiting     = "waiting"     // for the lock of another constellation; never in the log
	TurnRunning     = "running"     // started
	TurnParked      = "parked"      // stopped until something happens: see LogTurn.Reason
	TurnResumed     = "resumed"     // running again
	TurnDone        = "done"        // ended with an answer
	TurnError       = "error"       // ended with an error
	TurnInterrupted = "interrupted" // canceled, withdrawn, expired or given up
	TurnContinued   = "continued"   // goes on in a new session
)

// TurnEnded reports whether a turn in that state has ended.
func TurnEnded(state string) bool {
	switch state {
	case TurnDone, TurnError, TurnInterrupted, TurnContinued:
		return true
	}
	return false
}

// Reasons of a parked turn.
const (
	ParkedApproval = "approval" // a person must approve a call
	ParkedLimit    = "limit"    // of the provider, until a time that it named
	ParkedBudget   = "budget"   // the budget is used up, until its reset
	ParkedRestart  = "restart"  // the daemon was stopped
)

// Values of on_limit: what happens when a provider or the budget names the time at
// which it can be asked again.
const (
	OnLimitStop = "stop" // a short pause is waited for, else the turn ends
	OnLimitPark = "park" // the turn is parked until then
)

// By is the user whose request caused an event.
type By struct {
	// UID is the user's number.
	UID int `json:"uid"`
}

// Ways in which a user's message came into a turn.
const (
	ViaStart  = "start"  // it started the turn
	ViaSteer  = "steer"  // turn_say added it to the open turn
	ViaQueue  = "queue"  // turn_say queued it as a turn of its own
	ViaJob    = "job"    // a job of the session ended
	ViaSchema = "schema" // the answer did not match output_schema: it is asked for again
	ViaHook   = "hook"   // a hook added it to another message
	ViaStop   = "stop"   // a hook of Stop had the turn go on
)

// ViaUser reports whether a user has written a message that came in this way.
func ViaUser(via string) bool {
	return slices.Contains([]string{"", ViaStart, ViaSteer, ViaQueue}, via)
}

// Types of the events of turns in the session log. "todo" is also a packet.
const (
	TypeTurn = "turn" // a LogTurn
	TypeSay  = "say"  // a LogSay
	TypeUndo = "undo" // a LogUndo
	TypeTodo = "todo" // a Todo
)

// LogTurn is a change of a turn's state. No event is ever changed: the last one
// of a turn decides.
type LogTurn struct {
	// Turn is the turn's id.
	Turn string `json:"turn"`
	// SessionID is the session of the turn. A copy of the event in another
	// session does not count.
	SessionID string `json:"session_id"`
	// State is the new state.
	State string `json:"state"`
	// By is the user who started or queued the turn.
	By *By `json:"by,omitzero"`
	// Request is what is needed to run the turn again, without the message: fields
	// of turn_start. With running and queued.
	Request Raw `json:"request,omitzero"`
	// Message is the user's text, with queued alone: message follows running.
	Message string `json:"message,omitzero"`
	// RequestID is the request_id of turn_start.
	RequestID string `json:"request_id,omitzero"`
	// Lifetime is "private" or "persistent": how long the constellation lives that
	// started the turn.
	Lifetime string `json:"lifetime,omitzero"`
	// Attached is true if the turn ends with the caller's connection: a chat
	// request, or run_command.
	Attached bool `json:"attached,omitzero"`
	// Command is true for the turn of run_command. It has no events but those of type
	// turn and, with keep, the message of the user before its end.
	Command bool `json:"command,omitzero"`
	// Say is the id of the turn_say that queued the turn.
	Say string `json:"say,omitzero"`
	// Job is the job whose end started or queued the turn.
	Job string `json:"job,omitzero"`
	// Reason says why the turn is parked, was resumed or interrupted, or failed.
	Reason string `json:"reason,omitzero"`
	// Until is when a parked turn wakes up, in RFC 3339, UTC.
	Until string `json:"until,omitzero"`
	// Approval is the request that a parked turn waits for.
	Approval string `json:"approval,omitzero"`
	// Pending are the calls of a parked turn that were not started.
	Pending []string `json:"pending,omitzero"`
	// Attempt counts the attempts to resume since the last step that was stored,
	// from 1.
	Attempt int `json:"attempt,omitzero"`
	// Discarded is text of an inference that was lost, up to 64 KiB, with resumed,
	// and with parked for the resumed event that follows. It is not sent to the model.
	Discarded string `json:"discarded,omitzero"`
	// StopReason is why the model stopped, with done.
	StopReason string `json:"stop_reason,omitzero"`
	// Structured is the value of an answer that was asked for with output_schema, with
	// done.
	Structured Raw `json:"structured,omitzero"`
	// Iterations is the number of inferences, with done.
	Iterations int `json:"iterations,omitzero"`
	// Usage is the sum over the turn, with done.
	Usage *Usage `json:"usage,omitzero"`
	// To is the session that the turn continues in, with continued.
	To string `json:"to,omitzero"`
	// ToTurn is the turn there.
	ToTurn string `json:"to_turn,omitzero"`
	// TS is when the event was stored, in RFC 3339, UTC.
	TS string `json:"ts,omitzero"`
}

// LogSay is a message that turn_say, or the end of a job, added to an open turn. It is
// delivered when a message with its id follows, or withdrawn.
type LogSay struct {
	// Say is the message's id.
	Say string `json:"say"`
	// Turn is the open turn.
	Turn string `json:"turn,omitzero"`
	// Mode is "steer", "queue" or "job"; absent with withdrawn.
	Mode string `json:"mode,omitzero"`
	// Job is the job that has ended, with mode "job".
	Job string `json:"job,omitzero"`
	// Text is the message; absent with withdrawn.
	Text string `json:"text,omitzero"`
	// Context is what hooks add for the model; it follows the message.
	Context string `json:"context,omitzero"`
	// RequestID is the request_id of turn_say.
	RequestID string `json:"request_id,omitzero"`
	// By is the user who sent it.
	By *By `json:"by,omitzero"`
	// Withdrawn is true if the message will not be delivered.
	Withdrawn bool `json:"withdrawn,omitzero"`
	// TS is when the event was stored, in RFC 3339, UTC.
	TS string `json:"ts,omitzero"`
}

// LogHook is a hook that was stopped for its time. After the third one of a command the
// command is off for the session, unless it blocks on failure.
type LogHook struct {
	// Turn is the turn.
	Turn string `json:"turn,omitzero"`
	// Hook is the hook's short name.
	Hook string `json:"hook"`
	// SHA256 is the hash of its command, in hexadecimal digits.
	SHA256 string `json:"sha256"`
	// TS is when the event was stored, in RFC 3339, UTC.
	TS string `json:"ts,omitzero"`
}

// LogUndo says that the user took back or restored file changes of a turn.
type LogUndo struct {
	// Turn is the turn whose changes were taken back.
	Turn string `json:"turn"`
	// Restored are the paths of the files, relative to the root of the turn; those
	// that were removed too.
	Restored []string `json:"restored"`
	// Redo is true if an undo was taken back: the changes are there again.
	Redo bool `json:"redo,omitzero"`
	// TS is when the event was stored, in RFC 3339, UTC.
	TS string `json:"ts,omitzero"`
}

// Todo is the model's list of what is to be done. It replaces the list before.
type Todo struct {
	// Items are the entries, at most 50.
	Items []TodoItem `json:"items"`
	// TS is when the event was stored, in RFC 3339, UTC.
	TS string `json:"ts,omitzero"`
}

// TodoItem is one entry.
type TodoItem struct {
	// Text is the entry, up to 200 characters.
	Text string `json:"text"`
	// Status is "open", "active" or "done".
	Status string `json:"status"`
}

// Values of TodoItem.Status.
const (
	TodoOpen   = "open"
	TodoActive = "active"
	TodoDone   = "done"
)

// Points at which agr waits for proceed.
const (
	PointCalls    = "calls"    // the inference and the last batch must be stored; then this batch starts
	PointInfer    = "infer"    // the last batch must be stored; then the next inference starts
	PointEnd      = "end"      // the answer has no calls; without says the run ends
	PointApproval = "approval" // a call needs an approval: the caller sends a grant or a result
	PointRead     = "read"     // a call reads a file: the caller may send the text that the client has of it
	PointDelegate = "delegate" // behind calls: the caller carries out this batch and sends its results
)

// TypeCheckpoint is the type of the packet with a Checkpoint.
const TypeCheckpoint = "checkpoint"

// Checkpoint is a packet of agr's run, if the request names a turn: agr waits
// until a proceed with the same turn, step and point has come, so that nothing
// runs before what led to it is stored. Keepalives come meanwhile. It comes behind
// the usage of an inference, and behind the last tool_finished of a batch.
type Checkpoint struct {
	// Turn is the turn of the request.
	Turn string `json:"turn"`
	// Step is the inference that the point belongs to: with infer the one that asked
	// for the calls before.
	Step int `json:"step"`
	// Point is "calls", "infer", "end", "delegate", "approval" or "read".
	Point string `json:"point"`
	// Batch are the ids of the calls that start next, with calls and delegate; with
	// approval and read the id of the one call that it is about.
	Batch []string `json:"batch,omitzero"`
	// Path is the file, an absolute path, with read.
	Path string `json:"path,omitzero"`
	// StopReason is why the model stopped, with end.
	StopReason string `json:"stop_reason,omitzero"`
	// Needed is what the service that carries the call out says about it, with approval.
	Needed *ApprovalNeeded `json:"needed,omitzero"`
}

// Proceed ends the wait at a checkpoint.
type Proceed struct {
	// Turn, Step and Point are those of the checkpoint.
	Turn string `json:"turn"`
	// Step is the inference.
	Step int `json:"step"`
	// Point is the point.
	Point string `json:"point"`
	// Batch are the calls of the checkpoint. A step can have several batches: with
	// it a repeat, after a lost answer, cannot start the next one. Absent: not
	// compared.
	Batch []string `json:"batch,omitzero"`
	// Says are the user's messages for the next inference.
	Says []Say `json:"says,omitzero"`
	// Grants are tokens for calls that are allowed, by the call's id, with approval.
	Grants map[string]string `json:"grants,omitzero"`
	// Results are the results of the calls of a delegate, or of denied calls with
	// approval, by the call's id: the envelopes that the model reads.
	Results map[string]Raw `json:"results,omitzero"`
	// Usage is what the sub-agents of a delegate have used, by the call's id. It counts
	// for the turn.
	Usage map[string]Usage `json:"usage,omitzero"`
	// Text is the text that the client has of the file, with read; absent: that on disk
	// is read.
	Text *string `json:"text,omitzero"`
	// Token replaces the token of run, which expires; absent: it is still valid.
	Token string `json:"token,omitzero"`
	// Stop ends the run with this stop_reason: StopParked or StopContext.
	Stop string `json:"stop,omitzero"`
}

// Values of Proceed.Stop, and stop reasons of the run's end.
const (
	StopParked  = "parked"  // the turn goes on later
	StopContext = "context" // the turn goes on in a new session
	StopHook    = "hook"    // a hook ended the run
)

// Say is a message of the user for an open turn.
type Say struct {
	// Say is its id.
	Say string `json:"say"`
	// Text is the message.
	Text string `json:"text"`
}

// What agr does with a call of an earlier attempt.
const (
	ActionRun     = "run"     // it was never started: run it
	ActionRecover = "recover" // it may have run: find its result, or run it if it has not
)

// OpenCall is a call of an earlier attempt that has no result yet.
type OpenCall struct {
	// ID is the call's identifier.
	ID string `json:"id"`
	// Step is the inference that asked for it.
	Step int `json:"step"`
	// Name is the tool's name.
	Name string `json:"name"`
	// Input is its arguments, an object.
	Input Raw `json:"input"`
	// RunInput is the input that a hook has put in the place of the model's: the call is
	// carried out, approved and recovered with it. Absent: input.
	RunInput Raw `json:"run_input,omitzero"`
	// Hook is what hooks have decided about the call; absent: nothing.
	Hook *HookVerdict `json:"hook,omitzero"`
	// Action is "run" or "recover".
	Action string `json:"action"`
	// Since is the time of its tool_use event, in RFC 3339, UTC.
	Since string `json:"since,omitzero"`
}

// Arguments returns the input that the call is carried out with.
func (c OpenCall) Arguments() Raw {
	if len(c.RunInput) > 0 {
		return c.RunInput
	}
	return c.Input
}

// Prefixes of the ids of turns, says, jobs, approvals and grants.
const (
	turnPrefix     = "t-"
	sayPrefix      = "s-"
	jobPrefix      = "j-"
	approvalPrefix = "ap-"
	grantPrefix    = "g-"
)

// NewTurnID returns a random id of a turn: t- and 12 characters of lower-case base32.
func NewTurnID() string { return randomID(turnPrefix, 12) }

// NewSayID returns a random id of a say: s- and 8 characters.
func NewSayID() string { return randomID(sayPrefix, 8) }

// NewJobID returns a random id of a job: j- and 8 characters.
func NewJobID() string { return randomID(jobPrefix, 8) }

// NewApprovalID returns a random id of an approval: ap- and 8 characters.
func NewApprovalID() string { return randomID(approvalPrefix, 8) }

// NewGrantID returns a random id of a grant: g- and 8 characters.
func NewGrantID() string { return randomID(grantPrefix, 8) }

func randomID(prefix string, n int) string { return prefix + strings.ToLower(rand.Text()[:n]) }

package proto

import "strings"

// Types of the events in a session's file, the session log. "usage" and
// "interrupted" are also packets: see TypeUsage and TypeInterrupted. Events of
// other types may stand between them; readers skip those.
const (
	TypeMeta       = "meta"        // the first line
	TypeMessage    = "message"     // a text of the user or the assistant
	TypeToolUse    = "tool_use"    // a tool call of the model
	TypeToolResult = "tool_result" // the result of a call
	TypeTitle      = "title"       // a new name for the session
	TypeMode       = "mode"        // another mode of a turn
)

// LogSchema is the schema_version of the sessions that this contract describes.
const LogSchema = 1

// Roles of messages, in the session log and in OpenAI's form.
const (
	RoleSystem    = "system"
	RoleUser      = "user"
	RoleAssistant = "assistant"
	RoleTool      = "tool"
)

var logEvents = []Event{
	event[LogMeta](TypeMeta),
	event[LogMessage](TypeMessage),
	event[LogToolUse](TypeToolUse),
	event[LogToolResult](TypeToolResult),
	event[InferenceUsage](TypeUsage),
	event[LogInterrupted](TypeInterrupted),
	event[LogError](TypeError),
	event[LogTitle](TypeTitle),
	event[LogMode](TypeMode),
	event[LogTurn](TypeTurn),
	event[LogSay](TypeSay),
	event[LogUndo](TypeUndo),
	event[LogHook](TypeHook),
	event[Todo](TypeTodo),
}

// LogEvents lists the kinds of events in the session log.
func LogEvents() []Event { return logEvents }

// LogMeta is the first line of a session. The header of create_session and
// append_session adds keys to it.
type LogMeta struct {
	// SchemaVersion is the number of the log's format.
	SchemaVersion int `json:"schema_version"`
	// TS is when the session was created, in RFC 3339, UTC.
	TS string `json:"ts"`
	// ForkedFrom is the session that this one was copied from.
	ForkedFrom *LogOrigin `json:"forked_from,omitzero"`
	// Root is the directory that the session was started in, an absolute path.
	Root string `json:"root,omitzero"`
	// Parent is the call of a turn that started this session as a sub-agent.
	Parent *LogParent `json:"parent,omitzero"`
	// Continues is the session that this one goes on with, because the model's
	// context was nearly full.
	Continues *LogContinues `json:"continues,omitzero"`
	// Redacted is when secrets in the file were replaced by placeholders, in RFC 3339, UTC.
	Redacted string `json:"redacted,omitzero"`
	// UID is the user that the session belongs to, on a daemon that several users
	// share; absent: unknown.
	UID *int `json:"uid,omitzero"`
	// Recall false keeps the session out of recall_sessions; absent: true.
	Recall *bool `json:"recall,omitzero"`
}

// LogParent is the call that started a sub-agent.
type LogParent struct {
	// SessionID is the whole id of the session of the call.
	SessionID string `json:"session_id"`
	// Turn is the turn of the call.
	Turn string `json:"turn"`
	// Call is the call's id.
	Call string `json:"call"`
}

// LogContinues is the end of a session that goes on in another one.
type LogContinues struct {
	// SessionID is the whole id of the session before.
	SessionID string `json:"session_id"`
	// Turn is its last turn.
	Turn string `json:"turn"`
	// Until is the offset that the turn had reached.
	Until int64 `json:"until"`
}

// LogOrigin is the source of a fork.
type LogOrigin struct {
	// SessionID is the whole id of the copied session.
	SessionID string `json:"session_id"`
	// Until is the offset that the copy ends at; absent: the end at that time.
	Until int64 `json:"until,omitzero"`
}

// LogMessage is a text of the user or the assistant.
type LogMessage struct {
	// Role is "user" or "assistant".
	Role string `json:"role"`
	// Text is the text.
	Text string `json:"text"`
	// State is opaque: the model's provider needs it back with this message.
	State Raw `json:"reasoning_state,omitzero"`
	// Attachments are the files of a user's message. They are stored beside the session.
	Attachments []Attachment `json:"attachments,omitzero"`
	// Command is the slash command that the text is made of.
	Command string `json:"command,omitzero"`
	// Arguments are the arguments of the command.
	Arguments string `json:"arguments,omitzero"`
	// Partial is true if the text was cut off.
	Partial bool `json:"partial,omitzero"`
	// Turn is the turn that the message belongs to.
	Turn string `json:"turn,omitzero"`
	// Step is the inference of the turn, from 1; absent in messages of the user.
	Step int `json:"step,omitzero"`
	// Say is the id of the turn_say that the message came with.
	Say string `json:"say,omitzero"`
	// Via is how a user's message came into the turn: "start", "steer", "queue",
	// "job", "schema", "hook" or "stop"; absent: "start".
	Via string `json:"via,omitzero"`
	// TS is when the event was stored, in RFC 3339, UTC.
	TS string `json:"ts,omitzero"`
}

// Typed returns a user's message as it was typed: of a slash command not the text.
func (m LogMessage) Typed() string { return typed(m.Text, m.Command, m.Arguments) }

func typed(text, command, arguments string) string {
	if command == "" {
		return text
	}
	return strings.TrimSpace("/" + command + " " + arguments)
}

// LogToolUse is a tool call of the model.
type LogToolUse struct {
	// ID is the call's identifier.
	ID string `json:"id"`
	// Name is the tool's name.
	Name string `json:"name"`
	// Input is the call's arguments, an object.
	Input Raw `json:"input"`
	// RunInput is the input that a hook has put in the place of the model's: the call is
	// carried out, approved and recovered with it. Absent: input.
	RunInput Raw `json:"run_input,omitzero"`
	// Hook is what hooks have decided about the call; absent: nothing.
	Hook *HookVerdict `json:"hook,omitzero"`
	// State is opaque: the model's provider needs it back with this call.
	State Raw `json:"reasoning_state,omitzero"`
	// Turn is the turn that the call belongs to.
	Turn string `json:"turn,omitzero"`
	// Step is the inference of the turn that asked for it, from 1.
	Step int `json:"step,omitzero"`
	// TS is when the event was stored, in RFC 3339, UTC.
	TS string `json:"ts,omitzero"`
}

// LogToolResult is the result of a call.
type LogToolResult struct {
	// ToolUseID is the call's identifier.
	ToolUseID string `json:"tool_use_id"`
	// Output is the result, an envelope: see Tool results.
	Output Raw `json:"output"`
	// Attachments are the images of the result. They are stored beside the session.
	Attachments []Attachment `json:"attachments,omitzero"`
	// OK is true if the call succeeded.
	OK bool `json:"ok"`
	// DurationMS is the duration of the call in milliseconds; absent in a synthetic
	// result.
	DurationMS int64 `json:"duration_ms"`
	// Synthetic is true if the call's own result was lost.
	Synthetic bool `json:"synthetic,omitzero"`
	// Recovered is true if the result was found after the turn was resumed.
	Recovered bool `json:"recovered,omitzero"`
	// Name is the tool's name.
	Name string `json:"name,omitzero"`
	// Diff is what the call changed in a file, as a unified diff.
	Diff string `json:"diff,omitzero"`
	// Confinement is how the call was run; absent: unknown.
	Confinement *Confinement `json:"confinement,omitzero"`
	// Usage is what a sub-agent that carried out the call has used. It counts for the
	// turn.
	Usage *Usage `json:"usage,omitzero"`
	// Turn is the turn that the call belongs to.
	Turn string `json:"turn,omitzero"`
	// Step is the inference of the turn that asked for it, from 1.
	Step int `json:"step,omitzero"`
	// TS is when the event was stored, in RFC 3339, UTC.
	TS string `json:"ts,omitzero"`
}

// LogInterrupted is the end of a turn that was stopped.
type LogInterrupted struct {
	// Role is "system".
	Role string `json:"role"`
	// Text is "Interrupted".
	Text string `json:"text"`
	// Turn is the turn that ended.
	Turn string `json:"turn,omitzero"`
	// TS is when the event was stored, in RFC 3339, UTC.
	TS string `json:"ts,omitzero"`
}

// LogError is the end of a turn that failed.
type LogError struct {
	// Message is the message of the error.
	Message string `json:"message"`
	// Kind is the kind of the error.
	Kind string `json:"kind,omitzero"`
	// Code is the code of the error.
	Code Code `json:"code"`
	// Service is where the error arose.
	Service string `json:"service,omitzero"`
	// Status is the HTTP status of a provider's answer.
	Status int `json:"status,omitzero"`
	// Details is the provider's own text.
	Details string `json:"details,omitzero"`
	// Turn is the turn that ended.
	Turn string `json:"turn,omitzero"`
	// TS is when the event was stored, in RFC 3339, UTC.
	TS string `json:"ts,omitzero"`
}

// LogMode is another mode of an open turn, which holds from its next step on.
type LogMode struct {
	// Turn is the turn.
	Turn string `json:"turn"`
	// Mode is the mode: plan, ask, auto or yolo.
	Mode string `json:"mode"`
	// Sandbox is the level of confinement that goes with it; absent: that of the service.
	Sandbox Level `json:"sandbox,omitzero"`
	// By is the user who changed it.
	By *By `json:"by,omitzero"`
	// TS is when the event was stored, in RFC 3339, UTC.
	TS string `json:"ts,omitzero"`
}

// LogTitle is a new name for the session. The last one counts.
type LogTitle struct {
	// Text is the name.
	Text string `json:"text"`
	// TS is when the event was stored, in RFC 3339, UTC.
	TS string `json:"ts,omitzero"`
}

package proto

import "reflect"

// EventsVersion is the number of the list of events below, named in the first line
// of `--format json`. It changes when an event changes or is removed, not when
// one is added.
const EventsVersion = 1

// Event is a kind of packet, in the place of chunks if the request has events:
// true, or a kind of event in the session log.
type Event struct {
	Type   string       // the "type"
	Fields reflect.Type // the struct of its other fields
}

// Types of packets that stand before the terminal packet of a text method or of
// a call, and of the terminal packets themselves.
const (
	TypeChunk     = "chunk"     // a Chunk
	TypeDone      = "done"      // a Text whose content stands under full_text
	TypeError     = "error"     // an Error
	TypeKeepalive = "keepalive" // no fields
)

// Types of events. A turn is a sequence of inferences. Each brings deltas, a
// final text if it is not empty, the calls that it asks for, and its usage. Then
// the calls are carried out: consecutive read-only ones side by side, all others
// in the order given.
const (
	TypeAssistantDelta = "assistant_delta"
	TypeAssistantFinal = "assistant_final"
	TypeReasoning      = "reasoning"
	TypeToolRequested  = "tool_requested"
	TypeToolStarted    = "tool_started"
	TypeToolOutput     = "tool_output"
	TypeToolFinished   = "tool_finished"
	TypeUsage          = "usage"
	TypeNotice         = "notice"
	TypeInterrupted    = "interrupted"
	TypeHook           = "hook"
)

var events = []Event{
	event[AssistantDelta](TypeAssistantDelta),
	event[AssistantFinal](TypeAssistantFinal),
	event[Reasoning](TypeReasoning),
	event[ToolRequested](TypeToolRequested),
	event[ToolStarted](TypeToolStarted),
	event[ToolOutput](TypeToolOutput),
	event[ToolFinished](TypeToolFinished),
	event[InferenceUsage](TypeUsage),
	event[Notice](TypeNotice),
	event[Interrupted](TypeInterrupted),
	event[Todo](TypeTodo),
	event[Checkpoint](TypeCheckpoint),
	event[ToolOffer](TypeTools),
	event[HookRan](TypeHook),
}

func event[Fields any](typ string) Event { return Event{typ, reflect.TypeFor[Fields]()} }

// Events lists the kinds of events in the order of a turn.
func Events() []Event { return events }

// Chunk is a piece of the answer's text, for callers that asked for a stream.
type Chunk struct {
	// Delta is the piece.
	Delta string `json:"delta"`
}

// AssistantDelta is a piece of the assistant's text as it arrives.
type AssistantDelta struct {
	// Text is the piece.
	Text string `json:"text"`
}

// AssistantFinal is the complete text of one inference. An inference without text
// has no such event.
type AssistantFinal struct {
	// Text is the text, without tags of tool calls.
	Text string `json:"text"`
	// State is opaque: the model's provider needs it back with this answer.
	State Raw `json:"reasoning_state,omitzero"`
}

// ToolRequested is a tool call of the model.
type ToolRequested struct {
	// ID is the call's identifier, unique within the answer.
	ID string `json:"id"`
	// Name is the tool's name.
	Name string `json:"name"`
	// Input is the call's arguments, an object. If the model wrote something else,
	// that stands in the object as a text under "_malformed".
	Input Raw `json:"input"`
	// RunInput is the input that a hook has put in the place of the model's: the call is
	// carried out, approved and recovered with it. Absent: input.
	RunInput Raw `json:"run_input,omitzero"`
	// Hook is what hooks have decided about the call; absent: nothing.
	Hook *HookVerdict `json:"hook,omitzero"`
	// State is as in assistant_final, on the first call of an answer without text.
	State Raw `json:"reasoning_state,omitzero"`
}

// ToolStarted is the start of a call.
type ToolStarted struct {
	// ID is the call's identifier.
	ID string `json:"id"`
	// Name is the tool's name.
	Name string `json:"name"`
}

// ToolOutput is output of a tool while it runs. The result has the complete output.
type ToolOutput struct {
	// ID is the call's identifier; absent in an answer of exc.
	ID string `json:"id,omitzero"`
	// Text is up to 4 KiB of standard output and standard error, at most ten
	// times a second.
	Text string `json:"text"`
	// LeftOut counts the bytes left out before this text because there were too
	// many.
	LeftOut int64 `json:"left_out,omitzero"`
}

// ToolFinished is a tool's result.
type ToolFinished struct {
	// ID is the call's identifier.
	ID string `json:"id"`
	// Name is the tool's name.
	Name string `json:"name"`
	// OK is true if the call was carried out: ok of the result.
	OK bool `json:"ok"`
	// Result is what the model is sent: {"ok":true,"data":{…}} or
	// {"ok":false,"error":{"code","message"}}. See Tool results.
	Result Raw `json:"result"`
	// DurationMS is the time that the call took, in milliseconds.
	DurationMS int64 `json:"duration_ms"`
	// Confinement is how the call was run; absent: unknown.
	Confinement *Confinement `json:"confinement,omitzero"`
	// Diff is what the call changed in a file, as a unified diff. It is not sent to
	// the model.
	Diff string `json:"diff,omitzero"`
	// Attachments are the images that the model is sent with the result.
	Attachments []Attachment `json:"attachments,omitzero"`
	// Recovered is true if the result is that of an earlier attempt of the turn.
	Recovered bool `json:"recovered,omitzero"`
	// Synthetic is true if the call's own result was lost.
	Synthetic bool `json:"synthetic,omitzero"`
	// Usage is what a sub-agent that carried out the call has used. It counts for the
	// turn.
	Usage *Usage `json:"usage,omitzero"`
}

// InferenceUsage is what one inference consumed.
type InferenceUsage struct {
	// InputTokens are the tokens of the prompt, including those from and to the
	// provider's cache.
	InputTokens int64 `json:"input_tokens"`
	// OutputTokens are the tokens of the answer, including its reasoning.
	OutputTokens int64 `json:"output_tokens"`
	// CacheReadTokens are the input tokens that came from the cache.
	CacheReadTokens int64 `json:"cache_read_tokens,omitzero"`
	// CacheWriteTokens are the input tokens that were written to the cache.
	CacheWriteTokens int64 `json:"cache_write_tokens,omitzero"`
	// ReasoningTokens are the output tokens of the reasoning.
	ReasoningTokens int64 `json:"reasoning_tokens,omitzero"`
	// CostUSD is the cost in US dollars; absent: unknown.
	CostUSD *float64 `json:"cost_usd,omitzero"`
	// Provider is the kind of provider that answered.
	Provider string `json:"provider,omitzero"`
	// Model is the identifier of the model that answered.
	Model string `json:"model,omitzero"`
	// ContextWindow is the size of the model's context in tokens; absent: unknown.
	ContextWindow int `json:"context_window,omitzero"`
}

// Interrupted is the end of a turn that was stopped. The error canceled follows.
type Interrupted struct{}

// TypeHeader is the type of an EventsHeader, and EventsSchema its schema.
const (
	TypeHeader   = "header"
	EventsSchema = "zino.events"
)

// EventsHeader is the first line of the output of `zino --format json`; its type is
// "header". The events of one turn or several follow, a line each, and the
// terminal packet of each turn.
type EventsHeader struct {
	// Schema is "zino.events".
	Schema string `json:"schema"`
	// Version is the number of the list of events.
	Version int `json:"version"`
	// SessionID is the session that the turns are stored in; absent: none.
	SessionID string `json:"session_id,omitzero"`
}

package proto

import "fmt"

// Every service answers these.
var (
	// Ping checks that the service answers.
	Ping = method[PingRequest, Pong]("*", "ping", "pong", public)
	// Describe returns the service's methods with their schemas.
	Describe = method[DescribeRequest, Description]("*", "describe", "description", public)
	// GetStats returns the service's counters.
	GetStats = method[StatsRequest, Stats]("*", "stats", "stats", public)
)

// Meta travels in a request under the one reserved key "meta". All of it is
// optional, and old clients never send it.
type Meta struct {
	// Trace is an identifier of up to 64 letters, digits, '-' or '_' that all
	// hops of a request write into their logs. The first hop generates one.
	Trace string `json:"trace,omitzero"`
	// DeadlineMS is the time left for the answer in milliseconds, 1 to
	// 86400000. Each hop passes on the rest.
	DeadlineMS int64 `json:"deadline_ms,omitzero"`
	// Keepalive asks for a {"type":"keepalive"} packet every 10 s until the
	// terminal packet.
	Keepalive bool `json:"keepalive,omitzero"`
}

// PingRequest has no fields.
type PingRequest struct{}

// Pong identifies the service.
type Pong struct {
	// Service is the service's short name, such as "mem".
	Service string `json:"service,omitzero"`
	// Version is the program's version.
	Version string `json:"version,omitzero"`
	// Proto is the number of the contract that the service implements.
	Proto int `json:"proto,omitzero"`
	// Lifetime is "private" if the service ends with the command that started it,
	// else "persistent". Only the daemon reports it.
	Lifetime string `json:"lifetime,omitzero"`
	// UptimeS is the time since the service started, in whole seconds.
	UptimeS int64 `json:"uptime_s"`
}

// Values of Pong.Lifetime.
const (
	LifetimePrivate    = "private"    // ends with the command that started it
	LifetimePersistent = "persistent" // units of systemd, or zino up
)

// DescribeRequest has no fields.
type DescribeRequest struct{}

// Description lists the methods of a service.
type Description struct {
	// Service is the service's short name.
	Service string `json:"service"`
	// Proto is the number of the contract.
	Proto int `json:"proto"`
	// Methods are the methods in the order of declaration.
	Methods []MethodDescription `json:"methods"`
}

// MethodDescription is one method of a service.
type MethodDescription struct {
	// Type is the request's "type".
	Type string `json:"type"`
	// Reply is the "type" of the answer: for a text method, of the collected one.
	Reply string `json:"reply"`
	// Kind is "call", "text" or "events".
	Kind string `json:"kind"`
	// Doc is the method's reference text.
	Doc string `json:"doc"`
	// Request is the JSON schema of the request without "type" and "meta".
	Request Raw `json:"request"`
	// Response is the JSON schema of the reply without "type".
	Response Raw `json:"response"`
}

// StatsRequest has no fields.
type StatsRequest struct{}

// Stats are a service's counters since it started.
type Stats struct {
	// Service is the service's short name.
	Service string `json:"service"`
	// UptimeS is the time since the start, in whole seconds.
	UptimeS int64 `json:"uptime_s"`
	// Requests counts the requests, without pings.
	Requests int64 `json:"requests"`
	// Errors counts the requests that ended in an error.
	Errors int64 `json:"errors"`
	// InFlight is the number of requests in progress, without this one.
	InFlight int64 `json:"in_flight"`
	// Connections is the number of open connections.
	Connections int64 `json:"connections"`
	// HeapBytes is the live heap in bytes.
	HeapBytes int64 `json:"heap_bytes"`
	// Goroutines is the number of goroutines.
	Goroutines int64 `json:"goroutines"`
	// Problems are things that a person should repair, such as a broken skill file.
	// Each is one line: what is wrong, where, and what to do.
	Problems []string `json:"problems"`
	// Info is further information about the service, as names and values.
	Info map[string]string `json:"info,omitzero"`
}

// Empty is a reply without fields.
type Empty struct{}

// Text is the answer of a text method. Collected, it is one packet of the
// method's reply type. Streamed, the text goes out as packets
// {"type":"chunk","delta":…} and {"type":"done","full_text":…} ends them, with
// the text under full_text in place of content.
type Text struct {
	// Content is the whole text.
	Content string `json:"content"`
	// Iterations is the number of inferences of the agent's main loop, where
	// an agent answered.
	Iterations *int `json:"iterations,omitzero"`
	// ToolCalls are the calls that the model asks for, in OpenAI's form:
	// {"id","type":"function","function":{"name","arguments":"a JSON text"}}.
	ToolCalls Raw `json:"tool_calls,omitzero"`
	// State is opaque: an assistant message of these calls that goes back in
	// the same turn carries it unchanged under "reasoning_state".
	State Raw `json:"reasoning_state,omitzero"`
	// StopReason is why the model stopped: "stop", "tool_calls", "length" (cut
	// by the token limit), "refusal", "filter", or the provider's own reason.
	StopReason string `json:"stop_reason,omitzero"`
	// Structured is the value of an answer that was asked for with output_schema.
	Structured Raw `json:"structured,omitzero"`
	// Usage is what the answer consumed; absent if the provider did not report it.
	Usage *Usage `json:"usage,omitzero"`
	// Provider is the kind of provider that answered.
	Provider string `json:"provider,omitzero"`
	// Model is the identifier of the model that answered.
	Model string `json:"model,omitzero"`
	// ContextWindow is the size of the model's context in tokens; absent: unknown.
	ContextWindow int `json:"context_window,omitzero"`
	// Warnings are remarks for the user, a line each. The daemon sends them to
	// callers that did not ask for events.
	Warnings []string `json:"warnings,omitzero"`
	// NotStored is why the daemon could not add the message and this answer to
	// the channel; absent if they were stored or did not have to be.
	NotStored string `json:"not_stored,omitzero"`
}

// Notice is a remark for the user, sent to callers that asked for events. Its
// packet has the type "notice".
type Notice struct {
	// Kind is "retry", "fallback", "wait", "warning", "agents" (the files that
	// were loaded), "limit" or another identifier.
	Kind string `json:"kind"`
	// Text is the remark: one line.
	Text string `json:"text"`
	// WaitMS is the length of the pause in milliseconds.
	WaitMS int64 `json:"wait_ms,omitzero"`
	// Provider is the kind of provider that is waited for, with "retry" and "wait".
	Provider string `json:"provider,omitzero"`
}

// MaskedNotice returns the notice of the first result of a turn that has placeholders.
func MaskedNotice(n int) Notice {
	return Notice{Kind: NoticeMasked, Text: fmt.Sprintf("Secrets in a result are masked (%d): the model reads placeholders such as [masked:github:1a2b].", n)}
}

// Kinds of notices. The list only grows.
const (
	NoticeRetry    = "retry"    // a request to a provider is repeated
	NoticeFallback = "fallback" // another provider or model is asked
	NoticeWait     = "wait"     // the work waits: for a provider, or for another turn
	NoticeWarning  = "warning"  // something a person should know or repair
	NoticeAgents   = "agents"   // the AGENTS.md files that were loaded
	NoticeLimit    = "limit"    // a limit of the turn is reached
	NoticeResumed  = "resumed"  // a turn goes on whose run was lost
	NoticeStorage  = "storage"  // the turn waits until its events can be stored
	NoticeLoop     = "loop"     // the model repeats a call
	NoticeMasked   = "masked"   // secrets in results were replaced by placeholders
	NoticeUndo     = "undo"     // undo does not cover the file changes of commands
	NoticeHook     = "hook"     // a hook failed, or has a message for the user
)

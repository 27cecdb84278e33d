package proto

// Envelope is the result of a tool call: what the model is sent, and what the
// session log keeps. ok is the first key.
type Envelope struct {
	// OK is true if the call was carried out. A command that exits with a status
	// other than 0 was carried out.
	OK bool `json:"ok"`
	// Masked is the number of placeholders of secrets, such as [masked:github:1a2b], in
	// the result.
	Masked int `json:"masked,omitzero"`
	// Data is the result of a call that was carried out, an object.
	Data Raw `json:"data,omitzero"`
	// Error says why the call was not carried out.
	Error *ToolError `json:"error,omitzero"`
	// Note is a remark for the model.
	Note string `json:"note,omitzero"`
	// Hook is what hooks add for the model.
	Hook string `json:"hook,omitzero"`
}

// ToolError is the error of an envelope.
type ToolError struct {
	// Code classifies the error: one of the codes below, or the name of a system
	// error such as "ENOENT".
	Code string `json:"code"`
	// Message says what failed and what to do next.
	Message string `json:"message"`
}

// Codes of tool errors. The list only grows.
const (
	ToolUnknown       = "unknown_tool"               // no such tool
	ToolInvalidInput  = "invalid_input"              // the arguments are missing or malformed
	ToolUnavailable   = "unavailable"                // the service that carries out the call cannot be reached
	ToolTimeout       = "timeout"                    // no answer in time
	ToolDenied        = "denied"                     // not allowed here
	ToolNotFound      = "not_found"                  // no such job in this session
	ToolFailed        = "tool_error"                 // the call was tried and failed
	ToolTooManyCalls  = "too_many_calls"             // more calls in one answer than are carried out
	ToolPageError     = "page_error"                 // page_eval: the code threw or did not end in time; data has what is known
	ToolInterrupted   = "interrupted"                // the call was stopped, or its result was lost
	ToolNotRecorded   = "not_recorded"               // the call was not started, because that could not be recorded
	ToolPathError     = "path_error"                 // no such file (edit), no such directory to work in
	ToolReadError     = "read_error"                 // the file cannot be read
	ToolWriteError    = "write_error"                // the file cannot be written
	ToolMkdirError    = "mkdir_error"                // a parent directory cannot be created
	ToolNotText       = "not_text"                   // read: the file is not UTF-8 text
	ToolNotRegular    = "not_regular_file"           // read: a pipe, a socket or a device
	ToolOldNotFound   = "old_not_found"              // edit: the text to replace does not occur
	ToolCountMismatch = "replacement_count_mismatch" // edit: the text occurs another number of times
	ToolMaskedText    = "masked_text"                // write, edit: the new text contains the placeholder of a secret
	ToolNeedsLogin    = "needs_login"                // mcp_call: the user must log in at the server first
	ToolTooLarge      = "too_large"                  // mcp_call: the answer is larger than result_bytes of the server
)

// InterruptedCall is the message of ToolInterrupted for a call that may have run.
const InterruptedCall = "The call was interrupted before its result was recorded. It may have run partly or completely: check before you repeat it."

// InterruptedResult is the envelope of a call whose own result was not recorded.
const InterruptedResult = `{"ok":false,"error":{"code":"interrupted","message":"` + InterruptedCall + `"}}`

// A call of TaskTool with AgentSkill as its skill starts a sub-agent.
const (
	TaskTool   = "task"
	AgentSkill = "agent"
)

// MalformedInput is the key under which the arguments of a call stand as a text
// if the model wrote something other than a JSON object.
const MalformedInput = "_malformed"

// CommandOutput is the data of a command: of bash and of execute_NAME.
type CommandOutput struct {
	// Stdout is the standard output, invalid UTF-8 as U+FFFD.
	Stdout string `json:"stdout"`
	// Stderr is the standard error, likewise.
	Stderr string `json:"stderr"`
	// ExitCode is the exit status: 0 to 255, -N for death by signal N, -1 for a
	// timeout.
	ExitCode int `json:"exit_code"`
	// TimedOut is true if the time limit ended the command.
	TimedOut bool `json:"timed_out"`
	// Truncated is true if the middle of an output was left out.
	Truncated bool `json:"truncated,omitzero"`
	// Interrupted is true if the command was stopped with the turn, or with exc.
	Interrupted bool `json:"interrupted,omitzero"`
}

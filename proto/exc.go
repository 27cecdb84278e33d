package proto

// Methods of exc, which runs code.
var (
	// ExcExecute runs code and answers when all processes it started have ended.
	// Code that fails, an unknown executor and a timeout are results, not errors.
	// The error busy means that no process could be started.
	ExcExecute = method[Execute, Result]("exc", "execute", "result")
	// ExcValidate runs the executor's static analysis on code. Without an
	// installed analyser all code is valid. The analyser runs at the configured
	// level of confinement; the error unavailable means that the level is not
	// available on this host.
	ExcValidate = method[Validate, Validation]("exc", "validate", "validation")
	// ExcRedact replaces the secrets in the outputs of jobs that have ended by
	// placeholders, and finds what undo keeps of files with secrets. Each place with
	// secrets is a packet redacted. Only the daemon calls it.
	ExcRedact = eventsMethod[RedactStore, RedactDone]("exc", "redact", "redact_done")
	// ExcCapabilities returns the executors, and how code is confined by default.
	ExcCapabilities = method[CapabilitiesRequest, ExecutorCapabilities]("exc", "capabilities", "capabilities", public)
	// ExcCall carries out a call of one of the tools read, write, edit and bash.
	// Every failure is a result: an unknown tool, malformed input, a missing file.
	// Packets of type tool_output come before the answer if the request has
	// events: true, and one of type notice in a turn whose file changes undo does not
	// cover. Calls that change the same file follow each other.
	//
	// A call or execute with a key is carried out once, also if it is repeated after
	// a crash of the caller or of exc: the same key while it runs attaches to it, and
	// later gets the recorded result. Results are kept for 48 hours, and of 64 MiB
	// the newest. The same key with other input is the error invalid. When the
	// connection of such a call breaks, it goes on for [exc] orphan_timeout; every
	// other call is cancelled. Before it starts it is recorded on disk: if that
	// fails, it is not carried out, and the result has the code "not_recorded".
	ExcCall = eventsMethod[Call, CallResult]("exc", "call", "call_result")
	// ExcPreview shows what a call of write, edit or bash would do, without secrets. It
	// changes nothing and needs no token: the daemon asks for what a person is shown. A
	// change that cannot be made is the error invalid.
	ExcPreview = method[Call, ApprovalPreview]("exc", "preview", "approval_preview")
	// ExcStopTurn stops the calls and executes of a turn, also those whose caller is
	// gone, and answers when their processes are gone. Later ones of the turn are
	// refused (denied).
	ExcStopTurn = method[StopTurn, Empty]("exc", "stop_turn", "ok")
)

// CapabilitiesRequest has no fields.
type CapabilitiesRequest struct{}

// Call is a call of a tool.
//
//   - read {path}: returns the file's text, up to 51200 bytes of it, or of an image or PDF
//     file of up to 10 MiB, known by its content, {path, media_type, bytes, width, height}
//     and the bytes in attachments
//   - write {path, content}: creates the file, or replaces its content
//   - edit {path, old, new, expected_replacements = 1}: replaces a text
//   - bash {command, timeout_s, background, wake, escalate}: runs it with sh -c, without
//     input.
//     Of a session it is a job (ExcJobs). After timeout_s, 0 to 86400 seconds, or else
//     [exc] session_timeout, it goes on in the background, and the data has its job
//     and running; 0 is no limit. With background it does so within a second. An [exc]
//     timeout other than the default kills it instead, and timeout_s may only lower
//     it. The end of a job with wake is reported to the model. escalate is why a
//     confined command needs less confinement: a person must allow that. It then runs
//     at the level off, from the level unit at the first one of [gate] escalate_to; if
//     the text starts with "network" and the turn has none, at the same level with
//     network.
//
// A relative path is relative to the root.
type Call struct {
	// Tool is the tool's name.
	Tool string `json:"tool"`
	// Input is its arguments. Anything but an object is a malformed call.
	Input Raw `json:"input,omitzero"`
	// Root is the working directory, an absolute path; absent: the one that exc
	// was started in.
	Root string `json:"root,omitzero"`
	// OutputBytes is how many bytes of standard output, and of standard error, the
	// result of bash has. Of a longer output it has head and tail, with a line
	// between them that says how much was left out and which file has all of it.
	// Absent or 0: [exc] output_max.
	OutputBytes int `json:"output_bytes,omitzero"`
	// Events asks for packets of type tool_output while bash runs.
	Events bool `json:"events,omitzero"`
	// Sandbox is as in execute. It applies to files too: nothing is written with
	// read-only, and only below the root with workspace-write.
	Sandbox Level `json:"sandbox,omitzero"`
	// Network is whether confined code may use the network.
	Network *bool `json:"network,omitzero"`
	// Env is the environment of the tools: see execute.
	Env map[string]string `json:"env,omitzero"`
	// Cwd is the working directory if no root is given.
	Cwd string `json:"cwd,omitzero"`
	// Umask is the file mode creation mask.
	Umask *int `json:"umask,omitzero"`
	// SessionID is the session of the turn.
	SessionID string `json:"session_id,omitzero"`
	// Turn is the turn that the call belongs to.
	Turn string `json:"turn,omitzero"`
	// Key identifies the call: SESSION/TURN/STEP/CALL, none of them empty. It is for
	// calls that change something, and for those with a grant: read without one ignores
	// it.
	Key string `json:"key,omitzero"`
	// Recover asks for the result of a call that may have been carried out. It needs
	// a key. A call that ended has its recorded result, and one that runs is waited
	// for. One that was never begun is the error not_found. One that began and has no
	// result is decided by the file for write and edit: it succeeded, or is carried
	// out now. Everything else is a result with the error code "interrupted". read is
	// carried out again.
	Recover bool `json:"recover,omitzero"`
	// Since is when the model asked for the call, in RFC 3339, with recover. Without
	// it, or if exc's records do not go back that far or are damaged, a call without
	// a record counts as interrupted, not as never begun.
	Since string `json:"since,omitzero"`
	// Token is the token of the turn: see run of agr. A call that does not fit it in
	// session_id, turn or root, or that has a weaker sandbox or more network, is the
	// error denied. The turn's mode and the policy decide about the call; what they deny
	// is a result with the error code "denied". Absent: the mode is yolo, unless [gate]
	// require_token makes it the error denied.
	Token string `json:"token,omitzero"`
	// Grant is the token of an approval, which holds for this call alone. One that does not
	// fit is a result with the error code "denied". Absent: a call that must be asked is the
	// error approval if it belongs to a turn, else a result with the error code "denied".
	Grant string `json:"grant,omitzero"`
	// Ask is why a hook wants a person to be asked about the call, also if nothing else
	// demands it; absent: no hook does.
	Ask string `json:"ask,omitzero"`
	// Text is for read: the text that the client has of the file, with changes that are not
	// saved. It takes the place of the file's text, if the file can be read.
	Text *string `json:"text,omitzero"`
	// Mask is what secrets in results are masked with; absent: shapes and configured
	// values only, with a salt of exc's own.
	Mask *Masking `json:"mask,omitzero"`
}

// StopTurn names a turn.
type StopTurn struct {
	// SessionID is the turn's session.
	SessionID string `json:"session_id"`
	// Turn is the turn.
	Turn string `json:"turn"`
}

// CallResult is the result of a call.
type CallResult struct {
	// Result is {"ok":true,"data":{…}} or {"ok":false,"error":{"code","message"}}. With
	// placeholders of secrets, masked behind ok is their number.
	Result Raw `json:"result"`
	// Attachments is the image or PDF file that was read, as it is: it is not decoded.
	Attachments []FileData `json:"attachments,omitzero"`
	// Diff is what write and edit changed, as a unified diff of up to 64 KiB;
	// absent if nothing changed, or if the files are too large to be compared.
	Diff string `json:"diff,omitzero"`
	// Confinement is how it was run.
	Confinement *Confinement `json:"confinement,omitzero"`
	// Recovered is true if the result was recorded, or concluded, after an earlier
	// request with the key.
	Recovered bool `json:"recovered,omitzero"`
	// Undo is why undo does not cover the file changes; absent if it does. It is
	// "too_large" for write and edit of a file of more than 64 MiB, else a text.
	Undo string `json:"undo,omitzero"`
}

// Execute is code to run.
type Execute struct {
	// Executor is the name of an executor, such as "bash".
	Executor string `json:"executor"`
	// Code is the program's text. Empty code is run as well.
	Code string `json:"code"`
	// Root is the working directory, an absolute path; absent: the one that exc
	// was started in.
	Root string `json:"root,omitzero"`
	// Sandbox is the level of confinement: "off", "read-only", "workspace-write"
	// or "unit"; absent: as configured. A level that is not available on this host
	// is the error unavailable, which says why: the level is never lowered.
	Sandbox Level `json:"sandbox,omitzero"`
	// Network is whether confined code may use the network; absent: as
	// configured. Unconfined code always may: false with the level off is the
	// error invalid, unless false comes from the configuration.
	Network *bool `json:"network,omitzero"`
	// Env is the environment of the code, in place of exc's own; absent: exc's own.
	// Variables that hold secrets are dropped from either.
	Env map[string]string `json:"env,omitzero"`
	// Cwd is the working directory if no root is given, an absolute path.
	Cwd string `json:"cwd,omitzero"`
	// Umask is the file mode creation mask of the tools, as a number: 18 is 022.
	// Absent: exc's own.
	Umask *int `json:"umask,omitzero"`
	// SessionID is the session of the turn.
	SessionID string `json:"session_id,omitzero"`
	// Turn is the turn that the code belongs to.
	Turn string `json:"turn,omitzero"`
	// Key identifies the run, as that of a call.
	Key string `json:"key,omitzero"`
	// Recover asks for the result of a run that may have taken place, as that of a
	// call. A run without a result is interrupted: exit_code is -1.
	Recover bool `json:"recover,omitzero"`
	// Since is when the model asked for it, as in call.
	Since string `json:"since,omitzero"`
	// Token is the token of the turn, as in call; what the mode and the policy deny is
	// the error denied.
	Token string `json:"token,omitzero"`
	// Grant is the token of an approval, as of call.
	Grant string `json:"grant,omitzero"`
	// Ask is as in call.
	Ask string `json:"ask,omitzero"`
	// Mask is as in call.
	Mask *Masking `json:"mask,omitzero"`
}

// Result is the result of a run. A program that failed is a result, not an error.
type Result struct {
	// ExitCode is the exit status: 0 to 255, -N for death by signal N, -1 for
	// an unknown executor, a missing command or a timeout.
	ExitCode int `json:"exit_code"`
	// Stdout is the standard output, invalid UTF-8 as U+FFFD. Of more than
	// [exc] output_max bytes it has head and tail.
	Stdout string `json:"stdout"`
	// Stderr is the standard error, likewise.
	Stderr string `json:"stderr"`
	// TimedOut is true if the time limit ended the run.
	TimedOut bool `json:"timed_out,omitzero"`
	// Truncated is true if the middle of an output was left out.
	Truncated bool `json:"truncated,omitzero"`
	// Interrupted is true if exc stopped during the run, or the caller hung up:
	// the outputs end there.
	Interrupted bool `json:"interrupted,omitzero"`
	// Confinement is how the code was run; absent if it was not run.
	Confinement *Confinement `json:"confinement,omitzero"`
	// Recovered is true if the result was recorded, or concluded, after an earlier
	// request with the key.
	Recovered bool `json:"recovered,omitzero"`
	// Undo is why undo does not cover the file changes; absent if it does. It is
	// "too_large" for write and edit of a file of more than 64 MiB, else a text.
	Undo string `json:"undo,omitzero"`
	// UndoNotice is true for the first result of a turn with undo: the caller shows
	// that text as the notice undo.
	UndoNotice bool `json:"undo_notice,omitzero"`
	// Masked is the number of placeholders of secrets in the outputs.
	Masked int `json:"masked,omitzero"`
}

// Confinement is how code was run, and what it consumed, as far as the host
// reports it.
type Confinement struct {
	// Sandbox is the level that was enforced.
	Sandbox Level `json:"sandbox"`
	// Network is true if the code could use the network.
	Network bool `json:"network"`
	// Means are the mechanisms that enforced it, such as "cgroup", "landlock",
	// "seccomp", "namespaces" or "unit".
	Means []string `json:"means"`
	// Unlimited names what this host cannot enforce: the configured limits
	// "memory", "tasks" or "cpu"; at a level that Landlock alone enforces, "file
	// modes" and "protected files", which the code can change until the run ends;
	// "scan" if the root has more files than are searched for repositories and
	// other protected names; and "rules" if the code could reach what rules of the
	// policy deny to the file tools. Standard error has lines for the last two.
	Unlimited []string `json:"unlimited,omitzero"`
	// Refused are the names below the root of protected files that the run created
	// or changed. They were quarantined under the protected name with .refused- and
	// random characters appended. A name without these could not be quarantined.
	// Standard error has a line for each.
	Refused []string `json:"refused,omitzero"`
	// CPUMS is the CPU time of the code and its descendants in milliseconds;
	// absent: unknown.
	CPUMS *int64 `json:"cpu_ms,omitzero"`
	// PeakBytes is their highest memory use in bytes; absent: unknown.
	PeakBytes *int64 `json:"peak_bytes,omitzero"`
	// Limit is the limit that ended the run: "memory", "tasks", "time" or "output";
	// absent: none.
	Limit string `json:"limit,omitzero"`
}

// Validate is code to analyse.
type Validate struct {
	// Executor is the name of an executor.
	Executor string `json:"executor"`
	// Code is the program's text.
	Code string `json:"code"`
}

// Validation is the result of static analysis.
type Validation struct {
	// OK is true if the analyser reports nothing, or if none is configured or
	// installed.
	OK bool `json:"ok"`
	// Errors is the analyser's output, trimmed.
	Errors string `json:"errors"`
}

// ExecutorCapabilities lists the executors.
type ExecutorCapabilities struct {
	// Executors are the executors by name.
	Executors map[string]Executor `json:"executors"`
	// Timeout is the time limit of a run in seconds, 0 for none.
	Timeout float64 `json:"timeout"`
	// Sandbox is the level of confinement of requests that name none.
	Sandbox Level `json:"sandbox,omitzero"`
	// Network is whether code of such requests may use the network.
	Network bool `json:"network,omitzero"`
	// Sandboxes are the levels of confinement that this host offers.
	Sandboxes []Level `json:"sandboxes,omitzero"`
}

// Executor is one way to run code.
type Executor struct {
	// Command is the program that runs the file with the code.
	Command string `json:"command"`
	// FileExtension is the extension of that file, with its dot.
	FileExtension string `json:"file_extension"`
	// StaticAnalysis is the analyser's program, null without one.
	StaticAnalysis *string `json:"static_analysis"`
	// HasValidator is true if the analyser is installed.
	HasValidator bool `json:"has_validator"`
}

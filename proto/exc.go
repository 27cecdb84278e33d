package proto

// Methods of exc, which runs code.
var (
	// ExcExecute runs code and answers when everything it started is gone. Code
	// that fails, an unknown executor and a timeout are results, not errors.
	// The error busy says that no process could be started.
	ExcExecute = method[Execute, Result]("exc", "execute", "result")
	// ExcValidate has the executor's static analysis look at code. Without an
	// installed analyser all code is valid. Where code is
	// confined by configuration the analyser is confined too, and the error
	// unavailable says that this is not to be had.
	ExcValidate = method[Validate, Validation]("exc", "validate", "validation")
	// ExcCapabilities asks for the executors.
	ExcCapabilities = method[CapabilitiesRequest, ExecutorCapabilities]("exc", "capabilities", "capabilities", public)
	// ExcCall carries out a call of one of the tools read, write, edit and bash.
	// Whatever becomes of it is a result: an unknown tool, malformed input, a
	// file that is not there. Packets of type tool_output stand before the
	// answer if events were asked for. Calls that change the same file follow
	// each other.
	ExcCall = eventsMethod[Call, CallResult]("exc", "call", "call_result")
)

// Call is a call of a tool.
//
//   - read {path}: the file's text, up to 51200 bytes of it
//   - write {path, content}: makes the file, or replaces what is in it
//   - edit {path, old, new, expected_replacements = 1}: replaces a text
//   - bash {command}: runs it with sh -c, without input
//
// A relative path is relative to the root.
type Call struct {
	// Tool is the tool's name.
	Tool string `json:"tool"`
	// Input are its arguments. What is no object is a malformed call.
	Input Raw `json:"input,omitzero"`
	// Root is the directory to work in, an absolute path; absent: the one that
	// exc was started in.
	Root string `json:"root,omitzero"`
	// OutputBytes is how many bytes of standard output, and of standard error,
	// the result of bash holds: beyond it head and tail, with a line between them
	// that says how much was left out and in which file all of it is. Absent or
	// 0: [exc] output_max.
	OutputBytes int `json:"output_bytes,omitzero"`
	// Events asks for packets of type tool_output while bash runs.
	Events bool `json:"events,omitzero"`
	// Sandbox and Network are as in execute. They hold for files too: nothing is
	// written with read-only, and only below the root with workspace-write.
	Sandbox Level `json:"sandbox,omitzero"`
	// Network is whether confined code may use the network.
	Network *bool `json:"network,omitzero"`
	// Env, Cwd and Umask are the environment of the tools: see execute of exc.
	Env map[string]string `json:"env,omitzero"`
	// Cwd is the directory to work in where no root is given.
	Cwd string `json:"cwd,omitzero"`
	// Umask is the file mode creation mask.
	Umask *int `json:"umask,omitzero"`
}

// CallResult is what a call came to.
type CallResult struct {
	// Result is {"ok":true,"data":{…}} or {"ok":false,"error":{"code","message"}}.
	Result Raw `json:"result"`
	// Diff is what write and edit changed, as a unified diff of up to 64 KiB.
	// Absent if nothing changed, or if the files are too large to be compared.
	Diff string `json:"diff,omitzero"`
	// Confinement is how it was run.
	Confinement *Confinement `json:"confinement,omitzero"`
}

// Execute is code to run.
type Execute struct {
	// Executor is the name of an executor, such as "bash".
	Executor string `json:"executor"`
	// Code is the program's text. Empty code is run as well.
	Code string `json:"code"`
	// Root is the directory to run it in, an absolute path; absent: the one that
	// exc was started in.
	Root string `json:"root,omitzero"`
	// Sandbox is the level of confinement: "off", "read-only", "workspace-write"
	// or "unit"; absent: as configured. A level that is not to be had here is the
	// error unavailable, which says why: it is never lowered.
	Sandbox Level `json:"sandbox,omitzero"`
	// Network is whether confined code may use the network; absent: as
	// configured. Code that is not confined always may: false with the level off
	// is the error invalid, unless it is only configured.
	Network *bool `json:"network,omitzero"`
	// Env is the environment that the tools run with, in place of exc's own,
	// without secrets; absent: exc's own. Variables that hold secrets are
	// dropped by exc in any case.
	Env map[string]string `json:"env,omitzero"`
	// Cwd is the directory that the tools work in where no root is given, an
	// absolute path.
	Cwd string `json:"cwd,omitzero"`
	// Umask is the file mode creation mask of the tools, as a number: 18 is 022.
	// Absent: exc's own.
	Umask *int `json:"umask,omitzero"`
}

// Result is what a run of code came to. A program that failed is a result,
// not an error.
type Result struct {
	// ExitCode is the exit status: 0 to 255, -N for death by signal N, -1 for
	// an unknown executor, a missing command or a timeout.
	ExitCode int `json:"exit_code"`
	// Stdout is the standard output, bad UTF-8 as U+FFFD, up to
	// [exc] output_max bytes: beyond it head and tail stay.
	Stdout string `json:"stdout"`
	// Stderr is the standard error, likewise.
	Stderr string `json:"stderr"`
	// TimedOut is true if the time limit ended the run.
	TimedOut bool `json:"timed_out,omitzero"`
	// Truncated is true if the middle of an output was left out.
	Truncated bool `json:"truncated,omitzero"`
	// Interrupted is true if exc stopped in the middle of the run, or the caller
	// hung up: the outputs are those up to then.
	Interrupted bool `json:"interrupted,omitzero"`
	// Confinement is how it was run; absent if it was not run.
	Confinement *Confinement `json:"confinement,omitzero"`
}

// Confinement is how code was run, and what it took, as far as the host tells.
type Confinement struct {
	// Sandbox is the level that was reached.
	Sandbox Level `json:"sandbox"`
	// Network is true if the code could use the network.
	Network bool `json:"network"`
	// Means are what enforced it, such as "cgroup", "landlock", "seccomp",
	// "namespaces" or "unit".
	Means []string `json:"means"`
	// Unlimited names what this host cannot enforce: configured limits, "memory",
	// "tasks" or "cpu"; at a level that Landlock alone holds up, "file modes" and
	// "protected files", which the code can change until the run ends; and "scan"
	// if the root holds more files than are looked through for repositories and
	// other protected names. Standard error has a line for that.
	Unlimited []string `json:"unlimited,omitzero"`
	// Refused are the names below the root of what stood in protected places after
	// the run and not before, or had changed: it was quarantined, under the
	// protected name with .refused- and random characters behind it. A name without
	// them could not be quarantined. Standard error has a line for each.
	Refused []string `json:"refused,omitzero"`
	// CPUMS is the CPU time of the code and all that it started, in milliseconds;
	// absent: unknown.
	CPUMS *int64 `json:"cpu_ms,omitzero"`
	// PeakBytes is the most memory that they had at a time; absent: unknown.
	PeakBytes *int64 `json:"peak_bytes,omitzero"`
	// Limit names the limit that ended the run: "memory", "tasks", "time" or
	// "output"; absent: none did.
	Limit string `json:"limit,omitzero"`
}

// Validate is code to look at.
type Validate struct {
	// Executor is the name of an executor.
	Executor string `json:"executor"`
	// Code is the program's text.
	Code string `json:"code"`
}

// Validation is the verdict of static analysis.
type Validation struct {
	// OK is true if nothing was found, or if no analyser is configured or installed.
	OK bool `json:"ok"`
	// Errors are the analyser's words, trimmed; empty where it had none.
	Errors string `json:"errors"`
}

// ExecutorCapabilities lists the executors.
type ExecutorCapabilities struct {
	// Executors are the executors by name.
	Executors map[string]Executor `json:"executors"`
	// Timeout is the time limit of a run in seconds, 0 for none.
	Timeout float64 `json:"timeout"`
}

// Executor is one way to run code.
type Executor struct {
	// Command is the program that is given the file with the code.
	Command string `json:"command"`
	// FileExtension is the extension of that file, with its dot.
	FileExtension string `json:"file_extension"`
	// StaticAnalysis is the analyser's program, null where there is none.
	StaticAnalysis *string `json:"static_analysis"`
	// HasValidator is true if the analyser is installed.
	HasValidator bool `json:"has_validator"`
}

package proto

// UnitRun runs one command in a systemd unit of its own (sandbox level "unit").
// zino-run.socket starts a unit zino-run@ for each connection, and zino-exc
// --run answers one request on that connection. Packets of type output (a
// RunOutput) come while the command runs. Closing the connection ends the command
// with SIGTERM, then SIGKILL. Only zino-exc and root may call it.
var UnitRun = eventsMethod[RunCommand, RunEnd]("run", "run", "end")

// UnitRemoveHome removes a home that units of zino-home.socket keep. An unknown one is
// removed already.
var UnitRemoveHome = method[RemoveHome, Empty]("run", "remove_home", "ok")

// TypeOutput is the type of the packet with a RunOutput.
const TypeOutput = "output"

// RunCommand is a command to run.
type RunCommand struct {
	// Argv is the command's name and its arguments, at least the name.
	Argv []string `json:"argv"`
	// Env is the environment, each NAME=value. HOME and TMPDIR are set to a
	// private directory.
	Env []string `json:"env"`
	// Dir is the working directory; absent: the private directory.
	Dir string `json:"dir,omitzero"`
	// Umask is the file mode creation mask; absent: the unit's.
	Umask *int `json:"umask,omitzero"`
	// Script is a file whose path becomes the last argument.
	Script *RunScript `json:"script,omitzero"`
	// TimeoutMS is the time in milliseconds after which the command is stopped;
	// absent: no limit.
	TimeoutMS int64 `json:"timeout_ms,omitzero"`
	// GraceMS is the time in milliseconds between SIGTERM and SIGKILL.
	GraceMS int64 `json:"grace_ms,omitzero"`
	// OutputMax is how many bytes the command may print before it is stopped;
	// absent: no limit.
	OutputMax int64 `json:"output_max,omitzero"`
	// Limits names the configured limits: "memory", "tasks" or "cpu". The answer
	// lists those that the unit does not enforce.
	Limits []string `json:"limits,omitzero"`
	// Home is the name of a home of the command's own that is kept, 64 hexadecimal
	// digits: HOME is that, and the working directory without dir. Commands with other
	// homes cannot open it. Only units of zino-home.socket keep homes; absent: none.
	Home string `json:"home,omitzero"`
	// HomeMax is how many bytes the home may take when the command starts. A larger one
	// is the error invalid.
	HomeMax int64 `json:"home_max,omitzero"`
}

// RunScript is the script of a command.
type RunScript struct {
	// Text is the content of the file.
	Text string `json:"text"`
	// Extension is the extension of the file's name, with its dot.
	Extension string `json:"extension,omitzero"`
}

// RunOutput is a piece of the command's output, up to 32 KiB of it.
type RunOutput struct {
	// Stream is "stdout" or "stderr".
	Stream string `json:"stream"`
	// Data is the bytes in base64: they need not be UTF-8.
	Data string `json:"data"`
}

// Values of RunEnd.Verdict.
const (
	RunExited     = "exit"    // Number is the exit status, 0 to 255
	RunSignaled   = "signal"  // Number is the signal
	RunUnstarted  = "start"   // the command could not be started; Number is the errno
	RunUnconfined = "confine" // the command was not started because it could not be confined; Why says why
)

// RunEnd is the end of a command.
type RunEnd struct {
	// Verdict is "exit", "signal", "start" or "confine"; empty: unknown, the
	// supervisor of the command was killed.
	Verdict string `json:"verdict"`
	// Number is the exit status, the signal or the errno.
	Number int `json:"number,omitzero"`
	// Why is the reason of a command that could not be confined.
	Why string `json:"why,omitzero"`
	// CPUMS is the CPU time of the unit in milliseconds; absent: unknown.
	CPUMS *int64 `json:"cpu_ms,omitzero"`
	// PeakBytes is the unit's highest memory use in bytes; absent: unknown.
	PeakBytes *int64 `json:"peak_bytes,omitzero"`
	// Limit is the limit that the command reached: "time", "output", "memory" or
	// "tasks"; absent: none, or unknown.
	Limit string `json:"limit,omitzero"`
	// Unlimited names the requested limits that the unit does not enforce.
	Unlimited []string `json:"unlimited,omitzero"`
}

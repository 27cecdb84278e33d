package proto

// Methods of exc for programs with standard input: MCP servers and hooks.
var (
	// ExcPipe runs a program until it ends or the caller hangs up. Packets come in this
	// order: pipe_started with pipe, the id, and confinement; pipe_output with stream,
	// "stdout" or "stderr", and text, up to 256 KiB of whole characters, as long as the
	// program prints; the result. A caller that stops reading blocks the program. Hanging up ends it:
	// SIGTERM, 2 seconds later SIGKILL for all that it started. Processes that the
	// program leaves when it ends are killed, too. No time limit of exc holds for it.
	ExcPipe = eventsMethod[Pipe, PipeResult]("exc", "pipe", "result")
	// ExcPipeWrite writes to the standard input of a program, and answers when the
	// program, or the pipe in front of it, has taken all of the text. An id that is
	// unknown, or whose program has ended, is the error not_found; a standard input that
	// is closed is invalid; the pipe of another user is denied.
	ExcPipeWrite = method[PipeWrite, Empty]("exc", "pipe_write", "ok")
	// ExcRemoveHome removes the home of a program that is not used any more. An unknown
	// one is removed already. The error busy means that its program runs.
	ExcRemoveHome = method[RemoveHome, Empty]("exc", "remove_home", "ok")
)

// Types of the packets of pipe.
const (
	TypePipeStarted = "pipe_started" // PipeStarted
	TypePipeOutput  = "pipe_output"  // PipeOutput
)

// Limits of pipe.
const (
	PipeStdinMax  = 1 << 20   // bytes of stdin
	PipeOutputMax = 256 << 10 // bytes of the text of a packet
)

// Pipe is a program to run.
type Pipe struct {
	// Argv is the program's name and its arguments. A name without a slash is looked up
	// in PATH of the program's environment.
	Argv []string `json:"argv"`
	// Base is the environment of the caller, without variables that hold secrets, as env
	// of execute; absent: exc's own.
	Base map[string]string `json:"base,omitzero"`
	// Env are variables of the program besides. They may hold secrets: they are not
	// filtered, and never logged.
	Env map[string]string `json:"env,omitzero"`
	// Root is the directory that the program may work in, and its working directory, an
	// absolute path; absent: see cwd.
	Root string `json:"root,omitzero"`
	// Cwd is the working directory if no root is given, an absolute path; absent: the one
	// that exc was started in. With home, and without root and cwd, it is the home.
	Cwd string `json:"cwd,omitzero"`
	// Sandbox is as in execute. Confinement holds as long as the program runs.
	Sandbox Level `json:"sandbox,omitzero"`
	// Network is as in execute. The level unit has units with and without it.
	Network *bool `json:"network,omitzero"`
	// Name is shown to people, such as "mcp github".
	Name string `json:"name,omitzero"`
	// Stdin is the program's standard input, up to 1 MiB, which then ends; absent: it
	// comes with pipe_write.
	Stdin *string `json:"stdin,omitzero"`
	// TimeoutS is the time in seconds after which the program is ended; absent or 0: no
	// limit.
	TimeoutS float64 `json:"timeout_s,omitzero"`
	// Home asks for a directory of the program's own that is kept, with its caches: it is
	// HOME at the confined levels, where no other program sees it. The name is a hash of the
	// program's definition, 64 hexadecimal digits. At the level off HOME stays the user's.
	// At the level unit, where the kernel's Landlock is older than Linux 6.12, the home ends
	// with the unit. A home of more than 2 GiB is the error invalid.
	Home string `json:"home,omitzero"`
	// SessionID is the session of the turn that the program belongs to; absent: none.
	SessionID string `json:"session_id,omitzero"`
	// Turn is that turn.
	Turn string `json:"turn,omitzero"`
	// Token is the token of the turn, as in call. A program without session_id and turn is
	// a server: where [gate] require_token is set it needs the token of a server, without
	// base, and absent is the error approval, whose details are an ApprovalNeeded of the
	// kind "server". The daemon answers it at agr's checkpoint; the grant that agr gets is
	// this token. It holds for 24 hours, and its end ends no program.
	Token string `json:"token,omitzero"`
	// Umask is as in execute.
	Umask *int `json:"umask,omitzero"`
}

// PipeStarted is the first packet of a program that runs.
type PipeStarted struct {
	// Pipe is the id for pipe_write, 32 hexadecimal digits.
	Pipe string `json:"pipe"`
	// Confinement is how the program runs.
	Confinement Confinement `json:"confinement"`
}

// PipeOutput is output of a program.
type PipeOutput struct {
	// Stream is "stdout" or "stderr".
	Stream string `json:"stream"`
	// Text is the next part of it, up to 256 KiB, invalid UTF-8 as U+FFFD. No character is
	// split. It is not masked.
	Text string `json:"text"`
}

// PipeResult is the end of a program.
type PipeResult struct {
	// ExitCode is the exit status, -N for death by signal N, -1 if it could not be
	// started.
	ExitCode int `json:"exit_code"`
	// TimedOut is true if timeout_s has ended it.
	TimedOut bool `json:"timed_out,omitzero"`
	// Confinement is how the program ran.
	Confinement *Confinement `json:"confinement,omitzero"`
}

// PipeWrite is input for a program.
type PipeWrite struct {
	// Pipe is the id of pipe_started.
	Pipe string `json:"pipe"`
	// Text is written to its standard input; absent: nothing.
	Text string `json:"text,omitzero"`
	// Close closes its standard input, behind the text.
	Close bool `json:"close,omitzero"`
}

// RemoveHome names a home.
type RemoveHome struct {
	// Home is as in pipe.
	Home string `json:"home"`
}

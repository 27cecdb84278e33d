package proto

// Events at which hooks run. PreCompact is another name of PreHandoff.
const (
	HookSessionStart = "SessionStart"     // the first turn of a session, or the first since it was resumed
	HookUserPrompt   = "UserPromptSubmit" // before a message of the user is stored
	HookPreTool      = "PreToolUse"       // before a call is stored and approved
	HookPostTool     = "PostToolUse"      // when a call has a result
	HookStop         = "Stop"             // before a turn ends well
	HookPreHandoff   = "PreHandoff"       // before a handoff is drafted
	HookPreCompact   = "PreCompact"       // likewise
	HookNotification = "Notification"     // an approval waits, or a long turn has ended
)

// HookEvents lists the events.
var HookEvents = []string{
	HookSessionStart, HookUserPrompt, HookPreTool, HookPostTool, HookStop, HookPreHandoff, HookPreCompact, HookNotification,
}

// Values of Hook.OnFailure.
const (
	HookAllow = "allow" // a hook that fails decides nothing
	HookBlock = "block" // a hook that fails blocks
)

// Sources of hooks, in the order in which their results count.
const (
	SourceHost    = "host"
	SourceUser    = "user"
	SourceProject = "project"
)

// Methods of the daemon for hooks.
var (
	// DaemonHooks lists the hooks of turns with that root, in the order in which their
	// results count.
	DaemonHooks = method[ListHooks, HookList]("daemon", "hooks", "hook_list")
	// DaemonTestHooks runs the hooks of an event as a turn would. Nothing is stored, and
	// their decision has no effect.
	DaemonTestHooks = method[TestHooks, HookTest]("daemon", "test_hooks", "hook_test")
)

// Hook is a command of a host, a user or a project that runs at an event.
type Hook struct {
	// Event is the event's name.
	Event string `json:"event"`
	// Matcher is a regular expression (RE2) that matches the whole name of a tool; of
	// SessionStart the source, of PreHandoff the trigger, of Notification the type. Empty
	// or "*": all.
	Matcher string `json:"matcher,omitzero"`
	// Command is run with sh -c.
	Command string `json:"command"`
	// TimeoutMS is after how many milliseconds it is stopped, 100 to 600000.
	TimeoutMS int64 `json:"timeout_ms"`
	// OnFailure is "allow" or "block".
	OnFailure string `json:"on_failure,omitzero"`
	// Network false takes the network from a hook of a confined turn; absent: that of the
	// turn.
	Network *bool `json:"network,omitzero"`
	// Source is "host", "user" or "project".
	Source string `json:"source,omitzero"`
	// File is the file that configures it.
	File string `json:"file,omitzero"`
	// Scripts is the folder beside the file of a project, as it was trusted. It is hashed
	// again before each run, which a difference refuses.
	Scripts *HookScripts `json:"scripts,omitzero"`
	// Timeouts is how often the command was stopped for its time in the session. After the
	// third time it is off for the session, unless it blocks on failure.
	Timeouts int `json:"timeouts,omitzero"`
}

// HookScripts is a folder that hooks of a project run files of.
type HookScripts struct {
	// Dir is its path.
	Dir string `json:"dir"`
	// SHA256 is its hash, as that of a skill's folder; absent: it did not exist.
	SHA256 string `json:"sha256,omitzero"`
}

// HookVerdict is what hooks have decided about a call. It is stored with the call, so that
// a resumed turn keeps to it.
type HookVerdict struct {
	// Decision is "deny", "ask", or empty.
	Decision string `json:"decision,omitzero"`
	// Reason is why, for the model.
	Reason string `json:"reason,omitzero"`
	// Context is a text for the model that is appended to the result.
	Context string `json:"context,omitzero"`
}

// Decisions of hooks.
const (
	HookDeny     = "deny"
	HookAsk      = "ask"
	HookPermit   = "allow"
	HookEndsTurn = "stop" // the turn ends
	HookNone     = "none"
)

// HookRan reports a hook of a run to the daemon, which counts: a packet that is not
// passed on.
type HookRan struct {
	// Hook is the hook's short name.
	Hook string `json:"hook"`
	// Command is its command.
	Command string `json:"command"`
	// TimedOut is true if it was stopped for its time.
	TimedOut bool `json:"timed_out,omitzero"`
	// Allowed is the tool that it allowed, which has no effect.
	Allowed string `json:"allowed,omitzero"`
}

// ListHooks selects the hooks of a root.
type ListHooks struct {
	// Root is the working directory of the turns, an absolute path; absent: no project.
	Root string `json:"root,omitzero"`
}

// HookList lists hooks.
type HookList struct {
	// Hooks are the hooks.
	Hooks []Hook `json:"hooks"`
	// Problems are remarks on files and entries that are not used.
	Problems []string `json:"problems,omitzero"`
}

// TestHooks is an event that does not happen.
type TestHooks struct {
	// Event is its name.
	Event string `json:"event"`
	// Root is the working directory, an absolute path.
	Root string `json:"root,omitzero"`
	// Tool is the name of the tool, for PreToolUse and PostToolUse.
	Tool string `json:"tool,omitzero"`
	// Input is the call's arguments, an object; for other events fields of the input of
	// the hooks.
	Input Raw `json:"input,omitzero"`
	// Response is the result of the call, for PostToolUse.
	Response Raw `json:"response,omitzero"`
	// Sandbox is the level of confinement; absent: as configured.
	Sandbox Level `json:"sandbox,omitzero"`
	// Network is whether confined code may use the network.
	Network *bool `json:"network,omitzero"`
	// Env is the environment of the hooks: see chat.
	Env map[string]string `json:"env,omitzero"`
}

// HookTest is the result of hooks.
type HookTest struct {
	// Input is what each hook read.
	Input Raw `json:"input"`
	// Runs are the hooks that matched, in the order in which their results count.
	Runs []HookRun `json:"runs"`
	// Decision is "deny", "ask", "allow", "stop" or "none".
	Decision string `json:"decision"`
	// Reason is why.
	Reason string `json:"reason,omitzero"`
	// RunInput is the changed input of the call; absent: not changed.
	RunInput Raw `json:"run_input,omitzero"`
	// Context is what is added for the model.
	Context string `json:"context,omitzero"`
	// Notices are lines for the user.
	Notices []string `json:"notices,omitzero"`
}

// HookRun is one hook's run.
type HookRun struct {
	// Hook is its short name.
	Hook string `json:"hook"`
	// Command is its command.
	Command string `json:"command"`
	// Source is "host", "user" or "project".
	Source string `json:"source"`
	// ExitCode is the exit status, -N for death by signal N.
	ExitCode int `json:"exit_code"`
	// DurationMS is the time that it took, in milliseconds.
	DurationMS int64 `json:"duration_ms"`
	// Stdout is the start of what it printed.
	Stdout string `json:"stdout,omitzero"`
	// Stderr is likewise.
	Stderr string `json:"stderr,omitzero"`
	// Failure says what went wrong; absent: nothing.
	Failure string `json:"failure,omitzero"`
}

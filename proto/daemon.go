package proto

// Methods of the daemon, the entrance for clients.
var (
	// DaemonChat answers a message: it assembles the prompt, runs the agent and
	// stores the turn. The request has no "type".
	DaemonChat = textMethod[Chat]("daemon", "", "response")
	// DaemonForward passes a request on to another service, and its answer back
	// unchanged. Only methods that are marked as open to forward can be reached;
	// anything else is the error denied.
	DaemonForward = method[Forward, Empty]("daemon", "forward", "")
	// DaemonContext reports what a turn of a session would send to the model, with
	// sizes. No model is asked and nothing is stored.
	DaemonContext = method[Preview, ContextReport]("daemon", "context", "context_report")
	// DaemonHandoff makes a bundle of a session: a Markdown document from which a
	// new session can continue towards a goal, to be edited before use. The model
	// drafts it; what it leaves out, and everything if offline is set, is taken
	// from the session's events. Nothing is stored.
	DaemonHandoff = method[Handoff, HandoffBundle]("daemon", "handoff", "handoff_bundle")
	// DaemonTurnStart starts a turn of a session that goes on without its caller: see
	// turn_follow. The answer comes when the turn and the user's message are on disk.
	// A session has up to 16 queued turns, a daemon 256 running and queued ones and
	// 10000 parked ones; beyond that it is the error busy.
	DaemonTurnStart = method[TurnStart, TurnStarted]("daemon", "turn_start", "turn")
	// DaemonTurnFollow sends the packets of a session's turns: stored ones from the
	// session log, then new ones as they happen. It never delays a turn: a slow
	// follower gets the stored packets from the log, and no piece of text twice. A
	// turn has up to 256 followers, a daemon 1024; beyond that it is the error busy.
	DaemonTurnFollow = eventsMethod[TurnFollow, Followed]("daemon", "turn_follow", "followed")
	// DaemonTurnSay adds a message of the user to the open turn of a session. Up to
	// 32 of them, and 256 KiB in all, may wait; beyond that it is the error busy.
	DaemonTurnSay = method[TurnSay, Said]("daemon", "turn_say", "said")
	// DaemonTurnMode changes the mode of an open turn from its next step on; the answer
	// names it. Only the user of the turn may do so, and root.
	DaemonTurnMode = method[TurnMode, TurnStarted]("daemon", "turn_mode", "turn")
	// DaemonTurnCancel ends a turn and its foreground commands. The answer comes when
	// the end is stored: after 5 s it is the error timeout, and the turn ends
	// nevertheless. A turn that has ended stays as it is.
	DaemonTurnCancel = method[TurnCancel, TurnStarted]("daemon", "turn_cancel", "turn")
	// DaemonAnswerFile answers a packet file_requested within 2 seconds. Where the answer
	// has no text, comes late or does not come, the file on disk is read. After a late
	// one the turn asks no more until a client follows it anew.
	DaemonAnswerFile = method[AnswerFile, Empty]("daemon", "answer_file", "ok")
	// DaemonRunCommand runs a command of the user with the tool bash, as a turn of its
	// own that asks no model: tool_started, tool_output and tool_finished, with the turn
	// in each, come before the answer. The session is locked until the end; with an open
	// turn it is the error busy. Closing the connection, or turn_cancel, ends the command
	// and all that it started. A command that fails is a result, not an error.
	DaemonRunCommand = eventsMethod[SessionCommand, CommandDone]("daemon", "run_command", "done")
	// DaemonRenameSession gives a session a title: the event title, of which the last
	// one counts. It is stored also while a turn is open, and followers get a packet title.
	DaemonRenameSession = method[RenameSession, Empty]("daemon", "rename_session", "ok")
	// DaemonRedact replaces the secrets in a session by placeholders, or those in all that
	// the services keep. Each place with secrets is a packet redacted. A session with an
	// open turn is the error busy; with all it is a packet with left.
	DaemonRedact = eventsMethod[Redact, RedactDone]("daemon", "redact", "redact_done")
	// DaemonAttach stores an image or PDF file with a session, which need not exist yet: see
	// put_attachment of mem. A message names it in attachments.
	DaemonAttach = method[AttachFile, Attachment]("daemon", "attach", "attachment")
	// DaemonTurns lists turns, the newest first.
	DaemonTurns = method[ListTurns, TurnList]("daemon", "turns", "turn_list")
)

// Chat is a message to the assistant.
type Chat struct {
	// Message is the user's text. White space around it is dropped; a blank text
	// is the error "Empty message.".
	Message string `json:"message,omitzero"`
	// ChannelID is the channel whose history the turn belongs to; absent: nothing
	// is stored.
	ChannelID string `json:"channel_id,omitzero"`
	// Stream asks for chunks as they come.
	Stream bool `json:"stream,omitzero"`
	// NeedModel makes it an error if no model is available; absent: the offline
	// provider answers in its place.
	NeedModel bool `json:"need_model,omitzero"`
	// SessionID makes the message a turn of that terminal session, which need not
	// exist yet: an id of letters, digits, '.', '_' and '-'. Turns of a session
	// follow each other. Each step is stored before it is passed on, so that
	// nothing the caller has seen is lost. channel_id is ignored then.
	SessionID string `json:"session_id,omitzero"`
	// Root is the working directory of the tools, an absolute path, whose
	// AGENTS.md files are added to the prompt; absent: none.
	Root string `json:"root,omitzero"`
	// SystemPrompt replaces the configured prompt and the template for this turn;
	// empty: no prompt.
	SystemPrompt *string `json:"system_prompt,omitzero"`
	// Provider replaces the configured one: see infer of rtr.
	Provider string `json:"provider,omitzero"`
	// Model replaces the configured one.
	Model string `json:"model,omitzero"`
	// MaxTokens limits each answer, in tokens.
	MaxTokens int `json:"max_tokens,omitzero"`
	// Effort is how much the model reasons: "off", "low", "medium", "high" or
	// "max"; absent: as configured, else the model's default.
	Effort string `json:"effort,omitzero"`
	// NoSave stores nothing of the turn. The session's earlier turns are sent to
	// the model nevertheless.
	NoSave bool `json:"no_save,omitzero"`
	// Sandbox is the level of confinement for code that the model has run: see
	// execute of exc.
	Sandbox Level `json:"sandbox,omitzero"`
	// Network is whether confined code may use the network; absent: as
	// configured.
	Network *bool `json:"network,omitzero"`
	// Files are images and PDF files for the model, prepared as by zino-attach: up to 20
	// with attachments, and 10 MiB. They are stored with the session. Send others with
	// attach.
	Files []FileData `json:"files,omitzero"`
	// Attachments are files that were stored with the session.
	Attachments []AttachmentRef `json:"attachments,omitzero"`
	// Env is the caller's environment, for the tools of this turn: variables that
	// hold secrets are dropped. Env, cwd and umask are accepted from the daemon's
	// own user and dropped for all others: in a constellation that several users
	// share, tools run with the services' environment.
	Env map[string]string `json:"env,omitzero"`
	// Cwd is the caller's working directory, an absolute path, and that of the
	// tools if no root is given.
	Cwd string `json:"cwd,omitzero"`
	// Umask is the caller's file mode creation mask, as a number: 18 is 022.
	Umask *int `json:"umask,omitzero"`
	// Recall is whether a session that the message creates is part of recall_sessions
	// of mem; absent: it is.
	Recall *bool `json:"recall,omitzero"`
	// Mode decides about the calls of the model that no rule of a policy decides: "plan"
	// (nothing is changed, and the sandbox is read-only), "ask", "auto" (what the sandbox
	// confines is allowed), "yolo" (everything is allowed), or "derived": [gate] mode, else
	// auto at confined levels of the sandbox and yolo at off. Absent: yolo.
	Mode string `json:"mode,omitzero"`
	// Reachable is true if a person can be asked during the turn. What would be asked
	// otherwise is denied.
	Reachable bool `json:"reachable,omitzero"`
	// OutputSchema is a JSON Schema, of draft 2020-12 or 7 and up to 256 KiB, of the
	// last answer. That is asked for again, up to twice, if it does not match: then
	// the turn ends with an error of the kind schema. It needs session_id.
	OutputSchema Raw `json:"output_schema,omitzero"`
	// Command is the name of a slash command whose text is the message, in place of
	// message: see commands.
	Command string `json:"command,omitzero"`
	// Arguments are the arguments of the command, as one text.
	Arguments string `json:"arguments,omitzero"`
	// ClientFiles is true if the caller follows the turn with client_files of turn_follow:
	// the tool read asks there for the text of a file.
	ClientFiles bool `json:"client_files,omitzero"`
	// MCPServers are MCP servers that the caller brings for this turn, in the form of
	// .mcp.json. They are not part of the session log.
	MCPServers Raw `json:"mcp_servers,omitzero"`
	// Events asks for typed packets in place of chunks: see Events. It implies
	// stream.
	Events bool `json:"events,omitzero"`
}

// ModeDerived is the mode that stands for the one of the configuration, or of the sandbox.
const ModeDerived = "derived"

// Streaming reports whether the caller asked for chunks.
func (c Chat) Streaming() bool { return c.Stream || c.Events }

// Preview is a turn that is not run. Its fields are those of a chat request.
type Preview struct {
	// SessionID is the session; absent: a new one.
	SessionID string `json:"session_id,omitzero"`
	// Root is the working directory of the tools.
	Root string `json:"root,omitzero"`
	// SystemPrompt replaces the configured prompt and the template.
	SystemPrompt *string `json:"system_prompt,omitzero"`
	// Sandbox is the level of confinement of the turn.
	Sandbox Level `json:"sandbox,omitzero"`
	// Network is whether confined code may use the network.
	Network *bool `json:"network,omitzero"`
}

// ContextReport is what a turn would send.
type ContextReport struct {
	// Parts are the parts in the order in which they are sent.
	Parts []ContextPart `json:"parts"`
	// Tokens is the sum. A token is estimated as four bytes.
	Tokens int64 `json:"tokens"`
	// Template is the path of the template or system_prompt_file that the system
	// prompt was built from; absent if another text replaces it.
	Template string `json:"template,omitzero"`
	// TemplateMissing is true if the file does not exist.
	TemplateMissing bool `json:"template_missing,omitzero"`
	// Skills are the skills that were found: see get of sys.
	Skills []Skill `json:"skills,omitzero"`
	// Warnings are remarks, such as on a file that cannot be read.
	Warnings []string `json:"warnings,omitzero"`
}

// ContextPart is one part of what a turn would send.
type ContextPart struct {
	// Name is "system prompt", the path of an AGENTS.md file, "tools" or
	// "messages".
	Name string `json:"name"`
	// Tokens is its size, estimated.
	Tokens int64 `json:"tokens"`
	// Content is the part as sent: a text, or JSON.
	Content string `json:"content"`
}

// Handoff asks for a bundle.
type Handoff struct {
	// Goal is what is to be done next, in the user's words.
	Goal string `json:"goal"`
	// SessionID is the session's id or a prefix of it; absent: the session that
	// changed last.
	SessionID string `json:"session_id,omitzero"`
	// Root is the directory that paths in the bundle are relative to.
	Root string `json:"root,omitzero"`
	// Offline makes the bundle of the events alone, without a model.
	Offline bool `json:"offline,omitzero"`
	// Provider replaces the configured one: see infer of rtr.
	Provider string `json:"provider,omitzero"`
	// Model replaces the configured one.
	Model string `json:"model,omitzero"`
	// MaxTokens limits the model's answer, in tokens.
	MaxTokens int `json:"max_tokens,omitzero"`
	// Effort is how much the model reasons, as of chat.
	Effort string `json:"effort,omitzero"`
}

// HandoffBundle is the document for a new session.
type HandoffBundle struct {
	// SessionID is the session's whole id.
	SessionID string `json:"session_id"`
	// Content is the bundle in Markdown, with the sections Goal, Starter prompt,
	// Relevant files, Open tasks and Repro commands.
	Content string `json:"content"`
	// Filled names the sections that the model left out or that were malformed.
	Filled []string `json:"filled,omitzero"`
}

// Forward is a request for another service.
type Forward struct {
	// Service is the short name of the service: daemon, rtr, agr, sys, exc, mem or ctx.
	Service string `json:"service"`
	// Request is the whole request for it, an object with its "type".
	Request Raw `json:"request"`
}

// TurnStart is a message that starts a turn. The fields up to mcp_servers are those of a
// chat request.
type TurnStart struct {
	// Message is the user's text.
	Message string `json:"message,omitzero"`
	// SessionID is the session, which need not exist yet; absent: a new UUID. With
	// request_id it is made of the caller's uid and the request_id, so that a repeat
	// names the same session.
	SessionID string `json:"session_id,omitzero"`
	// NeedModel makes it an error if no model is available.
	NeedModel bool `json:"need_model,omitzero"`
	// Root is the working directory of the tools, an absolute path.
	Root string `json:"root,omitzero"`
	// SystemPrompt replaces the configured prompt and the template.
	SystemPrompt *string `json:"system_prompt,omitzero"`
	// Provider replaces the configured one.
	Provider string `json:"provider,omitzero"`
	// Model replaces the configured one.
	Model string `json:"model,omitzero"`
	// MaxTokens limits each answer, in tokens.
	MaxTokens int `json:"max_tokens,omitzero"`
	// Effort is how much the model reasons.
	Effort string `json:"effort,omitzero"`
	// NoSave must be absent or false: the turn is stored.
	NoSave bool `json:"no_save,omitzero"`
	// Sandbox is the level of confinement.
	Sandbox Level `json:"sandbox,omitzero"`
	// Network is whether confined code may use the network.
	Network *bool `json:"network,omitzero"`
	// Files are images and PDF files for the model, as of a chat request.
	Files []FileData `json:"files,omitzero"`
	// Attachments are files that were stored with the session.
	Attachments []AttachmentRef `json:"attachments,omitzero"`
	// Env is the caller's environment. It is kept outside of the session log as long
	// as the turn is open.
	Env map[string]string `json:"env,omitzero"`
	// Cwd is the caller's working directory, an absolute path.
	Cwd string `json:"cwd,omitzero"`
	// Umask is the caller's file mode creation mask.
	Umask *int `json:"umask,omitzero"`
	// Recall is whether a new session is part of recall_sessions.
	Recall *bool `json:"recall,omitzero"`
	// Mode is the mode of approval.
	Mode string `json:"mode,omitzero"`
	// Reachable is true if a person can be asked during the turn.
	Reachable bool `json:"reachable,omitzero"`
	// OutputSchema is a JSON Schema of the last answer.
	OutputSchema Raw `json:"output_schema,omitzero"`
	// Command is the name of a slash command whose text is the message, in place of message.
	Command string `json:"command,omitzero"`
	// Arguments are the arguments of the command.
	Arguments string `json:"arguments,omitzero"`
	// ClientFiles is true if the caller follows the turn with client_files.
	ClientFiles bool `json:"client_files,omitzero"`
	// MCPServers are MCP servers that the caller brings for this turn.
	MCPServers Raw `json:"mcp_servers,omitzero"`
	// RequestID identifies the message: up to 64 of the characters A-Z, a-z, 0-9, _
	// and -, made at random. A repeat returns the turn that the first one started, if
	// that is open or among the last 20 of the session.
	RequestID string `json:"request_id,omitzero"`
	// OnBusy is "queue" (the default): the turn follows those that are open; or
	// "error": while a turn is open, the answer is the error busy.
	OnBusy string `json:"on_busy,omitzero"`
	// OnLimit is "stop" or "park": whether the turn waits for the reset that a
	// provider or the budget names; absent: as configured.
	OnLimit string `json:"on_limit,omitzero"`
}

// Values of TurnStart.OnBusy.
const (
	OnBusyQueue = "queue"
	OnBusyError = "error"
)

// TurnStarted is a turn and its state.
type TurnStarted struct {
	// SessionID is the session's whole id.
	SessionID string `json:"session_id"`
	// Turn is the turn's id.
	Turn string `json:"turn"`
	// State is the turn's state: see the turn event of the session log; or "waiting":
	// another constellation has the session locked.
	State string `json:"state"`
	// Next is the offset behind the events of the start; absent: nothing is stored.
	Next int64 `json:"next,omitzero"`
	// Mode is the mode of the turn, in the answer to turn_start.
	Mode string `json:"mode,omitzero"`
	// Durable is false if the turn is lost when the daemon ends; absent: it is stored.
	Durable *bool `json:"durable,omitzero"`
	// Ended is true in the answer to turn_cancel if the turn had ended before.
	Ended bool `json:"ended,omitzero"`
}

// TurnFollow selects packets of a session.
type TurnFollow struct {
	// SessionID is the session's whole id.
	SessionID string `json:"session_id"`
	// Turn is the turn; absent: the open one, else the last one.
	Turn string `json:"turn,omitzero"`
	// From is the offset to begin at, a next of an earlier packet; 0: the whole
	// session; absent: the start of the turn.
	From *int64 `json:"from,omitzero"`
	// Until is "turn" (the default): the packets end with the turn; or "close": they
	// go on over later turns until the connection is closed.
	Until string `json:"until,omitzero"`
	// Inputs says that a person is there who can answer what MCP servers ask for: see
	// answer_input. Only then packets of types input_requested and input_closed come.
	Inputs bool `json:"inputs,omitzero"`
	// ClientFiles is true if the caller answers packets file_requested, which it gets then.
	ClientFiles bool `json:"client_files,omitzero"`
	// Gather joins the pieces of text that come within 30 ms into one assistant_delta, for
	// a program that draws frames. Other packets come at once, with the text before them.
	Gather bool `json:"gather,omitzero"`
}

// Values of TurnFollow.Until.
const (
	UntilTurn  = "turn"
	UntilClose = "close"
)

// Followed ends the packets of turn_follow.
type Followed struct {
	// SessionID is the session's id.
	SessionID string `json:"session_id"`
	// Turn is the turn that was followed; absent: the session has no turn events.
	Turn string `json:"turn,omitzero"`
	// State is its state.
	State string `json:"state"`
	// Next is the offset behind the last event that was sent.
	Next int64 `json:"next"`
	// Reason is "restart" if the daemon stops: ask again.
	Reason string `json:"reason,omitzero"`
}

// TurnMode is a change of a turn's mode.
type TurnMode struct {
	// SessionID is the whole id of the session.
	SessionID string `json:"session_id"`
	// Turn is the turn; absent: the open one.
	Turn string `json:"turn,omitzero"`
	// Mode is "plan", "ask", "auto", "yolo" or "derived", as of turn_start.
	Mode string `json:"mode"`
}

// TurnSay is a message for the open turn.
type TurnSay struct {
	// SessionID is the session's whole id.
	SessionID string `json:"session_id"`
	// Text is the message. With say it is empty.
	Text string `json:"text"`
	// Mode is "steer" (the default): the message joins the next inference; or
	// "queue": it becomes a turn of its own behind the open one, with its options.
	Mode string `json:"mode,omitzero"`
	// Turn is the turn that must be open; absent: any.
	Turn string `json:"turn,omitzero"`
	// RequestID identifies the message, as of turn_start: a repeat returns the first
	// answer.
	RequestID string `json:"request_id,omitzero"`
	// Say is a message that was not delivered yet, which is withdrawn.
	Say string `json:"say,omitzero"`
}

// Said is a message that was stored.
type Said struct {
	// SessionID is the session's id.
	SessionID string `json:"session_id"`
	// Turn is the turn that gets the message: the open one, or that of the message.
	Turn string `json:"turn"`
	// Say is the message's id.
	Say string `json:"say"`
	// Mode is "steer" or "queue": a message that comes behind the end of the answer
	// is queued.
	Mode string `json:"mode"`
	// Position is its place among the messages that wait, from 1; 0: it was withdrawn,
	// or the answer is that to a repeat after a restart of the daemon.
	Position int `json:"position"`
}

// TurnCancel names a turn to end.
type TurnCancel struct {
	// SessionID is the session's whole id.
	SessionID string `json:"session_id"`
	// Turn is the turn; absent: the open one, else the last one.
	Turn string `json:"turn,omitzero"`
	// Jobs stops the session's background jobs, too.
	Jobs bool `json:"jobs,omitzero"`
}

// SessionCommand is a command that the user runs in a session.
type SessionCommand struct {
	// SessionID is the session, which need not exist yet; absent: a new UUID.
	SessionID string `json:"session_id,omitzero"`
	// Command is the command, for sh -c. A blank one is the error invalid.
	Command string `json:"command"`
	// Root is the working directory, an absolute path.
	Root string `json:"root,omitzero"`
	// Sandbox is the level of confinement: see execute of exc.
	Sandbox Level `json:"sandbox,omitzero"`
	// Network is whether confined code may use the network; absent: as configured.
	Network *bool `json:"network,omitzero"`
	// Keep stores the command, its exit status, and head and tail of its output, 16 KiB
	// in all, as a message of the user, which the next turn sends along. Without it
	// nothing is stored but the turn events.
	Keep bool `json:"keep,omitzero"`
	// Env is the caller's environment, as of chat.
	Env map[string]string `json:"env,omitzero"`
	// Cwd is the caller's working directory, an absolute path, as of chat.
	Cwd string `json:"cwd,omitzero"`
	// Umask is the caller's file mode creation mask, as of chat.
	Umask *int `json:"umask,omitzero"`
	// Recall is whether a new session is part of recall_sessions, as of chat.
	Recall *bool `json:"recall,omitzero"`
}

// CommandDone ends the packets of run_command.
type CommandDone struct {
	// SessionID is the session's whole id.
	SessionID string `json:"session_id"`
	// Turn is the turn of the command.
	Turn string `json:"turn"`
	// Next is the offset behind its last event.
	Next int64 `json:"next"`
}

// TitleMax is the longest title of rename_session, in characters.
const TitleMax = 80

// RenameSession is a new title for a session.
type RenameSession struct {
	// SessionID is the session's whole id.
	SessionID string `json:"session_id"`
	// Title is the title: 1 to 80 characters on one line, none of them a control
	// character. White space around it is dropped.
	Title string `json:"title"`
}

// Redact says what is masked.
type Redact struct {
	// SessionID is the whole id of the session.
	SessionID string `json:"session_id,omitzero"`
	// All masks all sessions, channels, memories, approvals and outputs of jobs that have
	// ended, and lists what undo keeps of files with secrets. It excludes session_id.
	All bool `json:"all,omitzero"`
	// Undo, with all, deletes what undo keeps of files with secrets. Those changes cannot
	// be taken back any more.
	Undo bool `json:"undo,omitzero"`
	// DryRun only says what would be done.
	DryRun bool `json:"dry_run,omitzero"`
}

// ListTurns selects turns. Those of sub-agents are listed with all or session_id.
type ListTurns struct {
	// All adds turns that have ended, and those of sub-agents.
	All bool `json:"all,omitzero"`
	// SessionID selects the turns of this session; absent: those of all sessions.
	SessionID string `json:"session_id,omitzero"`
	// Limit is the number of turns wanted; 0 or less: 100.
	Limit int `json:"limit,omitzero"`
}

// TurnList is a list of turns.
type TurnList struct {
	// Turns are the turns, the newest first.
	Turns []TurnInfo `json:"turns"`
}

// TurnInfo describes a turn in a list.
type TurnInfo struct {
	// SessionID is the turn's session.
	SessionID string `json:"session_id"`
	// Turn is the turn's id.
	Turn string `json:"turn"`
	// State is its state.
	State string `json:"state"`
	// Reason is why it is parked or how it ended.
	Reason string `json:"reason,omitzero"`
	// Until is when a parked turn wakes up, in RFC 3339, UTC.
	Until string `json:"until,omitzero"`
	// Text is the start of the user's message, on one line of up to 80 characters.
	Text string `json:"text"`
	// Root is the working directory of its tools.
	Root string `json:"root"`
	// Started is the time of its first event, in RFC 3339, UTC.
	Started string `json:"started"`
	// Updated is the time of its last event, in RFC 3339, UTC.
	Updated string `json:"updated"`
	// Step is the present or last inference; 0: none yet.
	Step int `json:"step"`
	// Activity is what it does or waits for: "inference", a tool and its input,
	// "approval" and its id, "provider limit"; empty: nothing.
	Activity string `json:"activity"`
	// Attempts is the number of attempts to resume it since the last stored step.
	Attempts int `json:"attempts"`
	// InputTokens and OutputTokens are those of its inferences and its sub-agents.
	InputTokens int64 `json:"input_tokens"`
	// OutputTokens are the tokens of the answers.
	OutputTokens int64 `json:"output_tokens"`
	// CostUSD is the cost of these inferences, as far as prices are known.
	CostUSD *float64 `json:"cost_usd,omitzero"`
	// Followers is the number of turn_follow requests of its session.
	Followers int `json:"followers"`
	// Queued is the number of turns behind it.
	Queued int `json:"queued"`
	// Jobs is the number of running background jobs of its session.
	Jobs int `json:"jobs"`
	// By is the user who started it.
	By *By `json:"by,omitzero"`
	// Parent is the call that started it as a sub-agent.
	Parent *LogParent `json:"parent,omitzero"`
}

// Types of packets that only turn_follow sends.
const (
	TypeUserMessage = "user_message" // a UserMessage
	TypeLive        = "live"         // a Live
	TypeTurnState   = "turn_state"   // a TurnState
	TypeTurnEnded   = "turn_ended"   // a TurnEnd
	TypeContinued   = "continued"    // a Continued
	TypeRetracted   = "retracted"    // a Retracted

	TypeFileRequested = "file_requested" // a FileRequested, with client_files
)

var followEvents = []Event{
	event[UserMessage](TypeUserMessage),
	event[Live](TypeLive),
	event[TurnState](TypeTurnState),
	event[TurnEnd](TypeTurnEnded),
	event[Continued](TypeContinued),
	event[Retracted](TypeRetracted),
	event[FileRequested](TypeFileRequested), // while a call of read waits for it
	event[Approval](TypeApprovalRequested),  // when it is made, and behind live for those that wait
	event[ApprovalClosed](TypeApprovalClosed),
	event[InputRequested](TypeInputRequested), // with inputs: when it is made, and behind live for those that are open
	event[InputClosed](TypeInputClosed),
	event[LogMode](TypeMode),   // of turn_mode, when it is stored
	event[LogTitle](TypeTitle), // of rename_session, when it is stored; not in a replay
}

// FollowEvents lists the kinds of packets that only turn_follow sends.
func FollowEvents() []Event { return followEvents }

// UserMessage is a message of the user.
type UserMessage struct {
	// Turn is the turn that it belongs to.
	Turn string `json:"turn,omitzero"`
	// Text is the message.
	Text string `json:"text"`
	// Via is "start", "steer", "queue", "job", "schema", "hook" or "stop".
	Via string `json:"via"`
	// Say is the id of the turn_say that it came with.
	Say string `json:"say,omitzero"`
	// Command is the slash command that the text is made of.
	Command string `json:"command,omitzero"`
	// Arguments are the arguments of the command.
	Arguments string `json:"arguments,omitzero"`
	// By is the user who sent it.
	By *By `json:"by,omitzero"`
	// Attachments are the files of the message.
	Attachments []Attachment `json:"attachments,omitzero"`
}

// Typed returns the message as it was typed: of a slash command not the text.
func (m UserMessage) Typed() string { return typed(m.Text, m.Command, m.Arguments) }

// FileRequested asks for the text that the client has of a file: see answer_file.
type FileRequested struct {
	// Turn is the turn.
	Turn string `json:"turn"`
	// ID is the call of read.
	ID string `json:"id"`
	// Path is the file, an absolute path.
	Path string `json:"path"`
}

// AnswerFile is the text that the client has of a file.
type AnswerFile struct {
	// SessionID is the session's whole id.
	SessionID string `json:"session_id"`
	// Turn is the turn of the packet.
	Turn string `json:"turn"`
	// ID is the call of the packet.
	ID string `json:"id"`
	// Text is the text, up to 1 MiB; absent: the file on disk is read.
	Text *string `json:"text,omitzero"`
}

// Live is the end of the replay: what follows happens now. The text of the present
// inference so far comes next as one assistant_delta, and tool_started of the calls
// that run.
type Live struct {
	// Turn is the open turn; absent: no turn is open.
	Turn string `json:"turn,omitzero"`
	// State is its state, or that of the last turn.
	State string `json:"state"`
	// Next is the offset that was reached.
	Next int64 `json:"next"`
}

// TurnState is a change of the state of a turn that has not ended.
type TurnState struct {
	// Turn is the turn.
	Turn string `json:"turn"`
	// State is its state now.
	State string `json:"state"`
	// Reason says why it is parked or was resumed.
	Reason string `json:"reason,omitzero"`
	// Approval is the request that a parked turn waits for.
	Approval string `json:"approval,omitzero"`
	// Until is when a parked turn wakes up, in RFC 3339, UTC.
	Until string `json:"until,omitzero"`
	// Attempt counts the attempts to resume since the last stored step.
	Attempt int `json:"attempt,omitzero"`
	// Discarded is text of an inference that was lost, up to 64 KiB.
	Discarded string `json:"discarded,omitzero"`
}

// TurnEnd is the end of a turn.
type TurnEnd struct {
	// Turn is the turn.
	Turn string `json:"turn"`
	// State is its last state.
	State string `json:"state"`
	// Reason says why it was interrupted or failed.
	Reason string `json:"reason,omitzero"`
	// Result is the packet done or error that a chat request would have ended with.
	Result Raw `json:"result,omitzero"`
	// Returned are the messages of the user that were not delivered.
	Returned []Say `json:"returned,omitzero"`
}

// Continued says that the turn goes on in another session.
type Continued struct {
	// SessionID is the session that the turn goes on in.
	SessionID string `json:"session_id"`
	// Turn is the turn there.
	Turn string `json:"turn"`
	// FromSessionID is the session before.
	FromSessionID string `json:"from_session_id,omitzero"`
}

// Retracted voids the pieces of text since the last assistant_final: the inference was
// lost and is repeated.
type Retracted struct {
	// Turn is the turn.
	Turn string `json:"turn"`
}

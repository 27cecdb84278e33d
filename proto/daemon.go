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
	// Events asks for typed packets in place of chunks: see Events. It implies
	// stream.
	Events bool `json:"events,omitzero"`
}

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

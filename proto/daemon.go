package proto

// Methods of the daemon, the entrance for clients.
var (
	// DaemonChat takes a message and answers it: prompt, agent, history. The
	// request has no "type".
	DaemonChat = textMethod[Chat]("daemon", "", "response")
	// DaemonForward passes a request on to another service and that service's
	// answer back as it is. Only what people need is on its list:
	// ping, describe and stats of all, capabilities of rtr and exc, get of sys,
	// histories, memories, soft memory and sessions of mem; of the sessions what
	// lists, reads, searches, exports, forks and removes them. Anything else is
	// the error denied.
	DaemonForward = method[Forward, Empty]("daemon", "forward", "")
	// DaemonContext tells what a turn of a session would send to the model, with
	// sizes. Nothing is asked and nothing is stored.
	DaemonContext = method[Preview, ContextReport]("daemon", "context", "context_report")
	// DaemonHandoff makes of a session what somebody needs to go on with a goal
	// in a new one: a bundle in Markdown, to be edited before it is used. The
	// model drafts it; what it leaves out, and everything if offline is set, is
	// taken from the session's events. Nothing is stored.
	DaemonHandoff = method[Handoff, HandoffBundle]("daemon", "handoff", "handoff_bundle")
)

// Chat is a message to the assistant.
type Chat struct {
	// Message is the user's text. White space around it is dropped; a blank
	// one is answered with the error "Empty message.".
	Message string `json:"message,omitzero"`
	// ChannelID names the history that the turn belongs to. Without it nothing
	// is remembered.
	ChannelID string `json:"channel_id,omitzero"`
	// Stream asks for chunks as they come.
	Stream bool `json:"stream,omitzero"`
	// NeedModel makes it an error if no model can be asked and the offline
	// provider would answer in its place.
	NeedModel bool `json:"need_model,omitzero"`
	// SessionID makes the message a turn of that terminal session, which need not
	// exist yet: an id of letters, digits, '.', '_' and '-'. Turns of a session
	// follow each other. Everything is stored as it happens, before it is passed
	// on, so that nothing the caller saw is lost. channel_id has no meaning then.
	SessionID string `json:"session_id,omitzero"`
	// Root is the directory that the tools work in, an absolute path, and whose
	// AGENTS.md belong to the prompt; absent: none.
	Root string `json:"root,omitzero"`
	// SystemPrompt takes the place of the configured one and of the template for
	// this turn; empty: no prompt.
	SystemPrompt *string `json:"system_prompt,omitzero"`
	// Provider is asked in place of the configured one: see infer of rtr.
	Provider string `json:"provider,omitzero"`
	// Model is asked in place of the configured one.
	Model string `json:"model,omitzero"`
	// MaxTokens limits each answer, in tokens.
	MaxTokens int `json:"max_tokens,omitzero"`
	// Effort is how much the model reasons: "off", "low", "medium", "high" or
	// "max". Absent: as configured, else as the model does by itself.
	Effort string `json:"effort,omitzero"`
	// NoSave has nothing of the turn stored. The session's earlier turns are sent
	// all the same.
	NoSave bool `json:"no_save,omitzero"`
	// Sandbox is the level of confinement for what the model has run: see execute
	// of exc.
	Sandbox Level `json:"sandbox,omitzero"`
	// Network is whether confined code may use the network; absent: as
	// configured.
	Network *bool `json:"network,omitzero"`
	// Env is the caller's environment, for the tools of this turn: variables that
	// hold secrets are dropped. Env, cwd and umask are taken from callers that are
	// the daemon's own user, and dropped for all others: the tools of a
	// constellation that several users share run with its own environment.
	Env map[string]string `json:"env,omitzero"`
	// Cwd is the caller's directory, an absolute path: the tools work there if no
	// root is given.
	Cwd string `json:"cwd,omitzero"`
	// Umask is the caller's file mode creation mask, as a number: 18 is 022.
	Umask *int `json:"umask,omitzero"`
	// Events asks for typed packets in place of chunks: see Events. It implies
	// stream.
	Events bool `json:"events,omitzero"`
}

// Streaming reports whether the caller asked for chunks.
func (c Chat) Streaming() bool { return c.Stream || c.Events }

// Preview is a turn that is not to be run. Its fields are those of a message.
type Preview struct {
	// SessionID is the session; absent: a new one.
	SessionID string `json:"session_id,omitzero"`
	// Root is the directory that the tools would work in.
	Root string `json:"root,omitzero"`
	// SystemPrompt takes the place of the configured one and of the template.
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
	// Tokens is the sum. Tokens are estimated: four bytes are taken for one.
	Tokens int64 `json:"tokens"`
	// Template is the path of the template or system_prompt_file that the system
	// prompt was made of; absent where another text takes its place.
	Template string `json:"template,omitzero"`
	// TemplateMissing reports that the file does not exist.
	TemplateMissing bool `json:"template_missing,omitzero"`
	// Warnings are remarks, such as on a file that cannot be read.
	Warnings []string `json:"warnings,omitzero"`
}

// ContextPart is one part of what a turn would send.
type ContextPart struct {
	// Name says what it is: "system prompt", the path of an AGENTS.md, "tools" or
	// "messages".
	Name string `json:"name"`
	// Tokens is its size, estimated.
	Tokens int64 `json:"tokens"`
	// Content is the part as it is sent: a text, or JSON.
	Content string `json:"content"`
}

// Handoff asks for a bundle.
type Handoff struct {
	// Goal is what is to be done next, in the user's words.
	Goal string `json:"goal"`
	// SessionID is the session that the bundle is made of, or the beginning of
	// its id; absent: the one that changed last.
	SessionID string `json:"session_id,omitzero"`
	// Root is the directory that the paths in the bundle are relative to.
	Root string `json:"root,omitzero"`
	// Offline has the bundle made of the events alone, without a model.
	Offline bool `json:"offline,omitzero"`
	// Provider is asked in place of the configured one: see infer of rtr.
	Provider string `json:"provider,omitzero"`
	// Model is asked in place of the configured one.
	Model string `json:"model,omitzero"`
	// MaxTokens limits the model's answer, in tokens.
	MaxTokens int `json:"max_tokens,omitzero"`
	// Effort is how much the model reasons, as of chat.
	Effort string `json:"effort,omitzero"`
}

// HandoffBundle is what a new session starts with.
type HandoffBundle struct {
	// SessionID is the whole id of the session that it was made of.
	SessionID string `json:"session_id"`
	// Content is the bundle in Markdown, with the sections Goal, Starter prompt,
	// Relevant files, Open tasks and Repro commands.
	Content string `json:"content"`
	// Filled names the sections that the model left out or garbled.
	Filled []string `json:"filled,omitzero"`
}

// Forward is a request for another service.
type Forward struct {
	// Service is the short name of the service: daemon, rtr, agr, sys, exc, mem or ctx.
	Service string `json:"service"`
	// Request is the whole request for it, an object with its "type".
	Request Raw `json:"request"`
}

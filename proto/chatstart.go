package proto

// ChatStart is the first line that zino writes to zino-chat, on file descriptor 3: what
// the interactive chat needs to begin. Lines are JSON objects; unknown keys are ignored.
// A ChatResult follows; the end of the file means that zino has died. If the descriptor is
// a socket, zino-chat writes a ChatSession there for each session that it opens.
type ChatStart struct {
	// Type is "start".
	Type string `json:"type"`
	// Version is zino's version; zino-chat of another one exits with status 3.
	Version string `json:"version"`
	// Zino is the path of zino, for what it prints.
	Zino string `json:"zino"`
	// Config is the path of the configuration that the user named, for runs of zino; empty:
	// none.
	Config string `json:"config,omitzero"`
	// Socket is the path of the daemon's socket, if it is known already.
	Socket string `json:"socket"`
	// Base is the user's directory of Zino; the input history stands in it.
	Base string `json:"base"`
	// Root is the working directory of the tools.
	Root string `json:"root"`
	// RootGiven is whether the user named the root: a session of another directory goes on
	// in it without a question.
	RootGiven bool `json:"root_given,omitzero"`
	// SessionID is the session to continue, an id or its beginning; empty: a new one.
	SessionID string `json:"session_id"`
	// Latest continues the session of the root that changed last.
	Latest bool `json:"latest"`
	// OnHangup is what the end of the terminal does to a turn: "leave" or "stop".
	OnHangup string `json:"on_hangup"`
	// Command is how the user called zino, for lines that name a command; empty: zino.
	Command string `json:"command,omitzero"`
	// Options are the options that are needed to come back to a session, as a shell reads
	// them, each with a blank before it.
	Options string `json:"options,omitzero"`
	// Mode is the approval mode that the user chose: plan, ask, auto or yolo; empty: the
	// one that the sandbox level derives.
	Mode string `json:"mode,omitzero"`
	// Request holds the fields that all messages have in common. With its no_save zino
	// removes the sessions when the chat ends: messages are sent without it.
	Request Chat `json:"request"`
	// Chat is the section [chat] of the configuration.
	Chat ChatOptions `json:"chat"`
	// NoModel are the lines to print at the start if no model is connected.
	NoModel []string `json:"no_model,omitzero"`
	// Notes are lines to print at the start.
	Notes []string `json:"notes,omitzero"`
}

// ChatOptions are the keys of the section [chat] that the interactive chat uses.
type ChatOptions struct {
	// PreviewLines is how many lines of output of a command are shown.
	PreviewLines int `json:"preview_lines"`
	// Reasoning is "fold", "show" or "hide".
	Reasoning string `json:"reasoning"`
	// Width is the largest width of prose, in cells.
	Width int `json:"width"`
	// WidthMethod is "grapheme" or "wc".
	WidthMethod string `json:"width_method"`
	// Notify is "auto", "bell" or "off".
	Notify string `json:"notify"`
	// Title is whether the terminal's title is set.
	Title bool `json:"title"`
	// Theme is "auto" or "mono".
	Theme string `json:"theme"`
	// ScreenReader prints each state as a line.
	ScreenReader bool `json:"screen_reader"`
}

// Types of the line that follows ChatStart.
const (
	TypeChatStart  = "start"
	TypeChatReady  = "ready"
	TypeChatFailed = "failed"
	// TypeChatSession is the type of ChatSession.
	TypeChatSession = "session"
)

// ChatResult is the line that follows ChatStart: the services are there, or not.
type ChatResult struct {
	// Type is "ready" or "failed".
	Type string `json:"type"`
	// Socket is the path of the daemon's socket.
	Socket string `json:"socket,omitzero"`
	// Request has the caller's environment, cwd and umask, the id of the session to continue,
	// and no_save if nothing can be stored.
	Request *Chat `json:"request,omitzero"`
	// Notes are lines to print.
	Notes []string `json:"notes,omitzero"`
	// Kind is the kind of the error.
	Kind string `json:"kind,omitzero"`
	// Message is the error.
	Message string `json:"message,omitzero"`
}

// ChatSession is what zino-chat writes to zino when another session is opened. zino names
// the session if zino-chat is killed.
type ChatSession struct {
	// Type is "session".
	Type string `json:"type"`
	// SessionID is the session's id; empty: the next message begins a new one.
	SessionID string `json:"session_id"`
	// New is whether zino-chat has made the session: with no_save zino removes it.
	New bool `json:"new,omitzero"`
}

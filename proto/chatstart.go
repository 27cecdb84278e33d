package proto

// ChatStart is the first line that zino writes to zino-chat, on a pipe: what the
// interactive chat needs to begin. Lines are JSON objects; unknown keys are ignored.
// ChatReady or ChatFailed follows; the end of the pipe means that zino has died.
type ChatStart struct {
	// Type is "start".
	Type string `json:"type"`
	// Version is zino's version; zino-chat of another one exits with status 3.
	Version string `json:"version"`
	// Zino is the path of zino, for what it prints.
	Zino string `json:"zino"`
	// Socket is the path of the daemon's socket, if it is known already.
	Socket string `json:"socket"`
	// Base is the user's directory of Zino; the input history stands in it.
	Base string `json:"base"`
	// Root is the working directory of the tools.
	Root string `json:"root"`
	// SessionID is the session to continue, an id or its beginning; empty: a new one.
	SessionID string `json:"session_id"`
	// Latest continues the session of the root that changed last.
	Latest bool `json:"latest"`
	// OnHangup is what the end of the terminal does to a turn: "leave" or "stop".
	OnHangup string `json:"on_hangup"`
	// Resume is the options that are needed to come back, for the last line.
	Resume []string `json:"resume,omitzero"`
	// Mode is the approval mode that the user chose: plan, ask, auto or yolo; empty: the
	// one that the sandbox level derives.
	Mode string `json:"mode,omitzero"`
	// Request holds the fields that all messages have in common.
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
)

// ChatResult is the line that follows ChatStart: the services are there, or not.
type ChatResult struct {
	// Type is "ready" or "failed".
	Type string `json:"type"`
	// Socket is the path of the daemon's socket.
	Socket string `json:"socket,omitzero"`
	// Request replaces that of ChatStart: it has the caller's environment.
	Request *Chat `json:"request,omitzero"`
	// Kind is the kind of the error.
	Kind string `json:"kind,omitzero"`
	// Message is the error.
	Message string `json:"message,omitzero"`
}

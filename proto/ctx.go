package proto

// CtxBuild assembles the messages between the system prompt and the user's
// message: skill examples, hard memories and history, each within the budget of
// [ctx]; or all messages of a session. A part that is not available is left out.
// A session whose messages are not available is an error, and a session that no
// longer fits the model is the error too_large.
var CtxBuild = method[Build, Context]("ctx", "build", "context")

// Build asks for the context of a message.
type Build struct {
	// ChannelID is the channel whose history is included, if any.
	ChannelID string `json:"channel_id,omitzero"`
	// UserMessage is the query for the hard memories; a blank one finds none.
	UserMessage string `json:"user_message"`
	// SessionID is a session's whole id. The context is then its messages with all
	// calls and results, uncut, without examples, memories and history. A session
	// that does not exist yet has no messages.
	SessionID string `json:"session_id,omitzero"`
	// ContextTokens is how many tokens of a session and the user's message fit the
	// model; absent or 0: unknown, the size is not checked. A token is estimated
	// as four bytes.
	ContextTokens int `json:"context_tokens,omitzero"`
}

// Context is the assembled list.
type Context struct {
	// Messages are in OpenAI's form, in the order examples, memories, history.
	// A memory whose messages are all in the history is left out.
	Messages Raw `json:"messages"`
	// Offer is as of get_messages of mem.
	Offer Raw `json:"offer,omitzero"`
}

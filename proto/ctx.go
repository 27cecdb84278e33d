package proto

// CtxBuild assembles what stands between the system prompt and the user's
// message: skill examples, hard memories, history, each within the budget that
// [ctx] sets; or a session's messages whole. A part that cannot be had is left
// out and is no error; but a session whose messages cannot be had is, and one
// that no longer fits the model is the error too_large.
var CtxBuild = method[Build, Context]("ctx", "build", "context")

// Build asks for the context of a message.
type Build struct {
	// ChannelID is the channel whose history is included, if any.
	ChannelID string `json:"channel_id,omitzero"`
	// UserMessage is the query for the hard memories; a blank one finds none.
	UserMessage string `json:"user_message"`
	// SessionID is a session's whole id. Its messages with all calls and
	// results, which nothing cuts, are the context then, without examples,
	// memories and history. One that is not there yet has none.
	SessionID string `json:"session_id,omitzero"`
	// ContextTokens is how many tokens the model can take in of a session and
	// the user's message; absent or 0: not known, nothing is checked. Tokens are
	// estimated: four bytes are taken for one.
	ContextTokens int `json:"context_tokens,omitzero"`
}

// Context is the assembled list.
type Context struct {
	// Messages are in OpenAI's form, in the order examples, memories, history.
	// A memory whose messages all stand in the history is left out.
	Messages Raw `json:"messages"`
}

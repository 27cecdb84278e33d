package proto

// CtxBuild assembles what stands between the system prompt and the user's
// message: skill examples, hard memories, history.
var CtxBuild = method[Build, Context]("ctx", "build", "context")

// Build asks for the context of a message.
type Build struct {
	// ChannelID names the history to include, if any.
	ChannelID string `json:"channel_id,omitzero"`
	// UserMessage is the query for the memories.
	UserMessage string `json:"user_message"`
}

// Context is the assembled list.
type Context struct {
	// Messages stand in the order examples, memories, history.
	Messages Raw `json:"messages"`
}

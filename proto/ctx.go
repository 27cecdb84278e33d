package proto

// CtxBuild assembles what stands between the system prompt and the user's
// message: skill examples, hard memories, history. A part that cannot be had
// is left out and is no error.
var CtxBuild = method[Build, Context]("ctx", "build", "context")

// Build asks for the context of a message.
type Build struct {
	// ChannelID is the channel whose history is included, if any.
	ChannelID string `json:"channel_id,omitzero"`
	// UserMessage is the query for the hard memories; a blank one finds none.
	UserMessage string `json:"user_message"`
}

// Context is the assembled list.
type Context struct {
	// Messages are in OpenAI's form, in the order examples, memories, history.
	Messages Raw `json:"messages"`
}

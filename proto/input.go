package proto

// Methods of the daemon for input that an MCP server asks for during a call: what MCP calls
// elicitation. It is not an approval: requests and answers are stored nowhere, and a request
// ends after 10 minutes. The model does not see the values.
var (
	// DaemonInputRequest asks a person for input. It is for mcp alone, which has the token of
	// the turn. The answer comes when a person has answered, or after 10 minutes, or at once
	// if no follower of the session has inputs: then it is cancel with answered false.
	// Hanging up closes the request.
	DaemonInputRequest = method[InputRequest, InputAnswer]("daemon", "input_request", "input_answer")
	// DaemonAnswerInput answers a request. The first answer counts; a later one is the error
	// not_found. Content that does not fit the schema is the error invalid, and the request
	// stays open.
	DaemonAnswerInput = method[AnswerInput, Empty]("daemon", "answer_input", "ok")
)

// Answers to a request for input.
const (
	InputAccept  = "accept"
	InputDecline = "decline" // the person refuses
	InputCancel  = "cancel"  // the person does not decide, or no person has answered
)

// InputRequest is what a server asks for: a form by its schema, or a visit of a URL.
type InputRequest struct {
	// Server is the server's name.
	Server string `json:"server"`
	// Message says what the server wants, up to 4000 bytes.
	Message string `json:"message"`
	// Schema is the JSON Schema of the form: an object whose properties are strings,
	// numbers, truth values and lists of choices.
	Schema Raw `json:"schema,omitzero"`
	// URL is the page to visit: https.
	URL string `json:"url,omitzero"`
	// SessionID is the session of the call.
	SessionID string `json:"session_id"`
	// Token is the token of the turn of the call.
	Token string `json:"token"`
}

// InputAnswer is the answer to a request for input.
type InputAnswer struct {
	// Action is accept, decline or cancel.
	Action string `json:"action"`
	// Content has the values of the form, with accept.
	Content Raw `json:"content,omitzero"`
	// Answered is true if a person has answered.
	Answered bool `json:"answered,omitzero"`
}

// AnswerInput answers a request for input.
type AnswerInput struct {
	// ID is the request.
	ID string `json:"id"`
	// Action is accept, decline or cancel.
	Action string `json:"action"`
	// Content has the values of the form, with accept: an object that fits the schema.
	Content Raw `json:"content,omitzero"`
}

// InputRequested is the packet for followers with inputs when a server asks for input. One
// that joins later gets it behind live. Message, schema and url are the server's words:
// show them with control characters escaped, and the URL whole.
type InputRequested struct {
	// ID is "in-" and 8 characters.
	ID string `json:"id"`
	// Server is the server's name.
	Server string `json:"server"`
	// Message says what the server wants.
	Message string `json:"message"`
	// Schema is the JSON Schema of the form.
	Schema Raw `json:"schema,omitzero"`
	// URL is the page to visit. A client does not open it by itself.
	URL string `json:"url,omitzero"`
	// SessionID is the session of the call.
	SessionID string `json:"session_id"`
	// Turn is its turn.
	Turn string `json:"turn"`
	// Expires is when the request ends without an answer, in RFC 3339.
	Expires string `json:"expires"`
}

// InputClosed is the packet for these followers when a request was answered or has expired.
type InputClosed struct {
	// ID is the request.
	ID string `json:"id"`
	// Action is how it was answered; cancel if no person did.
	Action string `json:"action"`
	// By is who answered; absent: no person did.
	By *Requester `json:"by,omitzero"`
	// SessionID is the session of the call.
	SessionID string `json:"session_id"`
	// Turn is its turn.
	Turn string `json:"turn"`
}

// Types of packets about input, for followers with inputs.
const (
	TypeInputRequested = "input_requested" // an InputRequested
	TypeInputClosed    = "input_closed"    // an InputClosed
)

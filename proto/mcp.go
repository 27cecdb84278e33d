package proto

// Methods of mcp, the client of MCP servers. A server is configured in [mcp.servers],
// by the user or by the host, or comes with a request: in project, the trusted
// .mcp.json of the turn's root, or in client. Of equal names those of the client count
// first, then the user's, the host's and the project's. The host's constellation
// ignores project and client.
var (
	// MCPServers lists the servers that a turn with that root can use. It starts none
	// and asks none.
	MCPServers = method[ListServers, ServerList]("mcp", "servers", "servers", public)
	// MCPSearch finds tools by words of their names and descriptions; without words it
	// lists the names. It starts the servers whose tools are not known yet.
	MCPSearch = method[SearchTools, FoundTools]("mcp", "search", "mcp_tools")
	// MCPCall calls a tool, and starts its server if it does not run. Every failure of
	// the tool or the server is a result. With events: true, packets of type tool_output
	// tell of the progress. Hanging up cancels the call at the server. A call that a
	// person must allow is the error approval, as of exc's call.
	MCPCall = eventsMethod[CallTool, ToolResult]("mcp", "call", "call_result")
	// MCPRead reads a resource of a server. The result is as of call.
	MCPRead = method[ReadResource, ToolResult]("mcp", "read", "call_result")
	// MCPPrompts lists the prompts of the servers that are known. It starts none.
	MCPPrompts = method[ListPrompts, PromptList]("mcp", "prompts", "mcp_prompts")
	// MCPPrompt returns the text of a prompt.
	MCPPrompt = method[GetMCPPrompt, PromptText]("mcp", "prompt", "mcp_prompt")
	// MCPTest starts a server anew, also one that failed, and reports what came of it.
	// A server that cannot be used is a report with a problem.
	MCPTest = method[TestServer, ServerReport]("mcp", "test", "mcp_test", public)
	// MCPLoginBegin begins a login at a server with a URL and returns the address that
	// the user opens in a browser. A login lives for 10 minutes.
	MCPLoginBegin = method[LoginBegin, Login]("mcp", "login_begin", "login", public)
	// MCPLoginEnd ends a login with what the browser was redirected with, and stores
	// the tokens.
	MCPLoginEnd = method[LoginEnd, Empty]("mcp", "login_end", "ok", public)
	// MCPLogout forgets the tokens of a server.
	MCPLogout = method[Logout, Empty]("mcp", "logout", "ok", public)
	// MCPSecretSet stores a secret for the servers that name it in secrets.
	MCPSecretSet = method[SetSecret, Empty]("mcp", "secret_set", "ok", public)
	// MCPForget removes what is kept of a server besides its definition: its tokens, the
	// secrets whose names begin with its own and a dot, the home of its program, and what
	// is known of its tools. It ends the server.
	MCPForget = method[ForgetServer, Empty]("mcp", "forget", "ok", public)
	// MCPReload reads the configuration again. An instance whose definition went away
	// ends after its calls.
	MCPReload = method[ReloadServers, Empty]("mcp", "reload", "ok", public)
)

// ListServers asks for the servers.
type ListServers struct {
	// Root is the root of the turn, an absolute path.
	Root string `json:"root,omitzero"`
	// Project is the content of the trusted .mcp.json.
	Project Raw `json:"project,omitzero"`
	// Client has the servers that the client brings, in the form of .mcp.json.
	Client Raw `json:"client,omitzero"`
	// Definitions asks for the definitions of the tools.
	Definitions bool `json:"definitions,omitzero"`
}

// ServerList lists servers.
type ServerList struct {
	// Servers are the servers by name.
	Servers []MCPServer `json:"servers"`
	// Tools are the definitions of all tools of the enabled servers, if the request asks
	// for them, all are known, and they take at most [mcp] direct_tokens; else absent.
	Tools []MCPTool `json:"tools,omitzero"`
	// Notices are remarks for the user, a line each.
	Notices []string `json:"notices,omitzero"`
}

// MCPServer is an MCP server.
type MCPServer struct {
	// Name is its name.
	Name string `json:"name"`
	// Source is "user", "host", "project" or "client".
	Source string `json:"source"`
	// Transport is "stdio" or "http".
	Transport string `json:"transport"`
	// State is "new" (never started), "idle" (known, not running), "starting",
	// "running", "needs_login", "failed", "disabled" or "unavailable" (its definition
	// cannot be used).
	State string `json:"state"`
	// Tools is the number of tools that may be used, of those that are known.
	Tools int `json:"tools"`
	// Protocol is the revision of MCP that was agreed on; absent: not known yet.
	Protocol string `json:"protocol,omitzero"`
	// Instances is the number of running instances.
	Instances int `json:"instances"`
	// Calls counts the calls since zino-mcp has started.
	Calls int64 `json:"calls"`
	// Problem is why it cannot be used, or what is wrong with its tools.
	Problem string `json:"problem"`
}

// States of MCPServer.
const (
	MCPNew         = "new"         // never started
	MCPIdle        = "idle"        // known, not running
	MCPStarting    = "starting"    //
	MCPRunning     = "running"     //
	MCPNeedsLogin  = "needs_login" // zino mcp login NAME
	MCPFailed      = "failed"      // failed too often, until its definition changes or zino mcp test
	MCPDisabled    = "disabled"    // enabled = false
	MCPUnavailable = "unavailable" // its definition cannot be used
)

// Sources of MCPServer.
const (
	MCPUser    = "user"    // the user's configuration
	MCPHost    = "host"    // the host's
	MCPProject = "project" // .mcp.json
	MCPClient  = "client"  // brought by the client of the turn
)

// MCPTool is a tool of a server.
type MCPTool struct {
	// Server is the server's name.
	Server string `json:"server"`
	// Name is the tool's name.
	Name string `json:"name"`
	// Description is what the server says about it, up to 1024 bytes.
	Description string `json:"description"`
	// Input is the JSON Schema of its arguments.
	Input Raw `json:"input,omitzero"`
	// ReadOnly is the server's claim that the tool changes nothing.
	ReadOnly bool `json:"read_only,omitzero"`
}

// SearchTools searches for tools.
type SearchTools struct {
	// Query are the words; absent: the names are listed.
	Query string `json:"query,omitzero"`
	// Server limits the search to a server.
	Server string `json:"server,omitzero"`
	// Limit is the number of tools with their schema; absent or 0: 5.
	Limit int `json:"limit,omitzero"`
	// Root, as of servers.
	Root string `json:"root,omitzero"`
	// Project, as of servers.
	Project Raw `json:"project,omitzero"`
	// Client, as of servers.
	Client Raw `json:"client,omitzero"`
	// ServerTokens are the tokens of servers that a host's constellation needs to start
	// them: those that an answer with needed led to.
	ServerTokens []string `json:"server_tokens,omitzero"`
}

// FoundTools are the tools that a search found.
type FoundTools struct {
	// Tools are the best ones, the best first, with schemas of up to 2000 tokens
	// together.
	Tools []MCPTool `json:"tools"`
	// More is the number of further tools that fit.
	More int `json:"more"`
	// Names lists further tools: "SERVER: TOOL, TOOL" without words, else
	// "SERVER.TOOL: the first sentence of its description".
	Names []string `json:"names"`
	// Instructions are what the servers of these tools say about their use, up to 500
	// bytes each, by server.
	Instructions map[string]string `json:"instructions,omitzero"`
	// Problems are the servers that could not be asked, a line each.
	Problems []string `json:"problems,omitzero"`
	// Needed are the tokens without which servers could not be asked, each of the kind
	// server.
	Needed []*ApprovalNeeded `json:"needed,omitzero"`
}

// CallTool is a call of a tool of a server.
type CallTool struct {
	// Server is the server's name.
	Server string `json:"server"`
	// Tool is the tool's name.
	Tool string `json:"tool"`
	// Arguments are its arguments, an object; absent: none.
	Arguments Raw `json:"arguments,omitzero"`
	// Root, as of servers.
	Root string `json:"root,omitzero"`
	// Project, as of servers.
	Project Raw `json:"project,omitzero"`
	// Client, as of servers.
	Client Raw `json:"client,omitzero"`
	// Events asks for packets of type tool_output.
	Events bool `json:"events,omitzero"`
	// SessionID is the session of the turn.
	SessionID string `json:"session_id,omitzero"`
	// Turn is the turn that the call belongs to.
	Turn string `json:"turn,omitzero"`
	// Key identifies the call: SESSION/TURN/STEP/CALL.
	Key string `json:"key,omitzero"`
	// Token is the token of the turn whose model asks, as of call of exc: its mode, and
	// the policy, decide. Absent: a person asks.
	Token string `json:"token,omitzero"`
	// Grant is the token of an approval, as of call of exc.
	Grant string `json:"grant,omitzero"`
	// Ask is as in call of exc.
	Ask string `json:"ask,omitzero"`
	// ServerToken is the token that a host's constellation needs to start the server:
	// the details of the error approval with kind "server".
	ServerToken string `json:"server_token,omitzero"`
}

// ToolResult is the result of a call.
type ToolResult struct {
	// Result is {"ok":true,"data":{…}} or {"ok":false,"error":{"code","message"}}. The
	// data has text, structured (the structured content), resources (links: uri, name,
	// media_type) and files (of attachments: id, name, media_type, bytes). The error
	// invalid_input has schema, the JSON Schema of the arguments. Secrets are not masked.
	Result Raw `json:"result"`
	// Attachments are images and other files of the result.
	Attachments []FileData `json:"attachments,omitzero"`
}

// ReadResource names a resource of a server.
type ReadResource struct {
	// Server is the server's name.
	Server string `json:"server"`
	// URI is the resource's.
	URI string `json:"uri"`
	// Root, as of servers.
	Root string `json:"root,omitzero"`
	// Project, as of servers.
	Project Raw `json:"project,omitzero"`
	// Client, as of servers.
	Client Raw `json:"client,omitzero"`
	// SessionID is the session of the turn.
	SessionID string `json:"session_id,omitzero"`
	// Key, as of call.
	Key string `json:"key,omitzero"`
	// Token, as of call.
	Token string `json:"token,omitzero"`
	// Grant, as of call.
	Grant string `json:"grant,omitzero"`
}

// ListPrompts asks for prompts.
type ListPrompts struct {
	// Root, as of servers.
	Root string `json:"root,omitzero"`
	// Project, as of servers.
	Project Raw `json:"project,omitzero"`
	// Client, as of servers.
	Client Raw `json:"client,omitzero"`
}

// PromptList lists prompts.
type PromptList struct {
	// Prompts are the prompts by server and name.
	Prompts []MCPPromptInfo `json:"prompts"`
}

// MCPPromptInfo is a prompt of a server.
type MCPPromptInfo struct {
	// Server is the server's name.
	Server string `json:"server"`
	// Name is the prompt's name.
	Name string `json:"name"`
	// Description is what the server says about it, up to 1024 bytes.
	Description string `json:"description,omitzero"`
	// Arguments are its arguments in their order.
	Arguments []PromptArgument `json:"arguments"`
}

// PromptArgument is an argument of a prompt.
type PromptArgument struct {
	// Name is its name.
	Name string `json:"name"`
	// Description is what it is.
	Description string `json:"description,omitzero"`
	// Required is true if it must be given.
	Required bool `json:"required,omitzero"`
}

// GetMCPPrompt asks for a prompt.
type GetMCPPrompt struct {
	// Server is the server's name.
	Server string `json:"server"`
	// Name is the prompt's name.
	Name string `json:"name"`
	// Arguments are its arguments by name.
	Arguments map[string]string `json:"arguments,omitzero"`
	// Root, as of servers.
	Root string `json:"root,omitzero"`
	// Project, as of servers.
	Project Raw `json:"project,omitzero"`
	// Client, as of servers.
	Client Raw `json:"client,omitzero"`
	// ServerToken, as of call.
	ServerToken string `json:"server_token,omitzero"`
}

// PromptText is the text of a prompt.
type PromptText struct {
	// Text is the texts of its messages; those of the assistant begin with
	// "Assistant: ".
	Text string `json:"text"`
	// Attachments are the images and files in it.
	Attachments []FileData `json:"attachments,omitzero"`
}

// TestServer names a server.
type TestServer struct {
	// Server is the server's name.
	Server string `json:"server"`
	// Root, as of servers.
	Root string `json:"root,omitzero"`
	// Project, as of servers.
	Project Raw `json:"project,omitzero"`
	// Tool is a tool to call, too; absent: none.
	Tool string `json:"tool,omitzero"`
	// Arguments are its arguments, an object.
	Arguments Raw `json:"arguments,omitzero"`
	// ServerToken, as of call. The daemon sets it.
	ServerToken string `json:"server_token,omitzero"`
}

// ServerReport is the result of a test.
type ServerReport struct {
	// Server is the server after the test.
	Server MCPServer `json:"server"`
	// Tools are its tools, those that may not be used included.
	Tools []MCPTool `json:"tools"`
	// DurationMS is how long the start took in milliseconds.
	DurationMS int64 `json:"duration_ms"`
	// Confinement is how a server with a command is confined.
	Confinement *Confinement `json:"confinement,omitzero"`
	// Stderr is the end of what it wrote to standard error, up to 64 KiB.
	Stderr string `json:"stderr,omitzero"`
	// Dropped counts the lines of its standard output that were not messages.
	Dropped int64 `json:"dropped,omitzero"`
	// Problems are what is wrong with its definitions, a line each.
	Problems []string `json:"problems,omitzero"`
	// Result is that of the tool.
	Result Raw `json:"result,omitzero"`
	// CallMS is how long the call of the tool took in milliseconds.
	CallMS int64 `json:"call_ms,omitzero"`
}

// LoginBegin names a server.
type LoginBegin struct {
	// Server is the server's name.
	Server string `json:"server"`
	// RedirectURL is where the browser is redirected to: http, of a loopback address.
	RedirectURL string `json:"redirect_url"`
	// Root, as of servers.
	Root string `json:"root,omitzero"`
	// Project, as of servers.
	Project Raw `json:"project,omitzero"`
}

// Login is a login that has begun.
type Login struct {
	// Login is its identifier.
	Login string `json:"login"`
	// URL is the address to open.
	URL string `json:"url"`
}

// LoginEnd is what the browser was redirected with.
type LoginEnd struct {
	// Login is the login's identifier.
	Login string `json:"login"`
	// Code is the authorization code.
	Code string `json:"code"`
	// State is the state.
	State string `json:"state"`
	// Iss is the issuer; absent: not given.
	Iss string `json:"iss,omitzero"`
}

// Logout names a server.
type Logout struct {
	// Server is the server's name.
	Server string `json:"server"`
	// Root, as of servers.
	Root string `json:"root,omitzero"`
	// Project, as of servers.
	Project Raw `json:"project,omitzero"`
}

// ForgetServer names a server.
type ForgetServer struct {
	// Server is the server's name.
	Server string `json:"server"`
	// Root, as of servers.
	Root string `json:"root,omitzero"`
	// Project, as of servers.
	Project Raw `json:"project,omitzero"`
}

// SetSecret is a secret.
type SetSecret struct {
	// Name is its name, which secrets of a server refers to.
	Name string `json:"name"`
	// Value is the secret; empty: it is removed.
	Value string `json:"value"`
}

// ReloadServers has no fields.
type ReloadServers struct{}

package proto

// TypeTools is the type of the packet and of the event in the session log with a
// ToolOffer.
const TypeTools = "tools"

// ToolOffer is what the model of a session is offered of MCP servers. It is stored with
// the first step that has it, and later turns repeat it: the prompt does not change.
type ToolOffer struct {
	// Mode is "direct", where each tool is offered, or "search", where mcp_search and
	// mcp_call are.
	Mode string `json:"mode"`
	// Servers are the names of the servers.
	Servers []string `json:"servers"`
	// Tools are the tools, in mode direct.
	Tools []OfferedTool `json:"tools,omitzero"`
	// Digest is "sha256:" and the hash of the tools in hex, in mode direct.
	Digest string `json:"digest,omitzero"`
	// Search is true if mcp_search and mcp_call are offered too, in mode direct.
	Search bool `json:"search,omitzero"`
	// Turn is the turn that stored it.
	Turn string `json:"turn,omitzero"`
	// Step is the step of the turn.
	Step int `json:"step,omitzero"`
	// TS is when the event was stored, in RFC 3339, UTC.
	TS string `json:"ts,omitzero"`
}

// Values of ToolOffer.Mode.
const (
	OfferDirect = "direct"
	OfferSearch = "search"
)

// OfferedTool is a tool of an MCP server.
type OfferedTool struct {
	// Name is the name for the model: mcp__SERVER__TOOL, where characters that providers
	// refuse are "_", and a long name ends with a hash.
	Name string `json:"name"`
	// Server is the server's name.
	Server string `json:"server"`
	// Tool is the tool's name.
	Tool string `json:"tool"`
	// Description is what the server says about it.
	Description string `json:"description"`
	// Input is the JSON Schema of its arguments.
	Input Raw `json:"input,omitzero"`
}

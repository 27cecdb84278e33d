package proto

// DaemonCommands lists the slash commands for a root: files of the project, of the user and
// of the host, then skills and prompts of MCP servers. Where names are equal only the first
// one counts. A chat request or
// turn_start with its name in command has its text as the message.
var DaemonCommands = method[ListCommands, CommandList]("daemon", "commands", "command_list")

// Sources of slash commands, the first of which wins.
const (
	CommandProject = "project"
	CommandUser    = "user"
	CommandHost    = "host"
	CommandSkill   = "skill"
	CommandMCP     = "mcp"
)

// ListCommands selects slash commands.
type ListCommands struct {
	// Root is the working directory of the turns, an absolute path; absent: none.
	Root string `json:"root,omitzero"`
}

// CommandList is a list of slash commands.
type CommandList struct {
	// Commands are the commands, sorted by name.
	Commands []CommandInfo `json:"commands"`
}

// CommandInfo describes a slash command.
type CommandInfo struct {
	// Name is the name without the slash: the path of its file without .md, folders
	// joined by ':'.
	Name string `json:"name"`
	// Description is that of the front matter, on one line.
	Description string `json:"description,omitzero"`
	// ArgumentHint says what the arguments are.
	ArgumentHint string `json:"argument_hint,omitzero"`
	// Source is "project", "user", "host", "skill" or "mcp".
	Source string `json:"source"`
	// Path is its file.
	Path string `json:"path,omitzero"`
	// Untrusted is true for a command of the project that no person has agreed to: it is
	// not found by a turn until then.
	Untrusted bool `json:"untrusted,omitzero"`
	// Problem says why it cannot be used.
	Problem string `json:"problem,omitzero"`
}

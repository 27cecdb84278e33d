package proto

// Methods of sys, the keeper of the system prompt.
var (
	// SysGet asks for the system prompt as it stands: the configured
	// system_prompt_file, else system_prompt, else the template; then, for a
	// root, the AGENTS.md files that belong to it, read anew each time. A
	// system_prompt_file that cannot be read is the error invalid, and so is a
	// template that has never been readable.
	SysGet = method[GetPrompt, SystemPrompt]("sys", "get", "system_prompt", public)
	// SysReload reads template, tools and skills from disk again. If the new
	// prompt cannot be built the old one stays and the answer is an error.
	SysReload = method[ReloadPrompt, SystemPrompt]("sys", "reload", "system_prompt")
	// SysSetSoftMemory replaces the soft memory, in the prompt and in mem.
	SysSetSoftMemory = method[SetSoftMemory, SystemPrompt]("sys", "set_soft_memory", "system_prompt")
)

// GetPrompt asks for a prompt.
type GetPrompt struct {
	// Root is the directory whose AGENTS.md are added, an absolute path: those of
	// the user's base directory, then, if the root is in the user's home, of
	// the home and all directories down to the root, and that of the root.
	Root string `json:"root,omitzero"`
	// SystemPrompt takes the place of the configured one and of the template;
	// empty: no prompt.
	SystemPrompt *string `json:"system_prompt,omitzero"`
	// Session asks for the template of a session's turn: [sys] session_template
	// in place of [sys] template.
	Session bool `json:"session,omitzero"`
	// Sandbox is the level of confinement that a session's prompt states;
	// absent: as configured.
	Sandbox Level `json:"sandbox,omitzero"`
	// Network is whether confined code may use the network; absent: as
	// configured.
	Network *bool `json:"network,omitzero"`
}

// ReloadPrompt has no fields.
type ReloadPrompt struct{}

// SetSoftMemory carries a new soft memory.
type SetSoftMemory struct {
	// Content is the soft memory; absent or empty clears it.
	Content string `json:"content,omitzero"`
}

// SystemPrompt is the built system prompt.
type SystemPrompt struct {
	// Content is the text; empty where there is no template.
	Content string `json:"content"`
	// Template is the path of the template or system_prompt_file that the text
	// was made of; absent where another text takes its place.
	Template string `json:"template,omitzero"`
	// TemplateMissing reports that the file does not exist.
	TemplateMissing bool `json:"template_missing,omitzero"`
	// Files are the AGENTS.md files that stand in it, in their order. They take
	// up the end of the text.
	Files []PromptFile `json:"files,omitzero"`
	// Warnings are remarks on files that were left out or cut and, outside of
	// sessions, on a missing template, a line each.
	Warnings []string `json:"warnings,omitzero"`
}

// PromptFile is a file in a system prompt.
type PromptFile struct {
	// Path is the file's absolute path.
	Path string `json:"path"`
	// Bytes is how much of it stands in the prompt, with its heading.
	Bytes int64 `json:"bytes"`
}

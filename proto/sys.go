package proto

// Methods of sys, the keeper of the system prompt.
var (
	// SysGet asks for the system prompt as it stands.
	SysGet = method[GetPrompt, SystemPrompt]("sys", "get", "system_prompt")
	// SysReload reads template, tools and skills from disk again. If the new
	// prompt cannot be built the old one stays and the answer is an error.
	SysReload = method[ReloadPrompt, SystemPrompt]("sys", "reload", "system_prompt")
	// SysSetSoftMemory replaces the soft memory, in the prompt and in mem.
	SysSetSoftMemory = method[SetSoftMemory, SystemPrompt]("sys", "set_soft_memory", "system_prompt")
)

// GetPrompt has no fields.
type GetPrompt struct{}

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
}

package proto

// Methods of sys, which builds the system prompt.
var (
	// SysGet returns the system prompt: the configured system_prompt_file, else
	// system_prompt, else the template; then, for a session, the list of skills; then,
	// for a root, its AGENTS.md files. Skills and AGENTS.md files are read for each
	// request. A system_prompt_file that cannot be read is
	// the error invalid, and so is a template that has never been readable.
	SysGet = method[GetPrompt, SystemPrompt]("sys", "get", "system_prompt", public)
	// SysReload reads template, tools and skills from disk again. If the new
	// prompt cannot be built, the old one stays and the answer is an error.
	SysReload = method[ReloadPrompt, SystemPrompt]("sys", "reload", "system_prompt")
	// SysSetSoftMemory replaces the soft memory, in the prompt and in mem.
	SysSetSoftMemory = method[SetSoftMemory, SystemPrompt]("sys", "set_soft_memory", "system_prompt")
)

// GetPrompt asks for a prompt.
type GetPrompt struct {
	// Root is the directory whose AGENTS.md files are added, an absolute path: that
	// of the user's base directory, then, if the root is below the user's home,
	// those of the home and all directories down to the root, then that of the
	// root.
	Root string `json:"root,omitzero"`
	// SystemPrompt replaces the configured prompt and the template; empty: no
	// prompt.
	SystemPrompt *string `json:"system_prompt,omitzero"`
	// Session asks for the prompt of a session's turn, built from [sys]
	// session_template in place of [sys] template.
	Session bool `json:"session,omitzero"`
	// Sandbox is the level of confinement that a session's prompt states;
	// absent: as configured.
	Sandbox Level `json:"sandbox,omitzero"`
	// Network is whether confined code may use the network; absent: as
	// configured.
	Network *bool `json:"network,omitzero"`
	// ProjectSkills are the trusted skills of the project, for a session's prompt.
	ProjectSkills []ProjectSkill `json:"project_skills,omitzero"`
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
	// Content is the text; empty without a template.
	Content string `json:"content"`
	// Template is the path of the template or system_prompt_file that the text was
	// built from; absent if another text replaces it.
	Template string `json:"template,omitzero"`
	// TemplateMissing is true if the file does not exist.
	TemplateMissing bool `json:"template_missing,omitzero"`
	// Files are the AGENTS.md files at the end of the text, in their order.
	Files []PromptFile `json:"files,omitzero"`
	// Skills are the skills that were found for a session's prompt, those that cannot
	// be used included.
	Skills []Skill `json:"skills,omitzero"`
	// OfferSkill is true if the prompt names a skill: the model needs the tool skill.
	OfferSkill bool `json:"offer_skill,omitzero"`
	// Warnings are remarks on files that were left out or cut and, outside of
	// sessions, on a missing template, a line each.
	Warnings []string `json:"warnings,omitzero"`
}

// PromptFile is a file in a system prompt.
type PromptFile struct {
	// Path is the file's absolute path.
	Path string `json:"path"`
	// Bytes is the size of its part of the prompt, with the heading.
	Bytes int64 `json:"bytes"`
}

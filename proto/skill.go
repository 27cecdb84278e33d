package proto

// SysSkill returns the instructions of a skill: a folder with a SKILL.md. An empty
// name lists the skills that the prompt has no room for. An unknown skill, and one that
// the caller may not use, is the error not_found; a project's skill whose folder has
// changed since it was trusted is the error denied.
var SysSkill = method[GetSkill, SkillContent]("sys", "skill", "skill")

// Sources of skills.
const (
	SkillOfProject = "project"
	SkillOfUser    = "user"
	SkillOfHost    = "host"
)

// Kinds of skills.
const (
	SkillFolder = "folder" // a folder with a SKILL.md, for the tool skill
	SkillJSON   = "json"   // a file in skills/, for the tool task
)

// Skill describes a skill.
type Skill struct {
	// Name is the name by which it is used.
	Name string `json:"name"`
	// Description says what it does and when it is of use, on one line.
	Description string `json:"description,omitzero"`
	// Kind is "folder" (a folder with a SKILL.md, for the tool skill) or "json" (a
	// file, for the tool task).
	Kind string `json:"kind"`
	// Dir is the folder; of a JSON skill the file.
	Dir string `json:"dir"`
	// Source is where it comes from: "project", "user" or "host".
	Source string `json:"source"`
	// ArgumentHint says which arguments its command takes.
	ArgumentHint string `json:"argument_hint,omitzero"`
	// UserOnly is true if only a person uses it, as the command /NAME.
	UserOnly bool `json:"user_only,omitzero"`
	// ModelOnly is true if it is not a command.
	ModelOnly bool `json:"model_only,omitzero"`
	// Shadowed is true if a nearer skill has the same name.
	Shadowed bool `json:"shadowed,omitzero"`
	// Problem is why it cannot be used, with file and line.
	Problem string `json:"problem,omitzero"`
	// Warnings are remarks on its front matter, with file and line.
	Warnings []string `json:"warnings,omitzero"`
}

// Usable reports whether the skill can be used by its name.
func (s Skill) Usable() bool { return s.Problem == "" && !s.Shadowed && s.Kind == SkillFolder }

// GetSkill asks for a skill.
type GetSkill struct {
	// Name is the skill's name; empty: the list of those that the prompt leaves out.
	Name string `json:"name"`
	// Arguments take the place of $ARGUMENTS in the instructions; without it they
	// follow them.
	Arguments string `json:"arguments,omitzero"`
	// Command is true if a person asks, with the command /NAME.
	Command bool `json:"command,omitzero"`
	// ProjectSkills are the trusted skills of the project.
	ProjectSkills []ProjectSkill `json:"project_skills,omitzero"`
}

// SkillContent is a skill as the model sees it.
type SkillContent struct {
	// Name is the skill's name.
	Name string `json:"name"`
	// Dir is its folder, to which paths in the content are relative.
	Dir string `json:"dir"`
	// Content are the instructions, without front matter: their first 51200 bytes.
	Content string `json:"content"`
	// Files are the other files of the folder, at most 100.
	Files []string `json:"files"`
	// MoreFiles is the number of files that are not in the list.
	MoreFiles int `json:"more_files,omitzero"`
}

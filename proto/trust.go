package proto

// Methods of the daemon about the files of a project that are used only if they are
// trusted: .mcp.json, hooks in .claude/settings.json and .claude/settings.local.json,
// skills in .claude/skills and .agents/skills, commands in .claude/commands.
var (
	// DaemonTrust reports these files of a root, and of the nearest parent with a .git
	// below the caller's home. A daemon that another user runs ignores such files: it
	// reports none.
	DaemonTrust = method[TrustRequest, TrustReport]("daemon", "trust", "trust_report")
	// DaemonSetTrust stores whether a file is trusted. If its content has changed since
	// it was reported, it is the error invalid. Only the daemon's own user may do so.
	DaemonSetTrust = method[SetTrust, Empty]("daemon", "set_trust", "ok")
)

// Kinds of files of a project.
const (
	TrustMCP     = "mcp"
	TrustHooks   = "hooks"
	TrustSkill   = "skill"
	TrustCommand = "command"
)

// States of trust.
const (
	TrustNew     = "new"     // never answered
	TrustTrusted = "trusted" // used
	TrustRefused = "refused" // not used, and not asked about until it changes
	TrustChanged = "changed" // answered for another content
)

// TrustRequest names a project.
type TrustRequest struct {
	// Root is the working directory of a turn, an absolute path.
	Root string `json:"root"`
}

// TrustReport lists the files of a project.
type TrustReport struct {
	// Files are the files, those of the root first.
	Files []TrustFile `json:"files"`
	// Question asks a person about the files that are new or changed; absent: there is
	// nothing to ask.
	Question string `json:"question,omitzero"`
	// Unused says which files are not used, for a place where no person can be asked;
	// absent: all are used or refused.
	Unused string `json:"unused,omitzero"`
}

// TrustFile is a file of a project, or the folder of a skill.
type TrustFile struct {
	// Path is its absolute path.
	Path string `json:"path"`
	// Kind is "mcp", "hooks", "skill" or "command".
	Kind string `json:"kind"`
	// SHA256 is the hash of its content, in hex digits: of a skill over its folder, of
	// hooks with the folder .claude/hooks. Absent: it cannot be used, see problem.
	SHA256 string `json:"sha256,omitzero"`
	// Summary says in one line what it brings.
	Summary string `json:"summary"`
	// State is "new", "trusted", "refused" or "changed".
	State string `json:"state"`
	// Details are the commands, URLs and front matter in it. Control characters are
	// escaped.
	Details string `json:"details,omitzero"`
	// Problem says why the file is never used, as a symbolic link that leaves the project.
	Problem string `json:"problem,omitzero"`
}

// SetTrust is an answer about a file.
type SetTrust struct {
	// Path is the path of a report.
	Path string `json:"path"`
	// SHA256 is the hash of the report. It may be absent with trusted.
	SHA256 string `json:"sha256,omitzero"`
	// Trusted is whether the file is used; absent: earlier answers about it, for any
	// content, are forgotten.
	Trusted *bool `json:"trusted,omitzero"`
}

// ProjectSkill is a trusted folder of a skill.
type ProjectSkill struct {
	// Dir is its absolute path.
	Dir string `json:"dir"`
	// SHA256 is the hash of its content when it was trusted. A folder with another one is
	// not used.
	SHA256 string `json:"sha256"`
}

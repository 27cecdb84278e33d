package rpc

// Version is the release of this tree: commits before its tag are pre-releases of
// it. CHANGELOG.md has a section of this name.
const Version = "0.1.0"

// Commit and Date identify the source. The linker sets them, see Makefile.
var Commit, Date string

// Build is the semantic version of this build, for peers: 0.1.0+22ff747, or
// 0.1.0+dev if the linker set no commit.
var Build = Version + "+" + commit()

// VersionText is Version with its source, for people: 0.1.0 (22ff747, 2026-11-22).
func VersionText() string {
	if Date == "" {
		return Version + " (" + commit() + ")"
	}
	return Version + " (" + commit() + ", " + Date + ")"
}

func commit() string {
	if Commit == "" {
		return "dev"
	}
	return Commit
}

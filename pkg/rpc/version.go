package rpc

// Version is the release that this tree is, or is becoming: commits before its
// tag are pre-releases of it. CHANGELOG.md has a section of this name.
const Version = "0.1.0"

// Commit and Date describe what was built. The linker sets them, see Makefile.
var Commit, Date string

// Build identifies this build to its peers, as a semantic version:
// 0.1.0+22ff747, or 0.1.0+dev where the linker set no commit.
var Build = Version + "+" + commit()

// VersionText is Version with its origin, for people: 0.1.0 (22ff747, 2026-11-22).
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

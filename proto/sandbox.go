package proto

import "strings"

// Level is a level of confinement for code that a model has run. In a request
// the empty level means: as configured.
type Level string

// The levels.
const (
	LevelOff            Level = "off"             // no confinement
	LevelReadOnly       Level = "read-only"       // files can be read, not written
	LevelWorkspaceWrite Level = "workspace-write" // files can be written below the root only
	LevelUnit           Level = "unit"            // in a unit of its own, as another user
)

// Levels lists the levels in the order in which they are shown.
var Levels = []Level{LevelOff, LevelReadOnly, LevelWorkspaceWrite, LevelUnit}

// Confined reports whether the level confines anything. The empty level does
// not.
func (l Level) Confined() bool { return l != "" && l != LevelOff }

// ParseLevel returns the level of that name.
func ParseLevel(name string) (Level, error) {
	for _, l := range Levels {
		if name == string(l) {
			return l, nil
		}
	}
	names := LevelNames()
	last := len(names) - 1
	return "", Errorf(CodeInvalid, "unknown sandbox level %q: use %s or %s", name, strings.Join(names[:last], ", "), names[last])
}

// LevelNames returns the names of all levels.
func LevelNames() (names []string) {
	for _, l := range Levels {
		names = append(names, string(l))
	}
	return names
}

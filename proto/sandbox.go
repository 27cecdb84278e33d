package proto

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
	return "", Errorf(CodeInvalid, "unknown sandbox level %q: use off, read-only, workspace-write or unit", name)
}

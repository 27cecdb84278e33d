package proto

// Methods of exc for the file changes of turns. Undo and redo check all paths before
// they change one; a redo takes back an undo. Before Linux 5.6, and with [undo]
// enabled = false, they are the error unavailable. A session or turn without
// recorded changes is the error not_found.
var (
	// ExcUndo takes back the file changes of a turn.
	ExcUndo = method[Undo, Undone]("exc", "undo", "undone")
	// ExcRedo takes back an undo.
	ExcRedo = method[Undo, Undone]("exc", "redo", "undone")
	// ExcDiff returns the file changes of a turn that were not taken back.
	ExcDiff = method[Undo, TurnDiff]("exc", "diff", "turn_diff")
	// ExcUndoRemove removes the records of the file changes of a session, if there are
	// any.
	ExcUndoRemove = method[UndoRemove, Empty]("exc", "undo_remove", "ok", public)
)

// Methods of the daemon for the same, while the session is locked: a session with an
// open turn is the error busy. What was changed is stored as the event undo.
var (
	// DaemonUndo takes back the file changes of a turn. The next turn's message is
	// preceded by a line that names the files.
	DaemonUndo = method[Undo, Undone]("daemon", "undo", "undone")
	// DaemonRedo takes back an undo.
	DaemonRedo = method[Undo, Undone]("daemon", "redo", "undone")
	// DaemonDiff returns the file changes of a turn that were not taken back.
	DaemonDiff = method[Undo, TurnDiff]("daemon", "diff", "turn_diff")
)

// Undo selects the file changes of a turn, for undo, redo and diff.
type Undo struct {
	// SessionID is the session's whole id.
	SessionID string `json:"session_id"`
	// Turn is the turn; absent: the last one whose changes were not taken back. For
	// redo the one whose changes were taken back last.
	Turn string `json:"turn,omitzero"`
	// Paths selects files, and directories with all below them, absolute or relative
	// to the root of the turn; absent: all that the turn changed.
	Paths []string `json:"paths,omitzero"`
	// Partial changes what can be changed if some paths are refused. Without it
	// nothing is changed then.
	Partial bool `json:"partial,omitzero"`
	// DryRun changes nothing: the answer says what would be changed. diff ignores it.
	DryRun bool `json:"dry_run,omitzero"`
	// ID names an undo or redo for exc: up to 64 characters. It is set by the daemon.
	ID string `json:"id,omitzero"`
	// Recover asks exc for the answer of the undo or redo ID, which may have been
	// carried out, or is finished now after a crash. The error not_found means that
	// it has changed nothing.
	Recover bool `json:"recover,omitzero"`
	// Mask is as in call of exc, for diff. It is set by the daemon.
	Mask *Masking `json:"mask,omitzero"`
}

// Undone says what an undo or a redo changed. Paths are relative to the root of the
// turn, or absolute where they are not below it; those of directories end in "/".
type Undone struct {
	// Turn is the turn.
	Turn string `json:"turn"`
	// Restored are the paths that have their earlier content again.
	Restored []string `json:"restored"`
	// Removed are the paths that the turn had created.
	Removed []string `json:"removed"`
	// Refused are the paths that were left as they are. Without partial nothing
	// was changed if there is one.
	Refused []UndoRefused `json:"refused"`
}

// UndoRefused is a path that is not changed.
type UndoRefused struct {
	// Path is the path.
	Path string `json:"path"`
	// Reason is one of the undo reasons below, or the text of an error.
	Reason string `json:"reason"`
}

// Reasons why a path is not changed.
const (
	UndoChanged  = "changed"   // content, kind or mode is not what the turn left
	UndoOwner    = "owner"     // another owner, or one that cannot be restored
	UndoHardLink = "hard_link" // the file has more than one name
	UndoMissing  = "missing"   // moved or deleted since
	UndoParent   = "parent"    // a directory above is now a symbolic link, or gone
	UndoNoImage  = "no_image"  // the content was not kept
)

// undoReasons has the undo reasons in words.
var undoReasons = map[string]string{
	UndoChanged:  "it is not what the turn left",
	UndoOwner:    "it has another owner, or had one that cannot be restored",
	UndoHardLink: "it has more than one name",
	UndoMissing:  "it was moved or deleted since",
	UndoParent:   "a directory above is a symbolic link now, or gone",
	UndoNoImage:  "its content was not kept",
}

// Explain returns the reason with an explanation for people.
func (r UndoRefused) Explain() string {
	if words := undoReasons[r.Reason]; words != "" {
		return r.Reason + " (" + words + ")"
	}
	return r.Reason
}

// TurnDiff is what a turn changed.
type TurnDiff struct {
	// Turn is the turn.
	Turn string `json:"turn"`
	// Diff is a unified diff as git prints it, up to 8 MiB.
	Diff string `json:"diff"`
	// Files are the changed files.
	Files []DiffFile `json:"files"`
}

// DiffFile is a changed file of a diff.
type DiffFile struct {
	// Path is the path, as in undone.
	Path string `json:"path"`
	// Added and Removed count the lines.
	Added int `json:"added"`
	// Removed counts the lines that are gone.
	Removed int `json:"removed"`
	// Binary is true if the content is not text, or too long to be compared.
	Binary bool `json:"binary,omitzero"`
	// NotCovered is true if the content was not kept.
	NotCovered bool `json:"not_covered,omitzero"`
	// Late is true if the file was changed by a command that went on after its
	// result.
	Late bool `json:"late,omitzero"`
}

// UndoRemove names a session whose records of file changes are removed.
type UndoRemove struct {
	// SessionID is the session's whole id.
	SessionID string `json:"session_id"`
}

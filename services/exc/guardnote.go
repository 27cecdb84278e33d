package exc

import (
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
)

// writeDown keeps in a file what is guarded for the case that this process is
// killed. What is there already is not in it: it could not be put back.
func (g *guard) writeDown(file string) error {
	note := guardNote{Root: g.root.Name()}
	for _, p := range g.places {
		if !p.fixed() {
			note.Places = append(note.Places, p)
		}
	}
	text, err := json.Marshal(note)
	if err != nil {
		return err
	}
	g.note = file
	return writeNew(file, string(text))
}

// noteSuffix ends the name of the file beside a run's own directory in which its
// guard is written down.
const noteSuffix = ".guard"

// resumeAll ends the guards that a dead process wrote down in its workspace.
func resumeAll(workspace string, log *slog.Logger) {
	notes, _ := filepath.Glob(filepath.Join(workspace, "*"+noteSuffix)) // the pattern is well-formed
	for _, note := range notes {
		g, err := resume(note)
		if err != nil {
			log.Warn("what a run that was cut off may have made in protected places is not known: look at them", "error", err)
			continue
		}
		for _, i := range g.restore() {
			log.Warn(i.String(), "root", g.root.Name())
		}
	}
}

// guardNote is what a guard writes down.
type guardNote struct {
	Root   string
	Places []place
}

// resume is the guard that a dead process wrote down.
func resume(file string) (*guard, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var note guardNote
	if err := json.Unmarshal(text, &note); err != nil {
		return nil, err
	}
	return newGuard(note.Root, note.Places)
}

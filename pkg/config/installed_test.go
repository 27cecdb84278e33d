package config

import (
	"os"
	"path/filepath"
	"testing"

	"zino/pkg/zinotest"
)

// TestLocate checks that the first existing path is used, and that paths set in the file
// are kept.
func TestLocate(t *testing.T) {
	own, base := t.TempDir(), t.TempDir()
	for _, path := range []string{filepath.Join(own, "SYSTEM.md"), filepath.Join(base, "SYSTEM.md"), filepath.Join(base, "tools")} {
		zinotest.Must(t, os.Mkdir(path, 0o700))
	}
	c, err := Parse([]byte("[sys]\nsession_template = \"mine.md\"\n"), "Z", own, "sys")
	zinotest.Must(t, err)
	c.Locate(own, base)
	for _, test := range []struct{ got, want string }{
		{c.Sys.Template, filepath.Join(own, "SYSTEM.md")},
		{c.Sys.SessionTemplate, filepath.Join(own, "mine.md")},
		{c.Tools.Dir, filepath.Join(base, "tools")},
		{c.Skills.Dir, filepath.Join(own, "skills")}, // nowhere
	} {
		if test.got != test.want {
			t.Errorf("got %s, want %s", test.got, test.want)
		}
	}
}

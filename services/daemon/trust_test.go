package daemon

import (
	"os"
	"path/filepath"
	"testing"

	"zino/pkg/zinotest"
	"zino/proto"
)

// TestProjectOfAnotherUser checks that a daemon that several users share uses no files of
// projects, and reads no commands of its own user for them.
func TestProjectOfAnotherUser(t *testing.T) {
	home := zinotest.Dir(t)
	t.Setenv("HOME", home)
	t.Setenv("ZINO_HOME", home)
	b := newEnv(t, all())
	root, err := filepath.EvalSymlinks(zinotest.Dir(t))
	zinotest.Must(t, err)
	zinotest.Must(t, os.MkdirAll(filepath.Join(root, ".claude", "commands"), 0o700))
	zinotest.Must(t, os.MkdirAll(filepath.Join(home, "commands"), 0o700))
	zinotest.Write(t, filepath.Join(root, ".claude", "commands", "fix.md"), "Fix it.")
	zinotest.Write(t, filepath.Join(home, "commands", "mine.md"), "Mine.")
	report, err := b.service.trust(t.Context(), proto.TrustRequest{Root: root}) // in this process: no peer
	zinotest.Must(t, err)
	zinotest.Equal(t, "the files for an unknown user", len(report.Files), 0)
	if _, err := b.service.setTrust(t.Context(), proto.SetTrust{Path: filepath.Join(root, ".mcp.json")}); codeOf(err) != proto.CodeDenied {
		t.Errorf("an answer of an unknown user: %v", err)
	}
	for uid, want := range map[int]int{os.Geteuid(): 2, os.Geteuid() + 1: 0} {
		list, err := b.service.commandsOf(t.Context(), root, uid)
		zinotest.Must(t, err)
		zinotest.Equal(t, "the commands", len(list), want)
		_, err = b.service.projectOf(root, uid)
		zinotest.Must(t, err)
	}
}

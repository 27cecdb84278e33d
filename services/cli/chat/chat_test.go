package chat

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"zino/pkg/config"
	"zino/pkg/zinotest"
	"zino/proto"
	"zino/services/cli/command"
	"zino/services/cli/connect"
)

// TestGreeting checks that the greeting is printed once, in three lines.
func TestGreeting(t *testing.T) {
	for tools, commands := range map[string]string{"../../../tools": "run, python, remember, recall, tour", zinotest.Dir(t): "run, tour"} {
		stderr, err := os.Create(filepath.Join(zinotest.Dir(t), "stderr"))
		zinotest.Must(t, err)
		defer stderr.Close()
		c := &chat{Env: &command.Env{Target: connect.Target{Err: stderr}}, cfg: config.Default()}
		c.cfg.Tools.Dir = tools
		c.greet(proto.RouterCapabilities{Provider: "openai"})
		c.greet(proto.RouterCapabilities{Provider: "offline", Fallback: true})
		printed := zinotest.Read(t, stderr.Name())
		if strings.Count(printed, "\n") != 3 || !strings.Contains(printed, "ANTHROPIC_API_KEY") || !strings.HasSuffix(printed, " For now: "+commands+".\n") {
			t.Errorf("printed %q", printed)
		}
	}
}

package zino_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"zino/pkg/zinotest"
)

// TestMCPPromptCommands uses the prompts of a server of another SDK as slash commands, in
// the chat and in zino exec.
func TestMCPPromptCommands(t *testing.T) {
	t.Parallel()
	node, modules := zinotest.Node(t)
	s, provider := newCommandChat(t, func(home string) {
		zinotest.Write(t, filepath.Join(home, "server.mjs"), zinotest.Read(t, "testdata/node/mcpserver.mjs"))
		zinotest.Must(t, os.Symlink(modules, filepath.Join(home, "node_modules")))
		config := filepath.Join(home, ".config", "zino", "config.toml")
		zinotest.Write(t, config, zinotest.Read(t, config)+"[mcp.servers.foreign]\ncommand = ['"+node+"', '"+filepath.Join(home, "server.mjs")+"']\n")
	}, nil)
	sent := func() string {
		t.Helper()
		all := provider.Requests()
		return string(all[len(all)-1].Body)
	}
	leaveChat(s)
	s.Enter("clear; zino mcp test foreign")
	s.Shows("echo: Echoes", shell)
	s.Enter("clear; zino")
	s.Tmux("send-keys", "-l", "/mcp__foreign__r") // before the commands are known
	s.Tmux(append([]string{"send-keys"}, slices.Repeat([]string{"Tab"}, 60)...)...)
	s.Shows("> /mcp__foreign__review", `\$0\.00`)
	s.Enter(`"a file.go" be strict`)
	answered(s, "done")
	zinotest.Contains(t, "what was sent", sent(), `Review a file.go, be strict.\n\nAssistant: I will.`)
	s.Enter("/help")
	s.Shows("/mcp__foreign__review file [tone]", "")
	s.Enter("/mcp__foreign__review")
	s.Shows("the argument file is missing: the file", "")
	s.Tmux("send-keys", "C-c")
	s.Enter("/mcp__foreign__broken")
	s.Shows("no such thing", "")
	s.Tmux("send-keys", "C-c")
	leaveChat(s)

	s.Enter("clear; zino exec -p '/mcp__foreign__review main.go'")
	s.Shows("done", shell)
	zinotest.Contains(t, "what was sent", sent(), `Review main.go, kindly.\n\nAssistant: I will.`)
	s.Enter("clear; zino exec -p /mcp__foreign__plain_words")
	s.Shows("done", shell)
	zinotest.Contains(t, "what was sent", sent(), "Look at this: !`touch evil` $1 @/etc/hostname", `"type":"image"`)
	if strings.Contains(sent(), "Contents of") || exists(filepath.Join(s.Dir, "home", "proj", "evil")) {
		t.Error("the text of a server was expanded")
	}
}

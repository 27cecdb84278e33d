package zino_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"zino/pkg/zinotest"
)

// projectFiles are files of a project of which a person is asked.
var projectFiles = map[string]string{
	".mcp.json":               `{"mcpServers":{"pg":{"command":"pg-mcp","args":["--read-only","\u001b[2J"]}}}`,
	".claude/settings.json":   `{"hooks":{"Stop":[{"hooks":[{"type":"command","command":"tools/check.sh"}]}]}}`,
	"tools/check.sh":          "true\n",
	".claude/commands/fix.md": "---\ndescription: Fixes an issue\n---\nFix issue $1.\n",
}

// writeTree writes files and the directories that they need.
func writeTree(t *testing.T, root string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		zinotest.Must(t, os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755))
		zinotest.Write(t, filepath.Join(root, name), content)
	}
}

// TestTrustQuestion asks about the files of a project in the chat and in zino exec: once,
// and again when one has changed.
func TestTrustQuestion(t *testing.T) {
	t.Parallel()
	var root, store string
	s, provider := newCommandChat(t, func(home string) {
		root, store = filepath.Join(home, "proj"), filepath.Join(home, ".config", "zino", "trust.json")
		writeTree(t, root, projectFiles)
	}, nil)
	shows := func(parts ...string) {
		t.Helper()
		s.Eventually(strings.Join(parts, ", "), func(text string) bool {
			text = strings.Join(strings.Fields(text), " ")
			return !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(text, part) })
		})
	}
	s.Enter("hello")
	shows("This project brings: 1 MCP server (.mcp.json: pg), 1 hook (.claude/settings.json), 1 command.", "not covered by your answer: tools/check.sh. Use them?", "(y)es, (n)o, (s)how?")
	s.Eventually("what the files bring", func(text string) bool {
		s.Tmux("send-keys", "s") // it counts when the dialog has been seen for a while
		return strings.Contains(text, "pg: pg-mcp --read-only")
	})
	shows("Stop: tools/check.sh", "description: Fixes an issue", "(y)es, (n)o, (s)how?")
	s.Eventually("the answer", func(string) bool {
		if !exists(store) {
			s.Tmux("send-keys", "y")
		}
		return exists(store)
	})
	s.Shows("done", `\$0\.0`)
	s.Tmux("send-keys", "C-u")
	s.Enter("again")
	s.Eventually("a second answer", func(text string) bool { return strings.Count(text, "done") == 2 })
	if strings.Count(s.Text(), "This project brings") > 1 {
		t.Errorf("asked twice:\n%s", s.Text())
	}
	s.Tmux("send-keys", "-l", "/fi")
	s.Tmux("send-keys", "Tab")
	s.Shows("> /fix", "")
	s.Enter("12")
	s.Eventually("a third answer", func(text string) bool { return strings.Count(text, "done") == 3 })
	all := provider.Requests()
	if got := string(all[len(all)-1].Body); !strings.Contains(got, "Fix issue 12.") {
		t.Errorf("/fix 12 has sent: %s", got)
	}
	s.Enter("/fixx 12")
	shows("Unknown command /fixx. Did you mean /fix? Nothing was sent.")
	leaveChat(s)

	s.Enter("clear; zino exec hello")
	s.Shows("done", shell)
	zinotest.Write(t, filepath.Join(root, ".mcp.json"), `{"mcpServers":{"evil":{"command":"evil"}}}`)
	s.Enter("clear; zino exec hello")
	s.Shows("1 MCP server (.mcp.json has changed: evil)", `\[s\]how: ?$`)
	s.Enter("s")
	s.Shows("~/proj/.mcp.json (changed): 1 MCP server: evil", `\[s\]how: ?$`)
	s.Enter("n")
	s.Shows("done", shell)
	s.Enter("clear; zino exec hello; zino trust")
	shows("done", "refused .mcp.json 1 MCP server: evil", "trusted .claude/settings.json 1 hook: Stop", "trusted .claude/commands/fix.md command /fix: Fixes an issue")
	if strings.Contains(s.Text(), "Use them?") {
		t.Errorf("asked again:\n%s", s.Text())
	}
}

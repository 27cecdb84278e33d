package zino_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"zino/pkg/fakellm"
	"zino/pkg/zinotest"
)

// TestQuestions answers what a foreign MCP server asks for, in the chat and in zino exec. No
// value that is typed reaches the model, or a file of Zino.
func TestQuestions(t *testing.T) {
	t.Parallel()
	node, modules := zinotest.Node(t)
	const canary = "Ann Canary 4711"
	var home, answers string
	tool := func(match, name string) fakellm.Turn {
		return fakellm.Turn{Match: match, Times: fakellm.Forever, Calls: []fakellm.Call{{Name: "mcp_call", Args: fmt.Sprintf(`{"server":"test","tool":%q,"arguments":{}}`, name)}}}
	}
	s, provider := newCommandChat(t, func(dir string) {
		home, answers = dir, filepath.Join(dir, "answers")
		zinotest.Must(t, os.Symlink(modules, filepath.Join(home, "node_modules")))
		zinotest.Write(t, filepath.Join(home, "server.mjs"), zinotest.Read(t, "testdata/node/mcpserver.mjs"))
		zinotest.Write(t, filepath.Join(home, ".config", "zino", "config.toml"), fmt.Sprintf("[chat]\nplain = false\n[mcp]\ndirect_tokens = 1\n[mcp.servers.test]\ncommand = [%q, %q]\nsandbox = \"off\"\nenv = { ANSWERS = %q }\n", node, filepath.Join(home, "server.mjs"), answers))
	}, []string{"ZINO_LOG_LEVEL=debug"}, tool("register me", "register"), tool("sign me in", "sign_in"))
	answered := func(n int, want string) {
		t.Helper()
		s.Eventually("answer "+want, func(string) bool {
			b, err := os.ReadFile(answers)
			return err == nil && strings.Count(string(b), "\n") >= n
		})
		lines := strings.Split(zinotest.Read(t, answers), "\n")
		zinotest.Equal(t, "answer", lines[n-1], want)
	}

	s.Enter("register me")
	ready(t, s, `\[f\]ill in`)
	s.Shows("The MCP server test asks for input:\n    Who^[]0;evil^G are you?\nWhat you type goes to this server, not to the model.\n", "")
	s.Enter("f")
	s.Shows("\nFull name:\n", "")
	s.Enter("A")
	s.Shows("Full name: want at least 2 characters", "")
	s.Enter(canary)
	s.Shows("\ntalks [3]:\n", "")
	s.Enter("")
	s.Shows("\ndinner [yes]:\n", "") // optional fields come by name
	s.Enter("n")
	s.Shows("2 fish", "")
	s.Enter("2")
	s.Shows("[s]end, [a]gain, [d]ecline, [c]ancel:", "")
	s.Enter("s")
	s.Shows("Sent: input for test", `\$0\.`)
	answered(1, `{"action":"accept","content":{"dinner":false,"meal":"f","name":"`+canary+`","talks":3}}`)
	s.Shows("done", `\$0\.`)

	s.Enter("sign me in")
	ready(t, s, `\[a\]ccept`)
	s.Shows("https://login.example.com/start?state=4711", "")
	s.Shows("It is on login.example.com. Zino does not open it.", "")
	s.Tmux("send-keys", "Escape")
	s.Shows("Canceled: a page of test", `\$0\.`)
	s.Eventually("a second answer", func(text string) bool { return strings.Count(text, "done") == 2 })
	s.Tmux("send-keys", "C-u")
	leaveChat(s)

	s.Enter("clear; zino exec 'register me'")
	s.Shows("Who^[]0;evil^G are you?", `\[c\]ancel: ?$`)
	s.Enter("x")
	s.Shows("Type one of the letters in brackets.", `\[c\]ancel: ?$`)
	s.Enter("fill in")
	s.Shows("", `Full name: ?$`)
	s.Enter(canary)
	s.Shows("", `talks \[3\]: ?$`)
	s.Enter("9")
	s.Shows("", `dinner \[yes\]: ?$`)
	s.Enter("")
	s.Shows("1 vegetarian", `meal: ?$`)
	s.Enter("")
	s.Shows("talks: 9", `\[c\]ancel: ?$`)
	s.Enter("send")
	s.Shows("done", shell)
	answered(2, `{"action":"accept","content":{"dinner":true,"name":"`+canary+`","talks":9}}`)
	s.Enter("clear; zino exec 'sign me in'")
	s.Shows("https://login.example.com/start?state=4711", `\[a\]ccept, \[d\]ecline, \[c\]ancel: ?$`)
	s.Enter("d")
	s.Shows("done", shell)

	s.Enter("clear; zino exec 'register me' </dev/null") // no person
	s.Shows("done", shell)
	answered(3, `{"action":"cancel"}`)

	var results []string
	for _, r := range provider.Requests() {
		body := string(r.Body)
		if strings.Contains(body, "Canary") {
			t.Errorf("the model was sent the value: %s", body)
		}
		for _, result := range []string{"registration: accept", "sign in: cancel", "sign in: decline", "input_wanted"} {
			if strings.Contains(body, result) {
				results = append(results, result)
			}
		}
	}
	for _, result := range []string{"registration: accept", "sign in: cancel", "sign in: decline", "input_wanted"} {
		if !strings.Contains(strings.Join(results, "|"), result) {
			t.Errorf("the model was not sent %q", result)
		}
	}
	zinotest.Must(t, filepath.WalkDir(home, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || path == answers {
			return err
		}
		if strings.Contains(zinotest.Read(t, path), "Canary") {
			t.Errorf("%s has the value", path)
		}
		return nil
	}))
}

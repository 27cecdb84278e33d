package zino_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"zino/pkg/fakellm"
	"zino/pkg/zinotest"
)

// chatScript is the provider's script of TestChatScreens.
var chatScript = []fakellm.Turn{
	{
		Match: "fail", Reasoning: "I look at the file.", Size: 7, Text: "Let me look.",
		Calls: []fakellm.Call{
			{Name: "read", Args: `{"path":"mean.go"}`},
			{Name: "bash", Args: `{"command":"seq 1 120; exit 3"}`},
		},
	},
	{Match: "exit_code", Size: 5, Text: "The test **fails**: `mean` divides by zero. See the [spec](https://go.dev/ref/spec).\n\n" +
		"| file | lines | remark |\n|---|---:|---|\n| main.go | 12 | 漢字 |\n| mean.go | 9 | divides by zero |\n\n" +
		"1. Return 0 for an empty list\n2. Test it\n\n```go\nfunc mean() int {\n\treturn 0\n}\n```\n"},
	{Match: "long", Size: 64, Text: numbered(1000)},
	{Times: fakellm.Forever, Text: "done"},
}

// numbered returns a text of numbered paragraphs.
func numbered(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "line %d of the answer\n\n", i+1)
	}
	return b.String()
}

// newChat opens an interactive chat.
func newChat(t *testing.T) (*zinotest.Screen, *fakellm.Server) {
	provider := fakellm.New(chatScript...)
	t.Cleanup(provider.Close)
	s := zinotest.NewScreen(t, bin, "ANTHROPIC_API_KEY=test", "ANTHROPIC_BASE_URL="+provider.Host, "TMUX=yes")
	zinotest.Write(t, filepath.Join(s.Dir, "home", ".config", "zino", "config.toml"), "[chat]\nplain = false\n")
	zinotest.Write(t, filepath.Join(s.Dir, "work", "mean.go"), "package p\n\nfunc mean() int {\n\treturn 1 / 0\n}\n")
	s.Tmux("set", "-g", "status", "off")
	s.Tmux("set", "-g", "history-limit", "20000")
	s.Enter("stty -a > before; clear; zino")
	s.Shows("/help", `\$0\.00`)
	return s, provider
}

// answered waits for the end of a turn whose answer has a text.
func answered(s *zinotest.Screen, part string) {
	s.Eventually("the end of the turn with "+part, func(text string) bool {
		return strings.Contains(text, part) && !strings.Contains(text, "Esc stops")
	})
}

// checkChat compares everything since the start of the chat with a golden screen: how much
// of it has left the screen depends on how high the region was.
func checkChat(t *testing.T, s *zinotest.Screen, name string) {
	t.Helper()
	text := s.History()
	checkText(t, s, name, text[strings.LastIndex(text, "zino 0."):])
}

// left checks that the terminal is as it was before the chat.
func left(t *testing.T, s *zinotest.Screen) {
	t.Helper()
	s.Enter("clear; stty -a > after; cmp before after && echo same terminal")
	s.Shows("same terminal", shell)
}

// TestChatScreens checks what a turn shows, a refused command, and the way out.
func TestChatScreens(t *testing.T) {
	s, _ := newChat(t)
	checkChat(t, s, "chat-01")
	s.Enter("why does the test fail?")
	answered(s, "return 0")
	checkChat(t, s, "chat-05")
	s.Enter("/modle gpt")
	s.Shows("Nothing was sent.", `tokens|%`)
	s.Tmux("send-keys", "C-d")
	s.Shows("Go on with: zino sessions resume", shell)
	left(t, s)
}

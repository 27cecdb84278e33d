package zino_test

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"zino/pkg/fakellm"
	"zino/pkg/zinotest"
	"zino/pkg/zinotest/fakedaemon"
)

// chatScript is the provider's script of chats with real services.
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
	{Match: "wait", Wait: "answer", Text: "I waited."},
	{Match: "key", Status: 401, Text: `{"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key"}}`},
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

// newChat opens an interactive chat with real services, of 80 by 24 characters, in ~/proj.
func newChat(t *testing.T, env ...string) (*zinotest.Screen, *fakellm.Server) {
	t.Helper()
	provider := fakellm.New(chatScript...)
	t.Cleanup(provider.Close)
	s := zinotest.NewScreen(t, bin, append([]string{"ANTHROPIC_API_KEY=test", "ANTHROPIC_BASE_URL=" + provider.Host, "TMUX=yes"}, env...)...)
	zinotest.Write(t, filepath.Join(s.Dir, "home", "proj", "mean.go"), "package p\n\nfunc mean() int {\n\treturn 1 / 0\n}\n")
	startChat(s, "80x24", "zino")
	return s, provider
}

// startChat starts a chat on a window of a size, and waits for its first screen.
func startChat(s *zinotest.Screen, size, command string) {
	s.Tmux("set", "-g", "status", "off")
	s.Tmux("set", "-g", "history-limit", "20000")
	width, height, _ := strings.Cut(size, "x")
	s.Tmux("resize-window", "-x", width, "-y", height)
	s.Enter("mkdir -p ~/proj; cd ~/proj; stty -a > ../before; clear; " + command)
	s.Eventually("the first line", func(text string) bool { return strings.Contains(text, "/help\n") })
}

// answered waits for the end of a turn whose answer has a text.
func answered(s *zinotest.Screen, part string) {
	s.Eventually("the end of the turn with "+part, func(text string) bool {
		return strings.Contains(text, part) && !strings.Contains(text, "Esc stops")
	})
}

// seconds are the times of an activity line.
var seconds = regexp.MustCompile(`(^|[ (])\d+s\b`)

// checkChat compares everything since the start of the chat with a golden screen: how much
// of it has left the screen depends on how high the region was.
func checkChat(t *testing.T, s *zinotest.Screen, name string) {
	t.Helper()
	text := s.History()
	checkText(t, s, name, seconds.ReplaceAllString(text[strings.LastIndex(text, "zino 0."):], "${1}0s"))
}

// checkStyles checks the styles of all that was shown: bold, dim, underlined and coloured
// by number, never with 256 colours or a background.
func checkStyles(t *testing.T, s *zinotest.Screen, colours bool, parts ...string) {
	t.Helper()
	text := s.Tmux("capture-pane", "-e", "-p", "-S", "-")
	zinotest.Contains(t, "the styled screen", text, parts...)
	for _, m := range regexp.MustCompile(`\x1b\[([0-9;:]*)m`).FindAllStringSubmatch(text, -1) {
		for code := range strings.SplitSeq(m[1], ";") {
			n, err := strconv.Atoi(code)
			switch {
			case code == "", n <= 4, n == 22, n == 24, n == 39, n == 49:
			case colours && (n >= 31 && n <= 36 || n == 90):
			default:
				t.Errorf("style %q (%v)", m[0], err)
			}
		}
	}
}

// chatVariants are the ways in which the screens of a turn are shown.
var chatVariants = []struct{ suffix, size, env string }{
	{"", "80x24", "NO_COLOR="},
	{"-40x12", "40x12", "NO_COLOR="},
	{"-nocolor", "80x24", "NO_COLOR=1"},
	{"-reader", "80x24", "ZINO_SCREEN_READER=1"},
}

// TestChatTurns compares the screens of a turn, which a scripted daemon sends: the first
// one, two tools that run, a failed one, a diff, an answer that arrives, and tasks.
func TestChatTurns(t *testing.T) {
	for _, v := range chatVariants {
		t.Run("screens"+v.suffix, func(t *testing.T) {
			t.Parallel()
			d := fakedaemon.New(t)
			d.Remove("approve", "approvals") // modes have screens of their own
			d.Answer("rtr.capabilities", func(fakedaemon.Request) string {
				return `{"type":"capabilities","streaming":true,"provider":"anthropic","model":"claude-sonnet-5-5","context_window":200000}`
			})
			s := zinotest.NewScreen(t, bin, v.env, "TMUX=yes")
			startChat(s, v.size, "zino --socket "+d.Socket)
			spoken := v.suffix == "-reader"
			check := func(name, shown string) {
				t.Helper()
				s.Eventually(name, func(string) bool { return strings.Contains(s.History(), shown) })
				checkChat(t, s, name+v.suffix)
			}
			sees := func(spokenPart, part string) string {
				if spoken {
					return spokenPart
				}
				return part
			}
			check("chat-01", sees("sandbox workspace-write", "0 %"))

			s.Enter("why does the test fail?")
			turn := d.Turn()
			turn.Send(toolPackets("c1", "read", `{"path":"mean.go"}`, `"result":{"ok":true,"data":{"content":"1\n2\n3\n4\n5\n6\n7\n8\n9\n"}}`)...)
			turn.Send(`{"type":"usage","input_tokens":8000,"output_tokens":100,"cost_usd":0.0123,"model":"claude-sonnet-5-5","context_window":200000}`)
			test, vet := toolPackets("c2", "bash", `{"command":"go test ./..."}`, failedTest()), toolPackets("c3", "bash", `{"command":"go vet ./..."}`, `"result":{"ok":true,"data":{"stdout":"","stderr":"","exit_code":0,"timed_out":false}}`)
			turn.Send(test[0], test[1], `{"type":"tool_output","id":"c2","text":"ok  proj/util  0.21s\n"}`, vet[0], vet[1])
			check("chat-02", sees("Tool bash started: go vet", "go vet ./...  "))

			turn.Send(vet[2], test[2])
			check("chat-03", sees("more lines: /show 2", "[2]"))
			turn.Send(toolPackets("c4", "edit", `{"path":"mean.go"}`, `"diff":"--- mean.go\n+++ mean.go\n@@ -2,3 +2,6 @@\n func mean(xs []int) int {\n+\tif len(xs) == 0 {\n+\t\treturn 0\n+\t}\n \tsum := 0\n \tfor _, x := range xs {\n","result":{"ok":true,"data":{}}`)...)
			check("chat-04", "sum := 0")

			turn.Send(`{"type":"reasoning","text":"Division by zero."}`)
			for _, piece := range []string{
				"The test **fails**: `mean` divides by zero. See the [spec](https://go.dev/ref/spec).\n\n| file | lines ", "| remark |\n|---|---:|---|\n| main.go | 12 | 漢字 |\n",
				"| mean.go | 9 | divides by zero |\n\n1. Return 0 for an empty li",
			} {
				turn.Send(fmt.Sprintf(`{"type":"assistant_delta","text":%q}`, piece))
			}
			check("chat-05", sees("ref/spec).\n", "empty li"))
			if !spoken {
				checkStyles(t, s, v.env != "NO_COLOR=1", "\x1b[1m> why does the test fail?", "\x1b[2m")
			}
			turn.Send(`{"type":"assistant_final","text":"The test **fails**: ` + "`mean`" + ` divides by zero. See the [spec](https://go.dev/ref/spec).\n\n| file | lines | remark |\n|---|---:|---|\n| main.go | 12 | 漢字 |\n| mean.go | 9 | divides by zero |\n\n1. Return 0 for an empty list\n"}`)
			turn.Send(`{"type":"usage","input_tokens":165000,"output_tokens":1500,"cost_usd":0.2,"model":"claude-sonnet-5-5","context_window":200000}`)
			turn.Send(`{"type":"todo","items":[{"text":"reproduce","status":"done"},{"text":"write the test","status":"active"},{"text":"fix mean","status":"open"}]}`)
			turn.End("done")
			check("chat-12", sees("Done.", "83 % · /handoff"))
			leaveChat(s)
		})
	}
}

// toolPackets returns the packets of a call: requested, started, finished.
func toolPackets(id, name, input, result string) []string {
	return []string{
		fmt.Sprintf(`{"type":"tool_requested","id":%q,"name":%q,"input":%s}`, id, name, input),
		fmt.Sprintf(`{"type":"tool_started","id":%q,"name":%q}`, id, name),
		fmt.Sprintf(`{"type":"tool_finished","id":%q,"name":%q,"ok":true,"duration_ms":10,%s}`, id, name, result),
	}
}

// failedTest is the result of a test with 122 lines.
func failedTest() string {
	var b strings.Builder
	for i := range 119 {
		fmt.Fprintf(&b, `=== RUN   Test%d\n`, i+1)
	}
	return `"result":{"ok":true,"data":{"stdout":"` + b.String() + `--- FAIL: TestMean (0.00s)\npanic: runtime error: integer divide by zero [recovered]\nFAIL\tproj\t0.004s\n","stderr":"","exit_code":1,"timed_out":false}}`
}

// TestChatScreens checks what a turn with real services shows, an error of the provider,
// and the way out.
func TestChatScreens(t *testing.T) {
	t.Parallel()
	s, provider := newChat(t)
	s.Enter("why does the test fail?")
	answered(s, "return 0")
	checkChat(t, s, "chat-turn")
	s.Enter("is the key right?")
	answered(s, "Try: zino auth set")
	s.Enter("please wait")
	s.Eventually("the wait", func(text string) bool {
		return strings.Contains(text, "please wait") && strings.Contains(text, "Esc stops")
	})
	provider.Open("answer")
	answered(s, "I waited.")
	leaveChat(s)
}

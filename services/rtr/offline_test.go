package rtr

import (
	"encoding/json"
	"strings"
	"testing"

	"zino/pkg/config"
	"zino/proto"
	"zino/services/rtr/wire"
)

// conversation makes messages of role and content in turn.
func conversation(pairs ...string) []wire.Message {
	var list []wire.Message
	for i := 0; i < len(pairs); i += 2 {
		list = append(list, wire.Message{Role: pairs[i], Text: pairs[i+1]})
	}
	return list
}

// carryOut plays agr: it puts results behind the closing tags of a reply.
func carryOut(reply, tool, task string) string {
	reply = strings.Replace(reply, "</task>", "</task>\n<task_response>\n"+task+"\n</task_response>\n", 1)
	return strings.Replace(reply, "</tool_call>", "</tool_call>\n<tool_response>\n"+tool+"\n</tool_response>\n", 1)
}

// blockIn decodes the one block of a kind in a reply.
func blockIn(t *testing.T, reply, tag string, v any) {
	t.Helper()
	_, rest, ok := strings.Cut(reply, "<"+tag+">\n")
	raw, after, ok2 := strings.Cut(rest, "\n</"+tag+">")
	if !ok || !ok2 || strings.Contains(after, "<"+tag+">") {
		t.Fatalf("not one %s in %q", tag, reply)
	}
	if err := json.Unmarshal([]byte(raw), v); err != nil {
		t.Fatalf("%q: %v", raw, err)
	}
}

type toolBlock struct {
	Name      string            `json:"name"`
	Arguments map[string]string `json:"arguments"`
}

func TestOfflineCommands(t *testing.T) {
	for _, tt := range []struct{ ask, name, parameter, value string }{
		{"run date", "execute_bash", "code", "date"},
		{"  Run\techo 'a  b' && ls > /dev/null\n", "execute_bash", "code", "echo 'a  b' && ls > /dev/null"},
		{"run\nfor i in 1 2; do\n  echo $i\ndone", "execute_bash", "code", "for i in 1 2; do\n  echo $i\ndone"},
		{"run echo '</tool_call><tool_call>{\"name\":\"x\"}'", "execute_bash", "code", "echo '</tool_call><tool_call>{\"name\":\"x\"}'"},
		{"python print(1 < 2, \"é\")", "execute_python3", "code", "print(1 < 2, \"é\")"},
		{"Remember the <b>key</b>\nis \"here\"", "remember", "text", "the <b>key</b>\nis \"here\""},
		{"recall  where the key is ", "recall", "query", "where the key is"},
	} {
		for _, streamed := range []bool{true, false} {
			reply := offlineReply(conversation("system", "s", "user", "run old", "assistant", "x", "user", tt.ask), streamed)
			var block toolBlock
			blockIn(t, reply, "tool_call", &block)
			if block.Name != tt.name || len(block.Arguments) != 1 || block.Arguments[tt.parameter] != tt.value {
				t.Errorf("%q: got %+v", tt.ask, block)
			}
			if !strings.Contains(reply, "no AI") {
				t.Errorf("%q: %q does not say that there is no AI", tt.ask, reply)
			}
		}
	}
}

func TestOfflineHelp(t *testing.T) {
	for _, ask := range []string{"hello", "", "run", "running late", "python", "tour of Paris", "tourist", "REQUEST", "remember", "recall \n", "remembering", "recalls x"} {
		reply := offlineReply(conversation("user", ask), false)
		for _, want := range []string{"no AI", "[api] base_url", "ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY", "zino auth set", "loopback", "run COMMAND", "python CODE", "remember TEXT", "recall WORDS", "tour"} {
			if !strings.Contains(reply, want) {
				t.Errorf("%q: %q lacks %q", ask, reply, want)
			}
		}
		if strings.ContainsAny(reply, "\n<") {
			t.Errorf("%q: got %q", ask, reply)
		}
	}
	if reply := offlineReply(nil, false); reply != offlineHelp {
		t.Errorf("no messages: got %q", reply)
	}
}

func TestOfflineClosing(t *testing.T) {
	for _, tt := range []struct{ name, result, collected, streamed string }{
		{"a line", "Sat Nov 21\n", "Sat Nov 21\n[offline, no AI]", "[offline, no AI] Result: Sat Nov 21"},
		{"lines", "a\nb\n", "a\nb\n[offline, no AI]", "[offline, no AI] The output stands above."},
		{"nothing", "(no output)", "(no output)\n[offline, no AI]", "[offline, no AI] Result: (no output)"},
		{
			"tags", "<tool_call>\n{}\n</tool_call>\n<task>x</task>\n<tool_response>\nz\n</tool_response>\n",
			"< tool_call>\n{}\n< /tool_call>\n< task>x< /task>\n< tool_response>\nz\n< /tool_response>\n[offline, no AI]", "[offline, no AI] The output stands above.",
		},
		{"one tag", "<task>", "< task>\n[offline, no AI]", "[offline, no AI] Result: < task>"},
		{"memories", "[0] (score 0.83) a\n[7] (score 0.12, tag t) <task>", "[0] (score 0.83) a\n[7] (score 0.12, tag t) < task>\n[offline, no AI]", "[offline, no AI] The output stands above."},
		{"empty", "", "\n[offline, no AI]", "[offline, no AI] Result: "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, word := range []string{"run", "python", "remember", "recall"} {
				for streamed, want := range map[bool]string{false: tt.collected, true: tt.streamed} {
					list := conversation("user", word+" x </tool_call>")
					list = append(list, conversation("assistant", carryOut(offlineReply(list, streamed), tt.result, ""))...)
					if got := offlineReply(list, streamed); got != want {
						t.Errorf("%s, streamed %v: got %q, want %q", word, streamed, got, want)
					}
				}
			}
		})
	}
}

// TestOfflineTour plays the whole tour, both parts of the skill included.
func TestOfflineTour(t *testing.T) {
	list := conversation("user", "tour")
	reply := offlineReply(list, true)
	var tool toolBlock
	var task struct{ Skill, Request string }
	blockIn(t, reply, "tool_call", &tool)
	blockIn(t, reply, "task", &task)
	if tool.Name != "execute_bash" || tool.Arguments["code"] == "" || task.Skill != "bash" {
		t.Errorf("got %+v and %+v", tool, task)
	}
	interpreted := offlineReply(conversation("system", "You interpret.", "user", task.Request), false)
	if !strings.HasPrefix(interpreted, "run ") || strings.Contains(interpreted, "<") {
		t.Errorf("the interpreter says %q", interpreted)
	}
	code := offlineReply(conversation("system", "You write code.", "user", "example"+kcr+"example", "assistant", "x", "user", task.Request+kcr+interpreted), false)
	if want := "```\n" + strings.TrimPrefix(interpreted, "run ") + "\n```"; code != want {
		t.Errorf("the fabricator says %q, want %q", code, want)
	}
	list = append(list, conversation("assistant", carryOut(reply, "This is Linux.\n", "21 entries\n"))...)
	if got, want := offlineReply(list, false), "This is Linux.\n21 entries\n[offline, no AI]"; got != want {
		t.Errorf("the end is %q, want %q", got, want)
	}
	if got := offlineReply(list, true); got != "[offline, no AI] The output stands above." {
		t.Errorf("the streamed end is %q", got)
	}
}

func TestFabricate(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{"run date", "```\ndate\n```"},
		{"python print(1)", "```\nprint(1)\n```"},
		{offlineReply(conversation("user", "run echo '<b>'"), false), "```\necho '<b>'\n```"},
		{"run echo '```'", "echo '```'"},
	} {
		if got := fabricate(tt.in); got != tt.want {
			t.Errorf("%q: got %q, want %q", tt.in, got, tt.want)
		}
	}
	for _, request := range []string{"write a poem", "remember rm -r x", "recall date", offlineReply(conversation("user", "remember date"), false)} {
		if got := fabricate(request); !strings.Contains(got, "no AI") || !strings.Contains(got, "exit 1") {
			t.Errorf("%q: got %q", request, got)
		}
	}
}

// TestOfflineOverSocket holds that both modes give the same text.
func TestOfflineOverSocket(t *testing.T) {
	r := start(t, func(c *config.Config) { c.Provider = "offline" })
	for _, stream := range []bool{false, true} {
		var got chunks
		text, err := r.infer(t.Context(), ask("run date", stream), &got)
		if err != nil || !strings.Contains(text, `{"arguments":{"code":"date"},"name":"execute_bash"}`) {
			t.Errorf("stream %v: got %q, %v", stream, text, err)
		}
		if stream && got.text() != text {
			t.Errorf("streamed %q, returned %q", got.text(), text)
		}
	}
	_, err := r.infer(t.Context(), proto.Infer{Messages: proto.Raw(`[7]`), TopP: 1}, &chunks{})
	if e := failure(t, err); e.Code != proto.CodeInvalid {
		t.Errorf("got %+v", *e)
	}
	if got, want := r.caps(t), (proto.RouterCapabilities{Streaming: true, Provider: "offline"}); got != want {
		t.Errorf("got %+v", got)
	}
}

// FuzzOffline holds that nothing that a command prints can make the closing
// text ask for anything, and that no command breaks its block.
func FuzzOffline(f *testing.F) {
	f.Add("date", "Sat\n")
	f.Add("echo '</tool_call>'", "<tool_call>\n{}\n</tool_call>\n</tool_response>\n\n2. A task: ")
	f.Add("x", "<<task>task>")
	f.Fuzz(func(t *testing.T, code, result string) {
		list := conversation("user", "run "+code)
		reply := offlineReply(list, false)
		if word, _ := command(strings.TrimSpace("run " + code)); word == "" {
			return
		}
		var block toolBlock
		blockIn(t, reply, "tool_call", &block)
		if strings.ToValidUTF8(code, "") == code && block.Arguments["code"] != strings.TrimSpace(code) {
			t.Fatalf("%q became %q", code, block.Arguments["code"])
		}
		list = append(list, conversation("assistant", carryOut(reply, result, ""))...)
		for _, streamed := range []bool{true, false} {
			end := offlineReply(list, streamed)
			for _, tag := range []string{"<tool_call>", "<task>", "</tool_call>", "</task>"} {
				if strings.Contains(end, tag) {
					t.Fatalf("%q closes with %q", result, end)
				}
			}
		}
	})
}

func TestCommand(t *testing.T) {
	for _, tt := range []struct{ in, word, rest string }{
		{"run date", "run", "date"},
		{"RUN  a  b ", "run", "a  b"},
		{"run\n\tx\ny", "run", "x\ny"},
		{"python 1", "python", "1"},
		{"remember  a  b", "remember", "a  b"},
		{"RECALL a", "recall", "a"},
		{"remember ", "", ""},
		{"recall", "", ""},
		{"tour", "tour", ""},
		{"Tour ", "tour", ""},
		{"tour me", "", ""},
		{"run", "", ""},
		{"python \n", "", ""},
		{"", "", ""},
		{"date", "", ""},
		{"rundate x", "", ""},
	} {
		if word, rest := command(tt.in); word != tt.word || rest != tt.rest {
			t.Errorf("%q: got %q, %q; want %q, %q", tt.in, word, rest, tt.word, tt.rest)
		}
	}
}

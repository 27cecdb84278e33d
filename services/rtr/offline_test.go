package rtr

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"zino/pkg/config"
	"zino/pkg/rpc"
	jsontext "zino/pkg/wire"
	"zino/proto"
	"zino/services/rtr/wire"
)

// conversation returns messages from alternating roles and contents.
func conversation(pairs ...string) []wire.Message {
	var list []wire.Message
	for i := 0; i < len(pairs); i += 2 {
		list = append(list, wire.Message{Role: pairs[i], Text: pairs[i+1]})
	}
	return list
}

// carryOut inserts results after the closing tags of a reply, as agr does.
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
				t.Errorf("%q: %q does not contain \"no AI\"", tt.ask, reply)
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

// TestOfflineTour runs the whole tour, including both parts of the skill.
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
		t.Errorf("the interpreter returns %q", interpreted)
	}
	code := offlineReply(conversation("system", "You write code.", "user", "example"+kcr+"example", "assistant", "x", "user", task.Request+kcr+interpreted), false)
	if want := "```\n" + strings.TrimPrefix(interpreted, "run ") + "\n```"; code != want {
		t.Errorf("the fabricator returns %q, want %q", code, want)
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

// TestOfflineOverSocket checks that streamed and collected answers have the same text.
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

// FuzzOffline checks that the output of a command never puts a call into the closing
// text, and that every command survives the encoding of its block.
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

// allTools lists the tools that a session can offer.
const allTools = "read write edit bash execute_python3 recall remember task"

// offered returns tools with the given names.
func offered(names string) (tools []wire.Tool) {
	for name := range strings.FieldsSeq(names) {
		tools = append(tools, wire.Tool{Name: name})
	}
	return tools
}

// answered returns a conversation of a question and tool results.
func answered(ask string, results ...string) []wire.Message {
	list := conversation("system", "s", "user", "run old", "assistant", "", "tool", `{"ok":true,"data":{"stdout":"old"}}`, "assistant", "x", "user", ask)
	if len(results) > 0 {
		list = append(list, wire.Message{Role: "assistant"})
	}
	for _, r := range results {
		list = append(list, wire.Message{Role: "tool", Text: r})
	}
	return list
}

// String formats a reply as its text and, after bars, its calls.
func (r reply) String() string {
	var s strings.Builder
	s.WriteString(r.text)
	for _, c := range r.calls {
		s.WriteString(" | " + c.tool + " " + string(c.arguments()))
	}
	return s.String()
}

func TestSessionCommands(t *testing.T) {
	for _, tt := range []struct{ ask, tools, want string }{
		{"run date", allTools, `$ date | bash {"command":"date"}`},
		{" Run\techo 'a  \"b\"' \n", allTools, `$ echo 'a  "b"' | bash {"command":"echo 'a  \"b\"'"}`},
		{"run echo '</tool_call><task>'", allTools, `$ echo '< /tool_call>< task>' | bash {"command":"echo '</tool_call><task>'"}`},
		{"python print(1)", allTools, `running Python | execute_python3 {"code":"print(1)"}`},
		{"remember the key", allTools, `storing a memory | remember {"text":"the key"}`},
		{"recall where it is", allTools, `searching the memories | recall {"query":"where it is"}`},
		{"read a b.txt", allTools, `reading a b.txt | read {"path":"a b.txt"}`},
		{"write a.txt  two\nlines <b>", allTools, `writing a.txt | write {"path":"a.txt","content":"two\nlines <b>"}`},
		{"write a.txt\nx", "bash write", `writing a.txt | write {"path":"a.txt","content":"x"}`},
	} {
		got := sessionReply(&wire.Request{Messages: answered(tt.ask), Tools: offered(tt.tools)}).String()
		if got != sign+tt.want {
			t.Errorf("%q: got %s, want %s", tt.ask, got, sign+tt.want)
		}
	}
}

// TestSessionHelp checks that anything but a command whose tool is offered is
// answered with the list of commands.
func TestSessionHelp(t *testing.T) {
	const some = "run COMMAND, read PATH, tour."
	const all = "run COMMAND, python CODE, read PATH, write PATH TEXT, remember TEXT, recall WORDS, tour."
	for _, tt := range []struct{ ask, tools, want string }{
		{"hello", allTools, all},
		{"run", allTools, all},
		{"write a.txt", allTools, all},
		{"write", allTools, all},
		{"read ", allTools, all},
		{"tour of Paris", allTools, all},
		{"python print(1)", "bash read", some},
		{"write a b", "bash read", some},
		{"", "read bash", some},
	} {
		for _, results := range [][]string{nil, {`{"ok":true}`}} {
			got := sessionReply(&wire.Request{Messages: answered(tt.ask, results...), Tools: offered(tt.tools)})
			if got.text != notConnected+tt.want || got.calls != nil {
				t.Errorf("%q: got %s", tt.ask, got)
			}
		}
	}
}

// TestSessionClosing checks that the closing text repeats the results in full, since
// terminals do not show them.
func TestSessionClosing(t *testing.T) {
	for _, tt := range []struct{ ask, result, want string }{
		{"run date", `{"ok":true,"data":{"stdout":"Sat\n","stderr":"","exit_code":0,"timed_out":false}}`, "[offline, no AI] Result: Sat"},
		{"run seq 2", `{"ok":true,"data":{"stdout":"1\n2\n","stderr":"","exit_code":0}}`, "1\n2\n[offline, no AI]"},
		{"run false", `{"ok":true,"data":{"stdout":"","stderr":"","exit_code":1}}`, "[offline, no AI] Result: [exit code: 1]"},
		{"run true", `{"ok":true,"data":{"stdout":"","stderr":"","exit_code":0}}`, "[offline, no AI] Result: (no output)"},
		{"run x", `{"ok":true,"data":{"stdout":"out\n","stderr":"sh: x\n","exit_code":-1,"timed_out":true}}`, "out\n[stderr]\nsh: x\n[exit code: -1]\n[offline, no AI]"},
		{"run x", `{"ok":true,"data":{"stdout":"<tool_call>\n<task>","exit_code":0}}`, "< tool_call>\n< task>\n[offline, no AI]"},
		{"read a", `{"ok":true,"data":{"path":"/a","content":"one\n","truncated":false,"bytes":4}}`, "[offline, no AI] Result: one"},
		{"read a", `{"ok":true,"data":{"path":"/a","content":"","truncated":false,"bytes":0}}`, "[offline, no AI] Result: (nothing in it)"},
		{"read a", `{"ok":true,"data":{"path":"/a","content":"one","truncated":true,"bytes":99}}`, "one\n[cut: the file has 99 bytes]\n[offline, no AI]"},
		{"read a", `{"ok":false,"error":{"code":"path_error","message":"/a: no such file"}}`, "[offline, no AI] Result: /a: no such file"},
		{"read a", `{"ok":false,"error":{"code":"path_error"}}`, "[offline, no AI] Result: path_error"},
		{"read a", `{"ok":false}`, "[offline, no AI] Result: The tool failed and did not say why."},
		{"write a b", `{"ok":true,"data":{"path":"/a","bytes":1,"created":true}}`, "[offline, no AI] Result: made /a, 1 bytes"},
		{"write a b", `{"ok":true,"data":{"path":"/a","bytes":1,"created":false}}`, "[offline, no AI] Result: replaced /a, 1 bytes"},
		{"remember a", `{"ok":true,"data":{"text":"Remembered as memory 1."}}`, "[offline, no AI] Result: Remembered as memory 1."},
		{"recall a", `{"ok":true,"data":{"text":"[0] a\n[1] b"}}`, "[0] a\n[1] b\n[offline, no AI]"},
		{"recall a", `{"ok":true,"data":{"text":""}}`, "[offline, no AI] Result: (no output)"},
		{"recall a", `{"ok":true,"data":{"other":1}}`, `[offline, no AI] Result: {"other":1}`},
		{"recall a", `{"ok":true,"data":[1]}`, "[offline, no AI] Result: [1]"},
		{"recall a", `{"ok":true}`, "[offline, no AI] Result: (no output)"},
		{"run a", "no envelope", "[offline, no AI] Result: no envelope"},
		{"run a", `{"stdout":"x"}`, `[offline, no AI] Result: {"stdout":"x"}`},
	} {
		req := &wire.Request{Messages: answered(tt.ask, tt.result), Tools: offered(allTools), Stream: true}
		if got := sessionReply(req); got.text != tt.want || got.calls != nil {
			t.Errorf("%s: got %q, want %q", tt.result, got, tt.want)
		}
		req.Stream = false
		if got := sessionReply(req); !strings.HasSuffix(got.text, "\n[offline, no AI]") {
			t.Errorf("%s: not streamed %q", tt.result, got)
		}
	}
}

func TestSessionTour(t *testing.T) {
	with := sessionReply(&wire.Request{Messages: answered("Tour "), Tools: offered(allTools)})
	without := sessionReply(&wire.Request{Messages: answered("tour"), Tools: offered("bash")})
	if len(with.calls) != 2 || with.calls[1].tool != "task" || len(without.calls) != 1 || without.calls[0].tool != "bash" || strings.Contains(without.text, "task") {
		t.Errorf("got %s and %s", with, without)
	}
	var task struct{ Skill, Request string }
	if err := json.Unmarshal(with.calls[1].arguments(), &task); err != nil || task.Skill != "bash" {
		t.Fatalf("got %+v, %v", task, err)
	}
	interpreted := offlineReply(conversation("user", task.Request), false)
	if code := offlineReply(conversation("user", task.Request+kcr+interpreted), false); !strings.HasPrefix(code, "```\necho ") {
		t.Errorf("the skill runs %q", code)
	}
	end := sessionReply(&wire.Request{Messages: answered("tour", `{"ok":true,"data":{"stdout":"a\n"}}`, `{"ok":false,"error":{"message":"b"}}`), Tools: offered(allTools), Stream: true})
	if end.text != "a\nb\n[offline, no AI]" {
		t.Errorf("the end is %s", end)
	}
}

// toolList encodes tools with the given names for a request.
func toolList(names string) proto.Raw {
	var list []string
	for name := range strings.FieldsSeq(names) {
		list = append(list, `{"type":"function","function":{"name":"`+name+`"}}`)
	}
	return proto.Raw("[" + strings.Join(list, ",") + "]")
}

// TestSessionOverSocket runs a turn like agr: native calls with unique ids, their
// results as messages, and the closing text.
func TestSessionOverSocket(t *testing.T) {
	r := start(t, func(c *config.Config) { c.Provider = "offline" })
	ids := map[string]bool{}
	for _, stream := range []bool{true, false} {
		in := ask("run date", stream)
		in.Tools, in.SessionID = toolList(allTools), "s-1"
		var got chunks
		text, err := r.answer(t.Context(), in, &got)
		if err != nil || text.Content != sign+"$ date" || text.StopReason != "tool_calls" || text.Provider != "offline" || stream && got.text() != text.Content {
			t.Fatalf("got %+v, %v, streamed %q", text, err, got.text())
		}
		if calls := callWords(t, text.ToolCalls); !slices.Equal(calls, []string{`? bash {"command":"date"}`}) {
			t.Errorf("got %q", calls)
		}
		var calls []struct{ ID string }
		if err := json.Unmarshal(text.ToolCalls, &calls); err != nil || ids[calls[0].ID] {
			t.Errorf("the id in %s is not unique, %v", text.ToolCalls, err)
		}
		ids[calls[0].ID] = true
		in.Messages = proto.Raw(`[{"role":"user","content":"run date"},{"role":"assistant","content":"x","tool_calls":` + string(text.ToolCalls) +
			`},{"role":"tool","tool_call_id":"` + calls[0].ID + `","content":` + string(jsontext.AppendString(nil, `{"ok":true,"data":{"stdout":"Sat\n"}}`)) + `}]`)
		text, err = rpc.CallText(t.Context(), r.client, proto.RtrInfer, in, &chunks{})
		if want := map[bool]string{true: sign + "Result: Sat", false: "Sat\n[offline, no AI]"}[stream]; err != nil || text.Content != want || len(text.ToolCalls) > 0 || text.StopReason != "stop" {
			t.Errorf("stream %v: the end is %+v, %v", stream, text, err)
		}
	}
}

// TestPlainWithTools checks that a request without the tool bash is not treated as a
// session.
func TestPlainWithTools(t *testing.T) {
	r := start(t, func(c *config.Config) { c.Provider = "offline" })
	in := ask("read a", true)
	in.Tools = toolList("read write execute_bash")
	if text, err := r.answer(t.Context(), in, &chunks{}); err != nil || text.Content != offlineHelp || len(text.ToolCalls) > 0 {
		t.Errorf("got %+v, %v", text, err)
	}
}

// FuzzOfflineSession checks that every command survives the encoding of its call, and
// that no result puts a call into the closing text.
func FuzzOfflineSession(f *testing.F) {
	f.Add("run date", `{"ok":true,"data":{"stdout":"<tool_call>\n{}\n</tool_call>"}}`)
	f.Add("write a.txt \"x\"\n</task>", `{"ok":false,"error":{"code":"x","message":"<task>"}}`)
	f.Add("read \xff", `{"ok":true,"data":{"content":"<task>","truncated":true,"bytes":1e3}}`)
	f.Add("tour", "<<task>task>")
	f.Fuzz(func(t *testing.T, ask, result string) {
		tools := offered(allTools)
		first := sessionReply(&wire.Request{Messages: conversation("user", ask), Tools: tools})
		for _, c := range first.calls {
			if !json.Valid(c.arguments()) {
				t.Fatalf("%q calls with %s", ask, c.arguments())
			}
		}
		for _, stream := range []bool{true, false} {
			end := sessionReply(&wire.Request{Messages: conversation("user", ask, "assistant", "", "tool", result), Tools: tools, Stream: stream})
			if len(end.calls) > 0 || tags.MatchString(end.text) || tags.MatchString(first.text) {
				t.Fatalf("%q with %q: %s, then %s", ask, result, first, end)
			}
		}
	})
}

package hook

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"zino/pkg/text"
	"zino/pkg/wire"
	"zino/pkg/zinotest"
	"zino/proto"
)

func TestName(t *testing.T) {
	for command, want := range map[string]string{
		"python3 ~/.config/zino/hooks/guard.py --strict": "guard.py",
		`"$CLAUDE_PROJECT_DIR"/.claude/hooks/check.sh`:   "check.sh",
		"jq -r .tool_input.command >> log":               "jq -r .tool_input.command >> …",
		"echo a":                                         "echo a",
		"printf '\x1b[31m'":                              "printf ' [31m'",
		"/usr/bin/env  x":                                "env",
		"cat / ":                                         "cat /",
		"/tmp/\u202egnp.sh":                              `\u202egnp.sh`,
	} {
		zinotest.Equal(t, command, Name(command), want)
	}
}

// TestMatching checks which hooks run for a tool, and in which order.
func TestMatching(t *testing.T) {
	hook := func(event, matcher, command string) proto.Hook {
		return proto.Hook{Event: event, Matcher: matcher, Command: command}
	}
	s, problems := Compile([]proto.Hook{
		hook("PreToolUse", "", "all"),
		hook("PreToolUse", "*", "star"),
		hook("PreToolUse", "bash", "own"),
		hook("PreToolUse", "Bash|Edit", "other"),
		hook("PreToolUse", "Ba", "part"),
		hook("PreToolUse", "bash|Bash", "own"),
		hook("PostToolUse", "Bash", "post"),
		hook("PreToolUse", "mcp__git.*", "mcp"),
		hook("PreToolUse", "a)|(?:b", "parentheses"),
		hook("PreToolUse", "(?!x)", "lookahead"),
		hook("PreCompact", "auto", "compact"),
		hook("PreHandoff", "", "handoff"),
		hook("Stop", "never", "stop"),
	})
	zinotest.Equal(t, "problems", len(problems), 2)
	for _, test := range []struct {
		event string
		in    Input
		want  string
	}{
		{"PreToolUse", Input{Tool: "bash", ToolInput: proto.Raw(`{"command":"x"}`)}, "all star own other"},
		{"PreToolUse", Input{Tool: "write"}, "all star"},
		{"PreToolUse", Input{Tool: "mcp_call", ToolInput: proto.Raw(`{"server":"git","tool":"push","arguments":{}}`)}, "all star mcp"},
		{"PreToolUse", Input{Tool: "mcp__github__x"}, "all star mcp"},
		{"PostToolUse", Input{Tool: "bash"}, "post"},
		{"PostToolUse", Input{Tool: "edit"}, ""},
		{"PreHandoff", Input{Trigger: "auto"}, "compact handoff"},
		{"PreHandoff", Input{Trigger: "manual"}, "handoff"},
		{"Stop", Input{}, "stop"},
		{"Notification", Input{Kind: "approval"}, ""},
	} {
		var got []string
		for _, c := range s.matching(test.event, test.in.names(test.event)) {
			got = append(got, c.Command)
		}
		zinotest.Equal(t, fmt.Sprint(test.event, " ", test.in.Tool, test.in.Trigger), strings.Join(got, " "), test.want)
	}
	var none *Set
	zinotest.Equal(t, "hooks of no set", len(none.matching("Stop", nil)), 0)
}

// TestOff checks that a hook with three timeouts is off, unless it blocks on failure.
func TestOff(t *testing.T) {
	s, _ := Compile([]proto.Hook{
		{Event: "Stop", Command: "a", Timeouts: 2}, {Event: "Stop", Command: "b", Timeouts: 3}, {Event: "Stop", Command: "c", Timeouts: 9, OnFailure: proto.HookBlock},
	})
	zinotest.Equal(t, "before", len(s.matching("Stop", nil)), 2)
	res := s.compose("Stop", &Input{}, []ran{{hook: s.hooks[0], timedOut: true}})
	zinotest.Equal(t, "after", len(s.matching("Stop", nil)), 1)
	zinotest.Contains(t, "notices", strings.Join(res.Notices, "\n"), "hook a was stopped after 0s", "hook a is off for this session: it was stopped 3 times")
	zinotest.Equal(t, "counted", len(res.Ran), 1)
}

func TestParseSettings(t *testing.T) {
	list, problems := ParseSettings([]byte(`{"permissions":{},"hooks":{
		"PostToolUse":[{"matcher":"Edit|Write","hooks":[{"type":"command","command":"fmt","timeout":5},{"type":"prompt","prompt":"x"}]}],
		"SubagentStop":[{"hooks":[{"type":"command","command":"y"}]}],
		"PreToolUse":[{"hooks":[{"type":"command","command":"a","onFailure":"block","timeout":9000},{"type":"command","command":" "},{"type":"command","command":"b","timeout":-1}]}]}}`), "p/.claude/settings.json", proto.SourceProject)
	got, _ := json.Marshal(list)
	zinotest.Equal(t, "hooks", string(got), `[{"event":"PreToolUse","command":"a","timeout_ms":600000,"on_failure":"block","source":"project","file":"p/.claude/settings.json"},`+
		`{"event":"PreToolUse","command":"b","timeout_ms":60000,"on_failure":"allow","source":"project","file":"p/.claude/settings.json"},`+
		`{"event":"PostToolUse","matcher":"Edit|Write","command":"fmt","timeout_ms":5000,"on_failure":"allow","source":"project","file":"p/.claude/settings.json"}]`)
	zinotest.Equal(t, "problems", strings.Join(problems, "\n"), "p/.claude/settings.json: not used: a hook without a command, event SubagentStop, type prompt")
	for _, content := range []string{"", "[]", `{"hooks":[]}`, `{"hooks":{"Stop":{}}}`, "\xff", `{"hooks":{"Stop":[{"matcher":1}]}}`, strings.Repeat(" ", settingsMax+1)} {
		list, problems := ParseSettings([]byte(content), "f\x1b[2J", proto.SourceUser)
		if len(list) != 0 || len(problems) != 1 || strings.ContainsFunc(problems[0], text.Hidden) {
			t.Errorf("%.40q: %v, %q", content, list, problems)
		}
	}
	if list, problems := ParseSettings([]byte(`{}`), "f", proto.SourceUser); len(list)+len(problems) != 0 {
		t.Errorf("without hooks: %v, %v", list, problems)
	}
}

// TestTranslation checks names and inputs both ways.
func TestTranslation(t *testing.T) {
	for _, test := range []struct{ tool, input, name, foreign, changed, back string }{
		{"bash", `{"command":"ls","timeout_s":3}`, "Bash", `{"command":"ls","timeout_s":3}`, `{"command":"ls -l"}`, `{"command":"ls -l"}`},
		{"read", `{"path":"../x"}`, "Read", `{"file_path":"/x"}`, `{"file_path":"/y"}`, `{"path":"/y"}`},
		{"read", `{"path":"/abs"}`, "Read", `{"file_path":"/abs"}`, `{"path":"/y"}`, `{"path":"/y"}`},
		{"write", `{"path":"~/a","content":"b"}`, "Write", `{"file_path":"~/a","content":"b"}`, `{"path":"/1","file_path":"/2","content":""}`, `{"content":"","path":"/2"}`},
		{"edit", `{"path":"a","old":"b","new":"c"}`, "Edit", `{"file_path":"/r/a","old_string":"b","new_string":"c"}`, `{"file_path":"/a","old_string":"x","new_string":"y"}`, `{"path":"/a","old":"x","new":"y"}`},
		// As exc reads it: the last value that is not null counts, and unknown keys do not.
		{"bash", `{"command":"safe","command":"rm","command":null}`, "Bash", `{"command":"rm"}`, `{}`, `{}`},
		{"write", `{"path":"/etc/x","file_path":"/tmp/x"}`, "Write", `{"file_path":"/etc/x"}`, `{}`, `{}`},
		{"mcp_call", `{"server":"s","tool":"t","arguments":{"a":1}}`, "mcp__s__t", `{"a":1}`, `{"a":2}`, `{"server":"s","tool":"t","arguments":{"a":2}}`},
		{"mcp_call", `{"server":"s","tool":"t"}`, "mcp__s__t", `{}`, `{"a":2}`, `{"server":"s","tool":"t","arguments":{"a":2}}`},
		{"mcp_call", `{"server":7}`, "mcp_call", `{"server":7}`, `{"a":2}`, `{"a":2}`},
		{"skill", `{"name":"x"}`, "Skill", `{"name":"x"}`, `{"name":"y"}`, `{"name":"y"}`},
		{"todo", `{"items":[]}`, "todo", `{"items":[]}`, `{"items":[1]}`, `{"items":[1]}`},
	} {
		name, translated := foreign(test.tool, proto.Raw(test.input), "/r")
		zinotest.Equal(t, test.input+": name", name, test.name)
		zinotest.Equal(t, test.input+": input", string(translated), test.foreign)
		zinotest.Equal(t, test.input+": back", string(native(test.tool, proto.Raw(test.changed), proto.Raw(test.input))), test.back)
	}
}

// TestInput checks the input of each event.
func TestInput(t *testing.T) {
	in := Input{
		SessionID: "s", Transcript: "/t", Cwd: "/r", Version: "1", Tool: "read", ToolInput: proto.Raw(`{"path":"a"}`), ToolUseID: "c1",
		ToolResponse: proto.Raw(`{"ok":true,"data":{"text":"x"}}`), Prompt: "p", Source: "startup", Trigger: "auto", Message: "m", Kind: "k", LastMessage: "l",
	}
	head := `{"session_id":"s","transcript_path":"/t","cwd":"/r","permission_mode":"default","hook_event_name":"`
	tool := `","tool_name":"Read","tool_input":{"file_path":"/r/a"},"tool_use_id":"c1"`
	tail := `,"zino":{"version":"1"}}`
	toolTail := `,"zino":{"version":"1","tool":"read","input":{"path":"a"}}}`
	for event, want := range map[string]string{
		"SessionStart":     head + `SessionStart","source":"startup"` + tail,
		"UserPromptSubmit": head + `UserPromptSubmit","prompt":"p"` + tail,
		"PreToolUse":       head + "PreToolUse" + tool + toolTail,
		"PostToolUse":      head + "PostToolUse" + tool + `,"tool_response":{"text":"x"}` + toolTail,
		"Stop":             head + `Stop","stop_hook_active":false,"last_assistant_message":"l"` + tail,
		"PreCompact":       head + `PreCompact","trigger":"auto"` + tail,
		"Notification":     head + `Notification","message":"m","notification_type":"k"` + tail,
	} {
		b, err := in.encode(event)
		zinotest.Must(t, err)
		zinotest.Equal(t, event, string(b), want)
	}
}

// TestResult checks what the end of one hook means.
func TestResult(t *testing.T) {
	specific := func(s string) string { return `{"hookSpecificOutput":{` + s + `}}` }
	for _, test := range []struct {
		name, event    string
		exit           int
		stdout, stderr string
		block          bool // on_failure
		want           string
	}{
		{"silent", "PreToolUse", 0, "", "", false, "{}"},
		{"plain text of a tool event", "PreToolUse", 0, "fine", "", false, "{}"},
		{"plain text is context", "UserPromptSubmit", 0, "now\n", "", false, `{"Context":[{"Hook":"h","Text":"now"}]}`},
		{"plain text is context", "SessionStart", 0, "now", "", false, `{"Context":[{"Hook":"h","Text":"now"}]}`},
		{"exit 2", "PreToolUse", 2, `{"continue":false}`, "use rg\n", false, `{"Decision":"deny","Hook":"h","Reason":"use rg"}`},
		{"exit 2 without a reason", "PreToolUse", 2, "", "", false, `{"Decision":"deny","Hook":"h","Reason":"h gave no reason"}`},
		{"exit 1", "PreToolUse", 1, "", "boom\nmore", false, `{"Notices":["hook h failed (exit 1): boom"]}`},
		{"exit 1 blocks", "PreToolUse", 1, "", "boom\nmore", true, `{"Decision":"deny","Hook":"h","Reason":"hook h failed (exit 1): boom","Notices":["hook h failed (exit 1): boom"]}`},
		{"killed", "PreToolUse", -9, "", "", false, `{"Notices":["hook h failed (signal 9)"]}`},
		{"escaped", "PreToolUse", 1, "", "a\x1b]0;x\x07\u202e", false, `{"Notices":["hook h failed (exit 1): a ]0;x \\u202e"]}`},
		{"bad JSON", "PreToolUse", 0, "{", "", false, `{"Notices":["hook h failed: its output is not a decision: unexpected end of JSON input"]}`},
		{"bad JSON blocks", "Stop", 0, "{]", "", true, `{"Decision":"deny","Hook":"h","Reason":"hook h failed: its output is not a decision: invalid character ']' looking for beginning of object key string","Notices":["hook h failed: its output is not a decision: invalid character ']' looking for beginning of object key string"]}`},
		{"deny", "PreToolUse", 0, specific(`"permissionDecision":"deny","permissionDecisionReason":"no"`), "", false, `{"Decision":"deny","Hook":"h","Reason":"no"}`},
		{"ask", "PreToolUse", 0, specific(`"permissionDecision":"ask","permissionDecisionReason":"sure?"`), "", false, `{"Decision":"ask","Hook":"h","Reason":"sure?"}`},
		{"allow", "PreToolUse", 0, specific(`"permissionDecision":"allow"`), "", false, `{"Decision":"allow","Hook":"h","Ran":[{"hook":"h","command":"h","allowed":"write"}]}`},
		{"old forms", "PreToolUse", 0, `{"decision":"block","reason":"r"}`, "", false, `{"Decision":"deny","Hook":"h","Reason":"r"}`},
		{"old forms", "PreToolUse", 0, `{"decision":"approve"}`, "", false, `{"Decision":"allow","Hook":"h","Ran":[{"hook":"h","command":"h","allowed":"write"}]}`},
		{"unknown decision", "PreToolUse", 0, specific(`"permissionDecision":"maybe"`), "", false, `{"Notices":["hook h failed: its output is not a decision: permissionDecision \"maybe\": want allow, deny or ask"]}`},
		{"systemMessage is the reason", "PreToolUse", 0, `{"decision":"block","systemMessage":"s"}`, "", false, `{"Decision":"deny","Hook":"h","Reason":"s","Notices":["hook h: s"]}`},
		{"stop", "Stop", 0, `{"continue":false,"stopReason":"enough","suppressOutput":true}`, "", false, `{"Ends":true,"Why":"enough"}`},
		{"input", "PreToolUse", 0, specific(`"updatedInput":{ "file_path":"/b" }`), "", false, `{"Input":{"path":"/b"}}`},
		{"input of another event", "PostToolUse", 0, specific(`"updatedInput":{"file_path":"/b"},"additionalContext":"c"`), "", false, `{"Context":[{"Hook":"h","Text":"c"}]}`},
		{"input is no object", "PreToolUse", 0, specific(`"updatedInput":["x"]`), "", false, `{"Notices":["hook h failed: its output is not a decision: updatedInput is not an object"]}`},
		{"unknown keys", "PreToolUse", 0, `{"x":{"y":[1]},"continue":true}`, "", false, `{}`},
	} {
		s, _ := Compile([]proto.Hook{{Event: test.event, Command: "h"}})
		if test.block {
			s.hooks[0].OnFailure = proto.HookBlock
		}
		res := s.compose(test.event, &Input{Tool: "write", ToolInput: proto.Raw(`{"path":"/a"}`)}, []ran{{hook: s.hooks[0], exitCode: test.exit, stdout: test.stdout, stderr: test.stderr}})
		zinotest.Equal(t, test.name, compact(t, res), test.want)
	}
}

// compact returns the fields of a result that are not empty.
func compact(t *testing.T, res Result) string {
	t.Helper()
	var kept []string
	add := func(name string, v any, empty bool) {
		if !empty {
			b, err := json.Marshal(v)
			zinotest.Must(t, err)
			kept = append(kept, fmt.Sprintf("%q:%s", name, b))
		}
	}
	add("Decision", res.Decision, res.Decision == "")
	add("Hook", res.Hook, res.Hook == "")
	add("Reason", res.Reason, res.Reason == "")
	add("Ends", res.Ends, !res.Ends)
	add("Why", res.Why, res.Why == "")
	add("Input", json.RawMessage(res.Input), res.Input == nil)
	add("Context", res.Context, res.Context == nil)
	add("Notices", res.Notices, res.Notices == nil)
	add("Ran", res.Ran, res.Ran == nil)
	return "{" + strings.Join(kept, ",") + "}"
}

// TestCompose checks several hooks: host, user and project in this order.
func TestCompose(t *testing.T) {
	s, _ := Compile([]proto.Hook{
		{Event: "PreToolUse", Command: "a"}, {Event: "PreToolUse", Command: "b"}, {Event: "PreToolUse", Command: "c"}, {Event: "PreToolUse", Command: "d"},
	})
	runs := func(outs ...string) (list []ran) {
		for i, out := range outs {
			list = append(list, ran{hook: s.hooks[i], stdout: out})
		}
		return list
	}
	decide := func(word string) string {
		return `{"hookSpecificOutput":{"permissionDecision":"` + word + `","permissionDecisionReason":"` + word + `"}}`
	}
	in := &Input{Tool: "bash", ToolInput: proto.Raw(`{"command":"x"}`)}
	res := s.compose("PreToolUse", in, runs(decide("allow"), decide("ask"), decide("deny"), decide("deny")))
	zinotest.Equal(t, "deny beats ask", res.Decision+" "+res.Hook, "deny c")
	res = s.compose("PreToolUse", in, runs(decide("allow"), decide("ask"), "", decide("ask")))
	zinotest.Equal(t, "ask beats allow", res.Decision+" "+res.Hook, "ask b")
	change := func(command string) string {
		return `{"hookSpecificOutput":{"updatedInput":{"command":"` + command + `"}}}`
	}
	res = s.compose("PreToolUse", in, runs("", change("1"), change("2")))
	zinotest.Equal(t, "the first change", string(res.Input), `{"command":"1"}`)
	zinotest.Equal(t, "the second one", strings.Join(res.Notices, ""), "hook c: its input is not used, hook b has changed it, too")
	long := `{"hookSpecificOutput":{"additionalContext":"` + strings.Repeat("ü", 6000) + `"}}`
	res = s.compose("PreToolUse", in, runs(long, long, long))
	zinotest.Equal(t, "context", len([]rune(res.Context[0].Text+res.Context[1].Text)), contextMax)
	zinotest.Equal(t, "contexts", len(res.Context), 2)
	res = s.compose("PreToolUse", in, []ran{{hook: s.hooks[0], exitCode: 2, stderr: strings.Repeat("ü", 4000)}})
	if len(res.Reason) > reasonMax || !strings.HasPrefix(res.Reason, "üü") {
		t.Errorf("the reason has %d bytes", len(res.Reason))
	}
	res = s.compose("UserPromptSubmit", in, runs("a</hook>\n<hook name=\"x\">"))
	zinotest.Equal(t, "block", res.Block(), "<hook name=\"a\">\na<\\/hook>\n<hook name=\"x\">\n</hook>")
}

// FuzzParseSettings checks that hooks of foreign settings are within their limits.
func FuzzParseSettings(f *testing.F) {
	f.Fuzz(func(t *testing.T, content []byte) {
		list, problems := ParseSettings(content, "f", proto.SourceProject)
		for _, h := range list {
			if strings.TrimSpace(h.Command) == "" || h.TimeoutMS < TimeoutMin || h.TimeoutMS > TimeoutMax || h.Source != proto.SourceProject {
				t.Errorf("%+v", h)
			}
		}
		_, more := Compile(list)
		for _, problem := range append(problems, more...) {
			if strings.ContainsFunc(problem, text.Hidden) || strings.Contains(problem, "\n") {
				t.Errorf("a problem that is not one visible line: %q", problem)
			}
		}
	})
}

// FuzzOutput checks that no output of a hook leads to a result beyond its limits, and that
// a changed input is an object.
func FuzzOutput(f *testing.F) {
	s, _ := Compile([]proto.Hook{{Event: "PreToolUse", Command: "h"}})
	f.Fuzz(func(t *testing.T, event uint8, exit int8, stdout, stderr, input string) {
		in := &Input{Tool: []string{"bash", "edit", "mcp_call", "todo"}[event%4], ToolInput: proto.Raw(`{"path":"a","server":"s","tool":"t"}`)}
		if wire.Valid([]byte(input)) && strings.HasPrefix(input, "{") {
			in.ToolInput = proto.Raw(input)
		}
		name := proto.HookEvents[int(event)%len(proto.HookEvents)]
		res := s.compose(name, in, []ran{{hook: s.hooks[0], exitCode: int(exit), stdout: stdout, stderr: stderr}})
		if len(res.Reason) > reasonMax || len(res.Why) > reasonMax || len(res.Context) > 1 {
			t.Errorf("too long: %+v", res)
		}
		if res.Input != nil && (!wire.Valid(res.Input) || res.Input[0] != '{') {
			t.Errorf("changed input %q", res.Input)
		}
		for _, line := range res.Notices {
			if strings.ContainsFunc(line, text.Hidden) || strings.Contains(line, "\n") {
				t.Errorf("a notice that is not one visible line: %q", line)
			}
		}
		b, err := in.encode(name)
		if err != nil || !json.Valid(b) {
			t.Errorf("input %q, error %v", b, err)
		}
	})
}

// BenchmarkNone measures an event for which no hook matches.
func BenchmarkNone(b *testing.B) {
	var list []proto.Hook
	for i := range 50 {
		list = append(list, proto.Hook{Event: "PreToolUse", Matcher: fmt.Sprintf("mcp__server%d__.*|Edit", i), Command: fmt.Sprint("c", i)})
	}
	s, _ := Compile(list)
	in := Input{Tool: "bash", ToolInput: proto.Raw(`{"command":"go test ./..."}`)}
	for b.Loop() {
		s.Run(b.Context(), nil, Place{}, proto.HookPreTool, in)
	}
}

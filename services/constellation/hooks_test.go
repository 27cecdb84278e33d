package constellation_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"zino/pkg/config"
	"zino/pkg/fakellm"
	"zino/pkg/rpc"
	"zino/pkg/zinotest"
	"zino/proto"
)

// script returns the absolute path of a hook of testdata.
func script(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("testdata", "hooks", name))
	zinotest.Must(t, err)
	return path
}

// preTool returns a configuration with commands for PreToolUse.
func preTool(commands ...string) func(*config.Config) {
	return func(cfg *config.Config) {
		for _, command := range commands {
			cfg.Hooks.PreToolUse = append(cfg.Hooks.PreToolUse, config.Hook{Command: command})
		}
	}
}

// notices follows the turn of the session parent to its end, and returns its notices. The
// first call of the turn waits for the file go, which is written when nothing is missed.
func (e *agentsEnv) notices() string {
	e.t.Helper()
	ctx, cancel := context.WithTimeout(e.t.Context(), zinotest.Timeout)
	defer cancel()
	var list []string
	end, err := rpc.CallEvents(ctx, e.daemon, proto.DaemonTurnFollow, proto.TurnFollow{SessionID: "parent"}, func(got string, payload []byte) error {
		switch got {
		case proto.TypeLive:
			return os.WriteFile(filepath.Join(e.root, "go"), nil, 0o600)
		case proto.TypeNotice:
			list = append(list, string(payload))
		}
		return nil
	})
	zinotest.Must(e.t, err)
	zinotest.Equal(e.t, "state", end.State, proto.TurnDone)
	return strings.Join(list, "\n")
}

// awaitGo is a call that waits until notices follows the turn.
func awaitGo(t *testing.T) fakellm.Call { return bash(t, "until [ -e go ]; do sleep 0.02; done") }

// packets follows the turn of the session parent to its end, and returns its packets of a type.
func (e *agentsEnv) packets(typ string) (list []string) {
	e.t.Helper()
	_, err := rpc.CallEvents(e.t.Context(), e.daemon, proto.DaemonTurnFollow, proto.TurnFollow{SessionID: "parent", From: new(int64)}, func(got string, payload []byte) error {
		if got == typ {
			list = append(list, string(payload))
		}
		return nil
	})
	zinotest.Must(e.t, err)
	return list
}

// TestHooksOfSettings runs hooks of the two documented kinds as a project brings them: one
// exits with status 2, the other prints a decision. Nothing of them runs before the settings
// are trusted, and after they have changed.
func TestHooksOfSettings(t *testing.T) {
	t.Setenv("ZINO_HOME", zinotest.Dir(t))
	calls := []fakellm.Call{
		bash(t, "grep -r x ."), bash(t, "echo fine"), callOf(t, "read", map[string]any{"path": "./.env"}), callOf(t, "read", map[string]any{"path": "a.txt"}),
	}
	e := newAgents(t, func(*config.Config) {},
		fakellm.Turn{Match: "begin", Calls: calls}, fakellm.Turn{Text: "One."}, fakellm.Turn{Match: "begin", Calls: calls}, fakellm.Turn{Text: "Two."},
		fakellm.Turn{Match: "begin", Calls: calls[:1]}, fakellm.Turn{Text: "Three."})
	root, err := filepath.EvalSymlinks(e.root)
	zinotest.Must(t, err)
	e.root = root
	settings := filepath.Join(root, ".claude", "settings.json")
	zinotest.Must(t, os.Mkdir(filepath.Dir(settings), 0o755))
	hooks, err := json.Marshal(map[string]any{"hooks": map[string]any{
		"PreToolUse": []any{
			map[string]any{"matcher": "Bash", "hooks": []any{map[string]any{"type": "command", "command": "python3 " + script(t, "validate_bash.py")}}},
			map[string]any{"matcher": "Read|Write|Edit", "hooks": []any{map[string]any{"type": "command", "command": script(t, "protect_env.sh"), "timeout": 30}}},
		},
		"PostToolUse": []any{map[string]any{"matcher": "Read", "hooks": []any{map[string]any{"type": "command", "command": `grep -q '"tool_response":{' && echo "checked" >&2; exit 2`}}}},
	}})
	zinotest.Must(t, err)
	zinotest.WriteFiles(t, root, map[string]string{".env": "A=b\n", "a.txt": "text\n", ".claude/settings.json": string(hooks)})

	e.begin(proto.TurnStart{})
	zinotest.Equal(t, "state without trust", e.end("parent").State, proto.TurnDone)
	for i, output := range e.outputs() {
		if !strings.HasPrefix(output, `{"ok":true`) || strings.Contains(output, `"hook"`) {
			t.Errorf("without trust, call %d: %s", i, output)
		}
	}

	report, err := rpc.Call(t.Context(), e.daemon, proto.DaemonTrust, proto.TrustRequest{Root: root})
	zinotest.Must(t, err)
	zinotest.Equal(t, "files to trust", len(report.Files), 1)
	_, err = rpc.Call(t.Context(), e.daemon, proto.DaemonSetTrust, proto.SetTrust{Path: report.Files[0].Path, SHA256: report.Files[0].SHA256, Trusted: new(true)})
	zinotest.Must(t, err)
	e.begin(proto.TurnStart{})
	zinotest.Equal(t, "state", e.end("parent").State, proto.TurnDone)
	results := e.outputs()[4:]
	zinotest.Equal(t, "exit 2", results[0], `{"ok":false,"error":{"code":"denied","message":"hook: - Use rg in place of grep."}}`)
	zinotest.Contains(t, "another command", results[1], `{"ok":true`, "fine")
	zinotest.Equal(t, "a decision", results[2], `{"ok":false,"error":{"code":"denied","message":"hook: `+root+`/.env has secrets"}}`)
	zinotest.Contains(t, "PostToolUse", results[3], `{"ok":true`, "text", `"hook":"checked"}`)
	requests := e.provider.Requests()
	zinotest.Contains(t, "what the model reads", string(requests[len(requests)-1].Body), "Use rg in place of grep", "checked")

	zinotest.Write(t, settings, string(hooks)+"\n\n ") // canonical, this is the same; the bytes differ
	e.begin(proto.TurnStart{})
	zinotest.Equal(t, "state after a change", e.end("parent").State, proto.TurnDone)
	zinotest.Contains(t, "result after a change", e.outputs()[8], `{"ok":true`)
	list, err := rpc.Call(t.Context(), e.daemon, proto.DaemonHooks, proto.ListHooks{Root: root})
	zinotest.Must(t, err)
	zinotest.Equal(t, "listed hooks after a change", len(list.Hooks), 0)
}

// trustAll trusts all files of the root.
func (e *agentsEnv) trustAll() {
	e.t.Helper()
	report, err := rpc.Call(e.t.Context(), e.daemon, proto.DaemonTrust, proto.TrustRequest{Root: e.root})
	zinotest.Must(e.t, err)
	for _, f := range report.Files {
		_, err = rpc.Call(e.t.Context(), e.daemon, proto.DaemonSetTrust, proto.SetTrust{Path: f.Path, SHA256: f.SHA256, Trusted: new(true)})
		zinotest.Must(e.t, err)
	}
}

// TestHooksOfAllEvents runs one hook for all events of a turn, as people write them for other
// agents: a script with jq that exits with status 2, and one that prints decisions.
func TestHooksOfAllEvents(t *testing.T) {
	for _, name := range []string{"guard.sh", "guard.py"} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("ZINO_HOME", zinotest.Dir(t))
			e := newAgents(t, func(cfg *config.Config) { cfg.Agent.ContinueAt = 0.5 },
				fakellm.Turn{Match: "begin", Usage: &fakellm.Usage{In: 190_000, Out: 1}, Calls: []fakellm.Call{bash(t, "rm -r x"), callOf(t, "write", map[string]any{"path": "a.txt", "content": "text"})}},
				fakellm.Turn{Text: "Written.", Usage: &fakellm.Usage{In: 190_000, Out: 1}}, fakellm.Turn{Text: "Tested."})
			var err error
			e.root, err = filepath.EvalSymlinks(e.root)
			zinotest.Must(t, err)
			hooks := filepath.Join(e.root, ".claude/hooks")
			zinotest.Must(t, os.MkdirAll(hooks, 0o755))
			zinotest.Write(t, filepath.Join(hooks, name), zinotest.Read(t, script(t, name)))
			zinotest.Must(t, os.Chmod(filepath.Join(hooks, name), 0o755))
			settings := map[string]any{}
			for _, event := range proto.HookEvents {
				if event != proto.HookPreHandoff { // other agents call it PreCompact
					settings[event] = []any{map[string]any{"hooks": []any{map[string]any{"type": "command", "command": `"$CLAUDE_PROJECT_DIR"/.claude/hooks/` + name}}}}
				}
			}
			content, err := json.Marshal(map[string]any{"hooks": settings})
			zinotest.Must(t, err)
			zinotest.Write(t, filepath.Join(e.root, ".claude/settings.json"), string(content))
			e.trustAll()

			_, err = rpc.Call(t.Context(), e.daemon, proto.DaemonTurnStart, proto.TurnStart{Message: "forbidden", SessionID: "parent", Root: e.root})
			zinotest.Error(t, err, proto.ErrDenied, "The message was not sent: hook: not that")
			e.begin(proto.TurnStart{Mode: "ask", Reachable: true})
			a := e.approval()
			events := filepath.Join(e.root, "events.log")
			zinotest.Eventually(t, "the notification", func() bool { return strings.Contains(zinotest.Read(t, events), "Notification permission_prompt\n") })
			e.answer(a, proto.Approve{Answer: "once"})
			zinotest.Equal(t, "state", e.end("parent").State, proto.TurnDone)
			lines := strings.Fields(strings.ReplaceAll(zinotest.Read(t, events), " ", "_"))
			slices.Sort(lines[4:6]) // the calls of an answer run side by side
			zinotest.Equal(t, "events", strings.Join(lines, " "),
				"SessionStart_startup UserPromptSubmit SessionStart_startup UserPromptSubmit PreToolUse_Bash PreToolUse_Write Notification_permission_prompt PostToolUse_Write PreCompact_auto Stop_false Stop_true")
			results := e.outputs()
			zinotest.Equal(t, "a refused call", results[0], `{"ok":false,"error":{"code":"denied","message":"hook: no rm"}}`)
			zinotest.Contains(t, "a call", results[1], `{"ok":true`, `"hook":"lint a.txt"}`)
			requests := e.provider.Requests()
			zinotest.Equal(t, "inferences", len(requests), 3)
			zinotest.Contains(t, "last request", string(requests[2].Body), "from SessionStart", "from UserPromptSubmit", "tests first: Written.")
			zinotest.Contains(t, "states", e.states("parent"), "running, done") // no handoff
		})
	}
}

// TestHooksAtEachLevel checks that a hook has the rights of the turn's commands.
func TestHooksAtEachLevel(t *testing.T) {
	for _, level := range []proto.Level{proto.LevelOff, proto.LevelReadOnly, proto.LevelWorkspaceWrite} {
		t.Run(string(level), func(t *testing.T) {
			outside := filepath.Join(zinotest.Dir(t), "outside")
			try := fmt.Sprintf(`cat >/dev/null; touch inside 2>/dev/null && in=yes || in=no; touch %s 2>/dev/null && out=yes || out=no; echo "$(basename "$ZINO_ROOT") $in $out ${SOME_API_KEY-unset}" >&2; exit 2`, outside)
			e := newAgents(t, preTool(try), fakellm.Turn{Match: "begin", Calls: []fakellm.Call{bash(t, "touch ran")}}, fakellm.Turn{Text: "Done."})
			e.cfg.Hooks.Stop = []config.Hook{{Command: `touch stopped; exit 0`}}
			e.stop()
			e.start()
			e.begin(proto.TurnStart{Sandbox: level, Env: map[string]string{"PATH": os.Getenv("PATH"), "SOME_API_KEY": "secret"}})
			zinotest.Equal(t, "state", e.end("parent").State, proto.TurnDone)
			want := map[proto.Level]string{proto.LevelOff: "yes yes", proto.LevelReadOnly: "no no", proto.LevelWorkspaceWrite: "yes no"}[level]
			zinotest.Equal(t, "result", e.outputs()[0], `{"ok":false,"error":{"code":"denied","message":"hook: `+filepath.Base(e.root)+" "+want+` unset"}}`)
			zinotest.Equal(t, "a file of the hook of the daemon", e.has("stopped"), level != proto.LevelReadOnly)
		})
	}
}

// TestLongInputOfHooks gives hooks an input that is too long for the request of exc: one
// reads all of it, others a part or nothing.
func TestLongInputOfHooks(t *testing.T) {
	content := strings.Repeat("é and more\n", 120_000)
	read := `python3 -c 'import json, sys; e = json.load(sys.stdin); c = e["tool_input"]["content"]; print(json.dumps({"decision": "block", "reason": "%d %s" % (len(c), c == e["zino"]["input"]["content"])}))'`
	e := newAgents(t, preTool("head -c 10 >/dev/null", "exec <&-; exit 0", read),
		fakellm.Turn{Match: "begin", Calls: []fakellm.Call{callOf(t, "write", map[string]any{"path": "a.txt", "content": content})}}, fakellm.Turn{Text: "Done."})
	e.begin(proto.TurnStart{})
	zinotest.Equal(t, "state", e.end("parent").State, proto.TurnDone)
	zinotest.Equal(t, "result", e.outputs()[0], `{"ok":false,"error":{"code":"denied","message":"hook: 1320000 True"}}`)
}

// TestPreHandoffHooks checks the handoff of a full context: without a hook that blocks it,
// the turn goes on in another session, and its SessionStart says so.
func TestPreHandoffHooks(t *testing.T) {
	e := newAgents(t, func(cfg *config.Config) {
		cfg.Agent.ContinueAt = 0.5
		cfg.Hooks.PreHandoff = []config.Hook{{Matcher: "auto", Command: "cat >handoff"}, {Matcher: "manual", Command: "touch manual"}}
		cfg.Hooks.PreCompact = []config.Hook{{Command: "cat >compact"}}
		cfg.Hooks.SessionStart = []config.Hook{{Matcher: "compact", Command: "echo it goes on"}}
	}, fakellm.Turn{Match: "begin", Usage: &fakellm.Usage{In: 190_000, Out: 1}, Calls: []fakellm.Call{bash(t, "echo one")}},
		forever("", fakellm.Turn{Text: "It was said.", Usage: &fakellm.Usage{In: 10, Out: 1}}))
	e.begin(proto.TurnStart{})
	zinotest.Eventually(t, "the end of the turn in the other session", func() bool {
		for _, turn := range e.turns(proto.ListTurns{All: true}) {
			if turn.SessionID != "parent" && turn.State == proto.TurnDone {
				return true
			}
		}
		return false
	})
	zinotest.Contains(t, "input", zinotest.Read(t, filepath.Join(e.root, "handoff")), `"hook_event_name":"PreHandoff","trigger":"auto"`)
	zinotest.Contains(t, "input by the other name", zinotest.Read(t, filepath.Join(e.root, "compact")), `"hook_event_name":"PreCompact","trigger":"auto"`)
	zinotest.Equal(t, "the hook of another trigger has run", e.has("manual"), false)
	requests := e.provider.Requests()
	zinotest.Contains(t, "last request", string(requests[len(requests)-1].Body), "it goes on")
}

// TestHookScriptsChange changes the scripts of a project's hooks in the middle of a turn:
// the hooks do not run with them, of agr or of the daemon, and run again with the trusted ones.
func TestHookScriptsChange(t *testing.T) {
	t.Setenv("ZINO_HOME", zinotest.Dir(t))
	e := newAgents(t, func(*config.Config) {},
		fakellm.Turn{Match: "begin", Calls: []fakellm.Call{awaitGo(t)}},
		fakellm.Turn{Calls: []fakellm.Call{bash(t, "cp -p .claude/hooks/log.sh kept; echo 'touch evil' >> .claude/hooks/log.sh")}},
		fakellm.Turn{Calls: []fakellm.Call{bash(t, "echo two")}},
		fakellm.Turn{Calls: []fakellm.Call{bash(t, "cp -p kept .claude/hooks/log.sh")}},
		fakellm.Turn{Calls: []fakellm.Call{bash(t, "echo three; : > .claude/hooks/more")}},
		fakellm.Turn{Text: "Done."})
	var err error
	e.root, err = filepath.EvalSymlinks(e.root)
	zinotest.Must(t, err)
	hook := func(event, argument, onFailure string) string {
		return fmt.Sprintf(`%q:[{"hooks":[{"type":"command","command":"$CLAUDE_PROJECT_DIR/.claude/hooks/log.sh %s","onFailure":%q}]}]`, event, argument, onFailure)
	}
	zinotest.Must(t, os.MkdirAll(filepath.Join(e.root, ".claude/hooks"), 0o755))
	zinotest.WriteFiles(t, e.root, map[string]string{
		".claude/settings.json": `{"hooks":{` + hook("PreToolUse", "pre", "allow") + "," + hook("PostToolUse", "post", "block") + "," + hook("Stop", "stop", "allow") + `}}`,
		".claude/hooks/log.sh":  "#!/bin/sh\necho $1 >> log\n",
	})
	zinotest.Must(t, os.Chmod(filepath.Join(e.root, ".claude/hooks/log.sh"), 0o755))
	e.trustAll()
	e.begin(proto.TurnStart{})
	notices := e.notices()
	zinotest.Equal(t, "runs", zinotest.Read(t, filepath.Join(e.root, "log")), "pre\npost\npre\npost\npre\n")
	zinotest.Equal(t, "the changed script has run", e.has("evil"), false)
	refusal := "hook log.sh failed: " + e.root + "/.claude/hooks: changed since it was trusted"
	for i, output := range e.outputs() {
		if changed := i == 1 || i == 2 || i == 4; strings.Contains(output, refusal) != changed {
			t.Errorf("result of call %d: %s", i, output)
		}
	}
	zinotest.Equal(t, "notices of refused hooks: "+notices, strings.Count(notices, refusal), 6) // two before calls, three after calls, one of Stop
}

// TestHookChangesInput checks that a call is stored, approved and carried out with the input
// of a hook, and that the model's own is kept beside it.
func TestHookChangesInput(t *testing.T) {
	change := `printf '{"hookSpecificOutput":{"permissionDecision":"allow","updatedInput":{"command":"touch changed"}}}'`
	e := newAgents(t, preTool(change),
		fakellm.Turn{Match: "begin", Calls: []fakellm.Call{bash(t, "touch asked")}}, fakellm.Turn{Text: "Done."})
	e.begin(proto.TurnStart{Mode: "ask", Reachable: true})
	a := e.approval()
	zinotest.Equal(t, "the request", strings.Join(a.Preview.Commands, ";"), "touch changed")
	e.answer(a, proto.Approve{Answer: "once"})
	zinotest.Equal(t, "state", e.end("parent").State, proto.TurnDone)
	zinotest.Equal(t, "files", fmt.Sprint(e.has("changed"), e.has("asked")), "true false")
	zinotest.Contains(t, "log", zinotest.Read(t, e.file("parent")), `"input":{"command":"touch asked"},"run_input":{"command":"touch changed"}`)
	notices := strings.Join(e.packets(proto.TypeNotice), "\n")
	if strings.Contains(notices, "failed") {
		t.Error(notices)
	}
}

// TestHookRewrites checks that an input of a hook is checked as one of the model is, and that
// it has the names of other agents.
func TestHookRewrites(t *testing.T) {
	rewrite := func(matcher, input string) config.Hook {
		return config.Hook{Matcher: matcher, Command: "echo '{\"hookSpecificOutput\":{\"updatedInput\":" + input + "}}'"}
	}
	e := newAgents(t, func(cfg *config.Config) {
		cfg.Hooks.PreToolUse = []config.Hook{rewrite("Bash", `{"command":5}`), rewrite("Read", `{}`), rewrite("Write", `{"file_path":"b.txt","content":"by the hook"}`)}
	}, fakellm.Turn{Match: "begin", Calls: []fakellm.Call{
		bash(t, "touch a.txt"), callOf(t, "read", map[string]any{"path": "a.txt"}), callOf(t, "write", map[string]any{"path": "a.txt", "content": "by the model"}),
	}}, fakellm.Turn{Text: "Done."})
	e.begin(proto.TurnStart{})
	zinotest.Equal(t, "state", e.end("parent").State, proto.TurnDone)
	results := e.outputs()
	zinotest.Contains(t, "another type", results[0], `{"ok":false`, `"code":"invalid_input"`)
	zinotest.Contains(t, "nothing", results[1], `{"ok":false`, `"code":"invalid_input"`)
	zinotest.Contains(t, "other names", results[2], `{"ok":true`)
	zinotest.Equal(t, "what was written", zinotest.Read(t, filepath.Join(e.root, "b.txt")), "by the hook")
	zinotest.Equal(t, "what the model wanted", e.has("a.txt"), false)
}

// TestHookAsks checks that a hook can demand a person, and that without one the call is denied.
func TestHookAsks(t *testing.T) {
	ask := `printf '{"hookSpecificOutput":{"permissionDecision":"ask","permissionDecisionReason":"are you sure?"}}'`
	calls := []fakellm.Call{bash(t, "touch a"), callOf(t, "todo", map[string]any{"items": []any{}})}
	e := newAgents(t, preTool(ask),
		fakellm.Turn{Match: "begin", Calls: calls}, fakellm.Turn{Text: "One."}, fakellm.Turn{Match: "begin", Calls: calls}, fakellm.Turn{Text: "Two."})
	e.begin(proto.TurnStart{Mode: "yolo"})
	zinotest.Equal(t, "state", e.end("parent").State, proto.TurnDone)
	for _, output := range e.outputs() {
		zinotest.Contains(t, "without a person", output, `"code":"denied"`, "Not allowed without a person")
	}
	e.begin(proto.TurnStart{Mode: "yolo", Reachable: true})
	for _, tool := range []string{"bash", "todo"} {
		a := e.approval()
		zinotest.Equal(t, "request", fmt.Sprint(a.Call.Tool, " ", a.Reasons, " ", a.Grantable), tool+" [hook: are you sure?] once")
		e.answer(a, proto.Approve{Answer: "once"})
		zinotest.Eventually(t, "the request is used", func() bool {
			list, err := rpc.Call(t.Context(), e.daemon, proto.DaemonApprovals, proto.ListApprovals{})
			zinotest.Must(t, err)
			return len(list.Approvals) == 0 || list.Approvals[0].ID != a.ID
		})
	}
	zinotest.Equal(t, "state", e.end("parent").State, proto.TurnDone)
	for _, output := range e.outputs()[2:] {
		zinotest.Contains(t, "allowed", output, `{"ok":true`)
	}
	zinotest.Equal(t, "file", e.has("a"), true)
}

// TestHooksOfTurns checks SessionStart, UserPromptSubmit and Stop.
func TestHooksOfTurns(t *testing.T) {
	e := newAgents(t, func(cfg *config.Config) {
		cfg.Hooks.SessionStart = []config.Hook{{Matcher: "startup", Command: "echo branch main"}, {Matcher: "resume", Command: "echo resumed"}}
		cfg.Hooks.UserPromptSubmit = []config.Hook{{Command: `grep -q '"prompt":"forbidden"' && { echo "not that" >&2; exit 2; }; echo "the time"`}}
		cfg.Hooks.Stop = []config.Hook{{Command: `grep -q '"last_assistant_message":"Answer' && { echo "run the tests" >&2; exit 2; }`, OnFailure: "allow"}}
	}, fakellm.Turn{Text: "Answer 1."}, fakellm.Turn{Text: "Answer 2."}, fakellm.Turn{Text: "Answer 3."}, fakellm.Turn{Text: "Answer 4."}, forever("", fakellm.Turn{Text: "Fine."}))
	start := func(message string) error {
		_, err := rpc.Call(t.Context(), e.daemon, proto.DaemonTurnStart, proto.TurnStart{Message: message, SessionID: "parent", Root: e.root})
		return err
	}
	zinotest.Error(t, start("forbidden"), proto.ErrDenied, "The message was not sent: hook: not that")
	if _, err := os.Stat(e.file("parent")); err == nil {
		t.Errorf("a blocked message was stored: %s", zinotest.Read(t, e.file("parent")))
	}
	zinotest.Must(t, start("begin"))
	zinotest.Equal(t, "state", e.end("parent").State, proto.TurnDone)
	requests := e.provider.Requests()
	zinotest.Equal(t, "inferences with three reasons to go on", len(requests), 4)
	zinotest.Contains(t, "first request", string(requests[0].Body), `the time`)
	zinotest.Equal(t, "reasons", strings.Count(string(requests[3].Body), "run the tests"), 3)
	zinotest.Contains(t, "log", zinotest.Read(t, e.file("parent")), `"text":"run the tests","turn":`, `"via":"hook"`)
	zinotest.Must(t, start("again"))
	zinotest.Equal(t, "state", e.end("parent").State, proto.TurnDone)
	requests = e.provider.Requests()
	zinotest.Equal(t, "inferences without a reason", len(requests), 5)
	zinotest.Equal(t, "SessionStart", strings.Count(string(requests[4].Body), `\nbranch main`), 1)
	e.stop()
	e.start()
	zinotest.Must(t, start("once more"))
	zinotest.Equal(t, "state", e.end("parent").State, proto.TurnDone)
	requests = e.provider.Requests()
	zinotest.Contains(t, "request after a restart", string(requests[5].Body), `\nresumed`)
}

// TestHooksOfSteeredMessages checks UserPromptSubmit for messages that come into an open
// turn. What it adds is delivered behind the message, also after a restart.
func TestHooksOfSteeredMessages(t *testing.T) {
	e := newAgents(t, func(cfg *config.Config) {
		cfg.Hooks.UserPromptSubmit = []config.Hook{{Command: `sed -n '/"prompt":"forbidden"/{s/.*/not that/p;q2};s/.*"prompt":"\([a-z]*\)".*/seen: \1/p' >out.$$; code=$?; cat out.$$ >&2; cat out.$$; exit $code`}}
	}, fakellm.Turn{Match: "begin", Calls: []fakellm.Call{bash(t, "touch started; until [ -e go ]; do sleep 0.02; done")}}, fakellm.Turn{Text: "Done."})
	say := func(text string) error {
		_, err := rpc.Call(t.Context(), e.daemon, proto.DaemonTurnSay, proto.TurnSay{SessionID: "parent", Text: text})
		return err
	}
	e.begin(proto.TurnStart{})
	zinotest.Eventually(t, "the call runs", func() bool { return e.has("started") })
	zinotest.Error(t, say("forbidden"), proto.ErrDenied, "The message was not sent: hook: not that")
	zinotest.Must(t, say("please"))
	e.stop()
	e.start()
	zinotest.Write(t, filepath.Join(e.root, "go"), "")
	zinotest.Equal(t, "state", e.end("parent").State, proto.TurnDone)
	requests := e.provider.Requests()
	last := string(requests[len(requests)-1].Body)
	zinotest.Contains(t, "what the model reads", last, "seen: begin", "please", "seen: please")
	if log := zinotest.Read(t, e.file("parent")); strings.Contains(last+log, "forbidden") {
		t.Errorf("a blocked message was stored or sent: %s", log)
	}
}

// TestStopHooksWithoutSaving checks that Stop has turns go on that are not stored.
func TestStopHooksWithoutSaving(t *testing.T) {
	e := newAgents(t, func(cfg *config.Config) {
		cfg.Hooks.Stop = []config.Hook{{Command: `grep -q '"last_assistant_message":"Answer' && { echo "run the tests" >&2; exit 2; }; exit 0`}}
	}, fakellm.Turn{Text: "Answer 1."}, fakellm.Turn{Text: "Answer 2."}, fakellm.Turn{Text: "Fine."}, fakellm.Turn{Text: "Not asked."})
	text, err := rpc.CallText(t.Context(), e.daemon, proto.DaemonChat, proto.Chat{Message: "begin", SessionID: "unsaved", NoSave: true, Root: e.root}, nil)
	zinotest.Must(t, err)
	requests := e.provider.Requests()
	zinotest.Equal(t, "inferences", len(requests), 3)
	zinotest.Contains(t, "last request", string(requests[2].Body), "Answer 1.", "Answer 2.")
	zinotest.Equal(t, "reasons", strings.Count(string(requests[2].Body), "run the tests"), 2)
	zinotest.Contains(t, "answer", text.Content, "Fine.")
}

// TestHookCountsSurvive restarts the services between the runs of hooks: Stop has a turn go on
// three times in all, and the third timeout of a hook in a session is the last one.
func TestHookCountsSurvive(t *testing.T) {
	limit := 0.2
	e := newAgents(t, func(cfg *config.Config) {
		cfg.Hooks.PreToolUse = []config.Hook{{Command: "sleep 600", Timeout: &limit}}
		cfg.Hooks.Stop = []config.Hook{{Command: "echo go on >&2; exit 2"}}
	}, fakellm.Turn{Match: "begin", Text: "Answer 1."}, fakellm.Turn{Calls: []fakellm.Call{bash(t, "echo first")}},
		fakellm.Turn{Calls: []fakellm.Call{bash(t, "touch started; until [ -e go ]; do sleep 0.02; done")}},
		fakellm.Turn{Text: "Answer 2."}, fakellm.Turn{Text: "Answer 3."}, fakellm.Turn{Text: "Answer 4."},
		fakellm.Turn{Match: "begin", Calls: []fakellm.Call{bash(t, "echo third")}}, fakellm.Turn{Calls: []fakellm.Call{bash(t, "echo fourth")}},
		forever("", fakellm.Turn{Text: "Done."}))
	e.begin(proto.TurnStart{})
	zinotest.Eventually(t, "the call runs", func() bool { return e.has("started") })
	e.stop()
	e.start()
	zinotest.Write(t, filepath.Join(e.root, "go"), "")
	zinotest.Equal(t, "state", e.end("parent").State, proto.TurnDone)
	zinotest.Equal(t, "inferences", len(e.provider.Requests()), 6)
	zinotest.Equal(t, "messages of Stop", strings.Count(zinotest.Read(t, e.file("parent")), `"via":"stop"`), 3)
	e.stop()
	e.start()
	e.begin(proto.TurnStart{})
	zinotest.Equal(t, "second state", e.end("parent").State, proto.TurnDone)
	zinotest.Equal(t, "timeouts", len(e.log("parent", proto.TypeHook)), 3)
	zinotest.Equal(t, "results", len(e.outputs()), 4)
}

// TestHooksThatMisbehave checks hooks that hang with children, flood, read nothing, fail, and
// print nonsense: the call goes on, a notice names it, and no process is left.
func TestHooksThatMisbehave(t *testing.T) {
	const mark = "hook-child-of-" // in the command lines of what hooks start
	own := mark + filepath.Base(t.TempDir()) + fmt.Sprint(os.Getpid())
	limit := 0.5
	e := newAgents(t, func(cfg *config.Config) {
		for _, command := range []string{
			`sh -c 'setsid sh -c "sleep 600; : ` + own + `" & sleep 600; : ` + own + `' & sleep 600; : hang`,
			`yes flood`,
			`exec <&-; exit 0`,
			`echo broken >&2; exit 7`,
			`echo '{"hookSpecificOutput":{"updatedInput":"no object"}}'`,
			`kill -9 $$`,
		} {
			cfg.Hooks.PreToolUse = append(cfg.Hooks.PreToolUse, config.Hook{Command: command})
		}
		cfg.Hooks.PreToolUse[0].Timeout = &limit
	}, fakellm.Turn{Match: "begin", Calls: []fakellm.Call{bash(t, "touch ran")}}, fakellm.Turn{Text: "Done."})
	follower, err := rpc.Call(t.Context(), e.daemon, proto.DaemonTurnStart, proto.TurnStart{Message: "begin", SessionID: "parent", Root: e.root})
	zinotest.Must(t, err)
	var notices []string
	_, err = rpc.CallEvents(t.Context(), e.daemon, proto.DaemonTurnFollow, proto.TurnFollow{SessionID: "parent", Turn: follower.Turn}, func(typ string, payload []byte) error {
		if typ == proto.TypeNotice {
			notices = append(notices, string(payload))
		}
		return nil
	})
	zinotest.Must(t, err)
	zinotest.Equal(t, "the call ran", e.has("ran"), true)
	zinotest.Contains(t, "notices", strings.Join(notices, "\n"),
		"was stopped after 0.5s", "printed more than 1 MiB", "failed (exit 7): broken", "updatedInput is not an object", "failed (signal 9)")
	zinotest.Equal(t, "notices", len(notices), 5)
	zinotest.Eventually(t, "no process of a hook is left", func() bool { return len(zinotest.Processes(own)) == 0 })
}

// TestBlockingHookFails checks that a hook that must not fail blocks when it does.
func TestBlockingHookFails(t *testing.T) {
	e := newAgents(t, func(cfg *config.Config) {
		cfg.Hooks.PreToolUse = []config.Hook{{Command: "/nowhere/guard.py", OnFailure: "block"}}
	}, fakellm.Turn{Match: "begin", Calls: []fakellm.Call{bash(t, "touch ran")}}, fakellm.Turn{Text: "Done."})
	e.begin(proto.TurnStart{})
	zinotest.Equal(t, "state", e.end("parent").State, proto.TurnDone)
	zinotest.Contains(t, "result", e.outputs()[0], `"code":"denied"`, "hook guard.py failed (exit 127)")
	zinotest.Equal(t, "the call ran", e.has("ran"), false)
}

// TestHookEndsTurn checks continue: false before and after a call.
func TestHookEndsTurn(t *testing.T) {
	end := `echo '{"continue":false,"stopReason":"enough"}'`
	for name, test := range map[string]struct {
		set func(*config.Config)
		ran bool
	}{
		"PreToolUse":  {func(cfg *config.Config) { cfg.Hooks.PreToolUse = []config.Hook{{Command: end}} }, false},
		"PostToolUse": {func(cfg *config.Config) { cfg.Hooks.PostToolUse = []config.Hook{{Command: end}} }, true},
	} {
		t.Run(name, func(t *testing.T) {
			e := newAgents(t, test.set, fakellm.Turn{Match: "begin", Calls: []fakellm.Call{bash(t, "touch one"), bash(t, "touch two")}}, fakellm.Turn{Text: "Not asked."})
			e.begin(proto.TurnStart{})
			zinotest.Equal(t, "state", e.end("parent").State, proto.TurnDone)
			zinotest.Equal(t, "inferences", len(e.provider.Requests()), 1)
			zinotest.Equal(t, "files", fmt.Sprint(e.has("one"), e.has("two")), fmt.Sprint(test.ran, false))
			zinotest.Equal(t, "results", len(e.outputs()), 2)
			zinotest.Contains(t, "log", zinotest.Read(t, e.file("parent")), `"stop_reason":"hook"`)
		})
	}
}

// TestHooksAndRestarts stops the services while a hook runs, and while a call runs that a hook
// has changed: nothing is left of the hook, and the resumed turn goes on with the stored call
// without another run of its hook.
func TestHooksAndRestarts(t *testing.T) {
	own := "hook-of-" + filepath.Base(t.TempDir()) + fmt.Sprint(os.Getpid())
	hook := `n=$(cat count 2>/dev/null | wc -l); echo x >> count; [ $n -gt 0 ] || { sh -c "sleep 600; : ` + own + `" & sleep 600; : ` + own + `; }
printf '{"hookSpecificOutput":{"updatedInput":{"command":"touch started; until [ -e go ]; do sleep 0.02; done; echo once >> ran"}}}'`
	e := newAgents(t, preTool(hook),
		fakellm.Turn{Match: "begin", Calls: []fakellm.Call{bash(t, "touch asked")}}, fakellm.Turn{Match: "begin", Calls: []fakellm.Call{bash(t, "touch asked")}},
		fakellm.Turn{Text: "Done."})
	e.begin(proto.TurnStart{})
	zinotest.Eventually(t, "the hook runs", func() bool { return e.has("count") && len(zinotest.Processes(own)) > 0 })
	e.stop()
	zinotest.Eventually(t, "no process of the hook is left", func() bool { return len(zinotest.Processes(own)) == 0 })
	e.start() // nothing of the answer was stored: it is asked for again
	zinotest.Eventually(t, "the call runs", func() bool { return e.has("started") })
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		e.stop()
	}()
	<-stopped
	e.start()
	zinotest.Write(t, filepath.Join(e.root, "go"), "")
	zinotest.Equal(t, "state", e.end("parent").State, proto.TurnDone)
	zinotest.Equal(t, "runs of the hook", zinotest.Read(t, filepath.Join(e.root, "count")), "x\nx\n")
	if e.has("asked") {
		t.Error("the model's own input was carried out")
	}
	if e.has("ran") {
		zinotest.Equal(t, "runs of the call", zinotest.Read(t, filepath.Join(e.root, "ran")), "once\n")
	}
}

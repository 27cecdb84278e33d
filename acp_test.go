package zino_test

import (
	"bytes"
	"encoding/json"
	"image"
	"image/png"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"zino/pkg/fakellm"
	"zino/pkg/schema"
	"zino/pkg/zinotest"
	"zino/pkg/zinotest/fakedaemon"
)

// acpTurns are the answers of the model to the prompts of the foreign ACP clients.
var acpTurns = []fakellm.Turn{
	{Match: "say hello", Text: "Hello from Zino.", Times: 100},
	{Match: "change the file", Calls: []fakellm.Call{{Name: "edit", Args: `{"path":"a.txt","old":"one","new":"two"}`}}},
	{Match: "replacements", Text: "Changed."},
	{Match: "in c", Text: "I looked."},
	{Match: "allow it", Calls: []fakellm.Call{{Name: "bash", Args: `{"command":"echo allowed"}`}}},
	{Match: "stdout", Text: "It ran."},
	{Match: "deny it", Calls: []fakellm.Call{{Name: "bash", Args: `{"command":"touch denied"}`}}},
	{Match: "denied", Text: "It was denied."},
	{Match: "be slow", Text: "I begin", Pause: "never", Times: 100},
	{Match: "be long", Text: "cut", Finish: "length"},
	{Match: "fail now", Status: 400, Text: `{"error":{"message":"no"}}`},
}

// acpEnv is a constellation for a foreign ACP client.
type acpEnv struct {
	t     *testing.T
	dir   string
	env   []string
	lines string
	up    *zinotest.Process

	provider *fakellm.Server
}

func newACP(t *testing.T, turns ...fakellm.Turn) *acpEnv {
	t.Helper()
	e := prepareACP(t, turns...)
	e.start()
	return e
}

// prepareACP makes the directories of a constellation, which start starts.
func prepareACP(t *testing.T, turns ...fakellm.Turn) *acpEnv {
	t.Helper()
	provider := fakellm.New(append(acpTurns[:len(acpTurns):len(acpTurns)], turns...)...)
	t.Cleanup(provider.Close)
	dir := zinotest.Dir(t)
	e := &acpEnv{t: t, dir: dir, lines: filepath.Join(dir, "lines"), provider: provider}
	for _, name := range []string{"home", "run", "work"} {
		zinotest.Must(t, os.Mkdir(filepath.Join(dir, name), 0o700))
	}
	zinotest.Write(t, filepath.Join(dir, "work", "a.txt"), "zero\none\n")
	e.env = append([]string{
		"HOME=" + filepath.Join(dir, "home"), "XDG_RUNTIME_DIR=" + filepath.Join(dir, "run"), "PATH=" + bin + ":" + os.Getenv("PATH"),
		"ANTHROPIC_API_KEY=test", "ANTHROPIC_BASE_URL=" + provider.Host, "LINES=" + e.lines, "ROOT=" + filepath.Join(dir, "work"),
	}, zinotest.CoverEnv()...)
	return e
}

func (e *acpEnv) start() {
	e.t.Helper()
	up := program(e.env, "zino", "up")
	up.Dir = e.dir
	e.up = zinotest.Start(e.t, up)
	e.up.WaitFor("Ctrl-C stops")
}

// client starts a program of testdata/node as a client of zino acp.
func (e *acpEnv) client(name string, env []string, args ...string) *zinotest.Process {
	e.t.Helper()
	node, modules := zinotest.Node(e.t)
	script := filepath.Join(filepath.Dir(modules), name)
	if tree, err := filepath.Abs(filepath.Join("testdata", "node", name)); err == nil {
		script = tree
	}
	cmd := program(append(e.env, env...), "zino")
	cmd.Path, cmd.Args = node, append([]string{node, "--preserve-symlinks-main", script, filepath.Join(bin, "zino"), "acp"}, args...)
	cmd.Dir = e.dir
	return zinotest.Start(e.t, cmd)
}

// validate checks every line that the agent wrote against the schema of the protocol.
func (e *acpEnv) validate(version string) {
	e.t.Helper()
	_, modules := zinotest.Node(e.t)
	var protocol struct {
		Defs map[string]json.RawMessage `json:"$defs"`
	}
	text := zinotest.Read(e.t, filepath.Join(modules, "@agentclientprotocol/sdk/schema", version, "schema.json"))
	text = regexp.MustCompile(`"description": "(\\.|[^"\\])*",?`).ReplaceAllString(text, "") // longer than a schema may be
	zinotest.Must(e.t, json.Unmarshal([]byte(regexp.MustCompile(`,(\s*\})`).ReplaceAllString(text, "$1")), &protocol))
	names := map[string]string{} // of the schema for "request METHOD" and so on
	for name, raw := range protocol.Defs {
		var def struct {
			Method string `json:"x-method"`
		}
		zinotest.Must(e.t, json.Unmarshal(raw, &def))
		for _, kind := range []string{"Request", "Response", "Notification"} {
			if def.Method != "" && strings.HasSuffix(name, kind) {
				names[kind+" "+def.Method] = name
			}
		}
	}
	checks := map[string]*schema.Schema{}
	check := func(key string, value json.RawMessage) {
		name := names[key]
		if name == "" {
			e.t.Errorf("the protocol has no %s", key)
			return
		}
		if checks[name] == nil {
			raw, err := json.Marshal(map[string]any{"$ref": "#/$defs/" + name, "$defs": protocol.Defs})
			zinotest.Must(e.t, err)
			s, err := schema.Parse(raw)
			if err != nil {
				e.t.Fatalf("%s: %v", name, err)
			}
			checks[name] = s
		}
		if _, problems := checks[name].Check(string(value)); problems != nil {
			e.t.Errorf("%s: %s: %v", key, value, problems)
		}
	}
	asked := map[string]string{} // methods by the id of the client's requests
	n := 0
	for line := range strings.Lines(zinotest.Read(e.t, e.lines)) {
		var m struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
			Params json.RawMessage `json:"params"`
			Result json.RawMessage `json:"result"`
			Error  json.RawMessage `json:"error"`
		}
		zinotest.Must(e.t, json.Unmarshal([]byte(line[2:]), &m))
		switch fromAgent := strings.HasPrefix(line, "< "); {
		case !fromAgent && m.Method != "" && m.ID != nil:
			asked[string(m.ID)] = m.Method
			continue
		case !fromAgent:
			continue
		case m.Method != "" && m.ID != nil:
			check("Request "+m.Method, m.Params)
		case m.Method != "":
			check("Notification "+m.Method, m.Params)
		case m.Result != nil:
			check("Response "+asked[string(m.ID)], m.Result)
		}
		if bytes.Contains([]byte(line), []byte(`\u003c`)) {
			e.t.Errorf("escaped as HTML: %s", line)
		}
		n++
	}
	if n < 20 {
		e.t.Errorf("only %d lines of the agent", n)
	}
}

// stop stops the services and checks that no process is left.
func (e *acpEnv) stop() {
	e.t.Helper()
	e.up.Signal(syscall.SIGINT)
	zinotest.Equal(e.t, "status of zino up", e.up.Exit(), 0)
}

// TestACP has the npm SDK of ACP use zino acp: every method, and every line that zino
// writes against the schema of the protocol.
func TestACP(t *testing.T) {
	e := newACP(t)
	p := e.client("acpclient.mjs", nil)
	zinotest.Equal(t, "exit status", p.Exit(), 0)
	zinotest.Equal(t, "what the client got", p.Out.String(), `initialize 1 zino close delete list resume 0
relative: -32602 cwd "relative" is not an absolute path
options model=default sandbox=default mode=default
prompt end_turn Hello from Zino.
edit end_turn tool_call:edit tool_call_update:in_progress tool_call_update:completed
diff a.txt "zero\none\n" "zero\ntwo\n"
link end_turn I looked.
set model=default sandbox=default mode=ask
colour: -32602 unknown option "colour"
asked: bash wants to run (mode ask: commands at level off), sandbox off | allow_once allow_always allow_always reject_once
allowed end_turn It ran.
asked: bash wants to run (mode ask: commands at level off), sandbox off | allow_once allow_always allow_always reject_once
denied end_turn It was denied.
second: -32600 a prompt is running
cancelled cancelled
length max_tokens
failed: -32603 HTTP 400: no invalid
list 1 true say hello
closed: -32002 no such session: "ID"
load 8 true true
unknown: -32002 no such session: "none"
again end_turn Hello from Zino.
left 0
method: -32601
authenticate: -32602
exit 0
`)
	e.validate("v1")
	e.stop()
}

// TestACPVersion2 is TestACP for the draft of version 2.
func TestACPVersion2(t *testing.T) {
	e := newACP(t)
	p := e.client("acpclient2.mjs", nil, "--v2")
	zinotest.Equal(t, "exit status", p.Exit(), 0)
	zinotest.Equal(t, "what the client got", p.Out.String(), `initialize 2 zino prompt mcp delete
prompt running idle end_turn true Hello from Zino.
edit running idle end_turn true modify
asked: bash wants to run (mode ask: commands at level off), sandbox off | allow_once allow_always allow_always reject_once
allowed running requires_action running idle end_turn true It ran.
cancelled cancelled 2
failed running idle error true
resume true
exit 0
`)
	e.validate("v2")
	e.stop()
}

// TestACPFiles has the npm SDK answer for files with unsaved changes, and send images.
func TestACPFiles(t *testing.T) {
	reads := func(path string) []fakellm.Call {
		return []fakellm.Call{{Name: "read", Args: `{"path":"` + path + `"}`}}
	}
	e := newACP(t,
		fakellm.Turn{Match: "read a", Calls: reads("a.txt")},
		fakellm.Turn{Match: "edit what you saw", Calls: []fakellm.Call{{Name: "edit", Args: `{"path":"a.txt","old":"unsaved","new":"x"}`}}},
		fakellm.Turn{Match: "read other", Calls: reads("b.txt")},
		fakellm.Turn{Match: "read missing", Calls: reads("c.txt")},
		fakellm.Turn{Match: "read both", Calls: append(reads("a.txt"), reads("b.txt")...)},
		fakellm.Turn{Match: "read mute", Calls: reads("mute.txt")},
		fakellm.Turn{Match: "mute.txt", Calls: reads("./a.txt")},
		fakellm.Turn{Text: "Seen.", Times: 100},
	)
	work := filepath.Join(e.dir, "work")
	zinotest.Write(t, filepath.Join(work, "b.txt"), "saved\n")
	zinotest.Write(t, filepath.Join(work, "mute.txt"), "mute\n")
	noise := image.NewNRGBA(image.Rect(0, 0, 980, 980))
	rand.NewChaCha8([32]byte{}).Read(noise.Pix)
	for name, m := range map[string]image.Image{"shot.png": image.NewGray(image.Rect(0, 0, 40, 30)), "wide.png": image.NewGray(image.Rect(0, 0, 4000, 10)), "noise.png": noise} {
		f, err := os.Create(filepath.Join(work, name))
		zinotest.Must(t, err)
		zinotest.Must(t, png.Encode(f, m))
		zinotest.Must(t, f.Close())
	}
	bomb := []byte(zinotest.Read(t, filepath.Join(work, "shot.png")))
	copy(bomb[16:], "\x00\x00\x2e\xe0\x00\x00\x23\x28") // 12000x9000
	zinotest.Write(t, filepath.Join(work, "bomb.png"), string(bomb))
	p := e.client("acpfiles.mjs", nil, "--client-fs")
	zinotest.Equal(t, "exit status", p.Exit(), 0)
	zinotest.Equal(t, "what the client got", strings.ReplaceAll(p.Out.String(), work, "WORK"), `read: Seen. /a.txt "zero\nunsaved\n"
edit: Seen. {"code":"old_not_found","message":"old was not found in WORK/a.txt (0 occurrences). No line of the file is like it: read the file again."}
saved: Seen. /b.txt "saved\n"
missing: Seen. /c.txt {"code":"ENOENT","message":"File not found: WORK/c.txt"}
two: Seen. /a.txt /b.txt "saved\n" "zero\nunsaved\n"
mute: Seen. /mute.txt "mute\n" "zero\none\n"
link: Seen. /a.txt
named: Seen.
image: Seen.
scaled: Seen.
lies: Seen.
linked image: Seen. /shot.png
no image: -32602 image is not a PNG, JPEG, GIF, WebP or PDF file
too large: -32602 image has 12000x9000 pixels; at most 50 million are taken
two large: Seen.
bad base64: -32602 params: illegal base64 data at input byte 0
load: image/png 40, image/png 2000, image/png 40, image/png 40, image/png 980, image/png 980, image/png 980
exit 0
`)
	var asked []string
	for _, r := range e.provider.Requests() {
		asked = append(asked, string(r.Body))
	}
	zinotest.Contains(t, "what the model got", strings.Join(asked, "\n"), "changes that are not saved", `a.txt\n`+"```"+`\nzero\nunsaved\n`, `Contents of b.txt:\n`)
	e.validate("v1")
	e.stop()
}

// killed has a client killed when it says that it is leaving, and waits for the end of the
// agent.
func (e *acpEnv) killed(prompt string) {
	e.t.Helper()
	p := e.client("acpscenes.mjs", []string{"SCENE=leave", "PROMPT=" + prompt})
	p.WaitFor("leaving")
	p.Signal(syscall.SIGKILL)
	zinotest.Eventually(e.t, "the end of zino acp", func() bool { return len(zinotest.Processes(filepath.Join(bin, "zino")+" acp")) == 0 })
}

// TestACPClientKilled kills the client, and the agent with its standard input, in a turn:
// the turn goes on, and no process of theirs is left.
func TestACPClientKilled(t *testing.T) {
	e := newACP(t)
	e.killed("be slow")
	zinotest.Contains(t, "zino ps", e.run("ps"), "running", "inference")
	e.stop()
}

// TestACPClientKilledInQuestion kills the client in a request for permission, which waits for
// another answer.
func TestACPClientKilledInQuestion(t *testing.T) {
	e := newACP(t)
	e.killed("allow it")
	id := regexp.MustCompile(`ap-\w+`).FindString(e.run("approvals"))
	e.run("approve", "--yes", id)
	zinotest.Eventually(t, "the end of the turn", func() bool {
		all := e.provider.Requests()
		return strings.Contains(string(all[len(all)-1].Body), `allowed\\n`)
	})
	e.stop()
}

// TestACPClientKilledAlone kills the client where no service keeps running: the turn is
// interrupted, and no process is left.
func TestACPClientKilledAlone(t *testing.T) {
	e := prepareACP(t)
	e.killed("be slow")
	zinotest.Eventually(t, "the end of the services", func() bool { return len(zinotest.Processes(bin)) == 0 })
	logs, err := filepath.Glob(filepath.Join(e.dir, "home/.config/zino/sessions/*.jsonl"))
	if err != nil || len(logs) != 1 {
		t.Fatalf("sessions %q, %v", logs, err)
	}
	zinotest.Contains(t, "the session", zinotest.Read(t, logs[0]), `"type":"interrupted"`)
}

// play has the npm SDK play a scene of acpscenes.mjs, and compares what it printed.
func (e *acpEnv) play(scene, want string, env ...string) {
	e.t.Helper()
	var args []string
	if socket, ok := strings.CutPrefix(strings.Join(env, ""), "SOCKET="); ok {
		args = []string{"--socket", socket}
	}
	p := e.client("acpscenes.mjs", append(env, "SCENE="+scene), args...)
	status := p.Exit()
	zinotest.Equal(e.t, "what the client got", p.Out.String(), strings.TrimPrefix(want, "\n")+"exit 0\n")
	if status != 0 {
		e.t.Fatalf("exit status %d: %s", status, p.Err.String())
	}
}

// run runs zino and returns what it prints.
func (e *acpEnv) run(args ...string) string {
	e.t.Helper()
	p := zinotest.Start(e.t, program(e.env, "zino", args...))
	zinotest.Equal(e.t, "status of zino "+strings.Join(args, " "), p.Exit(), 0)
	return p.Out.String()
}

// foreignServer adds the MCP server of another SDK to the configuration.
func (e *acpEnv) foreignServer() {
	e.t.Helper()
	node, _ := zinotest.Node(e.t)
	writeTree(e.t, filepath.Join(e.dir, "home", ".config", "zino"), map[string]string{
		"config.toml": "[mcp.servers.foreign]\ncommand = ['" + node + "', '" + e.foreign() + "']\n",
	})
}

// foreign returns the program of the MCP server of another SDK.
func (e *acpEnv) foreign() string {
	e.t.Helper()
	_, modules := zinotest.Node(e.t)
	zinotest.Write(e.t, filepath.Join(e.dir, "server.mjs"), zinotest.Read(e.t, "testdata/node/mcpserver.mjs"))
	_ = os.Symlink(modules, filepath.Join(e.dir, "node_modules"))
	return filepath.Join(e.dir, "server.mjs")
}

func useTool(match, name, args string) fakellm.Turn {
	return fakellm.Turn{Match: match, Calls: []fakellm.Call{{Name: name, Args: args}}, Times: fakellm.Forever}
}

// answering answers what no other turn does.
var answering = fakellm.Turn{Text: "Done.", Times: fakellm.Forever}

// TestACPCommands lists the slash commands behind the answer to session/new, and uses them.
func TestACPCommands(t *testing.T) {
	e := prepareACP(t, fakellm.Turn{Match: "Fix issue 12.", Text: "Fixed."}, fakellm.Turn{Match: "Fix issue @", Text: "Fixed it."},
		fakellm.Turn{Match: "Tell it: a joke", Text: "Told."}, fakellm.Turn{Match: "Review a file.go, be strict.", Text: "Reviewed."},
		fakellm.Turn{Match: "/fix 13", Text: "Text."}, fakellm.Turn{Match: "/nothing 14", Text: "Text, too."}, answering)
	e.foreignServer()
	writeTree(t, filepath.Join(e.dir, "home", ".config", "zino"), map[string]string{
		"commands/fix.md":      "---\ndescription: Fixes an issue\nargument-hint: <issue>\n---\nFix issue $ARGUMENTS.\n",
		"skills/tell/SKILL.md": "---\nname: tell\ndescription: Tells something.\n---\nTell it: $ARGUMENTS\n",
	})
	e.start()
	e.run("mcp", "test", "foreign")
	e.play("commands", `
fix (<issue>), mcp__foreign__broken, mcp__foreign__plain_words, mcp__foreign__review (file [tone]), tell
/fix 12 => end_turn Fixed.
/tell a joke => end_turn Told.
/mcp__foreign__review "a file.go" be strict => end_turn Reviewed.
/mcp__foreign__review => -32603 the argument file is missing: the file 
 /fix 13 => end_turn Text.
/nothing 14 => end_turn Text, too.
link => end_turn Fixed it.
load fix (<issue>), mcp__foreign__broken, mcp__foreign__plain_words, mcp__foreign__review (file [tone]), tell
`)
	e.validate("v1")
	// The client knows a session when its commands are sent.
	answered := false
	for line := range strings.Lines(zinotest.Read(t, e.lines)) {
		answered = answered || strings.HasPrefix(line, "< ") && strings.Contains(line, `"configOptions"`)
		if strings.Contains(line, "available_commands_update") && !answered {
			t.Errorf("before the answer: %s", line)
		}
	}
	e.stop()
}

// TestACPTrust asks about the files of a project as a request for permission.
func TestACPTrust(t *testing.T) {
	e := newACP(t, fakellm.Turn{Match: "Fix issue 12.", Text: "Fixed."}, answering)
	writeTree(t, filepath.Join(e.dir, "work"), projectFiles)
	e.play("trust", `
This project brings: 1 MCP server (.mcp.json: pg), 1 hook (.claude/settings.json), 1 command. They run files that are not covered by your answer: tools/check.sh. Use them? ROOT/.mcp.json (new): 1 MCP server: pg
    pg: pg-mcp --read-only ^[[2J
ROOT/.claude/settings.json (new): 1 hook: Stop
    Stop: tools/check.sh
ROOT/.claude/commands/fix.md (new): command /fix: Fixes an issue
    description: Fixes an issue yes:allow_once no:reject_once
cancelled end_turn Hello from Zino.
This project brings: 1 MCP server (.mcp.json: pg), 1 hook (.claude/settings.json), 1 command. They run files that are not covered by your answer: tools/check.sh. Use them? ROOT/.mcp.json (new): 1 MCP server: pg
    pg: pg-mcp --read-only ^[[2J
ROOT/.claude/settings.json (new): 1 hook: Stop
    Stop: tools/check.sh
ROOT/.claude/commands/fix.md (new): command /fix: Fixes an issue
    description: Fixes an issue yes:allow_once no:reject_once
no end_turn Hello from Zino.
not asked end_turn Hello from Zino. 0
This project brings: 1 command (1 changed). Use them? ROOT/.claude/commands/fix.md (changed): command /fix: Fixes an issue
    description: Fixes an issue yes:allow_once no:reject_once
yes end_turn Hello from Zino.
fix
used end_turn Fixed.
cancelled turn cancelled 
`)
	e.validate("v1")
	e.stop()
}

// TestACPServers has a client bring MCP servers, which serve its session alone and whose
// secrets are stored nowhere.
func TestACPServers(t *testing.T) {
	const canary = "canary-4711-secret"
	e := prepareACP(t, useTool("use stdio", "mcp_call", `{"server":"my_server","tool":"canary","arguments":{}}`),
		useTool("use http", "mcp_call", `{"server":"web","tool":"where","arguments":{}}`), answering)
	writeTree(t, filepath.Join(e.dir, "home", ".config", "zino"), map[string]string{"config.toml": "[mcp]\nidle_secs = 0.01\n"})
	e.env = append(e.env, "ZINO_LOG_LEVEL=debug")
	e.start()
	server := e.foreign()
	e.play("servers", `
stdio end_turn Done. {"text":"18"}
http end_turn Done. {"text":"on the web"} true
other end_turn Done. {"code":"unknown_tool","message":"There is no tool 'mcp_call'. There are: read, write, edit, bash, job, todo, page_list, page_eval, page_log, page_outline, execute_python3, recall, recall_sessions, remember, task."}
listed 
sse -32602 mcpServers[1]: the transport "sse" is not supported
twice -32602 mcpServers[1]: a server needs a name of its own
no command -32602 mcpServers[1]: a server needs a command or a URL
resumed end_turn Done. {"code":"unknown_tool","message":"no MCP server \"my_server\""}
`, "SERVER="+server, "CANARY="+canary)
	e.validate("v1")
	zinotest.Eventually(t, "the end of the servers", func() bool { return len(zinotest.Processes(server)) == 0 })
	if strings.Contains(e.up.Out.String()+e.up.Err.String(), canary) {
		t.Error("the log has the secret")
	}
	e.stop()
	zinotest.Must(t, os.Remove(e.lines)) // the client's own
	zinotest.Must(t, filepath.WalkDir(e.dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() && strings.Contains(zinotest.Read(t, path), canary) {
			t.Errorf("%s has the secret", path)
		}
		return err
	}))
}

// TestACPList lists, closes and deletes more sessions than a page has.
func TestACPList(t *testing.T) {
	e := newACP(t, answering)
	zinotest.Must(t, os.Mkdir(filepath.Join(e.dir, "work", "sub"), 0o700))
	e.play("list", `
pages 50 50 3 103 true
with removals 103
here 50 50 1 101 everywhere 50 ROOT/sub
-32602 cursor "50" is not one of session/list
-32602 cursor "x" is not one of session/list
-32602 cursor "2026-01-01T00:00:00Z ../x" is not one of session/list
-32602 cwd "sub" is not an absolute path
session/close {}
session/delete {}
session/load -32002 no such session: "ID"
session/resume -32002 no such session: "ID"
not stored {}
`)
	e.validate("v1")
	e.stop()
}

// TestACPCancel cancels prompts at each stage, twice each.
func TestACPCancel(t *testing.T) {
	e := newACP(t, fakellm.Turn{Match: "be mute", Wait: "never", Times: fakellm.Forever}, useTool("run long", "bash", `{"command":"echo begun; exec sleep 1000.5"}`), useTool("allow it", "bash", `{"command":"echo allowed"}`), answering)
	e.play("cancel", `
at once cancelled 
before the first token cancelled 
in the stream cancelled I begin
in a tool cancelled 
in a question cancelled 
left No approvals are pending.
in a question without an answer cancelled 
answered elsewhere end_turn It was denied.
while queued cancelled 
deleted cancelled I begin
after all end_turn Hello from Zino.
`)
	if left := zinotest.Processes("sleep 1000.5"); len(left) > 0 {
		t.Errorf("processes were left behind: %v", left)
	}
	e.validate("v1")
	e.stop()
}

// TestACPUpdates sends usage, a plan, the title and notices, and offers what the policy can store.
func TestACPUpdates(t *testing.T) {
	e := prepareACP(t, fakellm.Turn{Match: "count", Text: "One.", Usage: &fakellm.Usage{In: 1000, Out: 10}, Times: 2},
		useTool("make a plan", "todo", `{"items":[{"text":"look","status":"done"},{"text":"write","status":"active"},{"text":"test","status":"open"}]}`),
		fakellm.Turn{Match: "try twice", Status: 503, Text: `{"error":{"message":"busy"}}`},
		useTool("run once", "bash", `{"command":"once"}`), useTool("run session", "bash", `{"command":"session"}`), useTool("run always", "bash", `{"command":"always"}`), answering)
	var policy strings.Builder
	for _, width := range []string{"once", "session"} {
		policy.WriteString("[[rule]]\naction = \"ask\"\ncommand = [\"" + width + "\"]\ngrantable = \"" + width + "\"\n")
	}
	writeTree(t, filepath.Join(e.dir, "home", ".config", "zino"), map[string]string{"policy.toml": policy.String() + "[[rule]]\naction = \"ask\"\ncommand = [\"always\"]\n"})
	e.start()
	e.play("updates", `
usage end_turn One. [{"used":1010,"size":200000,"cost":{"amount":0.00315,"currency":"USD"},"sessionUpdate":"usage_update"}]
again end_turn One. [{"used":1010,"size":200000,"cost":{"amount":0.0063,"currency":"USD"},"sessionUpdate":"usage_update"}]
plan end_turn Done. [{"entries":[{"content":"look","priority":"medium","status":"completed"},{"content":"write","priority":"medium","status":"in_progress"},{"content":"test","priority":"medium","status":"pending"}],"sessionUpdate":"plan"}]
title [{"title":"Another name","sessionUpdate":"session_info_update"}] Another name
notices ["info HTTP 503: busy"]
grants ["once deny","once session deny","once session always deny"]
options ["model","sandbox","mode"]
-32602 mode "nonsense" is not one of [plan ask auto yolo]
`)
	e.validate("v1")
	e.stop()
}

// TestACPInput has a person answer the requests of an MCP server for input in the editor.
func TestACPInput(t *testing.T) {
	call := func(match, tool string) fakellm.Turn {
		return useTool(match, "mcp__foreign__"+tool, "{}")
	}
	e := prepareACP(t, call("register me", "register"), call("sign me in", "sign_in"), answering)
	e.foreignServer()
	e.start()
	e.run("mcp", "test", "foreign")
	e.play("input", `
accepted end_turn Done. {"text":"registration: cancel","input_wanted":["Who ]0;evil are you?"]}
wrong end_turn Done. {"text":"registration: cancel","input_wanted":["Who ]0;evil are you?"]}
declined end_turn Done. {"text":"registration: cancel","input_wanted":["Who ]0;evil are you?"]}
cancelled end_turn Done. {"text":"registration: cancel","input_wanted":["Who ]0;evil are you?"]}
page end_turn Done. {"text":"sign in: cancel","input_wanted":["Sign in to go on."]}
turn cancelled end_turn Done.
`)
	e.play("input", `
form The MCP server foreign asks for input:
    Who^[]0;evil^G are you?
What you type goes to this server, not to the model.
 dinner meal name talks 
accepted end_turn Done. {"text":"registration: accept"}
form The MCP server foreign asks for input:
    Who^[]0;evil^G are you?
What you type goes to this server, not to the model.
 dinner meal name talks 
wrong end_turn Done. {"text":"registration: cancel"}
form The MCP server foreign asks for input:
    Who^[]0;evil^G are you?
What you type goes to this server, not to the model.
 dinner meal name talks 
declined end_turn Done. {"text":"registration: decline"}
form The MCP server foreign asks for input:
    Who^[]0;evil^G are you?
What you type goes to this server, not to the model.
 dinner meal name talks 
cancelled end_turn Done. {"text":"registration: cancel"}
url The MCP server foreign asks you to visit a page:
    Sign in to go on.
    https://login.example.com/start?state=4711
It is on login.example.com. Zino does not open it.
  https://login.example.com/start?state=4711
page end_turn Done. {"text":"sign in: cancel"}
turn cancelled cancelled 
`, `CAPABILITIES={"elicitation":{"form":{},"url":{}}}`)
	e.validate("v1")
	e.stop()
}

// TestACPWithoutModel says how to connect a model, and offers a login that the client can run.
func TestACPWithoutModel(t *testing.T) {
	const refused = `
new -32000 No model is connected. Connect one, then start the agent again:
zino auth login openrouter
or: zino auth set PROVIDER, which stores a key
or: [api] base_url in the configuration, for a model server of your own
-32602 log in on a terminal: zino auth login openrouter
`
	e := prepareACP(t)
	e.env = slices.DeleteFunc(e.env, func(v string) bool { return strings.HasPrefix(v, "ANTHROPIC_") })
	e.play("model", `methods ["openrouter terminal auth login openrouter"]`+refused, `CAPABILITIES={"auth":{"terminal":true}}`)
	e.play("model", "methods []"+refused)
}

// TestACPOlderDaemon offers no mode where the daemon has no approvals.
func TestACPOlderDaemon(t *testing.T) {
	d := fakedaemon.New(t)
	d.Remove("approve")
	e := prepareACP(t)
	e.play("older", `
options ["model","sandbox"]
-32602 unknown option "mode"
`, "SOCKET="+d.Socket)
}

// TestACPLines checks what is answered to lines that no SDK writes.
func TestACPLines(t *testing.T) {
	e := newACP(t, answering)
	e.run("sessions", "list") // it starts zino-mem
	mem := 0
	for pid, line := range zinotest.CommandLines() {
		if strings.HasPrefix(line, filepath.Join(bin, "zino-mem")) && strings.Contains(line, e.dir) {
			mem = pid
		}
	}
	if mem == 0 {
		t.Fatal("zino-mem does not run")
	}
	e.play("lines", `
16 MiB -32601 unknown method "no/such"
more -32600 the line has more than 16 MiB
["{"] -32700 the line is not JSON
["[]"] -32600 the line is not a JSON-RPC 2.0 message
["{\"jsonrpc\":\"2.0\",\"id\":1}"] -32600 the line is not a JSON-RPC 2.0 message
["{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"x\"}"] -32600 the line is not a JSON-RPC 2.0 message
["{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"x\"}"] -32600 the line is not a JSON-RPC 2.0 message
["\u0000"] -32700 the line is not JSON
["\"text\""] -32600 the line is not a JSON-RPC 2.0 message
initialize ok agentCapabilities agentInfo authMethods protocolVersion
capabilities ok agentCapabilities agentInfo authMethods protocolVersion
new ok configOptions sessionId
servers ok configOptions sessionId
list ok sessions
prompt ok stopReason
option ok configOptions
null option ok configOptions
load ok configOptions
resume ok configOptions
null id -32002 no such session: ""
null params ok sessions
audio -32602 prompt[0]: content of the type "audio" is not accepted
cancelled load -32800 the request was cancelled
cancelled prompt ok stopReason
close ok 
closed -32002 no such session: "ID"
delete ok 
deleted -32002 no such session: "ID"
`, "MEM="+strconv.Itoa(mem))
	e.stop()
}

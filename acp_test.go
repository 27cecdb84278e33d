package zino_test

import (
	"bytes"
	"encoding/json"
	"image"
	"image/png"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"zino/pkg/fakellm"
	"zino/pkg/schema"
	"zino/pkg/zinotest"
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
	up := program(e.env, "zino", "up")
	up.Dir = dir
	e.up = zinotest.Start(t, up)
	e.up.WaitFor("Ctrl-C stops")
	return e
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

// TestACPClientKilled kills the client, and the agent with its standard input, in a turn:
// the turn goes on, and no process of theirs is left.
func TestACPClientKilled(t *testing.T) {
	e := newACP(t)
	p := e.client("acpclient.mjs", []string{"LEAVE=1"})
	p.WaitFor("leaving")
	p.Signal(syscall.SIGKILL)
	zinotest.Eventually(t, "the end of zino acp", func() bool {
		return len(zinotest.Processes(filepath.Join(bin, "zino")+"\x00acp")) == 0 && len(zinotest.Processes("zino acp")) == 0
	})
	ps := zinotest.Start(t, program(e.env, "zino", "ps"))
	zinotest.Equal(t, "status of zino ps", ps.Exit(), 0)
	zinotest.Contains(t, "zino ps", ps.Out.String(), "running", "inference")
	e.stop()
}

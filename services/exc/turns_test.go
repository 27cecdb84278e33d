package exc

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"zino/pkg/config"
	"zino/pkg/rpc"
	"zino/pkg/zinotest"
	"zino/proto"
)

// keyed makes a request one of a turn.
func keyed(req proto.Call, id string) proto.Call {
	req.SessionID, req.Turn, req.Key = "S", "t-1", "S/t-1/1/"+id
	return req
}

// recovering makes a request with a key one for the result of the call, which the model
// has asked for now.
func recovering(req proto.Call) proto.Call {
	req.Recover, req.Since = true, time.Now().UTC().Format(time.RFC3339Nano)
	return req
}

// oneLine is a short form of a result.
func oneLine(r proto.CallResult, err error) string {
	if err != nil {
		e, _ := errors.AsType[*proto.Error](err)
		if e == nil {
			return err.Error()
		}
		return fmt.Sprintf("error %s: %s", e.Code, e.Message)
	}
	text := string(r.Result)
	if text == proto.InterruptedResult {
		text = "interrupted"
	}
	if r.Recovered {
		text = "recovered: " + text
	}
	return text
}

// do makes a call over the socket.
func do(t testing.TB, c *rpc.Client, req proto.Call) string {
	t.Helper()
	return oneLine(rpc.Call(context.Background(), c, proto.ExcCall, req))
}

func TestKeys(t *testing.T) {
	s := newService(t, nil, nil)
	c := s.dial(t)
	bash := call("bash", s.dir, in{"command": "true"})
	for key, want := range map[string]string{
		"s/t/1/c":     `{"ok":true`,
		"s/t/1/c/d":   "error invalid: invalid key",
		"s/t/1":       "error invalid: invalid key",
		"s//1/c":      "error invalid: invalid key",
		"/t/1/c":      "error invalid: invalid key",
		"s/t/1/":      "error invalid: invalid key",
		"other/t/1/c": "error invalid: the key",
		"s/other/1/c": "error invalid: the key",
	} {
		req := bash
		req.SessionID, req.Turn, req.Key = "s", "t", key
		if got := do(t, c, req); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s, want %s", key, got, want)
		}
	}
	req := bash
	req.Recover = true
	zinotest.Contains(t, "recover without a key", do(t, c, req), "error invalid: recover needs")
	req = keyed(bash, "c")
	req.Since = "yesterday"
	zinotest.Contains(t, "a bad since", do(t, c, req), "error invalid: invalid since")
}

// A call with a key is carried out once; the same key with other input is an error,
// however the input is written.
func TestOnce(t *testing.T) {
	s := newService(t, nil, nil)
	c := s.dial(t)
	req := keyed(call("bash", s.dir, nil), "c")
	req.Input = proto.Raw("{\"command\":\"echo \u2028 >>count; wc -l <count\"}")
	const want = `{"ok":true,"data":{"stdout":"1\n","stderr":"","exit_code":0,"timed_out":false}}`
	zinotest.Equal(t, "the first", do(t, c, req), want)
	zinotest.Equal(t, "a repeat", do(t, c, req), "recovered: "+want)
	req.Input = proto.Raw(`{ "command" : "echo \u2028 >>count; wc -l <count" } `)
	zinotest.Equal(t, "as the log has it", do(t, c, req), "recovered: "+want)
	zinotest.Equal(t, "recovered", do(t, c, recovering(req)), "recovered: "+want)
	for name, other := range map[string]func(*proto.Call){
		"input": func(r *proto.Call) { r.Input = proto.Raw(`{"command":"true"}`) },
		"tool":  func(r *proto.Call) { r.Tool = "write" },
		"root":  func(r *proto.Call) { r.Root = "/" },
	} {
		changed := req
		other(&changed)
		zinotest.Equal(t, "other "+name, do(t, c, changed), `error invalid: the key "S/t-1/1/c" belongs to a call with other input`)
	}
	run := proto.Execute{Executor: "bash", Code: "echo x >>ran; wc -l <ran", Root: s.dir, Key: "S/t-1/1/x"}
	for _, recovered := range []bool{false, true} {
		got, err := rpc.Call(t.Context(), c, proto.ExcExecute, run)
		if err != nil || got.Stdout != "1\n" || got.Recovered != recovered || got.Confinement == nil {
			t.Errorf("execute: %+v, %v", got, err)
		}
	}
	text, err := json.Marshal(run)
	zinotest.Must(t, err)
	_, err = rpc.Call(t.Context(), c, proto.ExcCall, proto.Call{Tool: "execute_bash", Input: text, Key: run.Key})
	zinotest.Error(t, err, proto.ErrInvalid)
}

// Calls that change nothing are carried out again, and one that failed before it
// started is not recorded.
func TestNothingToRecord(t *testing.T) {
	s := newService(t, nil, nil)
	c := s.dial(t)
	read := recovering(keyed(call("read", s.dir, in{"path": "a"}), "r"))
	zinotest.Contains(t, "before", do(t, c, read), "ENOENT")
	edit := keyed(call("edit", s.dir, in{"path": "a", "old": "one", "new": "two"}), "e")
	zinotest.Contains(t, "no file", do(t, c, edit), "path_error")
	zinotest.Write(t, s.dir+"/a", "one")
	zinotest.Contains(t, "after", do(t, c, read), `"content":"one"`)
	zinotest.Contains(t, "recover", do(t, c, recovering(edit)), "error not_found: no call with this key")
	zinotest.Contains(t, "again", do(t, c, edit), `"replacements":1`)
}

// calling makes a call over the socket in the background. hangUp breaks the
// connection.
func calling(t *testing.T, c *rpc.Client, req proto.Call) (answer chan string, hangUp func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	answer = make(chan string, 1)
	go func() { answer <- oneLine(rpc.Call(ctx, c, proto.ExcCall, req)) }()
	return answer, cancel
}

// slow is a command that makes $UP and then waits for $UP.go.
const slow = `touch "$UP"; while [ ! -e "$UP.go" ]; do sleep 0.01; done; echo x >>"$UP.count"; wc -l <"$UP.count"`

// A call with a key survives its caller, and requests with the key attach to it.
func TestAttach(t *testing.T) {
	up := upFile(t)
	s := newService(t, nil, nil)
	c := s.dial(t)
	req := keyed(call("bash", s.dir, in{"command": slow}), "c")
	first, hangUp := calling(t, c, req)
	zinotest.Eventually(t, "the command is up", func() bool { return exists(up) })
	other := req
	other.Input = proto.Raw(`{"command":"true"}`)
	zinotest.Contains(t, "other input", do(t, c, other), "error invalid")
	second, _ := calling(t, c, req)
	third, _ := calling(t, c, recovering(req))
	zinotest.Eventually(t, "both attach", func() bool { return s.turns.callersOf(req.Key) == 3 })
	hangUp()
	zinotest.Contains(t, "the first", zinotest.Receive(t, "its error", first), "canceled")
	zinotest.Eventually(t, "it has left", func() bool { return s.turns.callersOf(req.Key) == 2 })
	zinotest.Write(t, up+".go", "")
	const want = `{"ok":true,"data":{"stdout":"1\n","stderr":"","exit_code":0,"timed_out":false}}`
	zinotest.Equal(t, "the second", zinotest.Receive(t, "a result", second), want)
	zinotest.Equal(t, "the third", zinotest.Receive(t, "a result", third), want)
	zinotest.Equal(t, "later", do(t, c, recovering(req)), "recovered: "+want)
}

func (t *turns) callersOf(key string) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	if c := t.keys[key]; c != nil {
		return c.callers
	}
	return 0
}

// Without a caller a call with a key goes on for the configured time. Others end with
// their caller.
func TestOrphan(t *testing.T) {
	for timeout, want := range map[config.Duration]string{
		"1h":   `recovered: {"ok":true,"data":{"stdout":"1\n","stderr":"","exit_code":0,"timed_out":false}}`,
		"50ms": `recovered: {"ok":true,"data":{"stdout":"","stderr":"","exit_code":-15,"timed_out":false,"interrupted":true}}`,
	} {
		t.Run(string(timeout), func(t *testing.T) {
			up, marked := upFile(t), mark(t)
			s := newService(t, func(cfg *config.Exc) { cfg.OrphanTimeout = timeout }, nil)
			c := s.dial(t)
			req := keyed(call("bash", s.dir, in{"command": slow}), "c")
			answer, hangUp := calling(t, c, req)
			zinotest.Eventually(t, "the command is up", func() bool { return exists(up) })
			hangUp()
			zinotest.Contains(t, "the caller", zinotest.Receive(t, "its error", answer), "canceled")
			zinotest.Eventually(t, "it has left", func() bool { return s.turns.callersOf(req.Key) == 0 })
			if timeout == "1h" {
				zinotest.Write(t, up+".go", "")
			}
			zinotest.Eventually(t, "the call has ended", func() bool { return !s.turns.busy() })
			zinotest.Equal(t, "the result", do(t, c, recovering(req)), want)
			zinotest.Equal(t, "processes", len(marked()), 0)
		})
	}
}

func TestStopTurn(t *testing.T) {
	up, marked := upFile(t), mark(t)
	s := newService(t, nil, nil)
	c := s.dial(t)
	req := keyed(call("bash", s.dir, in{"command": "echo so far; " + daemons["deaf"] + slow}), "c")
	orphan, hangUp := calling(t, c, req)
	zinotest.Eventually(t, "the command is up", func() bool { return exists(up) })
	hangUp()
	zinotest.Receive(t, "the orphan's caller", orphan)
	attached := call("bash", s.dir, in{"command": "touch \"$UP.2\"; sleep 1000"})
	attached.SessionID, attached.Turn = "S", "t-1" // without a key
	second, _ := calling(t, c, attached)
	elsewhere := keyed(call("bash", s.dir, in{"command": `touch "$UP.3"; while [ ! -e "$UP.go" ]; do sleep 0.01; done; echo on`}), "c")
	elsewhere.Turn, elsewhere.Key = "t-2", "S/t-2/1/c"
	third, _ := calling(t, c, elsewhere)
	zinotest.Eventually(t, "the others are up", func() bool { return exists(up+".2") && exists(up+".3") })

	_, err := rpc.Call(t.Context(), c, proto.ExcStopTurn, proto.StopTurn{SessionID: "S", Turn: "t-1"})
	zinotest.Must(t, err)
	for _, line := range marked() {
		if !strings.Contains(line, "UP.3") && !strings.Contains(line, "sleep 0.01") {
			t.Errorf("left: %s", line)
		}
	}
	zinotest.Contains(t, "without a key", zinotest.Receive(t, "its result", second), `"exit_code":-15`, `"interrupted":true`)
	zinotest.Contains(t, "with a key", do(t, c, recovering(req)), `recovered: {"ok":true,"data":{"stdout":"so far\n"`, `"interrupted":true`)
	late := keyed(call("write", s.dir, in{"path": "late", "content": ""}), "d")
	zinotest.Equal(t, "a later call", do(t, c, late), "error denied: turn t-1 was stopped")
	zinotest.Equal(t, "its file exists", exists(s.dir+"/late"), false)
	zinotest.Write(t, up+".go", "")
	zinotest.Contains(t, "another turn", zinotest.Receive(t, "its result", third), `"stdout":"on\n"`)
}

// A call without a caller keeps an idle exc from exiting. Its job outlives exc, and the
// next one stops it with its turn.
func TestOrphanOutlivesService(t *testing.T) {
	up, marked := upFile(t), mark(t)
	s := newService(t, nil, nil)
	req := keyed(call("bash", s.dir, in{"command": slow}), "c")
	answer, hangUp := calling(t, s.dial(t), req)
	zinotest.Eventually(t, "the command is up", func() bool { return exists(up) })
	hangUp()
	zinotest.Receive(t, "the caller's error", answer)
	zinotest.Equal(t, "busy", s.turns.busy(), true)
	next := s.restart(t)
	zinotest.Equal(t, "busy", s.turns.busy(), false)
	c := next.dial(t)
	_, err := rpc.Call(t.Context(), c, proto.ExcStopTurn, proto.StopTurn{SessionID: "S", Turn: "t-1"})
	zinotest.Must(t, err)
	s.mustLeaveNothing(t, marked)
	want := `recovered: {"ok":true,"data":{"stdout":"","stderr":"","exit_code":-15,"timed_out":false,"interrupted":true}}`
	zinotest.Equal(t, "its result", do(t, c, recovering(req)), want)
}

// Output is shown to every caller that wants it.
func TestAttachedOutput(t *testing.T) {
	up := upFile(t)
	s := newService(t, nil, nil)
	c := s.dial(t)
	req := keyed(call("bash", s.dir, in{"command": slow}), "c")
	req.Events = true
	texts := make(chan string, 2)
	for i := range 2 {
		go func() {
			var text strings.Builder
			_, err := rpc.CallEvents(t.Context(), c, proto.ExcCall, req, func(_ string, payload []byte) error {
				var o proto.ToolOutput
				err := json.Unmarshal(payload, &o)
				text.WriteString(o.Text)
				return err
			})
			texts <- fmt.Sprint(text.String(), cmp.Or(err))
		}()
		zinotest.Eventually(t, "it is attached", func() bool { return s.turns.callersOf(req.Key) == i+1 })
	}
	zinotest.Eventually(t, "the command is up", func() bool { return exists(up) })
	zinotest.Write(t, up+".go", "")
	for range 2 {
		zinotest.Equal(t, "output", zinotest.Receive(t, "the output", texts), "1\n<nil>")
	}
}

// crash is a call of a table of crashes.
type crash struct {
	name string
	req  proto.Call
	file string // that it changes
	old  string // its content before; empty: it did not exist
	new  string // and after
	data string // of its result
}

func crashes(dir string) []crash {
	path := func(name string) string { return `"path":"` + filepath.Join(dir, name) + `"` }
	return []crash{
		{"bash", call("bash", dir, in{"command": "echo x >>count; echo ran"}), "count", "", "x\n", `"stdout":"ran\n"`},
		{"create", call("write", dir, in{"path": "new", "content": "text"}), "new", "", "text", path("new") + `,"bytes":4,"created":true`},
		{"replace", call("write", dir, in{"path": "old", "content": "text"}), "old", "before", "text", path("old") + `,"bytes":4,"created":false`},
		{"edit", call("edit", dir, in{"path": "edited", "old": "one", "new": "one one", "expected_replacements": 2}), "edited", "one two one\n", "one one two one one\n", path("edited") + `,"replacements":2`},
	}
}

// TestCrash kills the service between every two steps of a call, and asks the next one
// for the result. Each call is carried out once, or is interrupted.
func TestCrash(t *testing.T) {
	for _, level := range []proto.Level{proto.LevelOff, proto.LevelWorkspaceWrite} {
		for _, step := range []string{"decided", "begun", "changed", "done", "recorded"} {
			t.Run(fmt.Sprintf("%s %s", level, step), func(t *testing.T) { crashAt(t, level, step) })
		}
	}
}

func crashAt(t *testing.T, level proto.Level, step string) {
	home, root := zinotest.Dir(t), zinotest.Dir(t)
	root, err := filepath.EvalSymlinks(root)
	zinotest.Must(t, err)
	writeTools(t, home, tools)
	for _, test := range crashes(root) {
		if test.old != "" {
			zinotest.Write(t, filepath.Join(root, test.file), test.old)
		}
		test.req.Sandbox = level
		req := keyed(test.req, test.name)
		p := startPeerIn(t, home, killEnv+"="+step)
		if _, err := rpc.Call(t.Context(), p.client, proto.ExcCall, req); err == nil {
			t.Fatalf("%s: an answer from a dead service", test.name)
		}
		p.Exit()
		p = startPeerIn(t, home)
		got := do(t, p.client, recovering(req))
		if strings.Contains(got, `"code":"sandbox"`) {
			t.Logf("%s: %s", level, got) // not on this host: refused before it began
		}
		content := test.new
		switch {
		case step == "decided":
			zinotest.Equal(t, test.name, got, "error not_found: no call with this key")
			content = test.old
		case step == "recorded":
			zinotest.Contains(t, test.name, got, `recovered: {"ok":true,"data":{`+test.data)
		case test.name == "bash" && step == "begun":
			zinotest.Equal(t, test.name, got, "recovered: interrupted")
			content = ""
		case step == "begun":
			zinotest.Contains(t, test.name, got, `{"ok":true,"data":{`+test.data)
			zinotest.Equal(t, test.name+" is carried out now", strings.HasPrefix(got, "recovered"), false)
		default:
			zinotest.Contains(t, test.name, got, `recovered: {"ok":true,"data":{`+test.data)
		}
		is, err := os.ReadFile(filepath.Join(root, test.file))
		if content != "" {
			zinotest.Must(t, err)
		}
		zinotest.Equal(t, test.name+": the file", string(is), content)
		if step != "decided" {
			zinotest.Write(t, filepath.Join(root, test.file), "the user's") // what was decided stays
			zinotest.Equal(t, test.name+" again", strings.TrimPrefix(do(t, p.client, recovering(req)), "recovered: "), strings.TrimPrefix(got, "recovered: "))
		}
		p.Kill()
	}
}

// TestCrashUndo kills the service after a change, before and after it has recorded that
// for undo: the recovered result has its diff, and undo takes the change back.
func TestCrashUndo(t *testing.T) {
	for _, step := range []string{"changed", "done"} {
		t.Run(step, func(t *testing.T) {
			home := zinotest.Dir(t)
			root, err := filepath.EvalSymlinks(zinotest.Dir(t))
			zinotest.Must(t, err)
			writeTools(t, home, tools)
			zinotest.WriteFiles(t, root, map[string]string{"old": "before\n", "replaced": "one\n", "ran": "a\n"})
			diffs := map[string]string{
				"n": "--- /dev/null\n+++ new\n@@ -0,0 +1 @@\n+text\n", "r": "--- replaced\n+++ replaced\n@@ -1 +1 @@\n-one\n+two\n",
				"o": "--- old\n+++ old\n@@ -1 +1 @@\n-before\n+after\n", "b": "",
			}
			reqs := []proto.Call{
				keyed(call("write", root, in{"path": "new", "content": "text\n"}), "n"), keyed(call("write", root, in{"path": "replaced", "content": "two\n"}), "r"),
				keyed(call("edit", root, in{"path": "old", "old": "before", "new": "after"}), "o"), keyed(call("bash", root, in{"command": "echo b >>ran"}), "b"),
			}
			for _, req := range reqs {
				p := startPeerIn(t, home, killEnv+"="+step)
				if _, err := rpc.Call(t.Context(), p.client, proto.ExcCall, req); err == nil {
					t.Fatal("an answer from a dead service")
				}
				p.Exit()
			}
			p := startPeerIn(t, home)
			for _, req := range reqs {
				got, err := rpc.Call(t.Context(), p.client, proto.ExcCall, recovering(req))
				zinotest.Contains(t, req.Key, oneLine(got, err), `recovered: {"ok":true`)
				zinotest.Equal(t, "the diff of "+req.Key, got.Diff, diffs[strings.TrimPrefix(req.Key, "S/t-1/1/")])
				zinotest.Equal(t, "why", got.Undo, "")
			}
			undone, err := rpc.Call(t.Context(), p.client, proto.ExcUndo, proto.Undo{SessionID: "S", Turn: "t-1"})
			if err != nil || len(undone.Refused) > 0 {
				t.Errorf("%+v, %v", undone, err)
			}
			zinotest.Equal(t, "files", zinotest.Names(t, root), "old ran replaced")
			zinotest.Equal(t, "contents", zinotest.Read(t, root+"/old")+zinotest.Read(t, root+"/ran")+zinotest.Read(t, root+"/replaced"), "before\na\none\n")
		})
	}
}

// After a crash a change of a file is interrupted if another program has changed the
// file, and code always.
func TestCrashUndecided(t *testing.T) {
	home, root := zinotest.Dir(t), zinotest.Dir(t)
	writeTools(t, home, tools)
	write := keyed(call("write", root, in{"path": "a", "content": "new"}), "w")
	code := proto.Execute{Executor: "bash", Code: "echo x >>ran", Root: root, Key: "S/t-1/1/x"}
	p := startPeerIn(t, home, killEnv+"=done")
	if _, err := rpc.Call(t.Context(), p.client, proto.ExcCall, write); err == nil {
		t.Fatal("an answer from a dead service")
	}
	p.Exit()
	zinotest.Write(t, root+"/a", "the user's")
	p = startPeerIn(t, home, killEnv+"=done")
	if _, err := rpc.Call(t.Context(), p.client, proto.ExcExecute, code); err == nil {
		t.Fatal("an answer from a dead service")
	}
	p.Exit()
	p = startPeerIn(t, home)
	zinotest.Equal(t, "write", do(t, p.client, recovering(write)), "recovered: interrupted")
	zinotest.Equal(t, "the file", zinotest.Read(t, root+"/a"), "the user's")
	code.Recover = true
	r, err := rpc.Call(t.Context(), p.client, proto.ExcExecute, code)
	if want := (proto.Result{ExitCode: -1, Stderr: proto.InterruptedCall, Interrupted: true, Recovered: true}); err != nil || r != want {
		t.Errorf("execute: %+v, %v", r, err)
	}
	zinotest.Equal(t, "code ran", zinotest.Read(t, root+"/ran"), "x\n")
}

// SIGKILL during bash: the command goes on, and the next exc has its result.
func TestCrashDuringCommand(t *testing.T) {
	up := upFile(t)
	p := startPeer(t)
	req := keyed(call("bash", p.dir, in{"command": slow}), "c")
	answer, _ := calling(t, p.client, req)
	p.Eventually("the command is up", func() bool { return exists(up) })
	p.Kill()
	zinotest.Receive(t, "the caller's error", answer)
	next := startPeerIn(t, p.dir)
	recovered, _ := calling(t, next.client, recovering(req))
	zinotest.Write(t, up+".go", "")
	const want = `recovered: {"ok":true,"data":{"stdout":"1\n","stderr":"","exit_code":0,"timed_out":false}}`
	zinotest.Equal(t, "the result", zinotest.Receive(t, "the result", recovered), want)
	next.Kill()
	zinotest.Eventually(t, "no process is left", func() bool { return len(p.marked()) == 0 })
}

// What the journal does not know counts as interrupted, and calls that change nothing
// are carried out again.
func TestRecoverUnknown(t *testing.T) {
	bash := recovering(keyed(call("bash", "/", in{"command": "echo x"}), "c"))
	zeroSince := bash
	zeroSince.Since = ""
	early := bash
	early.Since = "2026-01-01T00:00:00Z"
	for name, test := range map[string]struct {
		req   proto.Call
		write string // to the journal's file of today
		want  string
	}{
		"complete":      {bash, "", "error not_found: no call with this key"},
		"no since":      {zeroSince, "", "recovered: interrupted"},
		"starts later":  {early, "", "recovered: interrupted"},
		"damaged line":  {bash, "{\"key\":\"S/t-1/1/other\",\"beg\n", "recovered: interrupted"},
		"torn line":     {bash, `{"key":"S/t-1/1/other","beg`, "error not_found: no call with this key"},
		"empty journal": {bash, "gone", "recovered: interrupted"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newService(t, nil, nil)
			file := filepath.Join(s.dir, "data/exc/calls", time.Now().UTC().Format("2006-01-02")+".jsonl")
			if test.write == "gone" {
				zinotest.Must(t, os.Remove(file))
			} else {
				zinotest.Append(t, file, test.write)
			}
			c := s.dial(t)
			if test.req.Since == bash.Since {
				test.req = recovering(bash) // later than the start of the journal
			}
			zinotest.Equal(t, "bash", do(t, c, test.req), test.want)
			read := test.req
			read.Tool, read.Input = "read", proto.Raw(`{"path":"`+s.dir+`/tools/bash.json"}`)
			zinotest.Contains(t, "read", do(t, c, read), `{"ok":true`)
			test.req.Recover = false
			zinotest.Contains(t, "without recover", do(t, c, test.req), `"stdout":"x\n"`)
		})
	}
}

// TestFullDisk: a call that cannot be recorded is not started, and the model reads why.
func TestFullDisk(t *testing.T) {
	if zinotest.Alone(t) {
		return
	}
	s := newService(t, nil, nil)
	root := zinotest.Dir(t)
	lift := zinotest.LimitFileSize(t, 40) // the first line has more
	for _, req := range []proto.Call{
		call("bash", root, in{"command": "touch ran"}), call("write", root, in{"path": "w", "content": ""}),
	} {
		got, err := s.call(t.Context(), keyed(req, "c"), nil)
		zinotest.Must(t, err)
		zinotest.Contains(t, req.Tool, string(got.Result), `{"ok":false,"error":{"code":"not_recorded","message":"The call was not started, because it cannot be recorded: `, "file too large")
	}
	r, err := s.execute(t.Context(), proto.Execute{Executor: "bash", Code: "touch " + root + "/ran", Key: "S/t-1/1/x"})
	zinotest.Must(t, err)
	zinotest.Contains(t, "execute", r.Stderr, "The call was not started")
	zinotest.Equal(t, "files", zinotest.Names(t, root), "")
	lift()
	got, err := s.call(t.Context(), keyed(call("bash", root, in{"command": "touch ran"}), "c"), nil)
	zinotest.Must(t, err)
	zinotest.Contains(t, "later", string(got.Result), `{"ok":true`)
}

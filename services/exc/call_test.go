package exc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"zino/pkg/config"
	"zino/pkg/rpc"
	"zino/pkg/zinotest"
	"zino/pkg/zinotest/rpctest"
	"zino/proto"
	"zino/services/exc/files"
)

// dial serves the service on a socket and returns a client of it.
func (s *service) dial(t testing.TB) *rpc.Client {
	t.Helper()
	server := rpc.NewServer("exc", s.Service.log)
	s.Register(server)
	socket, _ := rpctest.Serve(t, server, "")
	return rpctest.Client(t, "exc", socket)
}

// result is a parsed envelope.
type result struct {
	OK   bool `json:"ok"`
	Data struct {
		Path         string `json:"path"`
		Content      string `json:"content"`
		Truncated    bool   `json:"truncated"`
		Bytes        int64  `json:"bytes"`
		Notice       string `json:"notice"`
		Created      bool   `json:"created"`
		Replacements int    `json:"replacements"`
		Stdout       string `json:"stdout"`
		Stderr       string `json:"stderr"`
		ExitCode     int    `json:"exit_code"`
		TimedOut     bool   `json:"timed_out"`
	} `json:"data"`
	Error struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
	diff   string
	events []proto.ToolOutput
}

// ask makes a call over the socket.
func ask(t testing.TB, c *rpc.Client, req proto.Call) (r result) {
	t.Helper()
	var events []proto.ToolOutput
	got, err := rpc.CallEvents(context.Background(), c, proto.ExcCall, req, func(typ string, payload []byte) error {
		var o proto.ToolOutput
		if typ != proto.TypeToolOutput {
			t.Errorf("a packet of type %s", typ)
		}
		err := json.Unmarshal(payload, &o)
		events = append(events, o)
		return err
	})
	if err == nil {
		err = json.Unmarshal(got.Result, &r)
	}
	if err != nil {
		t.Error(err)
	}
	r.diff, r.events = got.Diff, events
	return r
}

// call is a call with input from a map.
func call(tool, root string, input map[string]any) proto.Call {
	text, err := json.Marshal(input)
	if err != nil {
		panic(err)
	}
	return proto.Call{Tool: tool, Root: root, Input: text}
}

type in = map[string]any

// A sequence of calls over a socket: each envelope to the byte.
func TestCall(t *testing.T) {
	s := newService(t, nil, nil)
	c := s.dial(t)
	dir, err := filepath.EvalSymlinks(zinotest.Dir(t))
	zinotest.Must(t, err)
	path := filepath.Join(dir, "src/a.txt")
	tests := []struct {
		tool, input, result, diff string
	}{
		{
			"write", `{"path":"src/a.txt","content":"one\n<two>\n"}`,
			`{"ok":true,"data":{"path":"` + path + `","bytes":10,"created":true}}`,
			"--- /dev/null\n+++ src/a.txt\n@@ -0,0 +1,2 @@\n+one\n+<two>\n",
		},
		{
			"read", `{"path":"src/a.txt"}`,
			`{"ok":true,"data":{"path":"` + path + `","content":"one\n<two>\n","truncated":false,"bytes":10}}`, "",
		},
		{
			"edit", `{"path":"` + path + `","old":"one","new":"1"}`,
			`{"ok":true,"data":{"path":"` + path + `","replacements":1}}`,
			"--- src/a.txt\n+++ src/a.txt\n@@ -1,2 +1,2 @@\n-one\n+1\n <two>\n",
		},
		{
			"bash", `{"command":"cat src/a.txt; echo no >&2; exit 3"}`,
			`{"ok":true,"data":{"stdout":"1\n<two>\n","stderr":"no\n","exit_code":3,"timed_out":false}}`, "",
		},
		{
			"write", `{"path":"src/a.txt","content":""}`,
			`{"ok":true,"data":{"path":"` + path + `","bytes":0,"created":false}}`,
			"--- src/a.txt\n+++ src/a.txt\n@@ -1,2 +0,0 @@\n-1\n-<two>\n",
		},
		{"read", `{"path":"gone"}`, `{"ok":false,"error":{"code":"ENOENT","message":"File not found: ` + dir + `/gone"}}`, ""},
	}
	for _, tt := range tests {
		got, err := rpc.Call(t.Context(), c, proto.ExcCall, proto.Call{Tool: tt.tool, Input: proto.Raw(tt.input), Root: dir})
		if err != nil || string(got.Result) != tt.result || got.Diff != tt.diff {
			t.Errorf("%s %s:\n%s\n%s%v", tt.tool, tt.input, got.Result, got.Diff, err)
		}
	}
}

// Every error code, over the socket. The code timeout: see TestAwait.
func TestCallCodes(t *testing.T) {
	s := newService(t, nil, nil)
	c := s.dial(t)
	dir := zinotest.Dir(t)
	zinotest.WriteFiles(t, dir, map[string]string{"file": "one two two\n", "binary": "\x7fELF\x00\xff"})
	tests := []struct {
		code string
		req  proto.Call
		says string
	}{
		{"unknown_tool", call("rm", dir, in{}), `Unknown tool "rm": there are read, write, edit and bash.`},
		{"unknown_tool", proto.Call{}, `Unknown tool ""`},
		{"invalid_input", proto.Call{Tool: "bash", Root: dir}, "The arguments are not a JSON object."},
		{"invalid_input", proto.Call{Tool: "read", Root: dir, Input: proto.Raw(`["file"]`)}, "expected a JSON object"},
		{"invalid_input", call("bash", dir, in{"cmd": "ls"}), `missing field "command"`},
		{"invalid_input", call("bash", dir, in{"command": []string{"ls"}}), "expected a string, found a list"},
		{"invalid_input", call("bash", dir, in{"command": "a\x00b"}), "NUL"},
		{"invalid_input", call("bash", dir, in{"_malformed": "{command: ls"}), "not a JSON object"},
		{"invalid_input", call("edit", dir, in{"path": "file", "old": "", "new": ""}), "old is empty"},
		{"path_error", call("read", "relative", in{"path": "file"}), "Cannot work in relative: not an absolute path"},
		{"path_error", call("bash", dir+"/gone", in{"command": "true"}), "Cannot work in " + dir + "/gone: no such file"},
		{"path_error", call("write", dir+"/file", in{"path": "x", "content": ""}), "Cannot work in " + dir + "/file: not a directory"},
		{"path_error", call("edit", dir, in{"path": "gone", "old": "a", "new": "b"}), "File not found: " + dir + "/gone"},
		{"ENOENT", call("read", dir, in{"path": "gone"}), "File not found"},
		{"ENOTDIR", call("read", dir, in{"path": "file/x"}), "not a directory"},
		{"EISDIR", call("read", dir, in{"path": "."}), "is a directory"},
		{"not_text", call("read", dir, in{"path": "binary"}), "is not text"},
		{"not_regular_file", call("read", dir, in{"path": "/dev/null"}), "is a device"},
		{"read_error", call("edit", dir, in{"path": "binary", "old": "a", "new": "b"}), "is not text"},
		{"mkdir_error", call("write", dir, in{"path": "file/x/y", "content": ""}), "Cannot make the directory"},
		{"write_error", call("write", dir, in{"path": ".", "content": ""}), "is a directory"},
		{"old_not_found", call("edit", dir, in{"path": "file", "old": "three", "new": ""}), "0 occurrences"},
		{"replacement_count_mismatch", call("edit", dir, in{"path": "file", "old": "two", "new": ""}), "found 2 times"},
		{"exec_error", call("bash", dir, in{"command": strings.Repeat("#", 200<<10)}), "Cannot start sh: "},
	}
	for _, tt := range tests {
		got := ask(t, c, tt.req)
		if got.OK || got.Error.Code != tt.code || !strings.Contains(got.Error.Message, tt.says) {
			t.Errorf("%s %s: got %+v, want %s, %q", tt.req.Tool, tt.req.Input[:min(len(tt.req.Input), 99)], got, tt.code, tt.says)
		}
	}
	t.Setenv("PATH", dir)
	if got := ask(t, c, call("bash", dir, in{"command": "true"})); got.Error.Code != "exec_error" || !strings.Contains(got.Error.Message, "Cannot start sh") {
		t.Errorf("without a shell: %+v", got)
	}
}

// Without a root, calls work where the service was started.
func TestCallWithoutRoot(t *testing.T) {
	dir := zinotest.Dir(t)
	t.Chdir(dir)
	c := newService(t, nil, nil).dial(t)
	if got := ask(t, c, call("write", "", in{"path": "file", "content": "x"})); !got.OK || !exists(filepath.Join(dir, "file")) {
		t.Errorf("got %+v", got)
	}
	if got := ask(t, c, call("bash", "", in{"command": "cat file"})); got.Data.Stdout != "x" {
		t.Errorf("got %+v", got)
	}
	zinotest.Must(t, os.RemoveAll(dir))
	got := ask(t, c, call("bash", "", in{"command": "true"}))
	if got.Error.Code != "path_error" || !strings.Contains(got.Error.Message, "the directory that exc was started in") {
		t.Errorf("in a directory that is gone: %+v", got)
	}
}

// A service that stops accepts no calls.
func TestCallAfterClose(t *testing.T) {
	s := newService(t, nil, nil)
	c := s.dial(t)
	zinotest.Must(t, s.Close())
	for _, tool := range []string{"read", "bash", "unknown"} {
		_, err := rpc.Call(t.Context(), c, proto.ExcCall, call(tool, s.dir, in{"path": "x", "command": "true"}))
		zinotest.Error(t, err, proto.ErrUnavailable)
	}
}

func TestBash(t *testing.T) {
	t.Setenv("LLM_API_KEY", "secret")
	s := newService(t, nil, nil)
	c := s.dial(t)
	dir := zinotest.Dir(t)
	zinotest.Must(t, os.Symlink(".", filepath.Join(dir, "here")))
	tests := []struct {
		name, command, root string
		stdout, stderr      string
		code                int
	}{
		{"nothing", "", dir, "", "", 0},
		{"both", "echo out; echo err >&2", dir, "out\n", "err\n", 0},
		{"status", "exit 7", dir, "", "", 7},
		{"signal", "kill -9 $$", dir, "", "", -9},
		{"no such command", "zino-no-such-command 2>/dev/null", dir, "", "", 127},
		{"quotes", `printf '%s|' "a b" 'c"d' \$x`, dir, `a b|c"d|$x|`, "", 0},
		{"lines", "for i in 1 2\ndo echo $i\ndone", dir, "1\n2\n", "", 0},
		{"no input", "cat; echo $?", dir, "0\n", "", 0},
		{"no terminal", "test -t 0 || echo none; (: </dev/tty) 2>/dev/null || echo none", dir, "none\nnone\n", "", 0},
		{"directory", "pwd; echo $PWD", dir + "/here", dir + "/here\n" + dir + "/here\n", "", 0},
		{"no secrets", `echo "[$LLM_API_KEY]"`, dir, "[]\n", "", 0},
		{"bad UTF-8", `printf 'a\377b'`, dir, "a\uFFFDb", "", 0},
		{"background", "sleep 1000 & echo started", dir, "started\n", "", 0},
		{"POSIX", "echo $0", dir, "sh\n", "", 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := ask(t, c, call("bash", tt.root, in{"command": tt.command}))
			d := got.Data
			if !got.OK || d.Stdout != tt.stdout || d.Stderr != tt.stderr || d.ExitCode != tt.code || d.TimedOut || d.Truncated {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func TestBashLongOutput(t *testing.T) {
	s := newService(t, nil, nil)
	c := s.dial(t)
	req := call("bash", s.dir, in{"command": "seq 100000; seq 200000 300000 >&2"})
	req.OutputBytes = 10000
	got := ask(t, c, req)
	var stdout, stderr strings.Builder
	for i := 1; i <= 100000; i++ {
		fmt.Fprintln(&stdout, i)
		fmt.Fprintln(&stderr, 200000+i-1)
	}
	fmt.Fprintln(&stderr, 300000)
	if !got.OK || !got.Data.Truncated {
		t.Fatalf("got %+v", got.Error)
	}
	for whole, text := range map[string]string{stdout.String(): got.Data.Stdout, stderr.String(): got.Data.Stderr} {
		before := fmt.Sprintf("\n[%d bytes left out; the full output is in ", len(whole)-10000)
		_, rest, found := strings.Cut(text, before)
		path, _, closed := strings.Cut(rest, "]\n")
		if !found || !closed {
			t.Fatalf("%q is not in %.2000q", before, text)
		}
		if zinotest.Read(t, path) != whole {
			t.Errorf("%s lacks a part of the output", path)
		}
		if fi, err := os.Stat(path); err != nil || fi.Mode() != 0o600 || !strings.HasPrefix(path, s.files.dir+"/") {
			t.Errorf("%s: %v, %v", path, fi, err)
		}
		if !strings.HasPrefix(whole, text[:5000]) || !strings.HasSuffix(whole, text[len(text)-5000:]) {
			t.Error("head or tail is wrong")
		}
	}
}

// Output of exactly the limit makes no file.
func TestBashFittingOutput(t *testing.T) {
	s := newService(t, nil, nil)
	req := call("bash", s.dir, in{"command": "head -c 5000 /dev/zero | tr '\\0' x"})
	req.OutputBytes = 5000
	got := ask(t, s.dial(t), req)
	if got.Data.Stdout != strings.Repeat("x", 5000) || got.Data.Truncated {
		t.Errorf("%d bytes, truncated %v", len(got.Data.Stdout), got.Data.Truncated)
	}
	s.mustLeaveNothing(t, nil)
}

// Output is sent as it comes: the command waits until the test has seen each piece.
func TestBashEvents(t *testing.T) {
	s := newService(t, func(c *config.Exc) { c.Timeout = 0 }, nil)
	c := s.dial(t)
	const seen = "\nwhile [ ! -e seen%d ]; do sleep 0.01; done\n"
	req := call("bash", s.dir, in{"command": "echo one" + fmt.Sprintf(seen, 1) + "echo two >&2" + fmt.Sprintf(seen, 2) +
		"printf 'thr\\303'; printf '\\244\\377'"}) // an unfinished line is shown at the end
	req.Events = true
	var shown []proto.ToolOutput
	got, err := rpc.CallEvents(t.Context(), c, proto.ExcCall, req, func(_ string, payload []byte) error {
		shown = append(shown, output(t, payload))
		return os.WriteFile(filepath.Join(s.dir, fmt.Sprint("seen", len(shown))), nil, 0o600)
	})
	if want := []proto.ToolOutput{{Text: "one\n"}, {Text: "two\n"}, {Text: "thrä\uFFFD"}}; err != nil || !slices.Equal(shown, want) {
		t.Errorf("shown: %+v, %v", shown, err)
	}
	if want := `{"ok":true,"data":{"stdout":"one\nthrä` + "\uFFFD" + `","stderr":"two\n","exit_code":0,"timed_out":false}}`; string(got.Result) != want {
		t.Errorf("got %s", got.Result)
	}
}

// Only output causes events, and only if the request asks for them.
func TestBashWithoutEvents(t *testing.T) {
	s := newService(t, nil, nil)
	c := s.dial(t)
	silent, unasked := call("bash", s.dir, in{"command": "true"}), call("bash", s.dir, in{"command": "echo hi"})
	silent.Events = true
	for _, req := range []proto.Call{silent, unasked} {
		if events := ask(t, c, req).events; len(events) > 0 {
			t.Errorf("%s: %+v", req.Input, events)
		}
	}
}

// A caller that does not read does not delay the command.
func TestBashSlowCaller(t *testing.T) {
	s := newService(t, func(c *config.Exc) { c.Timeout = 0 }, nil)
	c := s.dial(t)
	file := filepath.Join(s.dir, "end")
	req := call("bash", s.dir, in{"command": "head -c 30000000 /dev/zero | tr '\\0' x; echo; echo last; touch " + file})
	req.Events, req.OutputBytes = true, 1000
	shown, first := int64(0), true
	last := proto.ToolOutput{}
	got, err := rpc.CallEvents(t.Context(), c, proto.ExcCall, req, func(_ string, payload []byte) error {
		if first {
			first = false
			zinotest.Eventually(t, "the file is there", func() bool { return exists(file) }) // and nothing is read meanwhile
		}
		last = output(t, payload)
		shown += int64(len(last.Text)) + last.LeftOut
		return nil
	})
	if err != nil || shown != 30000000+6 || !strings.HasSuffix(last.Text, "last\n") {
		t.Errorf("%d bytes were shown or counted, the last %q, %v", shown, last.Text[max(0, len(last.Text)-20):], err)
	}
	if !strings.Contains(string(got.Result), `x\nlast\n","stderr":"","exit_code":0`) {
		t.Errorf("got %s", got.Result)
	}
}

func FuzzBashInput(f *testing.F) {
	for _, seed := range []string{`{"command":"ls"}`, `{"command":""}`, `{}`, `[]`, ``, `{"command":5}`, `{"command":"\u0000"}`, `{"_malformed":""}`, "{\"command\":\"\xff\"}", `{"command":"ls","timeout_s":5,"background":true,"wake":true}`, `{"command":"ls","timeout_s":-1}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		got, err := bashInputOf(input)
		e, ok := errors.AsType[*files.Error](err)
		if err != nil && (!ok || e.Code != files.InvalidInput) {
			t.Errorf("%q: %v", input, err)
		}
		if err == nil && (strings.ContainsRune(got.Command, 0) || got.TimeoutS != nil && (*got.TimeoutS < 0 || *got.TimeoutS > timeoutMax)) {
			t.Errorf("%q: got %+v", input, got)
		}
		if ok && !json.Valid(failure(e)) {
			t.Errorf("%q: the envelope is %s", input, failure(e))
		}
	})
}

// output parses a packet.
func output(t testing.TB, payload []byte) (o proto.ToolOutput) {
	t.Helper()
	if err := json.Unmarshal(payload, &o); err != nil {
		t.Error(err)
	}
	return o
}

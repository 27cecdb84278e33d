package exc

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"zino/pkg/config"
	"zino/pkg/rpc"
	"zino/proto"
)

// dial serves the service on a socket and returns a client of it.
func (s *service) dial(t testing.TB) *rpc.Client {
	t.Helper()
	server := rpc.NewServer("exc", s.Service.log)
	s.Register(server)
	path := filepath.Join(s.dir, "socket")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	client := &rpc.Client{Service: "exc", Path: path}
	t.Cleanup(func() {
		client.Close()
		if err := errors.Join(server.Shutdown(context.Background()), <-served); err != nil {
			t.Error(err)
		}
	})
	return client
}

// result is an envelope as callers see it.
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

// A day's work over a real socket: each envelope to the byte.
func TestCall(t *testing.T) {
	s := newService(t, nil, nil)
	c := s.dial(t)
	dir := shortDir(t)
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		t.Fatal(err)
	}
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

// Every code of an error, asked for over the socket. The code timeout: see
// TestAwait.
func TestCallCodes(t *testing.T) {
	s := newService(t, nil, nil)
	c := s.dial(t)
	dir := shortDir(t)
	for name, content := range map[string]string{"file": "one two two\n", "binary": "\x7fELF\x00\xff"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
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
	dir := shortDir(t)
	t.Chdir(dir)
	c := newService(t, nil, nil).dial(t)
	if got := ask(t, c, call("write", "", in{"path": "file", "content": "x"})); !got.OK || !exists(filepath.Join(dir, "file")) {
		t.Errorf("got %+v", got)
	}
	if got := ask(t, c, call("bash", "", in{"command": "cat file"})); got.Data.Stdout != "x" {
		t.Errorf("got %+v", got)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	got := ask(t, c, call("bash", "", in{"command": "true"}))
	if got.Error.Code != "path_error" || !strings.Contains(got.Error.Message, "the directory that exc was started in") {
		t.Errorf("in a directory that is gone: %+v", got)
	}
}

// Calls that change one file follow each other.
func TestCallsAtTheSameTime(t *testing.T) {
	s := newService(t, nil, nil)
	c := s.dial(t)
	dir := shortDir(t)
	if err := os.WriteFile(filepath.Join(dir, "file"), []byte("0 1 2 3 4 5 6 7 "), 0o600); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			old := string(rune('0' + i))
			if got := ask(t, c, call("edit", dir, in{"path": "file", "old": old + " ", "new": "<" + old + ">"})); !got.OK {
				t.Errorf("edit %d: %+v", i, got)
			}
		})
	}
	all.Wait()
	if got := ask(t, c, call("read", dir, in{"path": "file"})); got.Data.Content != "<0><1><2><3><4><5><6><7>" {
		t.Errorf("got %+v", got)
	}
}

// A service that stops takes no more calls.
func TestCallAfterClose(t *testing.T) {
	s := newService(t, nil, nil)
	c := s.dial(t)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for _, tool := range []string{"read", "bash", "unknown"} {
		_, err := rpc.Call(t.Context(), c, proto.ExcCall, call(tool, s.dir, in{"path": "x", "command": "true"}))
		if !errors.Is(err, proto.ErrUnavailable) {
			t.Errorf("%s: got %v", tool, err)
		}
	}
}

// Execute runs code in a root, too.
func TestExecuteInRoot(t *testing.T) {
	s := newService(t, func(c *config.Exc) { c.Timeout = 0 }, nil)
	dir := shortDir(t)
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		root string
		want proto.Result
	}{
		{dir, proto.Result{Stdout: dir + "\n" + dir + "\n"}},
		{dir + "/gone", proto.Result{ExitCode: -1, Stderr: "Cannot work in " + dir + "/gone: no such file or directory"}},
		{"x", proto.Result{ExitCode: -1, Stderr: "Cannot work in x: not an absolute path"}},
	}
	for _, tt := range tests {
		got, err := s.execute(t.Context(), proto.Execute{Executor: "bash", Code: "echo $PWD; pwd -P", Root: tt.root})
		if err != nil || plain(t, got) != tt.want {
			t.Errorf("%s: got %+v, %v", tt.root, got, err)
		}
	}
}

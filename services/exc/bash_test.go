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
	"time"

	"zino/pkg/config"
	"zino/pkg/rpc"
	"zino/proto"
	"zino/services/exc/files"
)

func TestBash(t *testing.T) {
	t.Setenv("LLM_API_KEY", "secret")
	s := newService(t, nil, nil)
	c := s.dial(t)
	dir := shortDir(t)
	if err := os.Symlink(".", filepath.Join(dir, "here")); err != nil {
		t.Fatal(err)
	}
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

// A caller that hangs up leaves nothing behind, the files of long outputs included.
func TestBashHangUp(t *testing.T) {
	marked := mark(t)
	up := upFile(t)
	s := newService(t, func(c *config.Exc) { c.Timeout = 0 }, nil)
	c := s.dial(t)
	ctx, hangUp := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		req := call("bash", s.dir, in{"command": "head -c 100000 /dev/zero; " + daemons["deaf"] + waitUp + "sleep 1000"})
		req.Events, req.OutputBytes = true, 1000
		_, err := rpc.CallEvents(ctx, c, proto.ExcCall, req, func(string, []byte) error { return nil })
		ended <- err
	}()
	eventually(t, func() bool { return exists(up) && len(s.workspaces()) == 1 })
	hangUp()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	eventually(t, func() bool { return len(marked()) == 0 && len(s.workspaces()) == 0 })
}

// fullOutput is the path in the line about what was left out.
func fullOutput(t testing.TB, text, before string) string {
	t.Helper()
	_, rest, found := strings.Cut(text, before)
	path, _, closed := strings.Cut(rest, "]\n")
	if !found || !closed {
		t.Fatalf("%q is not in %q", before, text[:min(len(text), 2000)])
	}
	return path
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
	for name, text := range map[string]string{stdout.String(): got.Data.Stdout, stderr.String(): got.Data.Stderr} {
		left := fmt.Sprintf("\n[%d bytes left out; the full output is in ", len(name)-10000)
		path := fullOutput(t, text, left)
		kept, err := os.ReadFile(path)
		if err != nil || string(kept) != name {
			t.Errorf("%s holds %d bytes, not %d: %v", path, len(kept), len(name), err)
		}
		if fi, err := os.Stat(path); err != nil || fi.Mode() != 0o600 || !strings.HasPrefix(path, s.files.dir+"/") {
			t.Errorf("%s: %v, %v", path, fi, err)
		}
		if !strings.HasPrefix(name, text[:5000]) || !strings.HasSuffix(name, text[len(text)-5000:]) {
			t.Error("head or tail is wrong")
		}
	}
}

// A limit that is just kept makes no file.
func TestBashFittingOutput(t *testing.T) {
	s := newService(t, nil, nil)
	req := call("bash", s.dir, in{"command": "head -c 5000 /dev/zero | tr '\\0' x"})
	req.OutputBytes = 5000
	got := ask(t, s.dial(t), req)
	if got.Data.Stdout != strings.Repeat("x", 5000) || got.Data.Truncated || len(s.workspaces()) > 0 {
		t.Errorf("%d bytes, truncated %v, left %v", len(got.Data.Stdout), got.Data.Truncated, s.workspaces())
	}
}

// What a command prints is shown as it comes: it waits here until the test has
// seen each piece.
func TestBashEvents(t *testing.T) {
	s := newService(t, func(c *config.Exc) { c.Timeout = 0 }, nil)
	c := s.dial(t)
	const seen = "\nwhile [ ! -e seen%d ]; do sleep 0.01; done\n"
	req := call("bash", s.dir, in{"command": "echo one" + fmt.Sprintf(seen, 1) + "echo two >&2" + fmt.Sprintf(seen, 2) +
		"printf 'thr\\303'" + fmt.Sprintf(seen, 3) + "printf '\\244\\377'"})
	req.Events = true
	var shown []proto.ToolOutput
	got, err := rpc.CallEvents(t.Context(), c, proto.ExcCall, req, func(_ string, payload []byte) error {
		shown = append(shown, output(t, payload))
		return os.WriteFile(filepath.Join(s.dir, fmt.Sprint("seen", len(shown))), nil, 0o600)
	})
	if want := []proto.ToolOutput{{Text: "one\n"}, {Text: "two\n"}, {Text: "thr"}, {Text: "ä\uFFFD"}}; err != nil || !slices.Equal(shown, want) {
		t.Errorf("shown: %+v, %v", shown, err)
	}
	if want := `{"ok":true,"data":{"stdout":"one\nthrä` + "\uFFFD" + `","stderr":"two\n","exit_code":0,"timed_out":false}}`; string(got.Result) != want {
		t.Errorf("got %s", got.Result)
	}
}

// Nothing is shown where there is nothing, and to those who did not ask.
func TestBashWithoutEvents(t *testing.T) {
	s := newService(t, nil, nil)
	c := s.dial(t)
	for tool, input := range map[string]in{"read": {"path": "gone"}, "bash": {"command": "true"}} {
		req := call(tool, s.dir, input)
		if req.Events = true; len(ask(t, c, req).events) > 0 {
			t.Errorf("%s printed nothing", tool)
		}
	}
	if got := ask(t, c, call("bash", s.dir, in{"command": "echo hi"})); len(got.events) > 0 {
		t.Errorf("events that nobody asked for: %+v", got.events)
	}
}

// A caller that does not read does not hold the command up.
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
			eventually(t, func() bool { return exists(file) }) // and nothing is read meanwhile
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

// The limit of a call holds for commands as for code.
func TestBashWithoutTimeout(t *testing.T) {
	s := newService(t, func(c *config.Exc) { c.Timeout = 0 }, nil)
	if s.limit != time.Duration(0) {
		t.Fatalf("the limit is %v", s.limit)
	}
	if got := ask(t, s.dial(t), call("bash", s.dir, in{"command": "sleep 0.1; echo done"})); got.Data.Stdout != "done\n" {
		t.Errorf("got %+v", got)
	}
}

func FuzzCommandOf(f *testing.F) {
	for _, seed := range []string{`{"command":"ls"}`, `{"command":""}`, `{}`, `[]`, ``, `{"command":5}`, `{"command":"\u0000"}`, `{"_malformed":""}`, "{\"command\":\"\xff\"}"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		command, err := commandOf(input)
		e, ok := errors.AsType[*files.Error](err)
		if err != nil && (!ok || e.Code != files.InvalidInput || command != "") || strings.ContainsRune(command, 0) {
			t.Errorf("%q: got %q, %v", input, command, err)
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

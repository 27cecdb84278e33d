package constellation_test

import (
	"bytes"
	"context"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"zino/pkg/zinotest"
	"zino/pkg/zinotest/fakedaemon"
)

// clients are the example clients in other languages, with the program that runs each.
var clients = []struct{ file, program, pkg string }{
	{"zino.py", "python3", "python3"},
	{"zino.mjs", "node", "nodejs"},
	{"zino.sh", "socat", "socat"},
}

// runClient runs one of proto/clients with a socket and a request.
func runClient(t *testing.T, file, socket, request string) (stdout, stderr string, ok bool) {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("../../proto/clients", file))
	zinotest.Must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), zinotest.Timeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, socket, request)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	if ctx.Err() != nil {
		t.Fatalf("%s %s did not end: %s%s", file, request, out.String(), errs.String())
	}
	return out.String(), errs.String(), err == nil
}

// TestClients checks that every client prints the packets that it receives.
func TestClients(t *testing.T) {
	cfg := start(t)
	long := strings.Repeat("äöü <b> ", 10_000)
	requests := []struct {
		socket, request string
		want            string // the last line
		ok              bool
	}{
		{cfg.Mem.Socket, `{"type":"append_history","channel_id":"ä","messages":[{"role":"user","content":"` + long + `"}]}`, `{"type":"ok"}`, true},
		{cfg.Mem.Socket, `{"type":"get_history","channel_id":"ä","limit":1}`, `{"type":"history","messages":[{"role":"user","content":"` + long + `"}]}`, true},
		{cfg.Mem.Socket, `{"type":"get_history"}`, `{"type":"error","message":"channel_id required","code":"invalid","service":"mem"}`, false},
		{cfg.Daemon.Socket, `{"message":"run printf 'a b\\n%%\\n'"}`, `{"type":"response","content":"a b\n%\n[offline, no AI]"}`, true},
		{cfg.Daemon.Socket, `{`, `{"type":"error","message":"Invalid request: malformed JSON","code":"invalid","service":"daemon"}`, false},
	}
	for _, client := range clients {
		t.Run(client.file, func(t *testing.T) {
			if _, err := exec.LookPath(client.program); err != nil {
				t.Fatalf("%s is needed for this test: install it (Debian's package %s)", client.program, client.pkg)
			}
			for _, r := range requests {
				stdout, stderr, ok := runClient(t, client.file, r.socket, r.request)
				if stdout != r.want+"\n" || ok != r.ok || stderr != "" {
					t.Errorf("%.60s: %.200q, succeeded: %v, %q", r.request, stdout, ok, stderr)
				}
			}
			checkStream(t, client.file, cfg.Daemon.Socket)
		})
	}
}

// checkStream streams an answer with a tool call to a client.
func checkStream(t *testing.T, file, socket string) {
	t.Helper()
	stdout, stderr, ok := runClient(t, file, socket, `{"message":"run echo streamed","stream":true}`)
	lines := strings.Split(strings.TrimSuffix(stdout, "\n"), "\n")
	last := len(lines) - 1
	for _, line := range lines[:last] {
		if !strings.HasPrefix(line, `{"type":"chunk","delta":"`) || !strings.HasSuffix(line, `"}`) {
			t.Errorf("not a chunk: %s", line)
		}
	}
	if !ok || stderr != "" || last < 1 || !strings.HasPrefix(lines[last], `{"type":"done","full_text":`) {
		t.Errorf("streamed: %q, succeeded: %v, %q", stdout, ok, stderr)
	}
	if !strings.Contains(stdout, `<tool_response>\nstreamed\n`) {
		t.Errorf("the tool's result is not in the stream: %s", stdout)
	}
}

// TestClientsWithoutService checks the error of a client if no service is listening.
func TestClientsWithoutService(t *testing.T) {
	cfg := newConfig(t)
	for _, client := range clients {
		stdout, stderr, ok := runClient(t, client.file, cfg.Daemon.Socket, `{"type":"ping"}`)
		if ok || stdout != "" || !strings.Contains(stderr, cfg.Daemon.Socket) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%s: %q, succeeded: %v, %q", client.file, stdout, ok, stderr)
		}
	}
}

// TestApprovalsClient checks the client that lists requests to allow a call and answers them.
func TestApprovalsClient(t *testing.T) {
	d := fakedaemon.New(t)
	const call = `"call":{"tool":"bash","input":{"command":"a\u001b[2J"}},"preview":{},"reasons":["mode ask"]`
	d.Answer("approvals", func(fakedaemon.Request) string {
		return `{"type":"approval_list","approvals":[{"id":"ap-1","digest":"sha256:1",` + call + `},{"id":"ap-2","digest":"sha256:2",` + call + `},{"id":"ap-3","digest":"sha256:3",` + call + `}]}`
	})
	path, err := filepath.Abs("../../proto/clients/approvals.py")
	zinotest.Must(t, err)
	client := func() (string, error) {
		cmd := exec.CommandContext(t.Context(), path, d.Socket)
		cmd.Env = append(cmd.Environ(), "PYTHONDONTWRITEBYTECODE=1")
		cmd.Stdin = strings.NewReader("y\nn\n\n")
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	out, err := client()
	if err != nil || !strings.Contains(out, `"command": "a\u001b[2J"`) || strings.Contains(out, "\x1b") || !strings.Contains(out, "approved\n") || !strings.Contains(out, "denied\n") {
		t.Errorf("%v: %q", err, out)
	}
	zinotest.Equal(t, "an answer", d.Request("approve").JSON(), `{"answer":"once","digest":"sha256:1","id":"ap-1"}`)
	zinotest.Equal(t, "an answer", d.Request("approve").JSON(), `{"answer":"deny","digest":"sha256:2","id":"ap-2"}`)
	zinotest.Equal(t, "answers", len(d.Requests("approve")), 2)
	d.Remove("approvals")
	if out, err := client(); err == nil || out != "approvals.py: Unknown message type: approvals\n" {
		t.Errorf("an older daemon: %v: %q", err, out)
	}
}

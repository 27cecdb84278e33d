package cli

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"zino/pkg/rpc"
	"zino/pkg/wire"
	"zino/pkg/zinotest"
	"zino/pkg/zinotest/rpctest"
	"zino/proto"
	"zino/services/cli/render"
)

// cannedMem is a daemon and a mem with one fixed reply to each type of request.
type cannedMem struct {
	socket string

	mu       sync.Mutex
	requests []string
}

// newCannedMem starts a cannedMem. replies maps types of requests to replies in JSON;
// "" is an error with code too_large.
func newCannedMem(t *testing.T, replies map[string]string) *cannedMem {
	t.Helper()
	m := &cannedMem{}
	m.socket, _ = rpctest.New(t, "daemon", "", func(s *rpc.Server) {
		rpc.HandleRelay(s, proto.DaemonForward, func(_ context.Context, req proto.Forward, out *rpc.Out) error {
			typ, err := wire.RequestType(req.Request)
			if err != nil {
				return err
			}
			m.mu.Lock()
			m.requests = append(m.requests, string(req.Request))
			m.mu.Unlock()
			reply, known := replies[typ]
			switch {
			case !known:
				return proto.Errorf(proto.CodeUnknown, "unknown type %q", typ)
			case reply == "":
				return proto.Errorf(proto.CodeTooLarge, "too much")
			}
			return errors.Join(out.Frame([]byte(reply)), out.Flush())
		})
	})
	return m
}

// last returns the last request.
func (m *cannedMem) last() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.requests) == 0 {
		return ""
	}
	return m.requests[len(m.requests)-1]
}

// expect runs a command and compares all that it prints.
func (m *cannedMem) expect(t *testing.T, args string, status int, out, stderr string) {
	t.Helper()
	cmd := newWorld(t).command(append([]string{"--socket", m.socket}, strings.Fields(args)...)...)
	expect(t, with(cmd, "TZ=UTC"), "", status, out, stderr)
}

// editMemory returns zino memory edit 0 with a shell script for an editor, and the
// directory for temporary files.
func (m *cannedMem) editMemory(t *testing.T, script string) (cmd *exec.Cmd, tmp string) {
	t.Helper()
	w := newWorld(t)
	editor, tmp := filepath.Join(w.cwd, "ed"), filepath.Join(w.cwd, "tmp")
	zinotest.Must(t, os.WriteFile(editor, []byte("#!/bin/sh\n"+script), 0o700))
	zinotest.Must(t, os.Mkdir(tmp, 0o700))
	return with(w.command("--socket", m.socket, "memory", "edit", "0"), "VISUAL="+editor+" --wait", "EDITOR=false", "TMPDIR="+tmp), tmp
}

const oneMemory = `{"id":0,"messages":[{"role":"user","content":"a"}],"created":"2026-11-21T14:03:00Z"}`

// TestMemoryEditTerminal checks that the editor gets the terminal and Ctrl-C, and that
// the terminal is restored afterwards.
func TestMemoryEditTerminal(t *testing.T) {
	t.Parallel()
	m := newCannedMem(t, map[string]string{proto.MemGetHard.Type: `{"type":"` + proto.MemGetHard.Reply + `",` + oneMemory[1:], proto.MemUpdateHard.Type: `{"type":"` + proto.MemUpdateHard.Reply + `"}`})
	const script = `trap 'echo interrupted' INT; test -t 0 && test -t 1 || exit 9
echo ready; until read -r line; do :; done; printf '%s\n' "$line" >"$2"; stty raw -echo`
	cmd, tmp := m.editMemory(t, script)
	x := onTerminal(t, cmd)
	x.Shows("ready")
	x.Type("\x03")
	x.Shows("interrupted")
	x.Type("typed\n")
	if status := x.Exit(); status != 0 || !strings.Contains(m.last(), `"content":"typed"`) || zinotest.Names(t, tmp) != "" || !x.Cooked() {
		t.Errorf("status %d, asked %s, raw %v, screen %q", status, m.last(), !x.Cooked(), x.Written.String())
	}
}

// TestMemoryEditSignal checks that SIGTERM ends the editor and leaves no file.
func TestMemoryEditSignal(t *testing.T) {
	t.Parallel()
	m := newCannedMem(t, map[string]string{proto.MemGetHard.Type: `{"type":"` + proto.MemGetHard.Reply + `",` + oneMemory[1:]})
	cmd, tmp := m.editMemory(t, `stty raw -echo; echo ready; exec tail -f "$2"`)
	x := onTerminal(t, cmd)
	x.Shows("ready")
	x.Signal(syscall.SIGTERM)
	if status := x.Exit(); status != exitInterrupted || zinotest.Names(t, tmp) != "" || !x.Cooked() {
		t.Errorf("status %d, raw %v, left %s", status, !x.Cooked(), zinotest.Names(t, tmp))
	}
}

// TestMemoryOnTerminal checks that lines are cut to the terminal's width, that control
// characters are escaped, and that add does not read from the terminal.
func TestMemoryOnTerminal(t *testing.T) {
	t.Parallel()
	m := newCannedMem(t, map[string]string{
		proto.MemListHard.Type: `{"type":"` + proto.MemListHard.Reply + `","items":[{"id":0,"messages":[{"role":"user","content":"` + strings.Repeat("語", 100) + `end"}]}]}`,
		proto.MemGetSoft.Type:  `{"type":"` + proto.MemGetSoft.Reply + `","content":"a\u001b\r\nb\n\n","set":true}`,
	})
	for args, want := range map[string]string{"list": "語…\r\n", "soft": "a^[^M\r\nb\r\n", "add": "say what is to be remembered"} {
		cmd := newWorld(t).command("--socket", m.socket, "memory", args)
		cmd.Args = append([]string{"sh", "-c", `stty cols 60 && exec "$@"`, "sh", cmd.Path}, cmd.Args[1:]...)
		cmd.Path = "/bin/sh"
		x := onTerminal(t, cmd)
		x.Exit()
		x.Shows(want)
		for line := range strings.Lines(x.Written.String()) {
			if n := render.Cells(strings.TrimRight(line, "\r\n")); args == "list" && n > 60 {
				t.Errorf("%d cells: %q", n, line)
			}
		}
	}
}

func TestMemorySearchRequest(t *testing.T) {
	t.Parallel()
	m := newCannedMem(t, map[string]string{proto.MemSearchHard.Type: `{"type":"` + proto.MemSearchHard.Reply + `","results":[]}`})
	cmd := newWorld(t).command("--socket", m.socket, "memory", "search", "a", "-k", "1", "--tag", "t", "-ch", "c",
		"--since", "2026-11-21", "--until=2026-11-22T10:00:00.5Z", "--min-score", "0.25")
	if status, _, stderr := run(t, with(cmd, "TZ=Asia/Tokyo"), ""); status != 1 || stderr != "No memory matches.\n" {
		t.Errorf("status %d, stderr %q", status, stderr)
	}
	zinotest.Contains(t, "request", m.last(), `"query":"a"`, `"top_k":1`, `"tag":"t"`, `"channel_id":"c"`, `"since":"2026-11-21T00:00:00+09:00"`, `"until":"2026-11-22T10:00:00.5Z"`, `"min_score":0.25`)
}

// TestMemoryOldDaemon checks the error of a daemon without the method.
func TestMemoryOldDaemon(t *testing.T) {
	t.Parallel()
	status, out, stderr := run(t, newWorld(t).command("--socket", newCannedMem(t, nil).socket, "memory", "rm", "1"), "")
	if status != 1 || out != "" || strings.Count(stderr, "\n") != 1 || !strings.HasPrefix(stderr, "Error [internal]: ") {
		t.Errorf("status %d, stdout %q, stderr %q", status, out, stderr)
	}
}

// TestMemoryShared checks the note about the host's shared memory.
func TestMemoryShared(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m := newCannedMem(t, map[string]string{
		proto.Ping.Type: "", proto.MemListHard.Type: `{"type":"` + proto.MemListHard.Reply + `","items":[]}`, proto.MemStoreHard.Type: `{"type":"` + proto.MemStoreHard.Reply + `","id":0}`,
	})
	w.host(t, m.socket)
	for args, note := range map[string]bool{"add something": true, "list": false} {
		status, _, stderr := run(t, w.command(append([]string{"memory"}, strings.Fields(args)...)...), "")
		if status != 0 || strings.Contains(stderr, "this is the host's memory, shared by all who may use it") != note {
			t.Errorf("%s: status %d, stderr %q", args, status, stderr)
		}
	}
}

// TestMemoryAddInterrupted checks that an interrupt while reading stores nothing.
func TestMemoryAddInterrupted(t *testing.T) {
	t.Parallel()
	m := newCannedMem(t, nil)
	cmd := newWorld(t).command("--socket", m.socket, "memory", "add", "-")
	in, err := cmd.StdinPipe()
	zinotest.Must(t, err)
	zinotest.Must(t, cmd.Start())
	defer cmd.Process.Kill()
	_, err = in.Write(make([]byte, 200_000)) // more than a pipe holds: when this returns, the command reads
	zinotest.Must(t, err)
	zinotest.Must(t, cmd.Process.Signal(syscall.SIGINT))
	if err := cmd.Wait(); err == nil || cmd.ProcessState.ExitCode() != exitInterrupted || slices.ContainsFunc(m.requests, func(r string) bool { return strings.Contains(r, "store") }) {
		t.Errorf("%v, asked %q", err, m.requests)
	}
}

func TestChannels(t *testing.T) {
	t.Parallel()
	m := newCannedMem(t, map[string]string{
		proto.MemListChannels.Type: `{"type":"` + proto.MemListChannels.Reply + `","channels":[{"channel_id":"a/b\u001b","bytes":89,"updated":"2026-11-21T14:03:07Z"},{"channel_id":"empty","bytes":2,"updated":"2026-11-21T14:03:07Z"}]}`,
		proto.MemGetHistory.Type:   `{"type":"` + proto.MemGetHistory.Reply + `","messages":[{"role":"user","content":"q\n\u009b2J"},{"role":"assistant","content":"a","x":"\u202e"}]}`,
	})
	m.expect(t, "channels list", 0, "UPDATED           BYTES  CHANNEL\n2026-11-21 14:03  89     a/b^[\n2026-11-21 14:03  2      empty\n", "")
	m.expect(t, "channels list --json", 0, `{"channel_id":"a/b\u001b","bytes":89,"updated":"2026-11-21T14:03:07Z"}`+"\n"+`{"channel_id":"empty","bytes":2,"updated":"2026-11-21T14:03:07Z"}`+"\n", "")
	m.expect(t, "channels show a", 0, "user: q\n  \\u009b2J\nassistant: a\n", "")
	m.expect(t, "channels show a --json", 0, `{"role":"user","content":"q\n\u009b2J"}`+"\n"+`{"role":"assistant","content":"a","x":"\u202e"}`+"\n", "")
	empty := newCannedMem(t, map[string]string{
		proto.MemListChannels.Type: `{"type":"` + proto.MemListChannels.Reply + `","channels":[{"channel_id":"empty","bytes":2,"updated":"2026-11-21T14:03:07Z"}]}`,
		proto.MemGetHistory.Type:   `{"type":"` + proto.MemGetHistory.Reply + `","messages":[]}`,
	})
	empty.expect(t, "channels show empty", 0, "", "")
	newCannedMem(t, map[string]string{proto.MemGetHistory.Type: ""}).expect(t, "channels show much", 1, "", "Error [internal]: too much; for the last 100 of them: -n 100\n")
}

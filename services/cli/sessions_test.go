package cli

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"zino/pkg/rpc"
	"zino/pkg/zinotest"
	"zino/proto"
	"zino/services/cli/render"
)

// fakeSessions is a daemon with a mem that has sessions. It also answers previews and
// handoffs.
type fakeSessions struct {
	socket string

	mu       sync.Mutex
	list     []proto.SessionSummary
	total    int               // number of sessions, if more than in list
	fails    error             // every answer
	events   string            // of a session, in JSON; "": one message
	files    map[string]string // attachments by id
	endless  bool              // pieces of a session repeat
	previews []proto.Preview
	handoffs []proto.Handoff
	report   proto.ContextReport
	bundle   proto.HandoffBundle
	waiting  chan struct{}
}

func newFakeSessions(t *testing.T, ids ...string) *fakeSessions {
	t.Helper()
	f := &fakeSessions{waiting: make(chan struct{}, 1)}
	for _, id := range ids {
		f.add(id, "words of "+id)
	}
	f.socket = newDaemon(t, func(s *rpc.Server) {
		rpc.Handle(s, proto.MemListSessions, answer(f, f.listed))
		rpc.Handle(s, proto.MemFindSession, answer(f, f.find))
		rpc.Handle(s, proto.MemReadSession, answer(f, func(req proto.ReadSession) (proto.SessionEvents, error) {
			events := cmp.Or(f.events, `[{"type":"message","role":"user","text":"one"}]`)
			return proto.SessionEvents{SessionID: req.SessionID, Events: proto.Raw(events), More: f.endless}, nil
		}))
		rpc.Handle(s, proto.MemGetAttachment, answer(f, func(req proto.GetAttachment) (proto.AttachmentData, error) {
			data, ok := f.files[req.ID]
			if !ok {
				return proto.AttachmentData{}, &proto.Error{Code: proto.CodeNotFound, Message: "missing"}
			}
			return proto.AttachmentData{ID: req.ID, MediaType: "image/png", Data: []byte(data)}, nil
		}))
		rpc.Handle(s, proto.MemExportSession, answer(f, func(req proto.ExportSession) (proto.SessionText, error) {
			return proto.SessionText{SessionID: req.SessionID, Content: "text \x1b[2J\u202e\n", More: f.endless}, nil
		}))
	}, func(s *rpc.Server) {
		rpc.Handle(s, proto.DaemonContext, answer(f, func(req proto.Preview) (proto.ContextReport, error) {
			f.previews = append(f.previews, req)
			return f.report, nil
		}))
		rpc.Handle(s, proto.DaemonHandoff, f.handoff)
	})
	return f
}

// with reads or changes the fake while it runs.
func (f *fakeSessions) with(do func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	do()
}

// add puts a session in front of the others.
func (f *fakeSessions) add(id, text string) {
	f.with(func() {
		f.list = slices.Insert(f.list, 0, proto.SessionSummary{SessionID: id, Updated: "2026-11-21T14:03:07Z", Messages: 1, Text: text})
	})
}

// answer returns a handler that calls do with the fake locked.
func answer[Req, Rep any](f *fakeSessions, do func(Req) (Rep, error)) func(context.Context, Req) (Rep, error) {
	return func(_ context.Context, req Req) (rep Rep, err error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.fails != nil {
			return rep, f.fails
		}
		return do(req)
	}
}

func (f *fakeSessions) listed(req proto.ListSessions) (proto.SessionList, error) {
	list := f.list
	if req.Limit > 0 {
		list = list[:min(len(list), req.Limit)]
	}
	return proto.SessionList{Sessions: list, Total: max(f.total, len(f.list))}, nil
}

func (f *fakeSessions) find(req proto.FindSession) (found proto.SessionSummary, err error) {
	n := 0
	if req.SessionID == "" && len(f.list) > 0 {
		return f.list[0], nil
	}
	for _, s := range f.list {
		if s.SessionID == req.SessionID {
			return s, nil
		}
		if strings.HasPrefix(s.SessionID, req.SessionID) {
			found = s
			n++
		}
	}
	switch n {
	case 0:
		return found, &proto.Error{Code: proto.CodeNotFound, Message: fmt.Sprintf("There is no session %q.", req.SessionID)}
	case 1:
		return found, nil
	}
	return found, &proto.Error{Code: proto.CodeInvalid, Message: fmt.Sprintf("Several sessions begin with %q.", req.SessionID)}
}

func (f *fakeSessions) handoff(ctx context.Context, req proto.Handoff) (proto.HandoffBundle, error) {
	if req.Goal == "wait" { // until the caller hangs up
		f.waiting <- struct{}{}
		<-ctx.Done()
		return proto.HandoffBundle{}, ctx.Err()
	}
	return answer(f, func(req proto.Handoff) (proto.HandoffBundle, error) {
		f.handoffs = append(f.handoffs, req)
		return f.bundle, nil
	})(ctx, req)
}

// command is zino with the fake as its daemon.
func (f *fakeSessions) command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := newWorld(t).command(append([]string{"--socket", f.socket}, args...)...)
	cmd.Env = append(cmd.Env, "TZ=UTC")
	return cmd
}

// expect runs a command and compares all that it prints.
func (f *fakeSessions) expect(t *testing.T, args string, status int, out, stderr string) {
	t.Helper()
	expect(t, f.command(t, strings.Fields(args)...), "", status, out, stderr)
}

// TestSessionsFail prints the error of each command on one line.
func TestSessionsFail(t *testing.T) {
	t.Parallel()
	f := newFakeSessions(t, "abc")
	f.with(func() { f.endless = true })
	const endless = "Error [internal]: the session does not end: is the daemon of another version? try: zino status\n"
	f.expect(t, "sessions show abc", 1, "Session abc\n\nUser:\n  one\n", endless)
	f.expect(t, "sessions export abc", 1, "", endless)
	f.with(func() { f.fails = &proto.Error{Code: proto.CodeInternal, Message: "the disk\nis \x1b[31m gone"} })
	for _, args := range []string{"list", "show abc", "export abc", "rm abc"} {
		f.expect(t, "sessions "+args, 1, "", "Error [internal]: the disk is ^[[31m gone\n")
	}
}

// TestSessionsOwn asks the caller's own daemon, not the host's, which has the sessions
// of all users.
func TestSessionsOwn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	own, host := newFakeSessions(t, "mine"), newFakeSessions(t, "theirs")
	w.daemon(t, own.socket)
	w.host(t, host.socket)
	cmd := w.command("sessions", "list")
	if status, out, stderr := run(t, cmd, ""); status != 0 || !strings.HasPrefix(out, "mine  ") || stderr != "" {
		t.Errorf("status %d, stdout %q, stderr %q", status, out, stderr)
	}
	cmd = w.command("--host", "sessions", "list")
	if status, out, stderr := run(t, cmd, ""); status != 0 || !strings.HasPrefix(out, "theirs  ") || stderr != "" {
		t.Errorf("--host: status %d, stdout %q, stderr %q", status, out, stderr)
	}
}

// daemon makes a socket the daemon of the user.
func (w world) daemon(t *testing.T, socket string) {
	t.Helper()
	dir := filepath.Join(w.runtime, "zino")
	zinotest.Must(t, os.Mkdir(dir, 0o700))
	zinotest.Must(t, os.Symlink(socket, filepath.Join(dir, "daemon.sock")))
}

// host makes a socket the daemon of the host.
func (w world) host(t *testing.T, socket string) {
	t.Helper()
	zinotest.Must(t, os.Symlink(socket, filepath.Join(w.runtime, "host.sock")))
}

func TestSessionsList(t *testing.T) {
	t.Parallel()
	f := newFakeSessions(t)
	f.expect(t, "sessions list", 0, "No sessions found.\n", "")
	f.expect(t, "sessions list --format json", 0, "", "No sessions found.\n")
	f.add("550e8400-e29b-41d4-a716-446655440000", "Fix the\ttest.\x1b[2J")
	f.with(func() {
		f.list[0].Updated, f.list[0].Turns, f.list[0].Root = "2020-01-02T14:03:07Z", 2, "/srv/a\nb"
		f.list[0].CostUSD, f.list[0].Unpriced = new(0.0231), 1
	})
	f.expect(t, "sessions list", 0, "550e8400-e29b-41d4-a716-446655440000  2020-01-02  2 turns  >= $0.0231  /srv/a b  Fix the test.^[[2J\n", "")
	f.expect(t, "sessions list --all", 0, "550e8400-e29b-41d4-a716-446655440000  2020-01-02  2 turns  >= $0.0231  /srv/a b  Fix the test.^[[2J\n", "")
	f.add("short", "")
	f.with(func() { f.list[0].Updated, f.list[0].Turns, f.list[0].CostUSD = "\x1b", 1, new(0.5) })
	f.add("bad", "x")
	f.with(func() { f.list[0].Problem, f.list[0].Updated = "permission\ndenied", "2020-01-02T14:03:07Z" })
	const rows = "bad    2020-01-02  0 turns  -        -  (cannot be read: permission denied)\nshort  -           1 turn   $0.5000  -  (nothing said)\n"
	f.expect(t, "sessions list --limit 2", 0, rows, "")
	f.expect(t, "--format json sessions list -n 1", 0, `{"session_id":"bad","created":"","updated":"2020-01-02T14:03:07Z","messages":1,"text":"x","bytes":0,"problem":"permission\ndenied"}`+"\n", "")
	f.with(func() { f.total = 5 })
	f.expect(t, "sessions list -n 2", 0, rows, "")
	_, _, stderr := run(t, f.command(t, "sessions", "list"), "")
	if stderr != "Warning: 2 more, which did not fit into one answer, are not shown: zino sessions search finds them\n" {
		t.Errorf("stderr %q", stderr)
	}
}

// TestSessionsListHead ends without an error when the reader is gone.
func TestSessionsListHead(t *testing.T) {
	t.Parallel()
	f := newFakeSessions(t)
	for range 400 {
		f.add("abc", strings.Repeat("much text ", 50))
	}
	cmd := f.command(t, "sessions", "list")
	cmd.Args = append([]string{"sh", "-c", `"$@" | head -n 1`, "sh", cmd.Path}, cmd.Args[1:]...)
	cmd.Path = "/bin/sh"
	status, out, stderr := run(t, cmd, "")
	if status != 0 || strings.Count(out, "\n") != 1 || stderr != "" {
		t.Errorf("status %d, stdout %.100q, stderr %q", status, out, stderr)
	}
}

// TestSessionsListTerminal cuts lines to the terminal's width, behind the id.
func TestSessionsListTerminal(t *testing.T) {
	t.Parallel()
	f := newFakeSessions(t)
	f.add("550e8400-e29b-41d4-a716-446655440000", strings.Repeat("語", 100))
	f.with(func() { f.list[0].Updated = "2020-01-02T14:03:07Z" })
	cmd := f.command(t, "sessions", "list")
	cmd.Args = append([]string{"sh", "-c", `stty cols 70 && exec "$@"`, "sh", cmd.Path}, cmd.Args[1:]...)
	cmd.Path = "/bin/sh"
	x := onTerminal(t, cmd)
	x.Exit()
	x.Shows("550e8400  2020-01-02  0 turns  -  -  語")
	x.Shows("語…\r\n")
	for line := range strings.Lines(x.Written.String()) {
		if n := render.Cells(strings.TrimRight(line, "\r\n")); n > 70 {
			t.Errorf("%d cells: %q", n, line)
		}
	}
}

// TestSessionsFiles checks that show names the attachments of a session, and that export
// writes them under names that lead nowhere else.
func TestSessionsFiles(t *testing.T) {
	t.Parallel()
	f := newFakeSessions(t, "abc")
	id := func(c string) string { return "sha256:" + strings.Repeat(c, 64) }
	attachment := func(c, name string) string {
		return fmt.Sprintf(`{"id":%q,"name":%q,"media_type":"image/png","bytes":1,"width":30,"height":20}`, id(c), name)
	}
	f.with(func() {
		f.files = map[string]string{id("a"): "first", id("b"): "second", id("c"): "out", id("d"): "dots"}
		f.events = `[{"type":"message","role":"user","text":"look","attachments":[` + attachment("a", "shot.png") + `,` + attachment("e", "lost.png") + `,7,{"id":"../x","media_type":"image/png","bytes":1}]},` +
			`{"type":"tool_use","id":"1","name":"read","input":{"path":"x"}},` +
			`{"type":"tool_result","tool_use_id":"1","output":{"ok":true},"ok":true,"attachments":[` + attachment("b", "shot.png") + `,` + attachment("a", "again.png") + `]},` +
			`{"type":"message","role":"user","text":"more","attachments":[` + attachment("c", "../../out.png") + `,` + attachment("d", "..") + `]},` +
			`{"type":"message","role":"user","text":"bad","attachments":"none"}]`
	})
	const image = ", image/png, 30x20\n"
	f.expect(t, "sessions show abc", 0, "Session abc\n\nUser:\n  look\n  Attached: shot.png"+image+"  Attached: lost.png"+image+
		"\nTool requested: read path=\"x\"\nTool finished: read\n  Attached: shot.png"+image+"  Attached: again.png"+image+
		"\nUser:\n  more\n  Attached: ../../out.png"+image+"  Attached: .."+image+"\nUser:\n  bad\n", "")

	dir := filepath.Join(t.TempDir(), "made", "images")
	for range 2 { // what is there already stays
		f.expect(t, "sessions export abc --files "+dir, 1, "text \x1b[2J\u202e\n", "4 attachments in "+dir+"\nError [internal]: missing or damaged attachments were left out: lost.png\n")
	}
	for name, want := range map[string]string{"shot.png": "first", "shot-bbbbbbbb.png": "second", "out.png": "out", "file.png": "dots"} {
		zinotest.Equal(t, name, zinotest.Read(t, filepath.Join(dir, name)), want)
		info, err := os.Stat(filepath.Join(dir, name))
		zinotest.Must(t, err)
		zinotest.Equal(t, "mode", info.Mode(), 0o600)
	}
	entries, err := os.ReadDir(dir)
	zinotest.Must(t, err)
	zinotest.Equal(t, "files", len(entries), 4)

	zinotest.Must(t, os.Remove(filepath.Join(dir, "out.png")))
	zinotest.Must(t, os.Symlink(filepath.Join(t.TempDir(), "target"), filepath.Join(dir, "out.png")))
	zinotest.Write(t, filepath.Join(dir, "out-cccccccc.png"), "other")
	status, _, stderr := run(t, f.command(t, "sessions", "export", "abc", "--files", dir), "")
	if status != 1 || !strings.Contains(stderr, "out.png: file already exists") {
		t.Errorf("status %d, %q", status, stderr)
	}
}

// TestSessionsExportTerminal escapes on a terminal what is exact for a program.
func TestSessionsExportTerminal(t *testing.T) {
	t.Parallel()
	x := onTerminal(t, newFakeSessions(t, "abc").command(t, "sessions", "export", "abc"))
	x.Exit()
	x.Shows("text ^[[2J\\u202e\r\n")
}

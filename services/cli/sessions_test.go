package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"zino/pkg/rpc"
	"zino/proto"
)

// fakeSessions is a mem with sessions behind a daemon that passes requests on.
// A place in a session is the number of events before it.
type fakeSessions struct {
	socket string

	mu       sync.Mutex
	list     []proto.SessionSummary
	events   map[string][]string // by id
	skipped  map[string]int      // by id, lines that are no events
	busy     string              // the id of a session that a turn holds
	piece    int                 // events, or characters of a text, in an answer
	endless  bool                // what comes next is always what was
	total    int                 // sessions that there are, if more than in the list
	fails    error               // any answer
	searched []proto.SearchSessions
	previews []proto.Preview
	handoffs []proto.Handoff
	report   proto.ContextReport
	bundle   proto.HandoffBundle
	waiting  chan struct{}
}

func newFakeSessions(t *testing.T, ids ...string) *fakeSessions {
	t.Helper()
	dir := shortDir(t)
	f := &fakeSessions{
		socket: filepath.Join(dir, "d"), piece: 1000, events: map[string][]string{}, skipped: map[string]int{}, waiting: make(chan struct{}, 1),
	}
	for _, id := range ids {
		f.add(id, "words of "+id)
	}
	mem := rpc.NewServer("mem", slog.New(slog.DiscardHandler))
	rpc.Handle(mem, proto.MemListSessions, answer(f, f.listed))
	rpc.Handle(mem, proto.MemFindSession, answer(f, f.find))
	rpc.Handle(mem, proto.MemReadSession, answer(f, f.read))
	rpc.Handle(mem, proto.MemSearchSessions, answer(f, f.search))
	rpc.Handle(mem, proto.MemExportSession, answer(f, f.export))
	rpc.Handle(mem, proto.MemForkSession, answer(f, f.fork))
	rpc.Handle(mem, proto.MemRemoveSession, answer(f, f.remove))
	serveOn(t, mem, filepath.Join(dir, "mem"))
	daemon := rpc.NewServer("daemon", slog.New(slog.DiscardHandler))
	rpc.HandleRelay(daemon, proto.DaemonForward, func(ctx context.Context, req proto.Forward, out *rpc.Out) error {
		c := &rpc.Client{Service: req.Service, Path: filepath.Join(dir, req.Service)}
		defer c.Close()
		return rpc.Relay(ctx, c, req.Request, out)
	})
	rpc.Handle(daemon, proto.DaemonContext, answer(f, f.context))
	rpc.Handle(daemon, proto.DaemonHandoff, f.handoff)
	serveOn(t, daemon, f.socket)
	return f
}

// with has a test look at the fake, or change it, while it runs.
func (f *fakeSessions) with(do func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	do()
}

// first is the session that changed last.
func (f *fakeSessions) first() (s proto.SessionSummary) {
	f.with(func() { s = f.list[0] })
	return s
}

// add puts a session in front of the others, with one message.
func (f *fakeSessions) add(id, text string) { f.with(func() { f.put(id, text) }) }

func (f *fakeSessions) put(id, text string) {
	f.list = slices.Insert(f.list, 0, proto.SessionSummary{SessionID: id, Updated: "2026-11-21T14:03:07Z", Messages: 1, Text: text})
	f.events[id] = []string{fmt.Sprintf(`{"type":"message","role":"user","text":%q}`, text)}
}

// answer makes a handler of a method of the fake.
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

func (f *fakeSessions) read(req proto.ReadSession) (rep proto.SessionEvents, err error) {
	found, err := f.find(proto.FindSession{SessionID: req.SessionID})
	if err != nil {
		return rep, err
	}
	all := f.events[found.SessionID]
	from := int(req.From)
	to := min(len(all), from+f.piece)
	rep = proto.SessionEvents{
		SessionID: found.SessionID, Events: proto.Raw("[" + strings.Join(all[from:to], ", \n") + "]"), Next: int64(to), More: to < len(all),
	}
	if from == 0 {
		rep.Skipped = f.skipped[found.SessionID]
	}
	if f.endless {
		rep.Next, rep.More = req.From, true
	}
	return rep, nil
}

func (f *fakeSessions) search(req proto.SearchSessions) (hits proto.SessionHits, err error) {
	f.searched = append(f.searched, req)
	for _, s := range f.list {
		if strings.Contains(s.Text, req.Query) {
			hits.Results = append(hits.Results, proto.SessionHit{SessionID: s.SessionID, Updated: s.Updated, Role: "user", Excerpt: "…" + s.Text})
		}
	}
	return hits, nil
}

// export gives the events, each in a line, a piece of the first line's
// characters or all of a later one at a time.
func (f *fakeSessions) export(req proto.ExportSession) (rep proto.SessionText, err error) {
	found, err := f.find(proto.FindSession{SessionID: req.SessionID})
	if err != nil {
		return rep, err
	}
	rep = proto.SessionText{SessionID: found.SessionID, Next: req.From, Skip: req.Skip, More: true}
	if f.endless {
		return rep, nil
	}
	text := []rune(req.Format + " " + strings.Join(f.events[found.SessionID], "\n") + "\n")
	to := min(len(text), int(req.Skip)+f.piece)
	rep.Content, rep.Skip, rep.More = string(text[req.Skip:to]), int64(to), to < len(text)
	return rep, nil
}

func (f *fakeSessions) fork(req proto.ForkSession) (rep proto.SessionPlace, err error) {
	found, err := f.find(proto.FindSession{SessionID: req.SessionID})
	if err == nil {
		f.put("fork-of-"+found.SessionID, found.Text)
	}
	return proto.SessionPlace{SessionID: "fork-of-" + found.SessionID}, err
}

func (f *fakeSessions) remove(req proto.RemoveSession) (rep proto.SessionName, err error) {
	found, err := f.find(proto.FindSession{SessionID: req.SessionID})
	if err == nil && found.SessionID == f.busy {
		err = &proto.Error{Code: proto.CodeBusy, Message: "A turn is under way on it."}
	}
	if err != nil {
		return rep, err
	}
	f.list = slices.DeleteFunc(f.list, func(s proto.SessionSummary) bool { return s.SessionID == found.SessionID })
	return proto.SessionName{SessionID: found.SessionID}, nil
}

func (f *fakeSessions) context(req proto.Preview) (proto.ContextReport, error) {
	f.previews = append(f.previews, req)
	return f.report, nil
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

// expect runs a command and compares all that it says.
func (f *fakeSessions) expect(t *testing.T, args string, status int, out, said string) {
	t.Helper()
	gotStatus, gotOut, gotSaid := run(t, f.command(t, strings.Fields(args)...), "")
	if gotStatus != status || gotOut != out || gotSaid != said {
		t.Errorf("%s: status %d, printed\n%s\nsaid\n%s\nwant %d\n%s\n%s", args, gotStatus, gotOut, gotSaid, status, out, said)
	}
}

// TestSessionsResumeNone says that there is nothing to go on with before it asks
// for a model.
func TestSessionsResumeNone(t *testing.T) {
	t.Parallel()
	newFakeSessions(t).expect(t, "sessions resume", 1, "", "Error [session]: No sessions found to resume\n")
	status, out, said := run(t, newWorld(t).command("--socket", "none", "sessions", "resume"), "")
	if status != 1 || out != "" || !strings.Contains(said, "Could not connect to daemon: ") || strings.Count(said, "\n") != 1 {
		t.Errorf("no daemon: status %d, printed %q, said %q", status, out, said)
	}
}

func TestSessionsFork(t *testing.T) {
	t.Parallel()
	f := newFakeSessions(t, "abc", "abd")
	f.expect(t, "sessions fork abc", 0, "fork-of-abc\n", "")
	f.expect(t, "sessions fork ab", 1, "", "Error [usage]: Several sessions begin with \"ab\".\n")
	f.expect(t, "sessions fork x", 1, "", "Error [session]: There is no session \"x\".\n")
}

// TestSessionsRemove settles what names mean before anything is deleted, and
// goes on behind one that cannot be.
func TestSessionsRemove(t *testing.T) {
	t.Parallel()
	f := newFakeSessions(t, "abc", "abd", "held", "other", "kept")
	f.with(func() { f.busy = "held" })
	f.expect(t, "sessions rm abc ab held none oth other", 1, "abc\nother\n",
		"Error [usage]: Several sessions begin with \"ab\".\nError [session]: There is no session \"none\".\nError [internal]: A turn is under way on it.\n")
	f.expect(t, "sessions rm ab", 0, "abd\n", "")
	if status, out, _ := run(t, f.command(t, "sessions", "list"), ""); status != 0 || strings.Count(out, "\n") != 2 || !strings.HasPrefix(out, "kept  ") {
		t.Errorf("left: %s", out)
	}
}

// TestSessionsFail tells of a daemon that is not there, and of a mem that fails.
func TestSessionsFail(t *testing.T) {
	t.Parallel()
	status, out, said := run(t, newWorld(t).command("--socket", "none", "sessions", "list"), "")
	if status != 1 || out != "" || !strings.HasPrefix(said, "Error [internal]: Could not connect to daemon: ") || !strings.HasSuffix(said, "; is the daemon running? try: zino status\n") {
		t.Errorf("status %d, printed %q, said %q", status, out, said)
	}
	f := newFakeSessions(t, "abc")
	f.with(func() { f.fails = &proto.Error{Code: proto.CodeInternal, Message: "the disk\nis \x1b[31m gone"} })
	for _, args := range []string{"list", "show abc", "search x", "export abc", "fork abc", "rm abc"} {
		f.expect(t, "sessions "+args, 1, "", "Error [internal]: the disk is ^[[31m gone\n")
	}
}

// TestSessionsOwn asks the caller's own daemon and never the host's, whose
// sessions are those of all.
func TestSessionsOwn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	own, host := newFakeSessions(t, "mine"), newFakeSessions(t, "theirs")
	w.daemon(t, own.socket)
	w.host(t, host.socket)
	cmd := w.command("sessions", "list")
	if status, out, said := run(t, cmd, ""); status != 0 || !strings.HasPrefix(out, "mine  ") || said != "" {
		t.Errorf("status %d, printed %q, said %q", status, out, said)
	}
	cmd = w.command("--host", "sessions", "list")
	if status, out, said := run(t, cmd, ""); status != 0 || !strings.HasPrefix(out, "theirs  ") || said != "" {
		t.Errorf("--host: status %d, printed %q, said %q", status, out, said)
	}
}

// line is a value as it is printed for programs.
func line(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text) + "\n"
}

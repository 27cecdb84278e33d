package cli

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"zino/pkg/zinotest"
	"zino/proto"
)

const someBundle = "# Handoff\n\n## Goal\n\nfinish \x1b[2J\n"

func newFakeHandoff(t *testing.T) *fakeSessions {
	t.Helper()
	f := newFakeSessions(t, "abc")
	f.with(func() { f.bundle = proto.HandoffBundle{SessionID: "abc", Content: someBundle} })
	return f
}

func TestHandoff(t *testing.T) {
	t.Parallel()
	f := newFakeHandoff(t)
	f.expect(t, "handoff --goal finish", 0, someBundle, "")
	f.expect(t, "handoff --goal finish --out -", 0, someBundle, "")
	f.with(func() { f.bundle.Content, f.bundle.Filled = "text\n\n\n", []string{"Open tasks", "Relevant files"} })
	const remark = "Warning: the model left out, or garbled: Open tasks, Relevant files. What stands there is taken from the session.\n"
	f.expect(t, "handoff --goal finish", 0, "text\n", remark)
	f.expect(t, "handoff --goal finish --offline", 0, "text\n", "")
	path := filepath.Join(zinotest.Dir(t), "h.md")
	f.expect(t, "handoff --goal finish -o "+path, 0, "", remark+"The handoff is in "+path+"\n")
	if data, err := os.ReadFile(path); err != nil || string(data) != "text\n" {
		t.Errorf("the file contains %q, %v", data, err)
	}
	f.expect(t, "handoff --goal finish -o "+path+"/x", 1, "", remark+"Error [internal]: open "+path+"/x: not a directory\n")
}

// TestHandoffRequest checks the request to the daemon.
func TestHandoffRequest(t *testing.T) {
	t.Parallel()
	f := newFakeHandoff(t)
	for _, test := range []struct {
		args []string
		want proto.Handoff
	}{
		{nil, proto.Handoff{Root: "."}},
		{[]string{"--from-session", "ab", "--session", "x", "--offline", "--root=.."}, proto.Handoff{SessionID: "ab", Offline: true, Root: ".."}},
		{[]string{"--session", "x", "--provider", "openai", "--model", "m", "--max-tokens", "9", "--effort", "low"}, proto.Handoff{SessionID: "x", Provider: "openai", Model: "m", MaxTokens: 9, Effort: "low", Root: "."}},
	} {
		w := newWorld(t)
		cmd := w.command(append([]string{"--socket", f.socket, "handoff", "--goal", " the  goal\n"}, test.args...)...)
		if status, _, stderr := run(t, cmd, ""); status != 0 {
			t.Errorf("%q: status %d, stderr %q", test.args, status, stderr)
		}
		test.want.Goal, test.want.Root = " the  goal\n", filepath.Join(w.cwd, test.want.Root)
		var got proto.Handoff
		f.with(func() { got = f.handoffs[len(f.handoffs)-1] })
		if !reflect.DeepEqual(got, test.want) {
			t.Errorf("%q: asked for %+v, want %+v", test.args, got, test.want)
		}
	}
}

func TestHandoffFails(t *testing.T) {
	t.Parallel()
	f := newFakeHandoff(t)
	for _, test := range []struct {
		code          proto.Code
		message, want string
	}{
		{proto.CodeNotFound, "No sessions found.", "Error [session]: No sessions found.\n"},
		{proto.CodeUnavailable, "no model is connected", "Error [internal]: no model is connected; zino handoff --offline makes the bundle without a model\n"},
		{proto.CodeUnavailable, "no model: try --offline", "Error [internal]: no model: try --offline\n"},
		{proto.CodeInternal, "HTTP 500: \x1b", "Error [internal]: HTTP 500: ^[\n"},
	} {
		f.with(func() { f.fails = &proto.Error{Code: test.code, Message: test.message} })
		f.expect(t, "handoff --goal x", 1, "", test.want)
	}
	f.expect(t, "handoff --goal x --offline", 1, "", "Error [internal]: HTTP 500: ^[\n")
}

// TestHandoffInterrupt checks that an interrupt gives status 130 and leaves no file.
func TestHandoffInterrupt(t *testing.T) {
	t.Parallel()
	f := newFakeHandoff(t)
	dir := zinotest.Dir(t)
	cmd := f.command(t, "handoff", "--goal", "wait", "--out", filepath.Join(dir, "h.md"))
	p := zinotest.Start(t, cmd)
	<-f.waiting
	p.Signal(os.Interrupt)
	if status := p.Exit(); status != exitInterrupted || p.Err.String() != "^C Interrupted.\n" {
		t.Errorf("status %d, stderr %q", status, p.Err)
	}
	zinotest.Equal(t, "files left", zinotest.Names(t, dir), "")
}

package daemon

import (
	"strings"
	"testing"

	"zino/pkg/wire"
	"zino/pkg/zinotest"
	"zino/pkg/zinotest/rpctest"
	"zino/proto"
)

// TestRename renames a session between its turns and during one: each title is an event
// of the log, and the turn goes on.
func TestRename(t *testing.T) {
	release := make(chan struct{})
	e := newResumeEnv(t, func(r *run) (proto.Text, error) {
		if err := rpctest.Until(r.ctx, release); err != nil {
			return proto.Text{}, err
		}
		return answer(r)
	})
	e.write("s-1", `{"type":"message","role":"user","text":"hi"}`, `{"type":"message","role":"assistant","text":"ho"}`)
	rename := func(session, title string) error {
		request, err := wire.AppendObject(nil, proto.DaemonRenameSession.Type, proto.RenameSession{SessionID: session, Title: title})
		zinotest.Must(t, err)
		var ok proto.Empty
		if e := e.call(string(request), &ok); e != nil {
			return e
		}
		return nil
	}
	zinotest.Must(t, rename("s-1", " fix mean\n"))
	zinotest.Contains(t, "the log", e.file("s-1")[3], `{"type":"title","text":"fix mean"}`)
	zinotest.Eventually(t, "the lock is released", e.idle)

	started := e.startTurn("more", "")
	zinotest.Eventually(t, "the run", func() bool { return len(e.requests.All()) == 1 })
	follower := e.dial()
	follower.Send(`{"type":"turn_follow","session_id":"s-1","turn":"` + started.Turn + `"}`)
	for follower.Next().Type != proto.TypeLive {
	}
	zinotest.Must(t, rename("s-1", "fix 漢字"))
	zinotest.Equal(t, "what a follower gets", follower.Receive(), `{"type":"title","text":"fix 漢字","turn":"`+started.Turn+`"}`)
	close(release)
	e.ended("s-1", started.Turn)
	zinotest.Contains(t, "the log", strings.Join(e.file("s-1"), "\n"), `"text":"fix 漢字"`, `"state":"done"`)

	unlock := e.lockSession("s-2")
	e.write("s-2", `{"type":"message","role":"user","text":"hi"}`)
	zinotest.Error(t, rename("s-2", "x"), proto.ErrBusy, "another turn is under way on session s-2")
	unlock()
	zinotest.Must(t, rename("s-2", "x"))
	for _, c := range []struct{ session, title, want string }{
		{"s-1", " ", "empty title: use 1 to 80 characters"},
		{"s-1", strings.Repeat("ä", 81), "the title has 81 characters: use at most 80"},
		{"s-1", "a\x1b[31mb", `invalid title "a\x1b[31mb": use no control characters`},
		{"s-1", "a\nb", "use no control characters"},
		{"s-1", "a\u202eb", "use no control characters"},
		{"../s", "x", "invalid session"},
		{"s-9", "x", `no session "s-9"`},
	} {
		if err := rename(c.session, c.title); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q %q: %v, want %s", c.session, c.title, err, c.want)
		}
	}
	zinotest.Eventually(t, "the sessions leave the memory", e.idle)
}

package constellation_test

import (
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"zino/pkg/config"
	"zino/pkg/fakellm"
	"zino/pkg/zinotest"
	"zino/pkg/zinotest/rpctest"
	"zino/proto"
	"zino/services/daemon"
)

// Members of a group that share a daemon.
const alice, bob = 61001, 61002

// as connects to the daemon as another user: the kernel reports the effective uid of the
// thread that calls connect.
func (e *agentsEnv) as(uid int) *rpctest.Conn {
	e.t.Helper()
	var nc net.Conn
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // the thread ends with the goroutine
		if _, _, errno := syscall.RawSyscall(syscall.SYS_SETRESUID, ^uintptr(0), uintptr(uid), ^uintptr(0)); errno != 0 {
			err = errno
			return
		}
		nc, err = net.Dial("unix", e.cfg.Daemon.Socket)
	}()
	<-done
	zinotest.Must(e.t, err)
	e.t.Cleanup(func() { nc.Close() })
	return rpctest.NewConn(e.t, nc)
}

// say runs a turn as a user and returns all packets.
func (e *agentsEnv) say(uid int, session, message string) string {
	e.t.Helper()
	c := e.as(uid)
	c.Send(fmt.Sprintf(`{"message":%q,"session_id":%q,"events":true}`, message, session))
	return strings.Join(rpctest.Raws(c.Rest()), "\n")
}

// recall sends recall_sessions as a user, with more fields of the request.
func (e *agentsEnv) recall(uid int, query, more string) string {
	e.t.Helper()
	return e.as(uid).Ask(fmt.Sprintf(`{"type":"forward","service":"mem","request":{"type":"recall_sessions","query":%q%s}}`, query, more))
}

func searching(query string) fakellm.Turn {
	return fakellm.Turn{Calls: []fakellm.Call{{Name: proto.MemRecallSessions.Type, Args: fmt.Sprintf(`{"query":%q}`, query)}}}
}

// TestRecallIsPrivate checks that of several users of a daemon each finds only the own
// sessions: with a request, whatever it asks for, and with the tool.
func TestRecallIsPrivate(t *testing.T) {
	if os.Geteuid() != 0 {
		zinotest.NotTested(t, "the requests of several users need root")
	}
	const query = "which word opens the vault"
	e := newAgents(t, func(cfg *config.Config) {
		tool := zinotest.Read(t, "../../tools/recall_sessions.json")
		zinotest.WriteFiles(t, cfg.Tools.Dir, map[string]string{"recall_sessions.json": tool})
	},
		fakellm.Turn{Text: "The vault opens with aardvark."},  // Alice
		fakellm.Turn{Text: "The vault opens with zebrafish."}, // Bob
		searching(query), fakellm.Turn{Text: "Done."}, // Alice, in a session
		fakellm.Turn{Text: `<tool_call>{"name":"recall_sessions","arguments":{"query":"` + query + `"}}</tool_call>`}, fakellm.Turn{Text: "Done."}, // Alice, without a session
		fakellm.Turn{Text: "Vault, again: zebrafish."}, // Bob, in a copy of Alice's session
		fakellm.Turn{Text: "The vault is not secret."}, // root
	)
	d := daemon.New(e.cfg, slog.New(slog.DiscardHandler))
	socket, _ := rpctest.New(t, "daemon", filepath.Join(e.cfg.Dir, "shared.sock"), d.Register) // any user may call it
	t.Cleanup(func() { zinotest.Must(t, d.Close()) })
	e.cfg.Daemon.Socket = socket
	zinotest.Must(t, os.Chmod(filepath.Dir(socket), 0o755))
	zinotest.Must(t, os.Chmod(socket, 0o666))

	e.say(alice, "a-1", "Remind me of the vault.")
	e.say(bob, "b-1", "Remind me of the vault.")
	zinotest.Contains(t, "first line", zinotest.Read(t, e.file("a-1")), fmt.Sprintf(`,"uid":%d}`, alice))

	only := func(what, got, own, foreign string) {
		t.Helper()
		if strings.Contains(got, foreign) || strings.Contains(own, " ") || own != "" && !strings.Contains(got, own) {
			t.Errorf("%s: %s", what, got)
		}
	}
	for _, more := range []string{
		"", `,"owner":61002`, `,"owner":null`, `,"owner":61002,"owner":0`, `,"\u006fwner":61002`, `,"Owner":61002`, `,"owner":"x"`,
		`,"role":"assistant"`, `,"not_session":"x","owner":0,"top_k":100`,
	} {
		only("Alice's request with "+more, e.recall(alice, query, more), "aardvark", "zebrafish")
	}
	for _, more := range []string{`,"session_id":"b-1"`, `,"session_id":"b","owner":61002`} {
		only("Alice's request with "+more, e.recall(alice, query, more), "", "zebrafish")
	}
	only("Bob's request", e.recall(bob, query, ""), "zebrafish", "aardvark")

	only("the tool of a turn", e.say(alice, "a-2", "Look it up."), "aardvark", "zebrafish")
	c := e.as(alice)
	c.Send(`{"message":"Look it up.","stream":true}`)
	only("the tool of a plain message", strings.Join(rpctest.Raws(c.Rest()), "\n"), "aardvark", "zebrafish")

	zinotest.Contains(t, "the copy", e.as(bob).Ask(`{"type":"forward","service":"mem","request":{"type":"fork_session","session_id":"a-1","new_id":"b-2","owner":61001}}`), `"session_id":"b-2"`)
	e.say(bob, "b-2", "And now?")
	only("Alice's request after Bob's copy", e.recall(alice, query, ""), "aardvark", "zebrafish")
	only("Bob's request after the copy", e.recall(bob, query, ""), "zebrafish", "aardvark")

	e.say(0, "root", "Remind me of the vault.")
	all := e.recall(0, query, `,"owner":61001`)
	zinotest.Contains(t, "the request of the daemon's own user", all, "aardvark", "zebrafish", "not secret")
	for _, uid := range []int{alice, bob} {
		only("a session of another user", e.recall(uid, query, ""), "", "not secret")
	}
}

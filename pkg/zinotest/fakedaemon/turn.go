package fakedaemon

import (
	"errors"
	"net"
	"sync"
	"syscall"

	"zino/pkg/zinotest/rpctest"
)

// Turn is a turn_follow or a plain chat request that is being answered.
type Turn struct {
	Request Request       // turn_follow, or the chat request
	Start   Request       // turn_start, or the chat request; empty for a turn that no client started
	ID      string        // "" for a plain chat request
	Gone    chan struct{} // closed when the client hangs up

	conn   *rpctest.Conn
	once   sync.Once
	ended  chan struct{}
	broken bool // the connection is closed without an end
}

func newTurn(c *rpctest.Conn, r, start Request) *Turn {
	return &Turn{Request: r, Start: start, ID: r.String("turn"), Gone: make(chan struct{}), conn: c, ended: make(chan struct{})}
}

// PID returns the process that follows the turn.
func (t *Turn) PID() (pid int, err error) {
	raw, err := t.conn.Conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		return 0, err
	}
	var peer *syscall.Ucred
	var failed error
	err = raw.Control(func(fd uintptr) {
		peer, failed = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	})
	if err != nil || failed != nil {
		return 0, errors.Join(err, failed)
	}
	return int(peer.Pid), nil
}

// Send sends packets.
func (t *Turn) Send(packets ...string) { t.conn.Send(packets...) }

// Live ends the replay, as the daemon does before it sends what happens now.
func (t *Turn) Live() { t.Send(object("type", "live", "turn", t.ID, "state", "running")) }

// Answer sends the text of an inference.
func (t *Turn) Answer(text string) {
	t.Send(object("type", "assistant_final", "turn", t.ID, "text", text))
}

// End ends the turn in a state, such as done, error or interrupted.
func (t *Turn) End(state string) {
	if t.ID == "" {
		t.finish(object("type", "done", "full_text", "", "iterations", 1))
		return
	}
	t.finish(object("type", "turn_ended", "turn", t.ID, "state", state), object("type", "followed", "session_id", t.Request.String("session_id"), "turn", t.ID, "state", state, "next", 900))
}

// HangUp closes the connection. The client follows the turn again: see Daemon.Turn.
func (t *Turn) HangUp() {
	t.broken = true
	t.finish()
}

func (t *Turn) finish(packets ...string) {
	t.once.Do(func() {
		t.Send(packets...)
		close(t.ended)
	})
}

package daemon

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"zino/pkg/zinotest"
	"zino/proto"
)

// TestParkedIsOpen checks that a parked turn, which is not in memory, counts as the open
// one for on_busy, and what is queued behind it for the limit of a session.
func TestParkedIsOpen(t *testing.T) {
	e := newResumeEnv(t)
	e.write("s-1", parkedTurn("s-1", "t-1", "limit")...)
	e.service.Resume()
	var started proto.TurnStarted
	err := e.call(`{"type":"turn_start","session_id":"s-1","message":"x","on_busy":"error"}`, &started)
	if err == nil || err.Code != proto.CodeBusy || err.Message != "session s-1 has an open turn t-1 (parked: limit)" {
		t.Errorf("on_busy error: %v, %+v", err, started)
	}
	for range queuedMax {
		zinotest.Equal(t, "state", e.startTurn("later", "").State, proto.TurnQueued)
		zinotest.Eventually(t, "the session leaves the memory", e.idle)
	}
	err = e.call(`{"type":"turn_start","session_id":"s-1","message":"x"}`, &started)
	if err == nil || err.Code != proto.CodeBusy || err.Message != "session s-1 has 16 queued turns" {
		t.Errorf("one more: %v, %+v", err, started)
	}
}

// TestOpenMax checks that a daemon takes 256 running and queued turns.
func TestOpenMax(t *testing.T) {
	e := newResumeEnv(t)
	e.service.table.open = openMax - 1
	e.scripts <- func(r *run) (proto.Text, error) {
		if err := e.call(`{"type":"turn_start","session_id":"s-2","message":"x"}`, nil); err == nil || err.Code != proto.CodeBusy || err.Message != "256 turns are running or queued" {
			t.Errorf("one more: %v", err)
		}
		return answer(r)
	}
	e.ended("s-1", e.startTurn("x", "").Turn)
}

// TestParkedMax checks that a turn is not parked for a limit where 10,000 are.
func TestParkedMax(t *testing.T) {
	e := newResumeEnv(t, limited(time.Now().Add(time.Hour)))
	for i := range parkedMax {
		e.service.lot.put(parked{session: fmt.Sprint("p-", i), until: time.Now().Add(time.Hour).Unix()})
	}
	e.write("s-1", openTurn, openAsked)
	sess := e.service.enter("s-1")
	defer sess.leave()
	zinotest.Must(t, sess.load())
	sess.mu.Lock()
	sess.advance()
	sess.mu.Unlock()
	turn := e.ended("s-1", "t-1")
	zinotest.Equal(t, "end", turn.State+" "+turn.Reason, "error limit")
}

// TestParkNotice checks what a follower gets of a turn that is parked for a limit.
func TestParkNotice(t *testing.T) {
	until := time.Now().Add(time.Hour)
	reached, release := make(chan struct{}), make(chan struct{})
	e := newResumeEnv(t, func(r *run) (proto.Text, error) {
		close(reached)
		<-release
		return limited(until)(r)
	})
	e.startTurn("x", `,"on_limit":"park"`)
	zinotest.Receive(t, "the run", reached)
	c := e.dial()
	c.Send(`{"type":"turn_follow","session_id":"s-1"}`)
	c.Packets(3) // running, user_message, live
	close(release)
	at := until.UTC().Format(time.RFC3339)
	equalLists(t, "packets", plainPackets(c.Packets(2)), []string{
		`{"type":"turn_state","turn":"t","state":"parked","reason":"limit","until":"` + at + `"}`,
		`{"type":"notice","kind":"wait","text":"The turn waits until ` + at + `: a limit of the provider.","turn":"t"}`,
	})
}

// TestFollowersMax checks how many followers a session, and a daemon, may have.
func TestFollowersMax(t *testing.T) {
	e := newResumeEnv(t)
	e.write("s-1", endedTurn("s-1", "t-1")...)
	sess := e.service.enter("s-1")
	defer sess.leave()
	for range followersMax {
		zinotest.Must(t, sess.countFollower())
	}
	follow := `{"type":"turn_follow","session_id":"s-1","until":"close"}`
	if err := e.call(follow, nil); err == nil || err.Code != proto.CodeBusy || err.Message != "session s-1 has 256 followers" {
		t.Errorf("one more of the session: %v", err)
	}
	for i := range 3 {
		other := e.service.enter(fmt.Sprint("o-", i))
		defer other.leave()
		for range followersMax {
			zinotest.Must(t, other.countFollower())
		}
	}
	if err := e.call(strings.Replace(follow, "s-1", "s-2", 1), nil); err == nil || err.Code != proto.CodeBusy || err.Message != "the daemon has 1024 followers" {
		t.Errorf("one more of the daemon: %v", err)
	}
	sess.uncountFollower()
	c := e.dial()
	c.Send(follow)
	zinotest.Eventually(t, "live", func() bool { return c.Next().Type == "live" })
}

// TestSayRepeatedAfterRestart checks that the repeat of a message of an earlier process is
// recognized, and that of a turn_start has the offset of its start.
func TestSayRepeatedAfterRestart(t *testing.T) {
	reached, release := make(chan struct{}), make(chan struct{})
	e := newResumeEnv(t, func(r *run) (proto.Text, error) {
		close(reached)
		<-release
		return answer(r)
	}, answer)
	with := func(line, id string) string {
		return strings.Replace(line, `"turn":`, `"request_id":"`+id+`","turn":`, 1)
	}
	e.write("s-1", with(openTurn, "r0"), openAsked, openText, openUsage, with(openSay, "r1"), with(openNext, "r2"))
	begun := e.read("s-1").Turn("t-1").Begun
	e.service.Resume()
	zinotest.Receive(t, "the run", reached)
	for id, want := range map[string]string{"r1": "t-1 s-1 steer", "r2": "t-2 s-2 queue"} {
		said, err := e.say(`"text":"quick","request_id":"` + id + `"`)
		if err != nil || values(said.Turn, said.Say, said.Mode) != want {
			t.Errorf("%s: %+v, %v", id, said, err)
		}
	}
	again := e.startTurn("count", `,"request_id":"r0"`)
	zinotest.Equal(t, "turn_start", values(again.Turn, again.State, again.Next), values("t-1", "running", begun))
	close(release)
	e.ended("s-1", "t-2")
}

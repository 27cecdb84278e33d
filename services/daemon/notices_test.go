package daemon

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"zino/pkg/rpc"
	"zino/pkg/zinotest"
	"zino/pkg/zinotest/rpctest"
	"zino/proto"
)

// TestNoticesBeforeFollower checks that a follower that comes while an inference waits to
// be repeated gets the notice about that, and that none comes after the answer.
func TestNoticesBeforeFollower(t *testing.T) {
	proceed := make(chan struct{})
	e := newResumeEnv(t, func(r *run) (proto.Text, error) {
		err := r.send(`{"type":"notice","kind":"retry","text":"asking again in 20s"}`)
		if err := errors.Join(err, rpctest.Until(r.ctx, proceed)); err != nil {
			return proto.Text{}, err
		}
		return answer(r)
	})
	e.startTurn("hi", "")
	follow := func() *rpctest.Conn {
		c := e.dial()
		c.Send(`{"type":"turn_follow","session_id":"s-1"}`)
		return c
	}
	first := follow()
	for _, c := range []*rpctest.Conn{first, nil} { // the second one comes after the notice
		if c == nil {
			c = follow()
		}
		seen := plainPackets(c.Packets(4)) // running, user_message, live, notice
		zinotest.Equal(t, "the notice", seen[3], `{"type":"notice","kind":"retry","text":"asking again in 20s","turn":"t"}`)
	}
	close(proceed)
	e.followed(first)
	for _, p := range plainPackets(e.followed(follow())) {
		if strings.Contains(p, "asking again") {
			t.Errorf("a later follower gets %s", p)
		}
	}
}

// TestNoticesAfterTurn checks that a follower that comes in the middle or behind the end of
// a turn gets the notices that a person should have of its run, once.
func TestNoticesAfterTurn(t *testing.T) {
	sent, proceed := make(chan struct{}), make(chan struct{})
	e := newResumeEnv(t, func(r *run) (proto.Text, error) {
		err := r.send(`{"type":"notice","kind":"warning","text":"1 image left out"}`)
		close(sent)
		if err := errors.Join(err, rpctest.Until(r.ctx, proceed)); err != nil {
			return proto.Text{}, err
		}
		return answer(r)
	})
	e.startTurn("hi", "")
	zinotest.Receive(t, "the notice", sent)
	c := e.dial()
	c.Send(`{"type":"turn_follow","session_id":"s-1"}`)
	middle := plainPackets(c.Packets(3)) // running, user_message, then the notice and live in either order
	close(proceed)
	const notice = `{"type":"notice","kind":"warning","text":"1 image left out","turn":"t"}`
	for name, packets := range map[string][]string{"middle": append(middle, plainPackets(e.followed(c))...), "behind": plainPackets(e.followed(func() *rpctest.Conn {
		late := e.dial()
		late.Send(`{"type":"turn_follow","session_id":"s-1"}`)
		return late
	}()))} {
		zinotest.Equal(t, name, strings.Count(strings.Join(packets, "\n"), notice), 1)
	}
}

// TestLostRunNotices checks what followers get of a run that is lost in an inference: that
// its text is void, that the turn goes on, and the attempt with the text. A follower that
// comes while the turn waits for the attempt, and one that connects again from its last
// packet, get the packets of the log without the text.
func TestLostRunNotices(t *testing.T) {
	reached, lose := make(chan struct{}), make(chan struct{})
	e := newResumeEnv(t, func(r *run) (proto.Text, error) {
		err := r.send(`{"type":"assistant_delta","text":"I thi"}`)
		close(reached)
		if err := errors.Join(err, rpctest.Until(r.ctx, lose)); err != nil {
			return proto.Text{}, err
		}
		return proto.Text{}, &proto.Error{Code: proto.CodeUnavailable, Kind: proto.ErrorKindTransport, Message: "rtr hung up"}
	}, answer)
	e.startTurn("hi", "")
	zinotest.Receive(t, "the run", reached)
	follow := func() *rpctest.Conn {
		c := e.dial()
		c.Send(`{"type":"turn_follow","session_id":"s-1"}`)
		return c
	}
	first := follow()
	seen := plainPackets(first.Packets(4)) // running, user_message, live, assistant_delta
	zinotest.Equal(t, "the text", seen[3], `{"type":"assistant_delta","turn":"t","text":"I thi"}`)
	close(lose)
	resumed := `{"type":"turn_state","turn":"t","state":"resumed","reason":"the run was lost","attempt":1,"discarded":"I thi"}`
	after := []string{
		resumed, `{"type":"assistant_final","turn":"t","text":"all done","step":1}`,
		`{"type":"usage","turn":"t","input_tokens":7,"output_tokens":3,"step":1}`,
		`{"type":"turn_ended","turn":"t","state":"done","result":{"type":"done","full_text":"all done","iterations":1,"stop_reason":"stop","usage":{"input_tokens":7,"output_tokens":3}}}`,
		packetEnd,
	}
	void := []string{`{"type":"retracted","turn":"t"}`, `{"type":"notice","kind":"resumed","text":"The run was lost; the turn goes on.","turn":"t"}`}
	equalLists(t, "packets", plainPackets(e.followed(first)), append(void, after...))
	for _, p := range plainPackets(e.followed(follow())) {
		if strings.Contains(p, "retracted") || strings.Contains(p, "assistant_delta") {
			t.Errorf("a later follower gets %s", p)
		}
	}
	c := e.dial()
	c.Send(fmt.Sprintf(`{"type":"turn_follow","session_id":"s-1","from":%d}`, e.read("s-1").Turns[0].Start))
	equalLists(t, "packets of the past", plainPackets(e.followed(c))[2:], append(replayed(after[:4]...), packetEnd))
}

// TestCancelBeforeAttempt checks that a turn that waits for its next attempt can be
// followed, listed and canceled.
func TestCancelBeforeAttempt(t *testing.T) {
	zinotest.Equal(t, "pauses", fmt.Sprint(resumePauses), "[1s 5s 25s]")
	e := newResumeEnv(t, answer)
	e.service.resumePauses = []time.Duration{time.Minute}
	e.write("s-1", openTurn, openAsked)
	e.service.Resume()
	zinotest.Eventually(t, "the turn", func() bool { return e.service.openTurns() && !e.service.lot.has("s-1") })
	c := e.dial()
	c.Send(`{"type":"turn_follow","session_id":"s-1"}`)
	zinotest.Eventually(t, "live", func() bool { return c.Next().Type == "live" })
	var list proto.TurnList
	if e := e.call(`{"type":"turns"}`, &list); e != nil || len(list.Turns) != 1 {
		t.Errorf("%+v, %v", list, e)
	}
	if e := e.call(`{"type":"turn_cancel","session_id":"s-1"}`, new(proto.TurnStarted)); e != nil {
		t.Error(e)
	}
	zinotest.Equal(t, "state", e.ended("s-1", "t-1").State, proto.TurnInterrupted)
}

// TestPromptTries checks that a turn asks three times for its prompt, and is not stored
// without one.
func TestPromptTries(t *testing.T) {
	if wait := promptPause * (promptTries - 1); promptTries != 3 || wait > 10*time.Second {
		t.Errorf("%d tries in %v, want 3 in 10 s", promptTries, wait)
	}
	for fails, want := range map[int64]string{2: "done", 3: "error"} {
		var asked atomic.Int64
		n := all()
		n.sys = func(ctx context.Context, req proto.GetPrompt, out *rpc.Out) error {
			if asked.Add(1) <= fails {
				return &proto.Error{Code: proto.CodeUnavailable, Message: "sys is starting"}
			}
			return answers[proto.GetPrompt](`{"type":"system_prompt","content":"x"}`)(ctx, req, out)
		}
		b := newSessionEnv(t, n, whole)
		packets, last := b.turn(turnPayload)
		zinotest.Equal(t, fmt.Sprintf("the end after %d failures", fails), last.Type, want)
		if want == "error" && (len(packets) != 1 || len(b.trail.stored()) > 0) {
			t.Errorf("packets %s, stored %s", packets, b.trail.stored())
		}
		zinotest.Equal(t, "tries", asked.Load(), 3)
	}
}

package daemon

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"

	"zino/pkg/zinotest"
	"zino/pkg/zinotest/rpctest"
	"zino/proto"
	"zino/services/daemon/turnlog"
)

// TestFollowerReadsAhead checks that a follower gets each stored packet once, and no text
// again, if it reads the log before the daemon has got the answer of mem to an append.
func TestFollowerReadsAhead(t *testing.T) {
	reached, goOn := make(chan struct{}), make(chan struct{})
	b := newRealEnv(t, stops(6, func(ctx context.Context) { // before the checkpoint of the first inference
		close(reached)
		rpctest.Until(ctx, goOn)
	}))
	b.startTurn("hi", "")
	zinotest.Receive(t, "the step", reached)
	answered, release := make(chan struct{}), make(chan struct{})
	once := sync.OnceFunc(func() { close(answered); <-release })
	b.service.mem.Close() // of its idle connections: the next ones go through the proxy
	newProxy(t, b.cfg.Mem.Socket, func(answer []byte) bool {
		if strings.Contains(string(answer), `"type":"session","session_id"`) {
			once()
		}
		return false
	})
	close(goOn)
	zinotest.Receive(t, "the answer of mem", answered)
	c := b.dial()
	c.Send(`{"type":"turn_follow","session_id":"s-1"}`)
	var packets []rpctest.Packet
	for range 5 { // running, user_message, assistant_final, tool_requested, usage
		packets = append(packets, c.Next())
	}
	close(release)
	packets = append(packets, b.followed(c)...)
	last, final := int64(0), false
	for _, p := range packets[:len(packets)-1] {
		var place struct{ Next int64 }
		zinotest.Must(t, json.Unmarshal([]byte(p.Raw), &place))
		if p.Type != proto.TypeLive && place.Next > 0 {
			if place.Next <= last {
				t.Errorf("sent again: %s", p.Raw)
			}
			last = place.Next
		}
		final = final || p.Type == proto.TypeAssistantFinal
		if final && strings.Contains(p.Raw, "Let <me>") && p.Type == proto.TypeAssistantDelta {
			t.Errorf("text behind its end: %s", p.Raw)
		}
	}
}

// TestFollowerJoinsLongText checks that a follower whose queue was full joins a running
// turn once and gets each byte of its text once, also if the text is longer than the queue.
func TestFollowerJoinsLongText(t *testing.T) {
	sess := &session{Service: newEnv(t, all()).service, id: "s-1", ready: true, log: turnlog.New("s-1", 0)}
	text := strings.Repeat("x", queueMax+1)
	own := &turn{session: sess, id: "t-1", state: proto.TurnRunning, launched: true, relay: &relay{text: []byte(text)}}
	sess.turns = []*turn{own}
	f := &following{session: sess, follower: &follower{turn: "t-1", until: "t-1", wake: make(chan struct{}, 1)}, log: sess.log}
	f.follower.leave(true) // its queue was full
	zinotest.Equal(t, "join", f.join(), joined)
	own.delta([]byte(`"yz"`))
	if f.gone() || len(sess.live) != 1 {
		t.Fatalf("the follower is gone: %v; %d live followers, want 1", f.gone(), len(sess.live))
	}
	var types, got []string
	for _, p := range f.queue {
		var packet struct{ Type, Text string }
		zinotest.Must(t, json.Unmarshal(p.payload, &packet))
		types, got = append(types, packet.Type), append(got, packet.Text)
	}
	equalLists(t, "packets", types, []string{proto.TypeLive, proto.TypeAssistantDelta})
	if all := strings.Join(got, ""); all != text+"yz" {
		t.Errorf("text of %d bytes, want %d: it ends with %q", len(all), len(text)+2, all[max(0, len(all)-4):])
	}
}

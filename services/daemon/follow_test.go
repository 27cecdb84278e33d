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

package daemon

import (
	"bytes"
	"slices"

	"zino/pkg/wire"
	"zino/proto"
	"zino/services/daemon/turnlog"
)

// queueMax is how many bytes of packets may wait for a follower.
const queueMax = 256 << 10

// packet is a packet for followers. Its payload is made once, and shared.
type packet struct {
	payload []byte
	turn    string
	next    int64 // offset behind the stored event; 0: it is not stored
	delta   bool  // an assistant_delta, whose payload ends with its text
	own     bool  // the payload belongs to the follower's queue alone
}

// follower is a turn_follow request that gets packets as they come. Its fields are
// guarded by session.mu.
type follower struct {
	turn  string // only its packets are wanted; empty: those of all turns
	until string // ends with this turn; empty: goes on
	queue []packet
	size  int           // bytes in queue
	at    int64         // offset behind the last event that was queued or sent
	wake  chan struct{} // has room for one: the queue, or one of the following has changed
	lost  bool          // the queue was full: packets are missing
	ended bool          // nothing follows behind the queue
}

// send queues a packet for the live followers. session.mu is locked. It never waits: a
// follower whose queue is full goes back to the log.
func (sess *session) send(p packet) {
	for _, f := range sess.live {
		if f.turn == "" || f.turn == p.turn {
			f.add(p)
		}
	}
	sess.live = slices.DeleteFunc(sess.live, func(f *follower) bool { return f.lost })
}

// add queues a packet. Deltas that wait are joined into one.
func (f *follower) add(p packet) {
	if f.size += len(p.payload); f.size > queueMax {
		f.queue, f.size, f.lost = nil, 0, true
	} else if n := len(f.queue) - 1; n >= 0 && p.delta && f.queue[n].delta && f.queue[n].turn == p.turn {
		last := &f.queue[n]
		if !last.own {
			last.payload, last.own = append(make([]byte, 0, 2*len(last.payload)+len(p.payload)), last.payload...), true
		}
		last.payload = append(last.payload[:len(last.payload)-len(deltaEnd)], p.payload[len(deltaHead)+len(p.turn)+len(deltaText):]...)
	} else {
		f.queue = append(f.queue, p)
	}
	f.notify()
}

func (f *follower) notify() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// expire sends the live followers that have not reached an offset back to the log: another
// constellation has written meanwhile. session.mu is locked.
func (sess *session) expire(next int64) {
	sess.live = slices.DeleteFunc(sess.live, func(f *follower) bool {
		if f.at == next {
			return false
		}
		f.lost = true
		f.notify()
		return true
	})
}

// publish adds stored events to the log, and sends their packets to the followers.
// session.mu is locked.
func (sess *session) publish(events proto.Raw, offsets []int64) {
	for event, next := range turnlog.Events(events, offsets) {
		if len(sess.live) == 0 {
			sess.log.Add(event, next)
			continue
		}
		if payload := sess.log.Packet(nil, event, next, false); payload != nil {
			sess.send(packet{payload: payload, turn: turnOf(payload), next: next})
		}
	}
	for _, f := range sess.live {
		f.at = sess.log.Next
		if t := sess.log.Turn(f.until); t != nil && t.End > 0 {
			f.ended = true
			f.notify()
		}
	}
	sess.live = slices.DeleteFunc(sess.live, func(f *follower) bool { return f.ended })
}

// broadcast sends a packet of agr that is not stored to the followers.
func (t *turn) broadcast(payload []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.live) > 0 {
		t.send(packet{payload: t.mark(payload), turn: t.id})
	}
}

// mark returns a packet of agr with the id of the turn.
func (t *turn) mark(payload []byte) []byte {
	payload = bytes.TrimRight(payload, " \t\r\n")
	b := append(make([]byte, 0, len(payload)+len(`,"turn":"t-k3v9q2m7xd4a"`)), payload[:len(payload)-1]...)
	return append(wire.AppendString(append(b, `,"turn":`...), t.id), '}')
}

// An assistant_delta is deltaHead, the turn, deltaText, the text as in a JSON string, and
// deltaEnd.
const (
	deltaHead = `{"type":"assistant_delta","turn":"`
	deltaText = `","text":"`
	deltaEnd  = `"}`
)

// delta sends a piece of text, a JSON string, to the followers. session.mu is locked.
func (t *turn) delta(text []byte) {
	if len(t.live) == 0 {
		return
	}
	t.send(t.deltaPacket(text))
}

// deltaPacket returns an assistant_delta with a text, a JSON string.
func (t *turn) deltaPacket(text []byte) packet {
	b := append(make([]byte, 0, len(text)+64), deltaHead...)
	b = append(append(append(b, t.id...), deltaText...), text[1:]...)
	return packet{payload: append(b, '}'), turn: t.id, delta: true}
}

// turnOf returns the turn of a packet.
func turnOf(payload []byte) string {
	for key, value := range wire.Members(payload) {
		if string(key) == "turn" {
			id, _ := wire.Unquote(nil, value)
			return string(id)
		}
	}
	return ""
}

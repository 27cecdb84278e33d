package daemon

import (
	"bytes"
	"slices"
	"sync"

	"zino/pkg/wire"
	"zino/proto"
	"zino/services/daemon/turnlog"
)

const (
	// queueMax is how many bytes of packets may wait for a follower.
	queueMax = 256 << 10
	// sharedMax is the same for packets from largePacket bytes on. Their payloads are
	// shared by all followers of the session, and written without a copy.
	sharedMax   = 1 << 20
	largePacket = 8 << 10
)

// packet is a packet for followers. Its payload is made once, and shared.
type packet struct {
	payload []byte
	turn    string
	next    int64  // offset behind the stored event; 0: it is not stored
	delta   bool   // an assistant_delta, whose payload ends with its text
	own     bool   // the payload belongs to the follower's queue alone
	asks    string // the request for an approval, or for input, that it shows
	input   bool   // about input: for followers with inputs alone
	client  bool   // only for followers with client_files
}

// follower is a turn_follow request that gets packets as they come.
type follower struct {
	turn   string        // only its packets are wanted; empty: those of all turns
	until  string        // ends with this turn; empty: goes on
	input  bool          // a person is there who can give input
	client bool          // it answers file_requested
	wake   chan struct{} // has room for one: what mu guards has changed

	// Guarded by session.mu:
	at    int64    // offset behind the last event that was queued or sent
	shown []string // requests for approvals and for input that were open when it joined

	// Locked for moments only: a turn that sends does not wait for followers that
	// take their packets.
	mu     sync.Mutex
	queue  []packet
	size   int          // bytes in queue
	shared int          // bytes of large packets in queue
	lost   bool         // the queue was full: packets are missing
	ended  bool         // nothing follows behind the queue
	err    *proto.Error // with ended: why the turn is not followed to its end

	gathering bool // deltas do not wake it: it sends them after gatherTime
}

// send queues a packet for the live followers. session.mu is locked. It never waits: a
// follower whose queue is full goes back to the log.
func (sess *session) send(p packet) {
	full := false
	for _, f := range sess.live {
		if (f.turn == "" || f.turn == p.turn) && (p.next == 0 || p.next > f.at) && (p.asks == "" || !slices.Contains(f.shown, p.asks)) && (!p.input || f.input) && (!p.client || f.client) {
			full = !f.add(p) || full
		}
	}
	if full {
		sess.live = slices.DeleteFunc(sess.live, (*follower).gone)
	}
}

// gone reports whether nothing more is sent to the follower.
func (f *follower) gone() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.lost || f.ended
}

// add queues a packet, and reports whether there was room for it. Deltas that wait are
// joined into one.
func (f *follower) add(p packet) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.gathering || !p.delta {
		defer f.notify()
	}
	size := &f.size
	if len(p.payload) >= largePacket && !p.delta {
		size = &f.shared
	}
	if *size += len(p.payload); f.size > queueMax || f.shared > sharedMax && len(f.queue) > 0 {
		f.queue, f.size, f.shared, f.lost = nil, 0, 0, true
		return false
	}
	n := len(f.queue) - 1
	if n < 0 || !p.delta || !f.queue[n].delta || f.queue[n].turn != p.turn {
		f.queue = append(f.queue, p)
		return true
	}
	last := &f.queue[n]
	if !last.own {
		last.payload, last.own = append(make([]byte, 0, 2*len(last.payload)+len(p.payload)), last.payload...), true
	}
	last.payload = append(last.payload[:len(last.payload)-len(deltaEnd)], p.payload[len(deltaHead)+len(p.turn)+len(deltaText):]...)
	return true
}

// begin queues a packet without which a follower cannot go on, of any size. A limit
// would send the follower back to the log again and again.
func (f *follower) begin(p packet) {
	f.mu.Lock()
	f.queue = append(f.queue, p)
	f.mu.Unlock()
	f.notify()
}

// leave marks a follower that has to go back to the log, or that has got all.
func (f *follower) leave(lost bool) {
	f.mu.Lock()
	f.lost, f.ended = lost, !lost
	f.mu.Unlock()
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
		f.leave(true)
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
		if payload, turn := sess.log.Packet(nil, event, next, false); payload != nil {
			sess.send(packet{payload: payload, turn: turn, next: next})
		}
	}
	sess.live = slices.DeleteFunc(sess.live, func(f *follower) bool {
		f.at = max(f.at, sess.log.Next)
		t := sess.log.Turn(f.until)
		if t == nil || t.End == 0 {
			return false
		}
		f.leave(false)
		return true
	})
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

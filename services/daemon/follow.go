package daemon

import (
	"context"
	"slices"
	"time"

	"zino/pkg/rpc"
	"zino/pkg/wire"
	"zino/proto"
	"zino/services/daemon/turnlog"
)

const (
	followersMax    = 256  // of a session
	allFollowersMax = 1024 // of the daemon
	// followerTimeout is how long a follower may accept no byte.
	followerTimeout = time.Hour
	// partingTimeout is the same while the daemon stops.
	partingTimeout = time.Second
	// gatherTime is how long text gathers for a follower with gather. PROTOCOL.md names it.
	gatherTime = 30 * time.Millisecond
)

// following is a turn_follow request in progress. It sends stored packets from the log
// until it has reached the end, then those that come.
type following struct {
	*session
	*follower
	req  proto.TurnFollow
	out  *rpc.Out
	from int64        // packets up to this offset are not sent
	log  *turnlog.Log // of the replay
	sent int64        // offset behind the last event that was sent

	announced string // the turn whose notices were sent
	noticed   int    // how many of them
	waited    bool   // the end of the log was read once more
}

// turnFollow sends the packets of a session's turns.
func (s *Service) turnFollow(ctx context.Context, req proto.TurnFollow, out *rpc.Out) (proto.Followed, error) {
	if err := proto.CheckSessionID(req.SessionID); err != nil {
		return proto.Followed{}, err
	}
	if req.Until != "" && req.Until != proto.UntilTurn && req.Until != proto.UntilClose {
		return proto.Followed{}, proto.Errorf(proto.CodeInvalid, "invalid until %q: use %q or %q", req.Until, proto.UntilTurn, proto.UntilClose)
	}
	sess, err := s.enterKnown(ctx, req.SessionID)
	if err != nil {
		return proto.Followed{}, err
	}
	defer sess.leave()
	if err := sess.countFollower(); err != nil {
		return proto.Followed{}, err
	}
	defer sess.uncountFollower()
	rpc.Passive(ctx) // it does not keep the daemon from exiting when idle
	out.SetWriteTimeout(followerTimeout)
	defer context.AfterFunc(s.parting, func() { out.SetWriteTimeout(partingTimeout) })()
	f := &following{session: sess, follower: &follower{wake: make(chan struct{}, 1), input: req.Inputs, client: req.ClientFiles}, req: req, out: out}
	if err := f.begin(ctx); err != nil {
		return proto.Followed{}, err
	}
	if req.Inputs {
		defer sess.countAnswerer(f.follower)()
	}
	defer f.detach()
	return f.run(ctx)
}

func (sess *session) countFollower() error {
	sess.table.mu.Lock()
	defer sess.table.mu.Unlock()
	switch {
	case sess.followers >= followersMax:
		return proto.Errorf(proto.CodeBusy, "session %s has %d followers", sess.id, followersMax)
	case sess.table.followers >= allFollowersMax:
		return proto.Errorf(proto.CodeBusy, "the daemon has %d followers", allFollowersMax)
	}
	sess.followers++
	sess.table.followers++
	return nil
}

func (sess *session) uncountFollower() {
	sess.table.mu.Lock()
	defer sess.table.mu.Unlock()
	sess.followers--
	sess.table.followers--
}

// begin finds the turn and the offset to begin at.
func (f *following) begin(ctx context.Context) error {
	f.session.mu.Lock()
	if f.covered(f.req.Turn, f.req.From) {
		defer f.session.mu.Unlock()
		return f.resolve(f.session.log)
	}
	waiting := len(f.turns) > 0
	f.session.mu.Unlock()
	log, err := f.readLog(ctx, f.session.id, 0)
	if codeOf(err) == proto.CodeNotFound && waiting { // nothing is stored yet
		log, err = turnlog.New(f.session.id, 0), nil
	}
	if err != nil {
		return err
	}
	f.session.mu.Lock()
	defer f.session.mu.Unlock()
	return f.resolve(log)
}

// covered reports whether what the daemon has of the log says all of a turn, or from an
// offset on. session.mu is locked.
func (f *following) covered(turn string, from *int64) bool {
	log := f.session.log
	return f.ready && len(log.Turns) > 0 && (turn == "" || log.Turn(turn) != nil) && (from == nil || *from >= f.logFrom && *from <= log.Next)
}

// resolve finds the turn and the offset in the log. session.mu is locked.
func (f *following) resolve(log *turnlog.Log) error {
	turn, start := f.req.Turn, log.Start()
	own := f.active() // one that waits for its lock is not in the log
	if turn != "" {
		own = f.find(turn)
	} else if open := log.Open(); len(open) > 0 {
		turn = open[0].ID
	} else if own != nil {
		turn = own.id
	} else if last := log.Last(); last != nil {
		turn = last.ID
	}
	switch t := log.Turn(turn); {
	case t != nil:
		start = t.Start
	case own != nil:
		start = log.Next
	case turn != "":
		return proto.Errorf(proto.CodeNotFound, "no turn %s in session %s", turn, f.session.id)
	}
	if f.req.Until != proto.UntilClose {
		f.until = turn
		if f.req.Turn != "" && (f.req.From == nil || *f.req.From > 0) {
			f.turn = turn
		}
	}
	f.from = start
	if f.req.From != nil {
		f.from = *f.req.From
	}
	if f.from < 0 || f.from > log.Next {
		return badFrom(f.from)
	}
	f.rewind(log)
	return nil
}

func badFrom(from int64) error {
	return proto.Errorf(proto.CodeInvalid, "from %d is not the start of an event", from)
}

// rewind prepares the replay from f.from on. all is the log up to now.
func (f *following) rewind(all *turnlog.Log) {
	f.sent = f.from
	f.log = turnlog.New(f.session.id, all.ReplayFrom(f.from))
}

// find returns the open turn of that id. session.mu is locked.
func (sess *session) find(id string) *turn {
	for _, t := range sess.turns {
		if t.id == id {
			return t
		}
	}
	return nil
}

// run sends packets until the turn has ended, the daemon stops, or the caller hangs up.
func (f *following) run(ctx context.Context) (proto.Followed, error) {
	for {
		ended, err := f.replay(ctx)
		if err != nil {
			return proto.Followed{}, err
		}
		if ended {
			return f.end(""), nil
		}
		switch f.join() {
		case joinAgain:
			continue
		case joinNever:
			f.session.mu.Lock()
			unsaved := f.unsavedEnd(f.until)
			f.session.mu.Unlock()
			if unsaved != nil {
				if err := f.out.Frame(unsaved); err != nil {
					return proto.Followed{}, err
				}
			}
			return f.end(""), nil
		}
		again, reason, err := f.watch(ctx)
		if err != nil {
			return proto.Followed{}, err
		}
		if !again {
			return f.end(reason), nil
		}
		if err := f.again(ctx); err != nil {
			return proto.Followed{}, err
		}
	}
}

// again goes back to the log, from the last event that was sent.
func (f *following) again(ctx context.Context) error {
	f.from = f.sent
	f.session.mu.Lock()
	covered := f.covered("", &f.from)
	if covered {
		f.rewind(f.session.log)
	}
	f.session.mu.Unlock()
	if covered {
		return nil
	}
	log, err := f.readLog(ctx, f.session.id, 0)
	if err != nil {
		return err
	}
	f.rewind(log)
	return nil
}

// end returns the terminal packet.
func (f *following) end(reason string) proto.Followed {
	reply := proto.Followed{SessionID: f.session.id, Turn: f.until, State: proto.TurnDone, Next: f.sent, Reason: reason}
	f.session.mu.Lock()
	defer f.session.mu.Unlock()
	if t := f.log.Turn(f.until); t != nil {
		reply.State = t.State
	}
	if f.session.log != nil && f.session.log.Turn(f.until) != nil {
		reply.State = f.session.log.Turn(f.until).State
	}
	if own := f.find(f.until); own != nil {
		reply.State = own.shown()
	}
	if f.unsavedEnd(f.until) != nil {
		reply.State = proto.TurnError
	}
	return reply
}

// replay sends the packets of stored events up to the end of the log, or of the turn.
func (f *following) replay(ctx context.Context) (ended bool, err error) {
	var b []byte
	for more := true; more; {
		page, err := f.readPage(ctx, f.session.id, f.log.Next)
		if codeOf(err) == proto.CodeNotFound && f.log.Next == 0 {
			return false, nil // nothing is stored yet
		}
		if err != nil {
			return false, err
		}
		for event, next := range turnlog.Events(page.Events, page.Offsets) {
			if next <= f.from {
				f.log.Add(event, next)
				continue
			}
			if f.sent == f.from && f.log.Next != f.from && f.log.Next < f.from {
				return false, badFrom(f.from)
			}
			var turn string
			b, turn = f.log.Packet(b[:0], event, next, true)
			if len(b) > 0 && (f.turn == "" || f.turn == turn) {
				if err := f.out.Frame(b); err != nil {
					return false, err
				}
				if err := f.announce(b); err != nil {
					return false, err
				}
			}
			f.sent = next
			if t := f.log.Turn(f.until); t != nil && t.End == next {
				return true, f.out.Flush()
			}
		}
		f.log.Next, f.sent, more = page.Next, max(f.sent, page.Next), page.More
		if err := f.out.Flush(); err != nil {
			return false, err
		}
	}
	return false, nil
}

// announce sends the notices of a turn behind its user's message.
func (f *following) announce(payload []byte) error {
	f.session.mu.Lock()
	var notices []proto.Raw
	for _, t := range append(f.turns[:len(f.turns):len(f.turns)], f.recent...) {
		if t.id != f.announced && len(t.notices) > 0 && t.id == turnOf(payload) {
			notices = slices.Clone(t.notices)
			f.announced, f.noticed = t.id, len(notices)
		}
	}
	f.session.mu.Unlock()
	for _, notice := range notices {
		if err := f.out.Frame(notice); err != nil {
			return err
		}
	}
	return nil
}

// Results of join.
const (
	joined    = iota // packets are queued as they come
	joinAgain        // more has been stored
	joinNever        // the turn is not carried out by this daemon
)

// join makes the follower a live one if it has reached the end of the log.
func (f *following) join() int {
	f.session.mu.Lock()
	if w := f.w; f.ready && f.session.log.Next < f.sent && w.isAppending() {
		f.session.mu.Unlock()
		w.wait() // the log was read before the daemon has got the answer to its append
		return joinAgain
	}
	defer f.session.mu.Unlock()
	own := f.find(f.until)
	switch {
	case f.ready && f.session.log.Next > f.sent:
		return joinAgain
	case f.until == "" && f.req.Until != proto.UntilClose:
		return joinNever // a session without turns
	case f.until != "" && own == nil && (f.settling || f.lot.has(f.session.id)): // it is parked, or resumed soon
	case f.until != "" && own == nil && f.waited:
		return joinNever
	case f.until != "" && own == nil: // its end may have been stored since the log was read
		f.waited = true
		return joinAgain
	}
	if own == nil {
		own = f.active()
	}
	f.at = f.sent
	f.follower.mu.Lock()
	f.queue, f.size, f.shared, f.lost, f.ended, f.gathering = nil, 0, 0, false, false, false
	f.follower.mu.Unlock()
	f.live = append(f.live, f.follower)
	f.sendLive(own)
	return joined
}

// sendLive queues what a follower needs to go on from now. session.mu is locked.
func (f *following) sendLive(t *turn) {
	live := proto.Live{State: proto.TurnDone, Next: f.sent}
	if t != nil {
		live.Turn, live.State = t.id, t.shown()
	} else if open := f.log.Open(); len(open) > 0 {
		live.Turn, live.State = open[0].ID, open[0].State
	} else if n := len(f.log.Turns); n > 0 {
		live.State = f.log.Turns[n-1].State
	}
	payload, err := wire.AppendObject(nil, proto.TypeLive, live)
	if err != nil { // cannot happen: it has strings and a number
		return
	}
	f.follower.add(packet{payload: payload, turn: live.Turn})
	f.sendWaiting()
	if t == nil {
		return
	}
	if f.client {
		if t.silent = false; t.file != nil {
			f.follower.add(t.file.packet)
		}
	}
	if !t.launched && t.state != proto.TurnParked {
		f.follower.add(t.noticePacket(proto.NoticeWait, waitText(f.session.id)))
	}
	if t.stalled != "" {
		f.follower.add(t.noticePacket(proto.NoticeStorage, t.stalled))
	}
	if t.state == proto.TurnRunning {
		if f.announced != t.id {
			f.announced, f.noticed = t.id, 0
		}
		for _, notice := range t.notices[min(f.noticed, len(t.notices)):] {
			f.follower.add(packet{payload: notice, turn: t.id})
		}
		f.noticed = len(t.notices)
	}
	if t.relay == nil {
		return
	}
	if len(t.relay.text) > 0 {
		f.follower.begin(t.deltaPacket(wire.AppendString(nil, t.relay.text)))
	} else {
		for _, notice := range t.relay.notices { // such as a pause before the model is asked again
			f.follower.add(packet{payload: notice, turn: t.id})
		}
	}
	for _, call := range t.relay.running {
		f.follower.add(packet{payload: t.mark(call.begun), turn: t.id})
	}
}

// watch sends the packets that come. again means that the queue was full.
func (f *following) watch(ctx context.Context) (again bool, reason string, err error) {
	var batch []packet
	var gathered <-chan time.Time
	for {
		select {
		case <-f.wake:
		case <-gathered:
		case <-f.parting.Done():
			reason = proto.ParkedRestart
		case <-ctx.Done():
			return false, "", ctx.Err()
		}
		f.follower.mu.Lock()
		batch, f.queue = f.queue, batch[:0]
		f.size, f.shared = 0, 0
		lost, ended, failed := f.lost, f.ended, f.err
		gather := f.req.Gather && len(batch) > 0 && batch[len(batch)-1].delta
		f.gathering = gather
		f.follower.mu.Unlock()
		if gathered = nil; gather {
			gathered = time.After(gatherTime)
		}
		for _, p := range batch {
			if p.next > 0 && p.next <= f.sent { // the replay has sent it
				continue
			}
			if err := f.out.Frame(p.payload); err != nil {
				return false, "", err
			}
			f.sent = max(f.sent, p.next)
		}
		clear(batch)
		if err := f.out.Flush(); err != nil {
			return false, "", err
		}
		if failed != nil {
			return false, "", failed
		}
		if lost || ended || reason != "" {
			return lost && reason == "", reason, nil
		}
	}
}

// detach ends the follower.
func (f *following) detach() {
	f.session.mu.Lock()
	defer f.session.mu.Unlock()
	f.live = slices.DeleteFunc(f.live, func(other *follower) bool { return other == f.follower })
}

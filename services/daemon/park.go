package daemon

import (
	"cmp"
	"container/heap"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"zino/pkg/text"
	"zino/proto"
	"zino/services/daemon/turnlog"
)

// parkedMax is how many parked turns a daemon keeps.
const parkedMax = 10_000

// parked is what the daemon keeps of a session whose open turns all wait: nothing else
// of it is in memory, and its lock is released.
type parked struct {
	session, turn string
	reason        string // one of proto.Parked…; empty: to be resumed now
	until         int64  // when it wakes up, as Unix seconds; 0: only a request wakes it
	started       int64  // when it began, as Unix seconds; 0: unknown
	first         int64  // offset of its first event
	elsewhere     int    // how often another process had the lock
	index         int    // in the heap
}

// lot has the parked turns, one per session, with one timer for all.
type lot struct {
	wake func(parked) // carries on with a turn; returns when it ended or is parked again
	max  int          // concurrent calls of wake

	mu      sync.Mutex
	turns   map[string]*parked // by session
	loading map[string]bool    // sessions that wake up and whose turns are not in memory yet
	byTime  timeline
	timer   *time.Timer
	waking  int
	waiting sync.WaitGroup // for wake
	closed  bool
}

func newLot(limit int, wake func(parked)) *lot {
	return &lot{wake: wake, max: limit, turns: map[string]*parked{}, loading: map[string]bool{}}
}

// put adds a turn, or replaces that of the same session. Its time may be in the past.
func (l *lot) put(p parked) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	l.drop(p.session)
	l.turns[p.session] = &p
	p.index = -1
	if p.until > 0 {
		heap.Push(&l.byTime, &p)
	}
	l.schedule()
}

// take removes and returns the turn of a session.
func (l *lot) take(session string) (parked, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.drop(session)
	if p == nil {
		return parked{}, false
	}
	return *p, true
}

// list returns all parked turns.
func (l *lot) list() []parked {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make([]parked, 0, len(l.turns))
	for _, p := range l.turns {
		all = append(all, *p)
	}
	return all
}

func (l *lot) size() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.turns)
}

// has reports whether the turn of a session is in the lot, or wakes up.
func (l *lot) has(session string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.turns[session] != nil || l.loading[session]
}

// loaded ends the waking up of a session: its turns are in memory, or cannot be.
func (l *lot) loaded(session string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.loading, session)
}

// rouse wakes a turn that is parked for an approval.
func (l *lot) rouse(session, turn string) {
	l.mu.Lock()
	p := l.turns[session]
	if p == nil || p.turn != turn || p.reason != proto.ParkedApproval {
		l.mu.Unlock()
		return
	}
	awake := *p
	l.mu.Unlock()
	awake.reason, awake.until = "", 1
	l.put(awake)
}

func (l *lot) drop(session string) *parked {
	p := l.turns[session]
	if p == nil {
		return nil
	}
	delete(l.turns, session)
	if p.index >= 0 {
		heap.Remove(&l.byTime, p.index)
	}
	return p
}

// schedule wakes the turns whose time has come, and sets the timer for the next one.
// l.mu is locked.
func (l *lot) schedule() {
	for len(l.byTime) > 0 && l.waking < l.max && !l.closed {
		p := l.byTime[0]
		if wait := time.Until(time.Unix(p.until, 0)); wait > 0 {
			if l.timer == nil {
				l.timer = time.AfterFunc(wait, l.ring)
			} else {
				l.timer.Reset(wait)
			}
			return
		}
		l.drop(p.session)
		l.loading[p.session] = true
		l.waking++
		l.waiting.Go(func() {
			l.wake(*p)
			l.mu.Lock()
			defer l.mu.Unlock()
			delete(l.loading, p.session)
			l.waking--
			l.schedule()
		})
	}
}

func (l *lot) ring() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.schedule()
}

// stop stops the timer: no turn wakes up any more. Turns that are put afterwards are
// dropped.
func (l *lot) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	if l.timer != nil {
		l.timer.Stop()
	}
}

// close stops the timer and waits for the calls of wake.
func (l *lot) close() {
	l.stop()
	l.waiting.Wait()
}

// timeline is a heap of turns, the one that wakes up first at the top.
type timeline []*parked

func (t timeline) Len() int           { return len(t) }
func (t timeline) Less(i, j int) bool { return t[i].until < t[j].until }

func (t timeline) Swap(i, j int) {
	t[i], t[j] = t[j], t[i]
	t[i].index, t[j].index = i, j
}

func (t *timeline) Push(p any) {
	p.(*parked).index = len(*t)
	*t = append(*t, p.(*parked))
}

func (t *timeline) Pop() any {
	last := len(*t) - 1
	p := (*t)[last]
	(*t)[last] = nil
	*t = slices.Delete(*t, last, last+1)
	p.index = -1
	return p
}

// parkedOf returns the record of a turn. One that was parked because the daemon stopped
// wakes up at once.
func parkedOf(t *turnlog.Turn, session string) parked {
	p := parked{session: session, turn: strings.Clone(t.ID), first: t.First}
	if at, err := time.Parse(time.RFC3339, t.Started); err == nil {
		p.started = at.Unix()
	}
	for _, reason := range []string{proto.ParkedApproval, proto.ParkedLimit, proto.ParkedBudget, proto.ParkedRestart} {
		if t.Reason == reason { // a constant, of which nothing is kept
			p.reason = reason
		}
	}
	if at, err := time.Parse(time.RFC3339, t.Until); err == nil {
		p.until = max(at.Unix(), 1)
	} else if t.State != proto.TurnParked || t.Reason == proto.ParkedRestart {
		p.until = 1
	}
	return p
}

// limitTries is how often a turn is parked for limits.
const limitTries = 5

// parksFor returns the reason for which a turn is parked whose run ended so, and when it
// wakes up; the reason is empty if it is not parked.
func (t *turn) parksFor(end proto.Text, err error) (reason string, until time.Time) {
	if end.StopReason == proto.StopParked {
		t.mu.Lock()
		defer t.mu.Unlock()
		return cmp.Or(t.parkReason, proto.ParkedRestart), t.parkUntil
	}
	if errors.Is(err, errRestart) || context.Cause(t.runCtx) == errRestart && t.ctx.Err() == nil && err != nil {
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.parkReason == proto.ParkedApproval { // a call waited for an answer
			return t.parkReason, t.parkUntil
		}
		return proto.ParkedRestart, until
	}
	e, ok := errors.AsType[*proto.Error](err)
	if ok && (e.Code == proto.CodeUnavailable || e.Code == proto.CodeTimeout) && t.parksForStop() {
		// When the host shuts down, its network or a local model may stop first.
		return proto.ParkedRestart, until
	}
	if !ok || t.onLimit != proto.OnLimitPark || t.attached || t.lifetime == proto.LifetimePrivate {
		return "", until
	}
	switch e.Code {
	case proto.CodeLimit:
		reason = proto.ParkedLimit
	case proto.CodeBudget:
		reason = proto.ParkedBudget
	default:
		return "", until
	}
	until, bad := time.Parse(time.RFC3339, e.Details)
	t.mu.Lock()
	defer t.mu.Unlock()
	if bad != nil || time.Until(until) > t.cfg.Daemon.LimitWait.Value() || t.log.Turn(t.id).Tries >= limitTries || t.lot.size() >= parkedMax {
		return "", until
	}
	return reason, until
}

// park stores that a turn waits. Its run in agr has ended.
func (t *turn) park(r *relay, reason string, until time.Time) error {
	if r.asked { // the inference is asked again
		if _, err := r.take(); err != nil {
			return err
		}
		r.dropped()
	}
	r.settled()
	e := proto.LogTurn{Turn: t.id, SessionID: t.session.id, State: proto.TurnParked, Reason: reason, Pending: t.notStarted, TS: timestamp()}
	e.Discarded = text.Head(string(r.text), discardedMax)
	if reason == proto.ParkedApproval {
		t.mu.Lock()
		e.Approval = t.parkApproval
		t.mu.Unlock()
		e.Pending = r.unstarted(e.Approval)
	}
	if !until.IsZero() {
		e.Until = until.UTC().Format(time.RFC3339)
	}
	r.event(proto.TypeTurn, e)
	return r.store(nil, func() {
		t.state, t.reason, t.relay = proto.TurnParked, reason, nil
		if e.Until != "" {
			t.notice(proto.NoticeWait, fmt.Sprintf("The turn waits until %s: %s.", e.Until, limitText[reason]))
		}
	})
}

// limitText says what a parked turn waits for.
var limitText = map[string]string{proto.ParkedLimit: "a limit of the provider", proto.ParkedBudget: "the budget is used up", proto.ParkedApproval: "a person must allow a call (zino approvals)"}

// parksForStop reports whether the turn ends at its next checkpoint, as the daemon stops.
func (t *turn) parksForStop() bool {
	return t.stopping.Err() != nil && !t.attached && t.lifetime == proto.LifetimePersistent
}

// stopGrace is how long a turn whose command was interrupted waits for the daemon to be
// stopped: systemd stops all units of a host, or of a login, at the same time. Without it
// the model would be asked what to do about the command, and the turn could end with that.
const stopGrace = time.Second

func (t *turn) awaitStop() {
	if t.attached || t.lifetime != proto.LifetimePersistent {
		return
	}
	select {
	case <-t.stopping.Done():
	case <-t.runCtx.Done():
	case <-time.After(stopGrace):
	}
}

// stopMargin is the time that is left for storing the parked turns when the daemon stops.
const stopMargin = 3 * time.Second

// parkAll parks the running turns when the daemon stops, each at its next checkpoint, or
// wherever it is when the time is over. The next daemon resumes them.
func (s *Service) parkAll(ctx context.Context) {
	if s.lifetime == proto.LifetimePrivate {
		return
	}
	s.halt()
	s.lot.stop()
	var running []*turn
	for _, sess := range s.allSessions() {
		sess.mu.Lock()
		for _, t := range sess.turns {
			if t.launched && t.parksForStop() {
				running = append(running, t)
			}
		}
		sess.mu.Unlock()
	}
	late := make(chan struct{})
	if deadline, ok := ctx.Deadline(); ok {
		defer time.AfterFunc(time.Until(deadline)-stopMargin, func() { close(late) }).Stop()
	}
	for _, t := range running {
		select {
		case <-t.done:
			continue
		case <-late:
		case <-ctx.Done():
		}
		t.cut(errRestart)
	}
	for _, t := range running {
		select {
		case <-t.done:
		case <-ctx.Done():
			return
		}
	}
}

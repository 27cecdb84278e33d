package exc

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"sync"
	"time"

	"zino/pkg/mask"
	"zino/proto"
	"zino/services/exc/calls"
	"zino/services/exc/files"
	"zino/services/exc/run"
)

// stoppedFor is how long calls of a stopped turn are refused: agr may have sent them
// before its run was closed.
const stoppedFor = 10 * time.Minute

// turns tracks the running calls, including calls of turns without a waiting caller.
type turns struct {
	orphanTimeout time.Duration

	mu      sync.Mutex
	running map[*turnCall]bool
	keys    map[string]*turnCall // those with a key
	stopped map[turnID]time.Time
}

// turnID names a turn. The zero value means no turn.
type turnID struct{ session, turn string }

// turnCall is a call or execute, and the turn that it belongs to.
type turnCall struct {
	turnID
	id      string // of the call, within its step
	key     string // empty: its caller's connection cancels it
	sum     string // SHA-256 of what is to be done
	recover bool
	since   time.Time
	ticket  ticket

	mask   *mask.Masker // of all that leaves this process
	noted  noted        // for the audit; its files are guarded by mu
	cancel context.CancelFunc
	done   chan struct{} // closed when answer is set
	answer any           // an answer[T]

	callers int         // requests that wait for the answer; guarded by turns.mu
	orphan  *time.Timer // cancels it when no caller has come back; guarded by turns.mu

	mu      sync.Mutex
	lives   map[*run.Live]bool // of callers that want the output
	streams map[string]*mask.Stream
	start   *start // nil: it has changed nothing
	capture        // of its file changes
	over    bool   // it may not start any more
	later   func() // what is left to do when the result is recorded; nil: nothing
}

// start is what is known of a call right before it changes anything.
type start struct {
	root  string      // the directory to work in
	level proto.Level // of confinement
	plan  *files.Plan // of write and edit; nil: code runs
	job   string      // the job that runs it; empty: none
}

// newTurnCall checks the fields that identify a call. A repeat of the call must have
// the same input: tool, root and arguments.
func newTurnCall(session, turn, key string, recovers bool, since string, input ...[]byte) (*turnCall, error) {
	c := &turnCall{turnID: turnID{session, turn}, key: key, recover: recovers, done: make(chan struct{}), lives: map[*run.Live]bool{}}
	if key == "" {
		if recovers {
			return nil, proto.Errorf(proto.CodeInvalid, "recover needs the key of the call")
		}
		return c, nil
	}
	parts := strings.Split(key, "/")
	if len(parts) != 4 || slices.Contains(parts, "") {
		return nil, proto.Errorf(proto.CodeInvalid, "invalid key %q: want SESSION/TURN/STEP/CALL, none of them empty or with a /", key)
	}
	if session != "" && session != parts[0] || turn != "" && turn != parts[1] {
		return nil, proto.Errorf(proto.CodeInvalid, "the key %q belongs to another turn than %s of session %s", key, turn, session)
	}
	c.turnID, c.id = turnID{parts[0], parts[1]}, parts[3]
	if since != "" {
		var err error
		if c.since, err = time.Parse(time.RFC3339Nano, since); err != nil {
			return nil, proto.Errorf(proto.CodeInvalid, "invalid since %q: want a time in RFC 3339", since)
		}
	}
	hash := sha256.New()
	for _, part := range input {
		hash.Write(part)
		hash.Write([]byte{0})
	}
	c.sum = hex.EncodeToString(hash.Sum(nil))
	return c, nil
}

// begin is called when everything about a call is decided, right before it changes
// anything: here is captured what must be known of the state before. After an error
// the call must not start. It may be called again with another plan.
func (s *Service) begin(ctx context.Context, c *turnCall, st start) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if ctx.Err() != nil || c.over {
		return context.Canceled
	}
	s.captureBefore(ctx, c, st)
	if c.key != "" {
		call := calls.Call{Key: c.key, Sum: c.sum, Job: st.job}
		if st.plan != nil {
			call.Before, call.After = st.plan.Before, st.plan.After
		}
		s.at("decided")
		if err := s.journal.Begin(call); err != nil {
			return notRecorded(err)
		}
		s.at("begun")
	}
	c.start = &st
	return nil
}

// finish is called when a call has ended, before its result is recorded and sent. It
// reports whether the call has begun.
func (s *Service) finish(c *turnCall) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
	return c.start != nil
}

// notRecorded is the error of a call that was not started because the journal
// cannot be written or read.
func notRecorded(err error) *files.Error {
	return &files.Error{Code: proto.ToolNotRecorded, Message: "The call was not started, because it cannot be recorded: " + err.Error() + ". Free some disk space or correct the directory, then try again."}
}

// after has f called when the result is recorded, or needs no record.
func (c *turnCall) after(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.later = f
}

// recorded does what is left to do when the result is recorded.
func (c *turnCall) recorded() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.later != nil {
		c.later()
	}
}

// watch shows the output with live, nil for a caller that does not want it, until the
// returned function is called.
func (c *turnCall) watch(live *run.Live) (stop func()) {
	if live == nil {
		return func() {}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lives[live] = true
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.lives, live)
	}
}

// enter adds a call of one caller. If a call with its key runs, that one is joined
// and returned.
func (t *turns) enter(c *turnCall) (running *turnCall, joined bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if r := t.keys[c.key]; r != nil && c.key != "" {
		if r.sum != c.sum {
			return nil, false, otherInput(c.key)
		}
		if r.callers++; r.orphan != nil {
			r.orphan.Stop()
			r.orphan = nil
		}
		return r, true, nil
	}
	c.callers = 1
	t.running[c] = true
	if c.key != "" {
		t.keys[c.key] = c
	}
	return c, false, nil
}

func otherInput(key string) error {
	return proto.Errorf(proto.CodeInvalid, "the key %q belongs to a call with other input", key)
}

// leave is called by a caller that no longer waits for a call. The last one leaves it
// running for some time.
func (t *turns) leave(c *turnCall) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if c.callers--; c.callers == 0 && t.running[c] {
		c.orphan = time.AfterFunc(t.orphanTimeout, c.cancel)
	}
}

// end removes a call that has its answer.
func (t *turns) end(c *turnCall) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.running, c)
	if t.keys[c.key] == c {
		delete(t.keys, c.key)
	}
	if c.orphan != nil {
		c.orphan.Stop()
	}
	close(c.done)
}

// busy reports whether calls run, some perhaps without a caller.
func (t *turns) busy() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.running) > 0
}

// stop makes calls of a turn be refused, and returns those that run.
func (t *turns) stop(id turnID) (list []*turnCall) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	for other, when := range t.stopped {
		if now.Sub(when) > stoppedFor {
			delete(t.stopped, other)
		}
	}
	t.stopped[id] = now
	for c := range t.running {
		if c.turnID == id {
			list = append(list, c)
		}
	}
	return list
}

// refused is the error for a call of a turn that was stopped.
func (t *turns) refused(c *turnCall) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, ok := t.stopped[c.turnID]; ok {
		return proto.Errorf(proto.CodeDenied, "turn %s was stopped", c.turn)
	}
	return nil
}

// stopTurn stops the calls of a turn, and waits until they are gone.
func (s *Service) stopTurn(ctx context.Context, req proto.StopTurn) (proto.Empty, error) {
	if req.SessionID == "" || req.Turn == "" {
		return proto.Empty{}, proto.Errorf(proto.CodeInvalid, "stop_turn needs session_id and turn")
	}
	list := s.turns.stop(turnID{req.SessionID, req.Turn})
	for _, c := range list {
		c.cancel()
	}
	for _, c := range list {
		select {
		case <-c.done:
		case <-ctx.Done():
			return proto.Empty{}, ctx.Err()
		}
	}
	return proto.Empty{}, s.jobs.StopTurn(ctx, req.SessionID, req.Turn) // also those of an exc before this one
}

package daemon

import (
	"cmp"
	"context"
	"os"
	"slices"
	"time"

	"zino/pkg/gate"
	"zino/pkg/rpc"
	"zino/proto"
)

// settleMode replaces the mode derived of a request by what it stands for, and makes the
// sandbox of the mode plan read-only. Where the host has no such level, exc denies commands
// in that mode. An absent mode stays absent: it is yolo.
func (s *Service) settleMode(ctx context.Context, req *proto.Chat) error {
	mode := gate.Mode(req.Mode)
	switch {
	case mode == "":
		return nil
	case mode == proto.ModeDerived && s.cfg.Gate.Mode != "":
		mode = gate.Mode(s.cfg.Gate.Mode)
	case mode == proto.ModeDerived:
		mode = gate.Derive(cmp.Or(req.Sandbox, s.capabilities(ctx).Sandbox))
	case !slices.Contains(gate.Modes, mode):
		return proto.Errorf(proto.CodeInvalid, "unknown mode %.40q: use plan, ask, auto, yolo or derived", req.Mode)
	}
	if mode == gate.Plan && slices.Contains(s.capabilities(ctx).Sandboxes, proto.LevelReadOnly) {
		req.Sandbox = proto.LevelReadOnly
	}
	req.Mode = string(mode)
	return nil
}

// capabilities returns how exc confines code, by the configuration if exc does not answer.
func (s *Service) capabilities(ctx context.Context) proto.ExecutorCapabilities {
	caps, err := rpc.Call(ctx, s.services["exc"], proto.ExcCapabilities, proto.CapabilitiesRequest{})
	if err != nil {
		s.log.Warn("the sandbox level of exc is not known", "error", err, "trace", rpc.Trace(ctx))
		return proto.ExecutorCapabilities{Sandbox: s.cfg.Exc.Sandbox}
	}
	return caps
}

// modeOf returns the mode of a request that settleMode has completed.
func modeOf(req proto.Chat) gate.Mode { return cmp.Or(gate.Mode(req.Mode), gate.Yolo) }

// token signs what the calls of a run may do. Without a key the error concerns only modes
// that restrict something: all else goes on as without tokens, and exc requires one where
// it is so configured.
func (s *Service) token(req proto.Chat, turn string, uid int) (string, error) {
	mode := modeOf(req)
	if s.signer == nil && mode == gate.Yolo {
		return "", nil
	}
	if s.signer == nil {
		return "", proto.Errorf(proto.CodeUnavailable, "mode %s is not available: %v", mode, s.signerErr)
	}
	return s.signer.Sign(gate.Turn{
		Session: req.SessionID, Turn: turn, Mode: mode, By: uid, Root: cmp.Or(req.Root, req.Cwd),
		Sandbox: req.Sandbox, Network: req.Network, Reachable: req.Reachable,
	}, time.Now())
}

// renewToken returns a new token for a run whose token is old, else "".
func (r *relay) renewToken() (string, error) {
	unlock := r.lock()
	due := time.Since(r.signed) > r.turn.renewAfter || r.mode != modeOf(r.turn.current())
	unlock()
	if !due {
		return "", nil
	}
	return r.signToken()
}

// signToken returns a token for the run of a turn.
func (r *relay) signToken() (string, error) {
	uid := r.turn.requester()
	defer r.lock()()
	req := r.turn.current()
	r.signed, r.mode = time.Now(), modeOf(req)
	req.Sandbox = r.level // another one needs another run
	return r.turn.token(req, r.turn.id, uid)
}

// options returns the options of a turn with the present mode.
func (t *turn) options() proto.Chat {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.current()
}

// current is options with session.mu locked.
func (t *turn) current() proto.Chat {
	req := t.req
	if t.mode != "" {
		req.Mode, req.Sandbox = string(t.mode), t.level
	}
	return req
}

// needsLevel reports whether the mode has another level of confinement than the run, which
// then ends, and is followed by another one.
func (r *relay) needsLevel() bool {
	t := r.turn
	t.mu.Lock()
	defer t.mu.Unlock()
	t.remode = t.mode != "" && t.level != r.level
	return t.remode
}

// remodes reports whether the run ended since needsLevel was true.
func (t *turn) remodes() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	remode := t.remode
	t.remode = false
	return remode
}

// turnMode changes the mode of an open turn.
func (s *Service) turnMode(ctx context.Context, req proto.TurnMode) (proto.TurnStarted, error) {
	if err := proto.CheckSessionID(req.SessionID); err != nil {
		return proto.TurnStarted{}, err
	}
	if req.Mode == "" {
		return proto.TurnStarted{}, proto.Errorf(proto.CodeInvalid, "empty mode: use plan, ask, auto, yolo or derived")
	}
	sess, leave, err := s.enterLoaded(ctx, req.SessionID)
	if err != nil {
		return proto.TurnStarted{}, err
	}
	defer leave()
	sess.mu.Lock()
	t := sess.active()
	if req.Turn != "" {
		t = sess.find(req.Turn)
	}
	if t == nil || t.failing {
		sess.mu.Unlock()
		return proto.TurnStarted{}, noTurn(sess.id)
	}
	chat := t.current()
	sess.mu.Unlock()
	if uid, by := rpc.PeerUID(ctx), t.requester(); uid != by && uid != 0 && uid != os.Geteuid() {
		return proto.TurnStarted{}, proto.Errorf(proto.CodeDenied, "uid %d may not change the mode of a turn of uid %d", uid, by)
	}
	chat.Mode, chat.Sandbox = req.Mode, t.unplanned
	if err := s.settleMode(ctx, &chat); err != nil {
		return proto.TurnStarted{}, err
	}
	if s.signer == nil && modeOf(chat) != gate.Yolo {
		return proto.TurnStarted{}, proto.Errorf(proto.CodeUnavailable, "mode %s is not available: %v", chat.Mode, s.signerErr)
	}
	sess.mu.Lock()
	set := func() { t.mode, t.level = modeOf(chat), chat.Sandbox }
	w, durable := sess.w, t.durable
	if !durable { // its first event will have it
		set()
	}
	sess.mu.Unlock()
	if durable {
		r := record{turnID: t.id}
		r.event(proto.TypeMode, proto.LogMode{Turn: t.id, Mode: chat.Mode, Sandbox: chat.Sandbox, By: byOf(ctx), TS: timestamp()})
		if err := sess.writeThen(ctx, w, &r, set); err != nil {
			return proto.TurnStarted{}, err
		}
	}
	sess.mu.Lock()
	defer sess.mu.Unlock()
	reply := proto.TurnStarted{SessionID: sess.id, Turn: t.id, State: t.state, Mode: string(modeOf(t.current()))}
	if t.log != nil {
		reply.Next = t.log.Next
	}
	return reply, nil
}

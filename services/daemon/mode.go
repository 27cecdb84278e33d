package daemon

import (
	"cmp"
	"context"
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
	due := time.Since(r.signed) > r.turn.renewAfter
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
	r.signed = time.Now()
	return r.turn.token(r.turn.req, r.turn.id, uid)
}

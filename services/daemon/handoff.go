package daemon

import (
	"context"

	"zino/proto"
	"zino/services/daemon/handoff"
)

// handoff makes a bundle of a session.
func (s *Service) handoff(ctx context.Context, req proto.Handoff) (proto.HandoffBundle, error) {
	maker := handoff.Maker{Mem: s.mem, Rtr: s.rtr, Temperature: s.cfg.Agent.Temperature, TopP: s.cfg.Agent.TopP, Effort: s.cfg.Agent.Effort}
	return maker.Make(ctx, req)
}

package service

import (
	"context"
	"log/slog"
	"time"

	"zino/pkg/rpc"
)

// whenIdle returns a channel that is closed when s accepts no more, because it
// was not used for limit. It is nil, for never, where the process does not end
// of itself: then nobody would take the next connection.
func whenIdle(ctx context.Context, s *rpc.Server, limit time.Duration, handed bool, log *slog.Logger) <-chan struct{} {
	if limit == 0 {
		return nil
	}
	if !handed {
		log.Info("--idle-exit has no effect: the socket was not handed over")
		return nil
	}
	idle := make(chan struct{})
	go func() {
		for wait := limit; wait > 0; wait = s.Retire(limit) {
			select {
			case <-time.After(wait):
			case <-ctx.Done():
				return
			}
		}
		log.Info("not used for a while: the process ends, and the next connection starts another", "idle_exit", limit.String())
		close(idle)
	}()
	return idle
}

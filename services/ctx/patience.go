package assemble

import (
	"context"
	"errors"
	"time"
)

// memPatience is how long mem is waited for in all, for a channel: a context
// without its memories and history is worth more than one that comes too late.
const memPatience = 4 * time.Second

// answerTime is what a deadline must leave for the rest of the way.
const answerTime = time.Second

// errSilent is why a wait for mem ended before its caller's deadline.
var errSilent = errors.New("mem was silent for too long")

// waiting is ctx for the questions to mem. Once mem was silent for too long no
// other is asked.
func (s *Service) waiting(ctx context.Context) (context.Context, context.CancelFunc) {
	limit := s.patience
	if deadline, ok := ctx.Deadline(); ok {
		limit = share(limit, time.Until(deadline))
	}
	return context.WithTimeoutCause(ctx, limit, errSilent)
}

// share is the part of what is left that mem may have.
func share(limit, left time.Duration) time.Duration {
	return min(limit, max(left-answerTime, left/2))
}

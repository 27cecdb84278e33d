package daemon

import (
	"context"
	"slices"
	"time"

	"zino/pkg/rpc"
	"zino/proto"
)

// leaseMax is the longest time between two renewals of leases.
const leaseMax = 5 * time.Minute

// renewLeases has exc keep the jobs of sessions that are in use, until the daemon
// closes. A lease that cannot be renewed is renewed the next time: it lasts for
// three of them.
func (s *Service) renewLeases() {
	every := min(s.cfg.Exc.JobLinger.Value()/3, leaseMax)
	if every <= 0 {
		return
	}
	for {
		select {
		case <-time.After(every):
		case <-s.life.Done():
			return
		}
		sessions := s.table.used()
		for _, p := range s.lot.list() {
			sessions = append(sessions, p.session)
		}
		if len(sessions) == 0 {
			continue
		}
		ctx, cancel := context.WithTimeout(s.life, every)
		if _, err := rpc.Call(ctx, s.services["exc"], proto.ExcJobLease, proto.LeaseJobs{Sessions: sessions}); err != nil && s.life.Err() == nil {
			s.log.Warn("cannot renew the leases of jobs", "error", err)
		}
		cancel()
	}
}

// used lists the sessions with an open turn, a follower or a request in progress.
func (t *table) used() (ids []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for id, sess := range t.sessions {
		if sess.refs > 0 {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

package daemon

import (
	"context"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"zino/pkg/config"
	"zino/pkg/rpc"
	"zino/pkg/zinotest"
	"zino/pkg/zinotest/rpctest"
	"zino/proto"
)

// TestLeases checks that the jobs of sessions in use are kept, and those of others not.
func TestLeases(t *testing.T) {
	cfg := config.Default()
	cfg.Exc.JobLinger, cfg.Exc.Socket = "30ms", filepath.Join(zinotest.Dir(t), "exc")
	leased := make(chan string, 100)
	rpctest.New(t, "exc", cfg.Exc.Socket, func(srv *rpc.Server) {
		rpc.Handle(srv, proto.ExcJobLease, func(_ context.Context, req proto.LeaseJobs) (proto.Empty, error) {
			select {
			case leased <- strings.Join(req.Sessions, " "):
			default:
			}
			return proto.Empty{}, nil
		})
	})
	cfg.Daemon.DataDir = zinotest.Dir(t)
	s := New(cfg, slog.New(slog.DiscardHandler))
	one, two := s.enter("one"), s.enter("two")
	s.enter("left").leave()
	go s.renewLeases()
	zinotest.Equal(t, "leased", zinotest.Receive(t, "a lease", leased), "one two")
	one.leave()
	zinotest.Eventually(t, "the lease of a session that is left ends", func() bool { return zinotest.Receive(t, "a lease", leased) == "two" })
	two.leave()
	zinotest.Must(t, s.Close())
}

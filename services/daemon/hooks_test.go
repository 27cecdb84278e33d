package daemon

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"zino/pkg/config"
	"zino/pkg/rpc"
	"zino/pkg/zinotest"
	"zino/pkg/zinotest/rpctest"
	"zino/proto"
	"zino/services/daemon/trust"
)

// commandsOf returns the hooks for the own uid as "source command".
func commandsOf(s *Service) (list string, problems []string) {
	hooks, problems := s.hooksOf(trust.Project{}, os.Geteuid())
	var all []string
	for _, h := range hooks {
		all = append(all, h.Source+" "+h.Command)
	}
	return strings.Join(all, ", "), problems
}

// TestSourcesOfHooks checks the hooks of the host and of another agent: when they count, and
// in which order.
func TestSourcesOfHooks(t *testing.T) {
	dir := zinotest.Dir(t)
	t.Setenv("HOME", dir)
	zinotest.WriteFiles(t, dir, map[string]string{".claude/settings.json": `{"hooks":{"Stop":[{"hooks":[{"type":"command","command":"other"},{"type":"prompt"}]}]}}`})
	host := filepath.Join(dir, "host.toml")
	cfg := config.Default()
	cfg.Daemon.DataDir = filepath.Join(dir, "daemon")
	cfg.Hooks.Stop = []config.Hook{{Command: "own"}}
	s := New(cfg, slog.New(slog.DiscardHandler))
	defer s.Close()
	s.hooked.hostFile = host
	check := func(what, want string, problem string) {
		t.Helper()
		got, problems := commandsOf(s)
		zinotest.Equal(t, what, got, want)
		if all := strings.Join(problems, "\n"); !strings.Contains(all, problem) || problem == "" && all != "" {
			t.Errorf("%s: problems %q, want %q", what, all, problem)
		}
	}
	check("no file", "user own", "")
	zinotest.Write(t, host, "[[hooks.Stop]]\ncommand = \"first\"\n")
	zinotest.Must(t, os.Chmod(host, 0o644))
	check("host", "host first, user own", "")
	zinotest.Write(t, host, "[[hooks.Stop]]\ncommand = \"second\"\n")
	zinotest.Must(t, os.Chtimes(host, time.Time{}, time.Now().Add(time.Hour)))
	check("changed", "host second, user own", "")
	zinotest.Must(t, os.Chmod(host, 0o666))
	check("writable for others", "user own", "the host's hooks are not used: it is not root's alone")
	zinotest.Must(t, os.Chmod(host, 0o644))
	zinotest.Write(t, host, "[[hooks.Stop]]\ncomand = \"second\"\n")
	check("broken", "user own", "hooks.Stop.command must be given")
	zinotest.Must(t, os.Remove(host))
	cfg.Hooks.Foreign = true
	check("foreign", "user own, user other", "not used: type prompt")
	zinotest.Must(t, os.Remove(filepath.Join(dir, ".claude/settings.json")))
	check("no foreign file", "user own", "")
	cfg.Source = host // this daemon's own configuration is the host's
	check("daemon of the host", "host own", "")
}

// TestNotificationOfTheEnd checks which turns notify of their end, and that a daemon that
// stops waits for the hook.
func TestNotificationOfTheEnd(t *testing.T) {
	inputs := make(chan string, 1)
	release := make(chan struct{})
	socket, _ := rpctest.New(t, "exc", "", func(srv *rpc.Server) {
		rpc.HandleEvents(srv, proto.ExcPipe, func(_ context.Context, req proto.Pipe, _ *rpc.Out) (proto.PipeResult, error) {
			inputs <- *req.Stdin
			<-release
			return proto.PipeResult{}, nil
		})
	})
	cfg := config.Default()
	cfg.Daemon.DataDir = filepath.Join(zinotest.Dir(t), "daemon")
	cfg.Hooks.Notification = []config.Hook{{Matcher: "idle_prompt", Command: "notify"}, {Matcher: "permission_prompt", Command: "never"}}
	s := New(cfg, slog.New(slog.DiscardHandler))
	defer s.Close()
	s.services["exc"] = rpctest.Client(t, "exc", socket)
	ended := func(age time.Duration) {
		s.hooksFor(trust.Project{}, proto.Chat{SessionID: "s"}, os.Geteuid(), "", nil).notifyOfEnd(time.Now().Add(-age))
	}
	ended(longTurn - 5*time.Second)
	s.hooked.mu.Lock()
	zinotest.Equal(t, "hooks of a short turn", len(s.hooked.notifies), 0)
	s.hooked.mu.Unlock()
	ended(longTurn + time.Second)
	zinotest.Contains(t, "input", <-inputs, `"hook_event_name":"Notification"`, `"message":"Zino has finished the turn."`, `"notification_type":"idle_prompt"`)
	waited := make(chan struct{})
	go func() {
		defer close(waited)
		s.awaitNotifications(t.Context())
	}()
	select {
	case <-waited:
		t.Error("the daemon does not wait for the hook")
	case <-time.After(20 * time.Millisecond):
	}
	close(release)
	<-waited
}

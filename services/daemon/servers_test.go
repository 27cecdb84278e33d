package daemon

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"zino/pkg/config"
	"zino/pkg/rpc"
	"zino/pkg/zinotest"
	"zino/pkg/zinotest/rpctest"
	"zino/proto"
)

// dialAs connects to a socket as a user. Only root can be another one.
func dialAs(t *testing.T, uid int, socket string) *rpctest.Conn {
	t.Helper()
	set := func(uid int) {
		if _, _, errno := syscall.RawSyscall(syscall.SYS_SETRESUID, ^uintptr(0), uintptr(uid), ^uintptr(0)); errno != 0 {
			t.Fatal(errno)
		}
	}
	if uid != os.Geteuid() {
		runtime.LockOSThread() // the uid belongs to the thread
		defer runtime.UnlockOSThread()
		defer set(os.Geteuid())
		set(uid)
	}
	return rpctest.Dial(t, socket)
}

// TestServersOfHost checks that on the host's constellation only root changes, starts and logs
// in to MCP servers and stores their secrets, while others may look; and that users do what
// they like on their own.
func TestServersOfHost(t *testing.T) {
	n := all()
	n.config = func(cfg *config.Config) { cfg.MCP.Socket = filepath.Join(filepath.Dir(cfg.Daemon.Socket), "mcp") }
	b := newEnv(t, n)
	var asked []string
	rpctest.New(t, "mcp", b.cfg.MCP.Socket, func(s *rpc.Server) {
		rpc.Handle(s, proto.MCPServers, func(context.Context, proto.ListServers) (proto.ServerList, error) {
			return proto.ServerList{Servers: []proto.MCPServer{}}, nil
		})
		rpc.Handle(s, proto.MCPSecretSet, func(_ context.Context, req proto.SetSecret) (proto.Empty, error) {
			asked = append(asked, req.Name)
			return proto.Empty{}, nil
		})
	})
	reads := []string{"describe", "ping", "servers", "stats"}
	var types []string
	for _, m := range proto.Methods() {
		if m.Public && (m.Service == "mcp" || m.Service == "*") {
			types = append(types, m.Type)
		}
	}
	for _, typ := range []string{"secret_set", "login_begin", "login_end", "logout", "test", "reload", "forget"} {
		if !slices.Contains(types, typ) {
			t.Errorf("%s is not among %s", typ, types)
		}
	}
	for _, host := range []bool{true, false} {
		b.service.cfg.Gate.RequireToken = host
		for _, uid := range []int{0, 1000, -1} {
			for _, typ := range types {
				err := b.service.checkServersUser(uid, typ)
				if want := host && uid != 0 && !slices.Contains(reads, typ); (err != nil) != want {
					t.Errorf("host %v, uid %d, %s: %v", host, uid, typ, err)
				}
			}
		}
	}

	users := []int{os.Geteuid()}
	if os.Geteuid() == 0 {
		users = append(users, 65534)
	}
	zinotest.Must(t, os.Chmod(filepath.Dir(b.cfg.Daemon.Socket), 0o755))
	zinotest.Must(t, os.Chmod(b.cfg.Daemon.Socket, 0o666))
	for _, host := range []bool{true, false} {
		b.service.cfg.Gate.RequireToken = host
		for _, uid := range users {
			name := fmt.Sprintf("%v-%d", host, uid)
			c := dialAs(t, uid, b.cfg.Daemon.Socket)
			zinotest.Contains(t, "the list", c.Ask(`{"type":"forward","service":"mcp","request":{"type":"servers"}}`), `"servers":[]`)
			answer := c.Ask(`{"type":"forward","service":"mcp","request":{"type":"secret_set","name":"` + name + `","value":"x"}}`)
			denied := host && uid != 0
			if strings.Contains(answer, `"message":"the MCP servers of the host, and their logins, are root's: run it with sudo","code":"denied"`) != denied || slices.Contains(asked, name) == denied {
				t.Errorf("%s: %s", name, answer)
			}
		}
	}
}

// TestWakesServers checks that mcp is asked for a sign of life while the prompt of a turn is
// assembled, so that it runs when agr asks for its servers, and not at all without servers.
func TestWakesServers(t *testing.T) {
	for _, configured := range []bool{true, false} {
		n := all()
		woken := make(chan struct{}, 8)
		n.config = func(cfg *config.Config) {
			cfg.MCP.Socket = filepath.Join(filepath.Dir(cfg.Daemon.Socket), "mcp")
			if configured {
				cfg.MCP.Servers = map[string]config.MCPServer{"pg": {Command: []string{"pg-mcp"}}}
			}
			rpctest.Play(t, cfg.MCP.Socket, func(_ int, c *rpctest.Conn) {
				if strings.HasPrefix(c.Receive(), `{"type":"ping"`) {
					woken <- struct{}{}
				}
			})
		}
		build := n.ctx
		n.ctx = func(ctx context.Context, req proto.Build, out *rpc.Out) error {
			if configured {
				select {
				case <-woken:
				case <-ctx.Done():
					t.Error("mcp is not woken")
				}
			}
			return build(ctx, req, out)
		}
		b := newSessionEnv(t, n, whole)
		_, last := b.turn(`{"message":"hi","session_id":"s-1","root":"/r"}`)
		zinotest.Equal(t, "answer", last.Type, "response")
		zinotest.Equal(t, "requests to mcp", len(woken), 0)
	}
}

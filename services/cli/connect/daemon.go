package connect

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"zino/pkg/config"
	"zino/pkg/rpc"
	"zino/pkg/wire"
	"zino/proto"
)

// HostSocket is the daemon of the host's installation. Tests replace it.
var HostSocket = "/run/zino/daemon.sock"

// Timeout is how long a service may take to answer a ping or a question about its
// state.
const Timeout = 800 * time.Millisecond

// Place is a socket where a daemon may listen.
type Place struct {
	Socket string
	Named  bool // configured by the user: no other requests are sent there
	Only   bool // named on the command line: no other place is tried
}

// Places lists where to look for a daemon, in order. The host's daemon is listed
// for plain requests only: its tools cannot see the caller's files.
func (t *Target) Places(cfg *config.Config, plain bool) (list []Place, err error) {
	switch {
	case t.Socket != "":
		return []Place{{t.Socket, true, true}}, nil
	case t.Host:
		return []Place{{HostSocket, false, true}}, nil
	case cfg.IsSet("daemon.socket"):
		return []Place{{cfg.Daemon.Socket, true, false}}, nil
	case !t.Named():
		dir, err := RuntimeDir()
		if err != nil {
			return nil, err
		}
		list = append(list, Place{Socket: filepath.Join(dir, "daemon.sock")})
	}
	if plain {
		list = append(list, Place{Socket: HostSocket})
	}
	return list, nil
}

// Answers reports whether a process listens on a socket.
func Answers(socket string) bool {
	nc, err := net.DialTimeout("unix", socket, time.Second)
	if err != nil {
		return false
	}
	nc.Close()
	return true
}

// Daemon is the daemon that a run uses.
type Daemon struct {
	Client  *rpc.Client
	Named   bool     // see Place
	Version string   // empty before Ping
	Private bool     // the daemon ends with the run that started it; known after Ping
	passEnv []string // [exc] pass_env
	private *private // the services behind it, if this run started them
}

// At returns the daemon on a socket, without connecting.
func At(p Place) *Daemon {
	return &Daemon{Client: &rpc.Client{Service: "daemon", Path: p.Socket}, Named: p.Named}
}

// Close closes the connection, and stops the services if this run started them.
func (d *Daemon) Close() {
	d.Client.Close()
	if d.private != nil {
		d.private.stop()
	}
}

// Started returns the configuration of the services that this run started for
// itself, nil if it uses others.
func (d *Daemon) Started() *config.Config {
	if d.private == nil {
		return nil
	}
	return d.private.cfg
}

// Discards reports whether sessions end with this run.
func (d *Daemon) Discards() bool { return d.private != nil && d.private.discards }

// Again returns the same daemon with another connection, for concurrent requests.
func (d *Daemon) Again() *Daemon { return At(Place{Socket: d.Client.Path, Named: true}) }

// Ping asks for the daemon's version. The connection is kept for the request that
// follows.
func (d *Daemon) Ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	pong, err := rpc.Call(ctx, d.Client, proto.Ping, proto.PingRequest{})
	d.Version, d.Private = pong.Version, pong.Lifetime == proto.LifetimePrivate
	return err
}

// Forward has the daemon pass a request on to another service.
func Forward[Req, Rep any](ctx context.Context, d *Daemon, service string, m proto.Method[Req, Rep], req Req) (Rep, error) {
	inner, err := wire.AppendObject(nil, m.Type, req)
	if err != nil {
		var none Rep
		return none, err
	}
	through := proto.Method[proto.Forward, Rep]{Service: "daemon", Type: proto.DaemonForward.Type, Reply: m.Reply}
	return rpc.Call(ctx, d.Client, through, proto.Forward{Service: service, Request: inner})
}

// Connect finds a daemon or starts one. plain also allows the host's daemon. The
// caller closes it.
func (t *Target) Connect(ctx context.Context, cfg *config.Config, plain bool, need Storage) (*Daemon, error) {
	if d, err := t.Find(ctx, cfg, plain); d != nil || err != nil {
		return d, err
	}
	return t.Spawn(ctx, cfg, need)
}

// ConnectForTurn is Connect for a turn, which needs a model. With StorageDiscarded it
// always starts services.
func (t *Target) ConnectForTurn(ctx context.Context, cfg *config.Config, need Storage) (*Daemon, error) {
	if need != StorageDiscarded {
		if d, err := t.Find(ctx, cfg, false); d != nil || err != nil {
			return d, err
		}
	}
	if err := t.CheckModel(cfg); err != nil {
		return nil, err
	}
	return t.Spawn(ctx, cfg, need)
}

// Find returns the first running daemon, or nil. A socket named on the command line is
// returned without a check.
func (t *Target) Find(ctx context.Context, cfg *config.Config, plain bool) (*Daemon, error) {
	places, err := t.Places(cfg, plain)
	for _, p := range places {
		d := At(p)
		d.passEnv = cfg.Exc.PassEnv
		switch {
		case p.Only, p.Named && Answers(p.Socket):
			return d, nil
		case p.Named:
		case !errors.Is(d.Ping(ctx), rpc.ErrConnect): // after a timeout it is slow, but running
			t.awaitReload(ctx, p)
			return d, nil
		}
	}
	return nil, err
}

// Use returns the daemon at a place without checking that it runs.
func (t *Target) Use(ctx context.Context, cfg *config.Config, p Place) *Daemon {
	d := At(p)
	d.passEnv = cfg.Exc.PassEnv
	t.awaitReload(ctx, p)
	return d
}

// Running reports whether a daemon is listening.
func (t *Target) Running(cfg *config.Config, plain bool) bool {
	places, err := t.Places(cfg, plain)
	return err == nil && slices.ContainsFunc(places, func(p Place) bool { return Answers(p.Socket) })
}

// Introduce names a model server that was found rather than configured, before the
// first prompt goes there, and returns what the router reports.
func (t *Target) Introduce(ctx context.Context, d *Daemon) proto.RouterCapabilities {
	c, err := Forward(ctx, d, "rtr", proto.RtrCapabilities, proto.ModelSelector{})
	if err == nil && c.Found { // else the turn reports the error
		t.Say("Using %s at %s, found on this host.", c.Model, c.Endpoint)
	}
	return c
}

// CompareVersions warns of a daemon of another version, most likely one that was
// started before an upgrade.
func (t *Target) CompareVersions(ctx context.Context, d *Daemon) {
	if d.private != nil || d.Version == "" && d.Ping(ctx) != nil { // the request reports the error
		return
	}
	if d.Version != "" && d.Version != rpc.Build {
		t.Say("Warning: the daemon is version %s and zino is version %s: restart the services (zino up, or systemctl restart 'zino-*.service')", d.Version, rpc.Build)
	}
}

// Explain adds a remedy to the error of a failed connection.
func Explain(err error) error {
	switch {
	case !errors.Is(err, rpc.ErrConnect):
		return err
	case !errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w; is the daemon running? try: zino status", err)
	case !strings.Contains(err.Error(), filepath.Dir(HostSocket)+"/"):
		return fmt.Errorf("%w; its owner and mode decide who may connect", err)
	}
	name := "USER"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	return fmt.Errorf("%w; root and members of the group zino may connect: run `sudo usermod -aG zino %s` and log in again", err, name)
}

// ExplainKey rewords the error of a daemon that was started without a key that the
// caller's shell has. Stored keys take effect at once. The host's daemon has keys
// of its own.
func (d *Daemon) ExplainKey(err error) error {
	e, ok := errors.AsType[*proto.Error](err)
	shell := KeyInShell()
	if !ok || d.private != nil || d.Client.Path == HostSocket || e.Code != proto.CodeUnavailable || shell.Name == "" || !strings.Contains(e.Message, shell.Variable) {
		return err
	}
	explained := *e
	explained.Message = fmt.Sprintf("no key: run `zino auth set %s`, which takes effect at once; the running daemon was started without %s, which this shell has", shell.Name, shell.Variable)
	return &explained
}

// makeRuntimeDir makes the directory of the user's sockets.
func makeRuntimeDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("cannot make the directory of the sockets: %w", err)
	}
	_, err := RuntimeDir() // checks the owner: another user may have made it
	return err
}

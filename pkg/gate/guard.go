package gate

import (
	"cmp"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"zino/pkg/config"
	"zino/pkg/keys"
	"zino/proto"
)

// Guard decides the calls that a service carries out: by the token of their turn, the
// policy, the mode, and the token of an approval.
type Guard struct {
	policy   *Policy
	verifier *Verifier
	require  bool        // no call without a token
	agr      int         // uid of the host's agr, which speaks for models; -1: none
	level    proto.Level // of turns that name none
	network  bool        // of those, at confined levels
	// escalateTo are the levels that a command at level unit may ask for.
	escalateTo []proto.Level
	started    time.Duration // by CLOCK_BOOTTIME

	mu    sync.Mutex
	users map[int]person       // known ones, by uid
	used  map[string]time.Time // keys of approvals, see Request.Once
}

// person is the user whose turn a call belongs to.
type person struct{ name, home string }

// NewGuard returns the guard of a service.
func NewGuard(cfg *config.Config) *Guard {
	_, started, _ := uptime() // without it no approval can be checked
	agr := -1
	if u, err := user.Lookup(agrUser); err == nil && cfg.Gate.RequireToken {
		agr, _ = strconv.Atoi(u.Uid) // a number on Unix
	}
	return &Guard{
		agr:    agr,
		policy: New(PlacesOf(cfg)), verifier: NewVerifier(cfg.Daemon.Socket, cfg.Daemon.DataDir), require: cfg.Gate.RequireToken, level: cfg.Exc.Sandbox,
		network: cfg.Exc.Network, escalateTo: cfg.Gate.EscalateTo,
		started: started, users: map[int]person{}, used: map[string]time.Time{},
	}
}

// agrUser is the user of the host's agr.
const agrUser = "zino-agr"

// ByModel reports whether a request that people can send, too, is a model's: it has a token,
// or it comes from the host's agr, which must have one. peer is the uid of the caller. A
// nil guard knows no agr.
func (g *Guard) ByModel(token string, peer int) bool {
	return token != "" || g != nil && peer >= 0 && peer == g.agr
}

// NewUsersGuard returns the guard of a service that serves all daemons of its user.
func NewUsersGuard(cfg *config.Config) *Guard {
	g := NewGuard(cfg)
	g.verifier.addUsers()
	return g
}

// PlacesOf returns where the policy of this process is.
func PlacesOf(cfg *config.Config) Places {
	p := Places{Host: HostFile, DataDir: cfg.Daemon.DataDir, Env: cfg.Gate.Env}
	if base, err := keys.Base(os.Getenv); err == nil {
		p.User = filepath.Join(base, "policy.toml")
	}
	return p
}

// Turn returns the turn that a call belongs to, by its token. Without a token, where none
// is required, nothing is asked. The error has the code denied.
func (g *Guard) Turn(token string) (Turn, error) {
	if token == "" && g.require {
		return Turn{}, proto.Errorf(proto.CodeDenied, "the call has no token of a turn, which [gate] require_token demands")
	}
	if token == "" {
		return Turn{Mode: Yolo, By: os.Geteuid()}, nil
	}
	t, err := g.verifier.Verify(token, time.Now())
	if err != nil {
		return Turn{}, proto.Errorf(proto.CodeDenied, "the token of the turn is refused: %v", err)
	}
	return t, nil
}

// Level returns the level of confinement of a turn, and whether its code has the network.
func (g *Guard) Level(t Turn) (level proto.Level, network bool) {
	level = cmp.Or(t.Sandbox, g.level)
	switch {
	case !level.Confined():
		return level, true
	case t.Network != nil:
		return level, *t.Network
	}
	return level, g.network
}

// Signed reports whether the turn is that of a token.
func (t Turn) Signed() bool { return t.V != 0 }

// Fits compares a turn with what a call says about it. The error has the code denied.
func (t Turn) Fits(session, turn, root string) error {
	switch {
	case !t.Signed():
		return nil
	case t.Session != session:
		return misfit("session")
	case t.Turn != turn:
		return misfit("turn")
	case t.Root != root:
		return misfit("root")
	}
	return nil
}

// Within returns an error of code denied if a call has a weaker level of confinement than
// its turn, or more network. The service's configuration has completed both.
func Within(level proto.Level, network bool, turn proto.Level, turnNetwork bool) error {
	switch {
	case level != turn && turn != proto.LevelOff && (level != proto.LevelReadOnly || turn != proto.LevelWorkspaceWrite):
		return misfit("sandbox")
	case network && !turnNetwork:
		return misfit("network")
	}
	return nil
}

func misfit(field string) error {
	return proto.Errorf(proto.CodeDenied, "the token of the turn does not fit: %s", field)
}

// person returns a user. The home directory is without symbolic links.
func (g *Guard) person(uid int) person {
	g.mu.Lock()
	defer g.mu.Unlock()
	if p, ok := g.users[uid]; ok {
		return p
	}
	var p person
	if u, err := user.LookupId(strconv.Itoa(uid)); err == nil {
		p = person{u.Username, u.HomeDir}
	}
	if home := os.Getenv("HOME"); uid == os.Geteuid() && filepath.IsAbs(home) {
		p.home = home
	}
	if real, err := filepath.EvalSymlinks(p.home); err == nil && p.home != "" {
		p.home = real
	}
	g.users[uid] = p
	return p
}

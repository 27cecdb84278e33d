package cli

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"zino/pkg/config"
	"zino/pkg/rpc"
	"zino/proto"
)

// unitsLimit is how long systemd may take to answer.
const unitsLimit = 2 * time.Second

// unit is what systemd says of one unit.
type unit struct {
	active, sub, result string
	user                string // User=
	callers             string // what --callers in ExecStart= says
}

// units are the units of one constellation, by their names. It is empty where
// systemd does not run it.
type units struct {
	byName map[string]unit
	user   bool // they are the user's own
	asking int  // the uid of who asks
}

// keepers are what systemd keeps for this user and for the host.
type keepers struct {
	dir        string // where the user's own sockets are
	user, host units
}

func askSystemd(ctx context.Context, dir string) keepers {
	uid := os.Geteuid()
	return keepers{dir, units{systemctl(ctx, "--user"), true, uid}, units{systemctl(ctx), false, uid}}
}

// by returns the units that a socket is one of, by the place where it lies.
func (k keepers) by(socket string) units {
	switch filepath.Dir(socket) {
	case k.dir:
		return k.user
	case filepath.Dir(hostSocket):
		return k.host
	}
	return units{}
}

// systemctl asks systemd for the services and their sockets. Without systemd
// there are none.
func systemctl(ctx context.Context, scope ...string) map[string]unit {
	path, err := exec.LookPath("systemctl")
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, unitsLimit)
	defer cancel()
	args := append(scope, "show", "--no-pager", "--property=Id,LoadState,ActiveState,SubState,Result,User,ExecStart")
	for _, name := range append(slices.Clone(config.Services), "repl") {
		args = append(args, "zino-"+name+".service", "zino-"+name+".socket")
	}
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // it must not ask on the terminal
	cmd.WaitDelay = unitsLimit
	out, err := cmd.Output()
	if err != nil {
		return nil // systemd does not run here, or not for this user
	}
	return readUnits(string(out))
}

// readUnits reads what systemctl show prints: lines KEY=VALUE, a blank line
// between units. Units that are not installed are left out.
func readUnits(text string) map[string]unit {
	all := map[string]unit{}
	for block := range strings.SplitSeq(text, "\n\n") {
		values := map[string]string{}
		for line := range strings.Lines(block) {
			if key, value, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "="); ok {
				values[key] = value
			}
		}
		if values["Id"] == "" || values["LoadState"] != "loaded" {
			continue
		}
		all[values["Id"]] = unit{
			active: values["ActiveState"], sub: values["SubState"], result: values["Result"],
			user: values["User"], callers: callersIn(values["ExecStart"]),
		}
	}
	return all
}

// callersIn finds the argument of --callers in the value of ExecStart.
func callersIn(command string) string {
	words := strings.Fields(command)
	for i, word := range words {
		if list, ok := strings.CutPrefix(word, "--callers="); ok {
			return list
		}
		if word == "--callers" && i+1 < len(words) {
			return words[i+1]
		}
	}
	return ""
}

// listening reports whether systemd holds the socket of a service.
func (u units) listening(name string) bool {
	return u.byName["zino-"+name+".socket"].active == "active"
}

// inspect tells how a service is. One that systemd keeps and that does not run
// is not asked, for that would start it.
func (u units) inspect(ctx context.Context, name string, cfg *config.Config) report {
	service := u.byName["zino-"+name+".service"]
	if !u.listening(name) && (service.active == "" || service.active == "inactive") {
		return inspect(ctx, name, cfg.Socket(name)) // systemd does not keep it
	}
	r := report{service: name, socket: cfg.Socket(name), state: service.state(), callers: service.mayCall()}
	switch r.state {
	case "up":
		return u.ask(ctx, r, cfg)
	case "failed", "restarting":
		r.problems = append(r.problems, "the last run ended with "+service.result+"; see: "+u.journalctl(name))
	}
	return r
}

func (u units) journalctl(name string) string {
	if u.user {
		return "journalctl --user -u zino-" + name
	}
	return "journalctl -u zino-" + name
}

// state words the state of a service that systemd keeps.
func (s unit) state() string {
	switch {
	case s.active == "active" || s.active == "reloading":
		return "up"
	case s.sub == "auto-restart":
		return "restarting"
	case s.active == "activating":
		return "starting"
	case s.active == "deactivating":
		return "stopping"
	case s.active == "failed":
		return "failed"
	}
	return "idle" // somebody listens for it
}

// mayCall is what the unit says of a service's callers, worded as the service
// itself would.
func (s unit) mayCall() string {
	if s.callers == "" {
		return ""
	}
	list := []string{"root"}
	if s.user != "" && s.user != "root" {
		list = append(list, s.user)
	}
	for name := range strings.SplitSeq(s.callers, ",") {
		if group, ok := strings.CutPrefix(name, "group:"); ok {
			name = "group " + group
		}
		list = append(list, name)
	}
	return strings.Join(list, ", ")
}

// ask asks a service that runs. On the host's installation only root may ask
// each one; anyone else asks the daemon, if that runs, for what is not open to
// people.
func (u units) ask(ctx context.Context, r report, cfg *config.Config) report {
	if u.user || r.service == "daemon" || r.service == "repl" || u.asking == 0 {
		return inspect(ctx, r.service, r.socket)
	}
	if u.byName["zino-daemon.service"].active != "active" {
		return r
	}
	d := &daemon{client: &rpc.Client{Service: "daemon", Path: cfg.Daemon.Socket}}
	defer d.client.Close()
	return question(ctx, r, func(ctx context.Context) (proto.Pong, error) {
		return forward(ctx, d, r.service, proto.Ping, proto.PingRequest{})
	}, func(ctx context.Context) (proto.Stats, error) {
		return forward(ctx, d, r.service, proto.GetStats, proto.StatsRequest{})
	})
}

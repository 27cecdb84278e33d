package status

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
	"zino/services/cli/connect"
)

// Units is what systemd reports about the user's units and the host's.
type Units struct {
	dir        string // of the user's own sockets
	user, host units
}

// units are the systemd units of one constellation. byName is empty if systemd does not
// run it.
type units struct {
	byName map[string]unit
	user   bool // the user's own
	uid    int  // of the caller
}

// unit is what systemd reports about one unit.
type unit struct {
	active, sub, result string
	user                string // User=
	callers             string // --callers in ExecStart=
}

func askSystemd(ctx context.Context, dir string) Units {
	uid := os.Geteuid()
	return Units{dir, units{systemctl(ctx, "--user"), true, uid}, units{systemctl(ctx), false, uid}}
}

// UserListens reports whether systemd has opened the socket of the user's daemon.
func UserListens(ctx context.Context) bool {
	dir, err := connect.RuntimeDir()
	return err == nil && askSystemd(ctx, dir).user.listening("daemon")
}

// systemctl returns the units of the services and their sockets, nil if systemd does
// not run, or not for this user.
func systemctl(ctx context.Context, scope ...string) map[string]unit {
	const limit = 2 * time.Second
	path, err := exec.LookPath("systemctl")
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	args := append(scope, "show", "--no-pager", "--property=Id,LoadState,ActiveState,SubState,Result,User,ExecStart")
	for _, name := range append(slices.Clone(config.Services), "repl") {
		args = append(args, "zino-"+name+".service", "zino-"+name+".socket")
	}
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // no password prompt on the terminal
	cmd.WaitDelay = limit
	out, err := cmd.Output()
	if err != nil {
		return nil
	}
	return parseUnits(string(out))
}

// parseUnits parses the output of systemctl show: lines KEY=VALUE, a blank line
// between units. Units that are not installed are left out.
func parseUnits(out string) map[string]unit {
	all := map[string]unit{}
	for block := range strings.SplitSeq(out, "\n\n") {
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
			user: values["User"], callers: parseCallers(values["ExecStart"]),
		}
	}
	return all
}

// parseCallers returns the argument of --callers in the value of ExecStart.
func parseCallers(command string) string {
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

// listening reports whether systemd has opened the socket of a service.
func (u units) listening(name string) bool {
	return u.byName["zino-"+name+".socket"].active == "active"
}

// Inspect returns the state of a service on the socket that cfg names. It does not
// connect to a service that systemd would start.
func (u Units) Inspect(ctx context.Context, name string, cfg *config.Config) Report {
	switch filepath.Dir(cfg.Socket(name)) {
	case u.dir:
		return u.user.inspect(ctx, name, cfg)
	case filepath.Dir(connect.HostSocket):
		return u.host.inspect(ctx, name, cfg)
	}
	return units{}.inspect(ctx, name, cfg)
}

func (u units) inspect(ctx context.Context, name string, cfg *config.Config) Report {
	service := u.byName["zino-"+name+".service"]
	r := Report{Service: name, Socket: cfg.Socket(name)}
	if !u.listening(name) && (service.active == "" || service.active == "inactive") { // not run by systemd
		return r.AskSocket(ctx)
	}
	r.State, r.Callers = service.state(), service.describeCallers()
	switch r.State {
	case "up":
		return u.ask(ctx, r, cfg)
	case "failed", "restarting":
		journalctl := "journalctl -u zino-" + name
		if u.user {
			journalctl = "journalctl --user -u zino-" + name
		}
		r.Problems = append(r.Problems, "the last run ended with "+service.result+"; see: "+journalctl)
	}
	return r
}

// ask requests the state of a running service. On the host's installation only root can
// connect to each service; other users reach them through the daemon, if it runs.
func (u units) ask(ctx context.Context, r Report, cfg *config.Config) Report {
	if u.user || r.Service == "daemon" || r.Service == "repl" || u.uid == 0 {
		return r.AskSocket(ctx)
	}
	if u.byName["zino-daemon.service"].active != "active" {
		return r
	}
	d := &connect.Daemon{Client: &rpc.Client{Service: "daemon", Path: cfg.Daemon.Socket}}
	defer d.Close()
	return r.AskThrough(ctx, d)
}

// state returns the state of a service that systemd runs.
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
	return "idle" // its socket is open
}

// describeCallers lists the callers that a unit allows, in the service's own format.
func (s unit) describeCallers() string {
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
		if user, methods, some := strings.Cut(name, "="); some {
			name = user + " (" + strings.ReplaceAll(methods, "+", ", ") + ")"
		}
		list = append(list, name)
	}
	return strings.Join(list, ", ")
}

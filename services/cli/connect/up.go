package connect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"syscall"
	"time"

	"zino/pkg/config"
	"zino/pkg/gate"
	"zino/pkg/rpc"
	"zino/pkg/service"
	"zino/pkg/supervise"
	"zino/proto"
)

const (
	pollInterval = 200 * time.Millisecond // how often zino up looks for an edited configuration
	reloadLimit  = 3 * time.Second        // how long a command waits for zino up to reload
	upFile       = "up.toml"              // the configuration that the services of zino up read
)

// Up runs the user's own services until ctx ends. The files of the REPL are in
// replDir if that is not empty.
func (t *Target) Up(ctx context.Context, replDir string) error {
	state := t.fileState()
	cfg, dir, err := t.userConfig()
	if err != nil {
		return err
	}
	cfg.Repl.Dir = cmp.Or(replDir, cfg.Repl.Dir)
	log := service.Logger(t.Err, "up", cfg.Logging.Level)
	for _, warning := range cfg.Warnings {
		log.Warn(warning)
	}
	services, replAsked := supervised(), cfg.Repl
	if err := readyRepl(cfg); err == nil {
		services = append(services, "repl")
	} else {
		log.Warn("the file REPL is not started", "reason", err)
	}
	c, err := open(cfg, filepath.Join(dir, upFile), services)
	if err != nil {
		return err
	}
	if err := checkReplDir(cfg.Repl.Dir); err != nil && !Answers(cfg.Repl.Socket) {
		l, listenErr := service.Listen(cfg.Repl.Socket)
		if listenErr != nil {
			return errors.Join(listenErr, c.close())
		}
		c.sockets = append(c.sockets, l)
		go refuse(l, "repl", err.Error()) // zino status, pages and eval report it
	}
	n := len(supervised()) // the REPL's program follows
	repl, set := supervise.Start(c.programs[n:], t.Err, log), supervise.Start(c.programs[:n], t.Err, log)
	t.Say("zino: up, %d services, sockets in %s; Ctrl-C stops", len(c.programs)-1, filepath.Dir(cfg.Daemon.Socket))
	t.Say("Other clients connect to %s: in their ZINO.toml, [daemon] socket = %[1]q", cfg.Daemon.Socket)
	for err == nil {
		var next *config.Config
		next, state = t.awaitEdit(ctx, cfg, state, log)
		if next == nil {
			c.endJobs()
		}
		set.Stop()
		if next == nil {
			break
		}
		next.Repl.Dir = cmp.Or(replDir, next.Repl.Dir)
		if !reflect.DeepEqual(next.Repl, replAsked) {
			log.Warn("[repl] was changed: that takes effect when zino up is started again")
		}
		if err = c.reconfigure(cfg, next, log); err == nil {
			cfg, set = next, supervise.Start(c.programs[:n], t.Err, log)
			log.Info("the edited configuration is in force", "file", cfg.Source)
		}
	}
	repl.Stop()
	err = errors.Join(err, c.close())
	if public := gate.PublicPath(cfg.Daemon.Socket); filepath.Dir(public) == dir {
		os.Remove(public)
		half, _ := filepath.Glob(filepath.Join(dir, "."+filepath.Base(public)+"*")) // of a daemon that was stopped while it wrote the key
		for _, path := range half {
			os.Remove(path)
		}
	}
	os.Remove(dir) // fails if it is not empty
	return err
}

// WriteUp writes the configuration of the user's own services to a file, for another
// supervisor such as systemd.
func (t *Target) WriteUp(file string) error {
	cfg, _, err := t.userConfig()
	if err != nil {
		return err
	}
	for _, warning := range cfg.Warnings {
		t.Say("Warning: %s", warning)
	}
	if cfg.API.Key != "" {
		t.Say("Warning: [api] key is not given to services that systemd starts; keep the key with: zino auth set openai")
	}
	return cfg.Write(file)
}

// userConfig returns the configuration of the user's own services and the directory
// of their sockets, which it creates. Unless configured, the REPL's files are below the
// user's base directory, because zino up belongs to no project.
func (t *Target) userConfig() (cfg *config.Config, dir string, err error) {
	if cfg, err = t.read(); err != nil {
		return nil, "", err
	}
	if dir, err = RuntimeDir(); err != nil {
		return nil, "", err
	}
	DefaultSockets(cfg, dir)
	if err := makeRuntimeDir(dir); err != nil {
		return nil, "", err
	}
	if base, err := BaseDir(); err == nil && !cfg.IsSet("repl.dir") {
		cfg.Repl.Dir = filepath.Join(base, "repl")
		if err := os.MkdirAll(cfg.Repl.Dir, 0o700); err != nil {
			t.Say("Warning: no directory for the file REPL: %v", err)
		}
	}
	if cfg.Provider == "" && t.CheckModel(cfg) != nil {
		cfg.Provider = "auto"
	}
	return cfg, dir, nil
}

// awaitEdit waits until the state of the configuration file differs from seen and no
// request is in flight, and returns the new configuration with its state; nil when
// ctx is done. A file with a mistake is logged and not used.
func (t *Target) awaitEdit(ctx context.Context, cfg *config.Config, seen string, log *slog.Logger) (next *config.Config, state string) {
	daemon := &rpc.Client{Service: "daemon", Path: cfg.Daemon.Socket}
	defer daemon.Close()
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, seen
		}
		state := t.fileState()
		if state == seen || !isIdle(ctx, daemon) {
			continue
		}
		seen = state
		next, _, err := t.userConfig()
		if err == nil {
			return next, state
		}
		log.Error("the former configuration stays in force", "error", err)
	}
}

// fileState returns a string that changes when the configuration file does.
func (t *Target) fileState() string {
	path, err := t.ConfigFile()
	if err != nil {
		return ""
	}
	info, err := os.Stat(path)
	if err != nil {
		return ""
	}
	return fmt.Sprint(info.ModTime().UnixNano(), info.Size(), info.Sys().(*syscall.Stat_t).Ino)
}

func isIdle(ctx context.Context, daemon *rpc.Client) bool {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	stats, err := rpc.Call(ctx, daemon, proto.GetStats, proto.StatsRequest{})
	if err != nil || stats.InFlight > 0 {
		return false
	}
	open, err := rpc.Call(ctx, daemon, proto.DaemonTurns, proto.ListTurns{})
	return err == nil && !slices.ContainsFunc(open.Turns, func(t proto.TurnInfo) bool { return t.State != proto.TurnParked })
}

// awaitReload waits until zino up has read the configuration file as it is now, and
// warns if that takes long, or if units have to be restarted.
func (t *Target) awaitReload(ctx context.Context, p Place) {
	file, err := t.ConfigFile()
	if err != nil || p.Named || p.Socket == HostSocket {
		return
	}
	dir := filepath.Dir(p.Socket)
	for _, name := range config.Services { // each unit has a file of its own
		if isStale(file, filepath.Join(dir, name+".toml")) {
			t.Say("Warning: %s was edited; the services read it when they start again: systemctl --user restart 'zino-*.service'", file)
			return
		}
	}
	limit := time.After(reloadLimit)
	tick := time.NewTicker(pollInterval / 10)
	defer tick.Stop()
	for isStale(file, filepath.Join(dir, upFile)) {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		case <-limit:
			t.Say("Warning: %s was edited; zino up reads it when no turn is under way.", file)
			return
		}
	}
}

// EditServers runs edit, which changes MCP servers in the configuration file. The user's units
// that have the configuration as it is now get that of after the edit: those that serve MCP
// look for it, and the others do not depend on it.
func (t *Target) EditServers(edit func() error) error {
	file, err := t.ConfigFile()
	if err != nil {
		return err
	}
	dir, err := RuntimeDir()
	if err != nil {
		return err
	}
	var made []string
	for _, name := range supervised() {
		unit := filepath.Join(dir, name+".toml")
		if _, err := os.Stat(unit); err == nil && !isStale(file, unit) {
			made = append(made, unit)
		}
	}
	if err := edit(); err != nil || len(made) == 0 {
		return err
	}
	cfg, _, err := t.userConfig()
	if err != nil {
		return err
	}
	for _, unit := range made {
		if err := cfg.Write(unit); err != nil {
			return err
		}
	}
	return nil
}

// isStale reports whether file was edited after made was written from it.
func isStale(file, made string) bool {
	from, err := os.Stat(file)
	if err != nil {
		return false
	}
	to, err := os.Stat(made)
	return err == nil && from.ModTime().After(to.ModTime())
}

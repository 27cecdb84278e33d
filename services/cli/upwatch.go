package cli

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"zino/pkg/config"
	"zino/pkg/rpc"
	"zino/proto"
)

const (
	// watchPace is how often zino up looks whether the configuration was edited.
	watchPace = 200 * time.Millisecond
	// reloadLimit is how long a command waits until zino up has read an edited
	// configuration.
	reloadLimit = 3 * time.Second
	// upFile is the configuration that the services of zino up read.
	upFile = "up.toml"
)

// edited waits until the state of the configuration file is not seen any more and
// no request is in flight, and returns the new configuration with its state; nil
// when ctx is done. One with a mistake is logged, and the former stays in force.
func (a *app) edited(ctx context.Context, cfg *config.Config, seen string, log *slog.Logger) (next *config.Config, state string) {
	d := &daemon{client: &rpc.Client{Service: "daemon", Path: cfg.Daemon.Socket}}
	defer d.client.Close()
	tick := time.NewTicker(watchPace)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, seen
		}
		state := a.fileState()
		if state == seen || !d.idle(ctx) {
			continue
		}
		seen = state
		next, _, err := a.ownConstellation()
		if err == nil {
			return next, state
		}
		log.Error("the former configuration stays in force", "error", err)
	}
}

// fileState changes when the configuration file does.
func (a *app) fileState() string {
	path, err := a.ownFile()
	if err != nil {
		return ""
	}
	info, err := os.Stat(path)
	if err != nil {
		return ""
	}
	return fmt.Sprint(info.ModTime().UnixNano(), info.Size(), info.Sys().(*syscall.Stat_t).Ino)
}

// idle reports whether the daemon works on nothing.
func (d *daemon) idle(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	st, err := rpc.Call(ctx, d.client, proto.GetStats, proto.StatsRequest{})
	return err == nil && st.InFlight == 0
}

// reconfigure has the services read the next configuration at their next start.
// The sockets stay as they are, and so does the REPL, to which pages are
// connected.
func (c *constellation) reconfigure(cfg, next *config.Config, log *slog.Logger) error {
	for _, name := range config.Services {
		if former := cfg.Socket(name); *next.SocketOf(name) != former {
			log.Warn("a changed socket takes effect when zino up is started again", "key", name+".socket")
			*next.SocketOf(name) = former
		}
	}
	next.Repl = cfg.Repl
	for i, p := range c.programs {
		c.programs[i].Env = environment(p.Name, next)
	}
	return next.Write(c.file)
}

// caughtUp waits until zino up works with the configuration file as it is now, and
// warns where it does not soon, or where units have to be started again.
func (a *app) caughtUp(ctx context.Context, p place) {
	file, err := a.ownFile()
	if err != nil || p.named || p.socket == hostSocket {
		return
	}
	dir := filepath.Dir(p.socket)
	for _, name := range config.Services { // each unit has a file of its own
		if stale(file, filepath.Join(dir, name+".toml")) {
			a.say("Warning: %s was edited; the services read it when they start again: systemctl --user restart 'zino-*.service'", file)
			return
		}
	}
	limit := time.After(reloadLimit)
	tick := time.NewTicker(watchPace / 10)
	defer tick.Stop()
	for stale(file, filepath.Join(dir, upFile)) {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		case <-limit:
			a.say("Warning: %s was edited; zino up reads it when no turn is under way.", file)
			return
		}
	}
}

// stale reports whether a file was edited after the one that was made of it.
func stale(file, made string) bool {
	from, err := os.Stat(file)
	if err != nil {
		return false
	}
	to, err := os.Stat(made)
	return err == nil && from.ModTime().After(to.ModTime())
}

// former is the configuration that zino up works with while the file has a
// mistake; nil if it does not run.
func (a *app) former() *config.Config {
	dir, err := runtimeDir()
	if err != nil || a.named() || !answers(filepath.Join(dir, "daemon.sock")) {
		return nil
	}
	cfg, err := config.Load(filepath.Join(dir, upFile), "cli")
	if err != nil {
		return nil
	}
	return cfg
}

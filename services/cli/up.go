package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"zino/pkg/config"
	"zino/pkg/environ"
	"zino/pkg/service"
	"zino/pkg/supervise"
)

const upLong = `Run the services for one user, in the foreground, so that all terminals share them.

The sockets lie in $XDG_RUNTIME_DIR/zino, or where the configuration that you
name puts them. The file REPL runs with them, see zino repl: its files are in
--dir, or [repl] dir, or ~/.config/zino/repl. A service that dies is started
again. Logs go to stderr; Ctrl-C stops everything.

An edited configuration is read again when no turn is under way, and holds from
the next request on; sockets stay where they are until the next start.`

func (a *app) upCommand() *cobra.Command {
	var file, dir string
	cmd := &cobra.Command{
		Use: "up", Short: "run the services in the foreground, for all your terminals", Long: upLong, Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := untilSignal(cmd.Context())
			defer stop()
			switch {
			case a.private != "":
				return a.keepPrivate(ctx)
			case file != "":
				return a.writeUp(file)
			case cmd.Flags().Changed("dir"):
				if dir == "" || !isDir(dir) {
					return mistake(cmd, "--dir %s is not a directory", dir)
				}
				dir = absolute(dir)
			}
			return a.up(ctx, dir)
		},
	}
	cmd.Flags().StringVar(&dir, "dir", "", "`DIR` of the file REPL's files (default [repl] dir, else ~/.config/zino/repl)")
	cmd.Flags().StringVar(&a.private, "private", "", "the directory of services that another run starts")
	cmd.Flags().StringVar(&file, "write", "", "only write the configuration of the services to this file, for units that start them")
	cmd.Flags().MarkHidden("private") // cannot fail: the flag exists
	cmd.Flags().MarkHidden("write")
	return cmd
}

// up runs the user's own constellation until it is interrupted. The files of the
// REPL are in replDir if that is not empty.
func (a *app) up(ctx context.Context, replDir string) error {
	state := a.fileState()
	cfg, dir, err := a.ownConstellation()
	if err != nil {
		return err
	}
	cfg.Repl.Dir = cmp.Or(replDir, cfg.Repl.Dir)
	log := service.Logger(a.err, "up", cfg.Logging.Level)
	for _, warning := range cfg.Warnings {
		log.Warn(warning)
	}
	services, replAsked := config.Services, cfg.Repl
	whyNot := readyRepl(cfg)
	if whyNot == nil {
		services = append(slices.Clone(services), "repl")
	} else {
		log.Warn("the file REPL is not started", "reason", whyNot)
	}
	c, err := open(cfg, filepath.Join(dir, upFile), services)
	if err != nil {
		return err
	}
	if err := checkReplDir(cfg.Repl.Dir); err != nil && !answers(cfg.Repl.Socket) {
		l, listening := service.Listen(cfg.Repl.Socket)
		if listening != nil {
			return errors.Join(listening, c.close())
		}
		c.sockets = append(c.sockets, l)
		go refuser("repl")(l, err.Error()) // zino status, pages and eval report it
	}
	n := len(config.Services) // the REPL's program is behind theirs
	repl, set := supervise.Start(c.programs[n:], a.err, log), supervise.Start(c.programs[:n], a.err, log)
	a.say("zino: up, %d services, sockets in %s; Ctrl-C stops", len(c.programs), filepath.Dir(cfg.Daemon.Socket))
	a.say("Other clients connect to %s: in their ZINO.toml, [daemon] socket = %[1]q", cfg.Daemon.Socket)
	for err == nil {
		var next *config.Config
		next, state = a.edited(ctx, cfg, state, log)
		set.Stop()
		if next == nil {
			break
		}
		next.Repl.Dir = cmp.Or(replDir, next.Repl.Dir)
		if !reflect.DeepEqual(next.Repl, replAsked) {
			log.Warn("[repl] was changed: that takes effect when zino up is started again")
		}
		if err = c.reconfigure(cfg, next, log); err == nil {
			cfg, set = next, supervise.Start(c.programs[:n], a.err, log)
			log.Info("the edited configuration is in force", "file", cfg.Source)
		}
	}
	repl.Stop()
	err = errors.Join(err, c.close())
	os.Remove(dir) // stays if something else lies in it
	return err
}

// makeRuntimeDir makes the directory of the user's sockets.
func makeRuntimeDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("cannot make the directory of the sockets: %w", err)
	}
	_, err := runtimeDir() // it may have been made by another user meanwhile
	return err
}

// constellation is what a supervisor holds: open sockets, and the programs to
// run behind them.
type constellation struct {
	file     string // the configuration that the services read
	sockets  []net.Listener
	programs []supervise.Program
}

// open listens on the sockets of services and prepares their programs, which
// read file.
func open(cfg *config.Config, file string, services []string) (c *constellation, err error) {
	c = &constellation{file: file}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.close())
		}
	}()
	exe, err := os.Executable()
	if err != nil {
		return c, err
	}
	for _, name := range services {
		path := filepath.Join(filepath.Dir(exe), "zino-"+name)
		if _, err := os.Stat(path); err != nil {
			c.file = ""
			return c, fmt.Errorf("the service zino-%s is missing: it belongs beside %s; build all with: make build", name, exe)
		}
		l, err := service.Listen(cfg.Socket(name))
		if err != nil {
			c.file = ""
			return c, err
		}
		c.sockets = append(c.sockets, l)
		c.programs = append(c.programs, supervise.Program{
			Name: name, Path: path, Args: []string{"--config", file},
			Env: environment(name, cfg), Socket: l,
			First:  name == "daemon", // the end of a turn is stored by mem
			Refuse: refuser(name),
		})
	}
	return c, cfg.Write(file)
}

// close gives the sockets up and removes the services' configuration.
func (c *constellation) close() error {
	var errs []error
	for _, l := range c.sockets {
		errs = append(errs, l.Close())
	}
	if c.file != "" {
		if err := os.Remove(c.file); !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// providerKeys are the variables that hold keys of providers: rtr's alone.
var providerKeys = []string{"ZINO_API_KEY", "LLM_API_KEY", "OPENAI_API_KEY", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "GEMINI_API_KEY", "GOOGLE_API_KEY", "OPENROUTER_API_KEY"}

// headersVariable holds headers of requests to Anthropic: it is no key, and
// what stands in it is as secret.
const headersVariable = "ANTHROPIC_CUSTOM_HEADERS"

// environment is the caller's without what its own supervisor set. Only rtr gets
// the keys of providers; exc gets other secrets, for what pass_env names, and the
// rest none.
func environment(name string, cfg *config.Config) []string {
	env := slices.DeleteFunc(os.Environ(), func(v string) bool {
		key, _, _ := strings.Cut(v, "=")
		return key == "ZINO_CONFIG" || key == "NOTIFY_SOCKET" || strings.HasPrefix(key, "LISTEN_") || strings.HasPrefix(key, "WATCHDOG_") ||
			name != "rtr" && (key == headersVariable || slices.Contains(providerKeys, key))
	})
	switch {
	case name == "exc":
	case name != "rtr":
		return environ.ForService(env)
	case cfg.API.Key != "":
		env = append(env, "ZINO_API_KEY="+cfg.API.Key)
	}
	return env
}

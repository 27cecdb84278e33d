package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/spf13/cobra"

	"zino/pkg/config"
	"zino/pkg/rpc"
)

// settleRepl puts the files of zino repl into the working directory, since pages
// belong to what one works on, and its socket among the user's own.
func settleRepl(cfg *config.Config) {
	if !cfg.IsSet("repl.dir") {
		cfg.Repl.Dir = absolute(".")
	}
	if dir, err := runtimeDir(); err == nil && !cfg.IsSet("repl.socket") {
		cfg.Repl.Socket = filepath.Join(dir, "repl.sock")
	}
}

// replSockets lists where to look for a REPL, in order: the one that was named;
// else the user's own and the host's.
func (a *app) replSockets(cfg *config.Config) []string {
	host := filepath.Join(filepath.Dir(hostSocket), "repl.sock")
	switch {
	case a.host:
		return []string{host}
	case cfg.IsSet("repl.socket"):
		return []string{cfg.Repl.Socket}
	}
	return []string{cfg.Repl.Socket, host}
}

// withRepl has do ask the REPL that is running. None is started for that: its
// files and its port belong to a place.
func (a *app) withRepl(cmd *cobra.Command, do func(context.Context, *rpc.Client, *config.Config) error) error {
	return a.guarded(cmd.Context(), func(ctx context.Context) error {
		cfg, err := a.settings()
		if err != nil {
			return err
		}
		for _, socket := range a.replSockets(cfg) {
			err = a.atRepl(ctx, socket, cfg, do)
			if !errors.Is(err, rpc.ErrConnect) {
				return err
			}
			if errors.Is(err, fs.ErrPermission) {
				return fmt.Errorf("you may not use the REPL that is there: %v", err) // %v: no daemon is missing
			}
		}
		if _, err := runtimeDir(); err != nil && !cfg.IsSet("repl.socket") {
			return err
		}
		return errors.New("no REPL is running; start one with zino repl, in the directory that its files belong to")
	})
}

func (a *app) atRepl(ctx context.Context, socket string, cfg *config.Config, do func(context.Context, *rpc.Client, *config.Config) error) error {
	c := &rpc.Client{Service: "repl", Path: socket}
	defer c.Close()
	return do(ctx, c, cfg)
}

// sayHowToConnect tells how a page of a browser is connected. http is the
// address of the REPL.
func (a *app) sayHowToConnect(http string) {
	a.say("To connect a page, drag the bookmarklet from http://%s/zino/ and click it there,\nor put this into the page:", http)
	a.say("  <script crossorigin src=\"http://%s/zino.js\"></script>", http)
	a.say("Pages of other origins connect if zino repl --origin, or [repl] origins, names them.")
}

package cli

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"

	"zino/pkg/config"
)

const replLong = `Run the file REPL alone, in the foreground, for the pages that one works on. Every
page that is connected has a Markdown file, debug/NAME-ID.md: a block of code that
is written at its end is run in the page, and the answer is written below it.
debug.md lists the pages.

No other service is needed. zino up runs it too, and one is enough: agents that
are started for a run find it. Logs go to stderr; Ctrl-C stops it.`

// replFlags are the flags of zino repl.
type replFlags struct {
	dir, serve, http string
	origins          []string
}

func (a *app) replCommand() *cobra.Command {
	var f replFlags
	cmd := &cobra.Command{
		Use: "repl", Short: "run the file REPL for live pages", Long: replLong, Args: without,
		Example: "  zino repl\n  zino repl --serve public --http 127.0.0.1:8400\n  zino repl --origin http://localhost:5173",
		RunE: func(cmd *cobra.Command, _ []string) error {
			hearPipe()
			cfg, err := a.replSettings(cmd, f)
			if err != nil {
				return err
			}
			ctx, stop := untilSignal(cmd.Context())
			defer stop()
			return a.runRepl(ctx, cfg)
		},
	}
	cmd.Flags().StringVar(&f.dir, "dir", "", "`DIR` of the files (default [repl] dir, else the current directory)")
	cmd.Flags().StringVar(&f.serve, "serve", "", "serve the pages in `DIR`, connected")
	cmd.Flags().StringVar(&f.http, "http", "", "loopback `ADDRESS` with the port that pages connect to, 0 for any (default [repl] http)")
	cmd.Flags().StringArrayVar(&f.origins, "origin", nil, "let the pages of `ORIGIN` connect, such as http://localhost:5173; may be given again")
	return cmd
}

// replSettings is the configuration with what the flags say.
func (a *app) replSettings(cmd *cobra.Command, f replFlags) (*config.Config, error) {
	cfg, err := a.settings()
	if err != nil {
		return nil, err
	}
	for _, dir := range []struct {
		name, value string
		key         *string
	}{{"dir", f.dir, &cfg.Repl.Dir}, {"serve", f.serve, &cfg.Repl.Serve}} {
		if !cmd.Flags().Changed(dir.name) {
			continue
		}
		if *dir.key = absolute(dir.value); dir.value == "" || !isDir(*dir.key) {
			return nil, mistake(cmd, "--%s %s is not a directory", dir.name, dir.value)
		}
	}
	for _, origin := range f.origins {
		if !config.IsOrigin(origin) {
			return nil, mistake(cmd, "--origin %s is not an origin such as http://localhost:5173: scheme, host and port, nothing behind", origin)
		}
		cfg.Repl.Origins = append(cfg.Repl.Origins, origin)
	}
	if !cmd.Flags().Changed("http") {
		return cfg, nil
	}
	if !config.IsLoopback(f.http) {
		return nil, mistake(cmd, "--http %s is not a loopback address with a port, such as 127.0.0.1:8302", f.http)
	}
	cfg.Repl.HTTP = f.http
	return cfg, nil
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// readyRepl sees that a REPL could start, and settles its port if any will do:
// somebody else could take it before the service does, which says so then.
func readyRepl(cfg *config.Config) error {
	r := &cfg.Repl
	if answers(r.Socket) {
		return fmt.Errorf("a REPL is running already, on %s: zino pages lists what is connected to it", r.Socket)
	}
	if err := checkReplDir(r.Dir); err != nil {
		return err
	}
	if r.Serve != "" && !isDir(r.Serve) {
		return fmt.Errorf("[repl] serve: %s is not a directory", r.Serve)
	}
	l, err := net.Listen("tcp", r.HTTP)
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%s is in use, by another REPL perhaps; name another address with zino repl --http or [repl] http", r.HTTP)
	}
	if err != nil {
		return fmt.Errorf("[repl] http: %w", err)
	}
	r.HTTP = l.Addr().String()
	return l.Close()
}

// checkReplDir reports why the REPL could not write its files in dir.
func checkReplDir(dir string) error {
	if !isDir(dir) {
		return fmt.Errorf("[repl] dir: %s is not a directory", dir)
	}
	if err := probe(filepath.Join(dir, "debug")); err != nil {
		return fmt.Errorf("[repl] dir: cannot write the logs: %w", err)
	}
	return nil
}

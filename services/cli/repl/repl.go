// Package repl implements zino repl, zino pages and zino eval.
package repl

import (
	"context"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"zino/pkg/config"
	"zino/pkg/rpc"
	"zino/proto"
	"zino/services/cli/command"
	"zino/services/cli/connect"
	"zino/services/cli/render"
)

// New returns zino repl.
func New(env *command.Env) *cobra.Command {
	var f flags
	cmd := &cobra.Command{
		Use: "repl", Short: "run the file REPL for live pages", Args: command.NoArgs,
		Long: `Run the file REPL alone, in the foreground, for the pages that one works on. Every
page that is connected has a Markdown file, debug/NAME-ID.md: a block of code that
is written at its end is run in the page, and the answer is written below it.
debug.md lists the pages.

No other service is needed. zino up runs it too, and one is enough: agents that
are started for a run find it. Logs go to stderr. Ctrl-C stops it: code that runs
gets up to 5 s to end, a second Ctrl-C stops it at once. In the files, what has not
ended is marked as interrupted.

With --proxy, the application at URL (Vite, webpack, any server of this host) is
served a second time, on another port, and there every page is connected: nothing is
put into the application. Its WebSockets and streams are passed on.`,
		Example: "  zino repl --proxy http://localhost:5173\n  zino repl --serve public --http 127.0.0.1:8400\n  zino repl --origin http://localhost:5173",
		RunE: func(cmd *cobra.Command, _ []string) error {
			command.CatchPipe()
			cfg, err := env.Config()
			if err != nil {
				return err
			}
			if err := f.apply(cmd, cfg); err != nil {
				return err
			}
			proxied, err := f.proxy.args(cmd)
			if err != nil {
				return err
			}
			signals := make(chan os.Signal, 2)
			signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
			defer signal.Stop(signals)
			err = env.RunRepl(signals, cfg, proxied, func(ctx context.Context) {
				env.Say("zino: the REPL is up at http://%s/zino/; Ctrl-C stops it", cfg.Repl.HTTP)
				env.Say("Its files are in %s: debug.md lists the pages, debug/NAME-ID.md is one each.", cfg.Repl.Dir)
				if cfg.Repl.Serve != "" {
					env.Say("The pages in %s are served at http://%s/, connected.", cfg.Repl.Serve, cfg.Repl.HTTP)
				}
				if f.proxy.url != "" {
					f.proxy.sayWhere(ctx, env, cfg)
					return
				}
				sayHowToConnect(env, cfg.Repl.HTTP)
			})
			if err == connect.ErrEnded {
				return render.ErrReported
			}
			return err
		},
	}
	cmd.Flags().StringVar(&f.dir, "dir", "", "`DIR` of the files (default [repl] dir, else the current directory)")
	cmd.Flags().StringVar(&f.serve, "serve", "", "serve the pages in `DIR`, connected")
	cmd.Flags().StringVar(&f.http, "http", "", "loopback `ADDRESS` with the port that pages connect to, 0 for any (default [repl] http)")
	cmd.Flags().StringArrayVar(&f.origins, "origin", nil, "let the pages of `ORIGIN` connect, such as http://localhost:5173; may be given again")
	f.proxy.define(cmd)
	return cmd
}

type flags struct {
	dir, serve, http string
	origins          []string
	proxy            proxy
}

// apply checks the flags and sets them in the configuration.
func (f *flags) apply(cmd *cobra.Command, cfg *config.Config) error {
	for _, dir := range []struct {
		name, value string
		key         *string
	}{{"dir", f.dir, &cfg.Repl.Dir}, {"serve", f.serve, &cfg.Repl.Serve}} {
		if !cmd.Flags().Changed(dir.name) {
			continue
		}
		if *dir.key = connect.Absolute(dir.value); dir.value == "" || !connect.IsDir(*dir.key) {
			return command.Mistake(cmd, "--%s %s is not a directory", dir.name, dir.value)
		}
	}
	for _, origin := range f.origins {
		if !config.IsOrigin(origin) {
			return command.Mistake(cmd, "--origin %s is not an origin such as http://localhost:5173: scheme, host and port, nothing behind", origin)
		}
		cfg.Repl.Origins = append(cfg.Repl.Origins, origin)
	}
	if !cmd.Flags().Changed("http") {
		return nil
	}
	if !config.IsLoopback(f.http) {
		return command.Mistake(cmd, "--http %s is not a loopback address with a port, such as 127.0.0.1:8302", f.http)
	}
	cfg.Repl.HTTP = f.http
	return nil
}

// sayHowToConnect prints how to connect a page of a browser. http is the address of
// the REPL.
func sayHowToConnect(env *command.Env, http string) {
	env.Say("To connect a page, drag the bookmarklet from http://%s/zino/ and click it there,\nor put this into the page:", http)
	env.Say("  <script crossorigin src=\"http://%s/zino.js\"></script>", http)
	env.Say("Pages of other origins connect if zino repl --origin, or [repl] origins, names them.")
}

// withRepl calls do with the running REPL.
func withRepl(env *command.Env, cmd *cobra.Command, do func(context.Context, *rpc.Client, *config.Config) error) error {
	return env.Guard(cmd.Context(), func(ctx context.Context) error {
		cfg, err := env.Config()
		if err != nil {
			return err
		}
		return env.WithRepl(cfg, func(c *rpc.Client) error { return do(ctx, c, cfg) })
	})
}

// NewPages returns zino pages.
func NewPages(env *command.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use: "pages", Short: "list the live pages that code can be run in", Args: command.NoArgs, Annotations: command.PrintsJSON,
		Long: `List the live pages that are connected to the file REPL: tabs, frames and workers
of browsers, programs. The first column is what zino eval takes; a name or title that
no other page has and the id behind it will do as well. With --json each page is an
object in a line.`,
		Example: "  zino pages\n  zino pages --json | jq -r .file",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withRepl(env, cmd, func(ctx context.Context, repl *rpc.Client, cfg *config.Config) error {
				list, err := rpc.Call(ctx, repl, proto.ReplPages, proto.PagesRequest{})
				if err != nil {
					return err
				}
				if len(list.Pages) == 0 {
					env.Say("No pages are connected.")
					http := cfg.Repl.HTTP // the service may have been started with another address
					if stats, err := rpc.Call(ctx, repl, proto.GetStats, proto.StatsRequest{}); err == nil && stats.Info["http"] != "" {
						http = stats.Info["http"]
					}
					sayHowToConnect(env, http)
					return nil
				}
				if env.JSON() {
					return env.Print(func(w io.Writer) error { return render.JSONList(w, list.Pages) })
				}
				// A page that has changed its title keeps its name.
				titled := slices.ContainsFunc(list.Pages, func(p proto.Page) bool { return p.Title != "" })
				rows := [][]string{{"PAGE", "STATE", "KIND", "LANGUAGE", "URL", "FILE"}}
				for _, p := range list.Pages {
					name := p.Name
					if env.Width() > 0 { // cut the name rather than the id, which identifies the page
						name = render.Cut(render.Line(name), render.CellMax-render.Cells(p.ID)-1)
					}
					rows = append(rows, []string{name + "-" + p.ID, p.State, p.Kind, p.Lang, render.Dash(p.URL), p.File})
				}
				if titled {
					rows[0] = slices.Insert(rows[0], 1, "TITLE")
					for i, p := range list.Pages {
						rows[i+1] = slices.Insert(rows[i+1], 1, render.Dash(render.Line(p.Title)))
					}
				}
				return env.PrintTable(rows)
			})
		},
	}
	cmd.AddCommand(newLog(env), newOutline(env))
	return cmd
}

// eventText formats a background event: its source and place, an error with its stack.
func eventText(e proto.PageEvent) string {
	source, message := e.Source, e.Message
	if source == "" {
		source = strings.TrimRight(e.Type+"."+e.Level, ".")
	}
	if e.Place != "" {
		source += " " + e.Place
	}
	if e.Stack != "" && e.Type != "console" {
		message = e.Stack
	}
	return source + ": " + strings.TrimRight(message, "\n")
}

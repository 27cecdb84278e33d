package cli

import (
	"context"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"zino/pkg/config"
	"zino/pkg/rpc"
	"zino/proto"
)

const pagesLong = `List the live pages that are connected to the file REPL: tabs, frames and workers
of browsers, programs. The first column is what zino eval takes; a name that no
other page has and the id behind it will do as well. With --json each
page is an object in a line.`

func (a *app) pagesCommand() *cobra.Command {
	return &cobra.Command{
		Use: "pages", Short: "list the live pages that code can be run in", Long: pagesLong, Args: without, Annotations: printsJSON,
		Example: "  zino pages\n  zino pages --json | jq -r .file",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withRepl(cmd, func(ctx context.Context, repl *rpc.Client, cfg *config.Config) error {
				list, err := rpc.Call(ctx, repl, proto.ReplPages, proto.PagesRequest{})
				if err != nil {
					return err
				}
				if len(list.Pages) == 0 {
					a.say("No pages are connected.")
					a.sayHowToConnect(httpOf(ctx, repl, cfg))
					return nil
				}
				return a.printPages(list.Pages)
			})
		},
	}
}

// httpOf is the address that pages connect to: as the service tells it, which
// may have been started with another one than the configuration has.
func httpOf(ctx context.Context, repl *rpc.Client, cfg *config.Config) string {
	stats, err := rpc.Call(ctx, repl, proto.GetStats, proto.StatsRequest{})
	if at := stats.Info["http"]; err == nil && at != "" {
		return at
	}
	return cfg.Repl.HTTP
}

func (a *app) printPages(pages []proto.Page) error {
	if a.asJSON() {
		return a.print(func(w io.Writer) error { return printAll(w, pages) })
	}
	width := a.width()
	rows := [][]string{{"PAGE", "STATE", "KIND", "LANGUAGE", "URL", "FILE"}}
	for _, p := range pages {
		rows = append(rows, []string{pageCell(p, width), p.State, p.Kind, p.Lang, dash(p.URL), p.File})
	}
	_, err := io.WriteString(a.out, columns(rows, width))
	return err
}

// pageCell is a page's name with its id. Where lines are cut the id stays: it
// alone is enough to name the page.
func pageCell(p proto.Page, width int) string {
	if name := inLine(p.Name); width > 0 {
		return cut(name, cellMax-cells(p.ID)-1) + "-" + p.ID
	}
	return p.Name + "-" + p.ID
}

// somePage completes the name of a page: alone if no other page has it, else
// with the id.
func (a *app) somePage(cmd *cobra.Command, _ []string, word string) (names []string, _ cobra.ShellCompDirective) {
	const words = 60 // cells
	ctx, cancel := context.WithTimeout(cmd.Context(), tabPatience)
	defer cancel()
	pages := a.pagesNow(ctx)
	for _, p := range pages {
		name := p.Name
		if slices.ContainsFunc(pages, func(q proto.Page) bool { return q.Name == p.Name && q.ID != p.ID }) {
			name += "-" + p.ID
		}
		if strings.HasPrefix(name, word) {
			names = append(names, cobra.CompletionWithDesc(inLine(name), cut(inLine(strings.TrimSpace(p.Kind+" "+p.URL)), words)))
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// pagesNow are the pages of a REPL that is there, if one is and answers.
func (a *app) pagesNow(ctx context.Context) []proto.Page {
	cfg, err := a.settings()
	if err != nil {
		return nil
	}
	for _, socket := range a.replSockets(cfg) {
		c := &rpc.Client{Service: "repl", Path: socket}
		list, err := rpc.Call(ctx, c, proto.ReplPages, proto.PagesRequest{})
		c.Close()
		if err == nil {
			return list.Pages
		}
	}
	return nil
}

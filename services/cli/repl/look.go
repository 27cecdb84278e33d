package repl

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"zino/pkg/config"
	"zino/pkg/rpc"
	"zino/proto"
	"zino/services/cli/command"
	"zino/services/cli/render"
)

// newLog returns zino pages log.
func newLog(env *command.Env) *cobra.Command {
	var after string
	var limit int
	cmd := &cobra.Command{
		Use: "log PAGE", Short: "show what a live page logged last", Annotations: command.PrintsJSON,
		Long: `Show what a live page logged last: its console, uncaught errors, failed requests.
Pages that are gone are found by their id. With --json the answer is one object;
its next is what --after takes to show only what followed.`,
		Example: "  zino pages log shop\n  zino pages log shop --json | jq -r .next",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return command.Mistake(cmd, "name a page; zino pages lists them")
			}
			return withRepl(env, cmd, func(ctx context.Context, repl *rpc.Client, _ *config.Config) error {
				log, err := rpc.Call(ctx, repl, proto.ReplLog, proto.ReadPageLog{Page: args[0], After: after, Limit: limit})
				if err != nil {
					return err
				}
				if env.JSON() {
					return render.NewJSONTurns(env.Out).Packet(proto.ReplLog.Reply, log)
				}
				if log.LeftOut > 0 {
					env.Say("... (%d earlier events left out) ...", log.LeftOut)
				}
				p := render.NewPrinter(env.Out)
				for _, e := range log.Events {
					text := strings.TrimSpace(e.TS + " " + eventText(e))
					if err := p.Text([]byte(text + "\n")); err != nil {
						return err
					}
				}
				return p.End()
			})
		},
	}
	cmd.Flags().StringVar(&after, "after", "", "show what followed the answer with this `NEXT`")
	cmd.Flags().IntVar(&limit, "limit", 0, "show `N` events at most, up to 1000 (default 100)")
	return cmd
}

// newOutline returns zino pages outline.
func newOutline(env *command.Env) *cobra.Command {
	var depth int
	cmd := &cobra.Command{
		Use: "outline PAGE [SELECTOR]", Short: "show what a live page displays", Annotations: command.PrintsJSON,
		Long: `Show what a live page of a browser displays: a line for each element with its role,
name, value, state, place and size, and a selector that zino.click and zino.fill
take in zino eval. SELECTOR is the element to start from.`,
		Example: "  zino pages outline shop\n  zino pages outline shop '#cart' --depth 2",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) < 1 || len(args) > 2 {
				return command.Mistake(cmd, "name a page, and at most one selector; zino pages lists the pages")
			}
			req := proto.OutlinePage{Page: args[0], Selector: strings.Join(args[1:], ""), Depth: depth}
			return withRepl(env, cmd, func(ctx context.Context, repl *rpc.Client, _ *config.Config) error {
				o, err := rpc.Call(ctx, repl, proto.ReplOutline, req)
				if err != nil {
					return err
				}
				if env.JSON() {
					return render.NewJSONTurns(env.Out).Packet(proto.ReplOutline.Reply, o)
				}
				p := render.NewPrinter(env.Out)
				return errors.Join(p.Text([]byte(o.Text)), p.End())
			})
		},
	}
	cmd.Flags().IntVar(&depth, "depth", 0, "show `N` levels (default as many as keep it short)")
	return cmd
}

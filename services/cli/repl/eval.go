package repl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/user"
	"strings"

	"github.com/spf13/cobra"

	"zino/pkg/config"
	"zino/pkg/rpc"
	"zino/proto"
	"zino/services/cli/command"
	"zino/services/cli/render"
	"zino/services/cli/term"
)

// NewEval returns zino eval.
func NewEval(env *command.Env) *cobra.Command {
	var timeout float64 // seconds; 0: as the REPL is configured
	var agent string
	cmd := &cobra.Command{
		Use: "eval PAGE [CODE]", Short: "run code in a live page", Annotations: command.PrintsJSON,
		Long: `Run code in a live page and print its value. Its console output and
uncaught errors go to standard error. If the code throws or times out, the exit
status is 1. The page's file records the exchange.

The page is one of zino pages. Code is read from standard input where it is -, or
is not given and standard input is no terminal. With --json the result is
printed as one JSON object. Ctrl-C stops waiting; code that has started goes on in
the page.`,
		Example: "  zino eval shop 'document.title'\n  zino eval shop-1a2b --timeout 300 <script.js\n  zino eval shop -- '-1 + 2'",
		RunE: func(cmd *cobra.Command, args []string) error {
			const longest = 86400 // a day
			command.CatchPipe()
			switch {
			case len(args) == 0 || args[0] == "":
				return command.Mistake(cmd, "name a page; zino pages lists them")
			case len(args) > 2:
				return command.Mistake(cmd, "the code is one argument: put it in quotes")
			case len(args) == 1 && term.IsTerminal(env.In):
				return command.Mistake(cmd, "there is no code: give it in quotes, or - to read it from standard input")
			case cmd.Flags().Changed("timeout") && !(timeout >= 0.001 && timeout <= longest): // true for NaN
				return command.Mistake(cmd, "--timeout %v is not a number of seconds, up to %d", timeout, longest)
			}
			req := proto.Eval{Page: args[0], Agent: agent, TimeoutMS: int64(timeout * 1000)}
			if u, err := user.Current(); err == nil {
				req.Agent = cmp.Or(agent, u.Username)
			}
			return finish(env, eval(env, cmd, req, args[1:]))
		},
	}
	cmd.Flags().Float64Var(&timeout, "timeout", 0, "how long the code may run, in `SECONDS` (default as the REPL is configured)")
	cmd.Flags().StringVar(&agent, "agent", "", "`NAME` that the page's file shows as the one who asks (default your login name)")
	return cmd
}

// eval reads the code, runs it and prints the result.
func eval(env *command.Env, cmd *cobra.Command, req proto.Eval, args []string) error {
	err := env.Guard(cmd.Context(), func(ctx context.Context) (err error) {
		if len(args) == 1 && args[0] != "-" {
			req.Code = args[0]
			return nil
		}
		if req.Code, err = command.ReadInput(ctx, env.In, nil); err != nil {
			return fmt.Errorf("standard input: %w", err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if strings.TrimSpace(req.Code) == "" {
		return command.Mistake(cmd, "there is no code")
	}
	return withRepl(env, cmd, func(ctx context.Context, repl *rpc.Client, _ *config.Config) error {
		r, err := rpc.Call(ctx, repl, proto.ReplEval, req)
		if err != nil {
			return err
		}
		if err := printResult(env, r); err != nil {
			return err
		}
		if !r.OK {
			return render.ErrReported
		}
		return nil
	})
}

func printResult(env *command.Env, r proto.Evaluated) error {
	if env.JSON() {
		return render.NewJSONTurns(env.Out).Packet(proto.ReplEval.Reply, r)
	}
	for i, e := range r.Background {
		const first = 2 // events before the omitted ones
		if i == first && r.Omitted > 0 {
			env.Say("... (%d more background events omitted) ...", r.Omitted)
		}
		env.Say("%s", eventText(e))
	}
	if r.Whole != "" {
		defer env.Say("The whole is in %s, in the directory of the REPL.", r.Whole)
	}
	if !r.OK {
		env.Say("%s", strings.TrimRight(r.Error, "\n"))
		return nil
	}
	value := ""
	if r.Value != nil { // absent from a service of an earlier version for an empty value
		value = *r.Value
	}
	p := render.NewPrinter(env.Out)
	return errors.Join(p.Text([]byte(value)), p.End())
}

// finish prints the error of an evaluation that has no result: with --json as a
// packet.
func finish(env *command.Env, err error) error {
	_, usage := errors.AsType[render.UsageError](err)
	switch {
	case err == nil, err == render.ErrReported, usage:
		return err
	case render.IsClosed(err):
		return render.ErrOutputClosed
	case !env.JSON():
		return err
	}
	packet, result := render.ErrorPacket(err), render.ErrReported
	packet.Kind = "" // only turns have kinds
	if errors.Is(err, render.ErrInterrupted) {
		packet.Message, packet.Code, result = "Interrupted.", proto.CodeCanceled, err
	}
	return cmp.Or(render.NewJSONTurns(env.Out).Packet("error", packet), result)
}

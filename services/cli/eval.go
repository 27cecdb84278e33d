package cli

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
)

const evalLong = `Run code in a live page and print its value. Its console output and
uncaught errors go to standard error. If the code throws or times out, the exit
status is 1. The page's file records the exchange.

The page is one of zino pages. Code is read from standard input where it is -, or
is not given and standard input is no terminal. With --json the result is
printed as one JSON object. Ctrl-C stops waiting; code that has started goes on in
the page.`

// evaluation is what zino eval was told.
type evaluation struct {
	timeout float64 // seconds; 0: as the REPL is configured
	agent   string
}

func (a *app) evalCommand() *cobra.Command {
	var e evaluation
	cmd := &cobra.Command{
		Use: "eval PAGE [CODE]", Short: "run code in a live page", Long: evalLong, Annotations: printsJSON,
		Example: "  zino eval shop 'document.title'\n  zino eval shop-1a2b --timeout 300 <script.js\n  zino eval shop -- '-1 + 2'",
		RunE: func(cmd *cobra.Command, args []string) error {
			hearPipe()
			if err := a.checkEval(cmd, e, args); err != nil {
				return err
			}
			return a.evalEnd(a.evaluate(cmd, e, args))
		},
	}
	cmd.Flags().Float64Var(&e.timeout, "timeout", 0, "how long the code may run, in `SECONDS` (default as the REPL is configured)")
	cmd.Flags().StringVar(&e.agent, "agent", "", "`NAME` that the page's file shows as the one who asks (default your login name)")
	return cmd
}

// checkEval finds mistakes on the command line, and fills in who asks.
func (a *app) checkEval(cmd *cobra.Command, e evaluation, args []string) error {
	const longest = 86400 // a day
	switch {
	case len(args) == 0 || args[0] == "":
		return mistake(cmd, "name a page; zino pages lists them")
	case len(args) > 2:
		return mistake(cmd, "the code is one argument: put it in quotes")
	case len(args) == 1 && isTerminal(a.in):
		return mistake(cmd, "there is no code: give it in quotes, or - to read it from standard input")
	case cmd.Flags().Changed("timeout") && !(e.timeout >= 0.001 && e.timeout <= longest): // true for NaN too
		return mistake(cmd, "--timeout %v is not a number of seconds, up to %d", e.timeout, longest)
	}
	return nil
}

// evaluate runs what stands on the command line.
func (a *app) evaluate(cmd *cobra.Command, e evaluation, args []string) error {
	req := proto.Eval{Page: args[0], Agent: cmp.Or(e.agent, loginName()), TimeoutMS: int64(e.timeout * 1000)}
	err := a.guarded(cmd.Context(), func(ctx context.Context) (err error) {
		req.Code, err = a.code(ctx, args[1:])
		return err
	})
	switch {
	case err != nil:
		return err
	case strings.TrimSpace(req.Code) == "":
		return mistake(cmd, "there is no code")
	}
	return a.withRepl(cmd, func(ctx context.Context, repl *rpc.Client, _ *config.Config) error {
		return a.eval(ctx, repl, req)
	})
}

// code is the code that was given, or what standard input has.
func (a *app) code(ctx context.Context, args []string) (string, error) {
	if len(args) == 1 && args[0] != "-" {
		return args[0], nil
	}
	code, err := readInput(ctx, a.in, nil)
	if err != nil {
		return "", fmt.Errorf("standard input: %w", err)
	}
	return code, nil
}

// eval has the REPL run code and shows what came of it.
func (a *app) eval(ctx context.Context, repl *rpc.Client, req proto.Eval) error {
	r, err := rpc.Call(ctx, repl, proto.ReplEval, req)
	if err == nil {
		err = a.showEvaluated(r)
	}
	if err == nil && !r.OK {
		return errQuiet
	}
	return err
}

// loginName is the user's name, empty if the system knows none.
func loginName() string {
	u, err := user.Current()
	if err != nil {
		return ""
	}
	return u.Username
}

func (a *app) showEvaluated(r proto.Evaluated) error {
	if a.asJSON() {
		return a.jsonOut().packet(proto.ReplEval.Reply, r)
	}
	for i, e := range r.Background {
		const first = 2 // they stand before those left out
		if i == first && r.Omitted > 0 {
			a.say("... (%d more background events omitted) ...", r.Omitted)
		}
		a.say("%s", eventText(e))
	}
	if !r.OK {
		a.say("%s", strings.TrimRight(r.Error, "\n"))
		return nil
	}
	p := &printer{w: a.out, terminal: isTerminal(a.out)}
	return errors.Join(p.Text([]byte(r.Value)), p.end())
}

// eventText is a background event as one reads it: an error with its stack.
func eventText(e proto.RealmEvent) string {
	source, text := e.Source, e.Message
	if source == "" {
		source = strings.TrimRight(e.Type+"."+e.Level, ".")
	}
	if e.Stack != "" && e.Type != "console" {
		text = e.Stack
	}
	return source + ": " + strings.TrimRight(text, "\n")
}

// evalEnd tells how an evaluation ended that gave no result, in the form that
// was asked for.
func (a *app) evalEnd(err error) error {
	_, usage := errors.AsType[usageError](err)
	switch {
	case err == nil, err == errQuiet, usage:
		return err
	case lost(err):
		return errLost
	}
	packet := packetOf(err)
	packet.Kind = "" // those are of turns
	result := errQuiet
	if errors.Is(err, errInterrupted) {
		packet.Message, packet.Code, result = "Interrupted.", proto.CodeCanceled, err
	}
	if !a.asJSON() {
		return err
	}
	return cmp.Or(a.jsonOut().packet("error", packet), result)
}

// jsonOut is standard output for packets.
func (a *app) jsonOut() *jsonLines { return &jsonLines{w: a.out, terminal: isTerminal(a.out)} }

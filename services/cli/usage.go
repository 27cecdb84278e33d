package cli

import (
	"context"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"zino/pkg/text"
	"zino/proto"
	"zino/services/cli/command"
	"zino/services/cli/connect"
	"zino/services/cli/render"
)

// usageBy are the values of --by.
var usageBy = []string{"day", "model", "session"}

func newUsage(env *command.Env) *cobra.Command {
	var req proto.UsageRequest
	cmd := &cobra.Command{
		Use: "usage", Short: "print what was used of models, and what is left of the budgets", Annotations: command.PrintsJSON,
		Long: `Print what was asked of models, as the router recorded it: requests, tokens of
the prompts, those of them that came from the provider's cache, tokens of the
answers, and what they cost. A cost is "unknown" where no price is known; ">="
stands before a sum of which a part is unknown. "estimated with prices of DATE" says
that costs were computed with prices that Zino knows by itself, as of that date;
[[rtr.model]] in the configuration sets others. Below stand the budgets: what is
spent of each, what is reserved for requests in flight or lost, and when it
starts again. Budgets of a session need --session.`,
		Example: "  zino usage --by model --since 2026-11-01",
		Args:    command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !slices.Contains(usageBy, req.By) {
				return render.Usage("--by %q is not one of %s", req.By, strings.Join(usageBy, ", "))
			}
			if _, err := time.Parse(time.DateOnly, req.Since); err != nil && req.Since != "" {
				return render.Usage("--since %q is not a day, such as 2026-11-21", req.Since)
			}
			return env.WithDaemon(cmd, true, connect.StorageRequired, func(ctx context.Context, d *connect.Daemon) error {
				report, err := connect.Forward(ctx, d, "rtr", proto.RtrUsage, req)
				if err != nil {
					return err
				}
				if env.JSON() {
					return render.JSON(env.Out, report)
				}
				return printUsage(env.Out, report, req.SessionID != "")
			})
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&req.By, "by", "day", "what a row is for: `day, model or session`")
	flags.StringVar(&req.Since, "since", "", "the first `DAY` that counts, as YYYY-MM-DD")
	flags.StringVar(&req.SessionID, "session", "", "the session `ID` that counts alone; - for requests without one")
	return cmd
}

// printUsage prints the sums and the budgets. session is true for a report about one
// session.
func printUsage(w io.Writer, report proto.UsageReport, session bool) error {
	out := "No usage recorded.\n"
	if report.Total.Requests > 0 {
		rows := [][]string{{"KEY", "REQUESTS", "INPUT", "CACHED", "OUTPUT", "COST"}}
		for _, r := range append(report.Rows, report.Total) {
			cost := "unknown"
			if r.Usage.CostUSD != nil {
				cost = render.Cost(r.Usage.CostUSD, int(r.Unpriced))
			}
			rows = append(rows, []string{r.Key, render.Count(r.Requests), render.Count(r.Usage.InputTokens), render.Count(r.Usage.CacheReadTokens), render.Count(r.Usage.OutputTokens), cost})
		}
		out = render.Numbers(rows)
	}
	if report.PricesOf != "" {
		out += "estimated with prices of " + text.Visible(report.PricesOf) + "\n"
	}
	if len(report.Budgets) > 0 {
		rows := [][]string{{"BUDGET", "SPENT", "RESERVED", "LIMIT", "ENDS"}}
		for _, b := range report.Budgets {
			amount := func(v float64) string { return strconv.FormatFloat(v, 'f', 0, 64) }
			if strings.HasPrefix(b.Name, "usd_") {
				amount = render.Dollars
			}
			spent, reserved, ends := amount(b.Spent), amount(b.Reserved), b.Ends
			if ends == "" {
				ends = "with the session"
				if !session {
					spent, reserved = "-", "-"
				}
			}
			rows = append(rows, []string{b.Name, spent, reserved, amount(b.Limit), ends})
		}
		out += "\n" + render.Numbers(rows)
	}
	_, err := io.WriteString(w, out)
	return err
}

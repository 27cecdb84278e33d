package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"zino/pkg/visible"
	"zino/proto"
)

const usageLong = `Print what was asked of models, as the router recorded it: requests, tokens of
the prompts, those of them that came from the provider's cache, tokens of the
answers, and what they cost. A cost is "unknown" where no price is known; ">="
stands before a sum of which a part is unknown. "estimated with prices of DATE" says
that costs were computed with prices that Zino knows by itself, as of that date;
[[rtr.model]] in the configuration sets others. Below stand the budgets: what is
spent of each, what is reserved for requests under way or lost, and when it
starts anew. A session's budgets are shown as they stand for --session.`

// usageBy are the values of --by.
var usageBy = []string{"day", "model", "session"}

func (a *app) usageCommand() *cobra.Command {
	var req proto.UsageRequest
	cmd := &cobra.Command{
		Use: "usage", Short: "print what was used of models, and what is left of the budgets", Long: usageLong, Annotations: printsJSON,
		Example: "  zino usage --by model --since 2026-11-01",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkUsage(req); err != nil {
				return err
			}
			return a.guarded(cmd.Context(), func(ctx context.Context) error { return a.usage(ctx, req) })
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&req.By, "by", "day", "what a row is for: `day, model or session`")
	flags.StringVar(&req.Since, "since", "", "the first `DAY` that counts, as YYYY-MM-DD")
	flags.StringVar(&req.SessionID, "session", "", "the session `ID` that counts alone; - for requests without one")
	return cmd
}

// checkUsage finds mistakes on the command line before anything is started.
func checkUsage(req proto.UsageRequest) error {
	if !slices.Contains(usageBy, req.By) {
		return usageError{fmt.Errorf("--by %q is none of %s", req.By, strings.Join(usageBy, ", "))}
	}
	if _, err := time.Parse(time.DateOnly, req.Since); err != nil && req.Since != "" {
		return usageError{fmt.Errorf("--since %q is not a day, such as 2026-11-21", req.Since)}
	}
	return nil
}

func (a *app) usage(ctx context.Context, req proto.UsageRequest) error {
	report, err := a.usageReport(ctx, req)
	if err != nil {
		return err
	}
	if a.asJSON() {
		return printJSON(a.out, report)
	}
	return printUsage(a.out, report, req.SessionID != "")
}

// usageReport asks the router, through the daemon that is running or one that
// is brought along: the record outlives both.
func (a *app) usageReport(ctx context.Context, req proto.UsageRequest) (proto.UsageReport, error) {
	cfg, err := a.settings()
	if err != nil {
		return proto.UsageReport{}, err
	}
	d, err := a.connect(cfg, true, storageRequired)
	if err != nil {
		return proto.UsageReport{}, err
	}
	defer d.close()
	return forward(ctx, d, "rtr", proto.RtrUsage, req)
}

// printUsage prints the sums and the budgets. named says that the sums are
// those of one session.
func printUsage(w io.Writer, report proto.UsageReport, named bool) error {
	text := "No usage recorded.\n"
	if report.Total.Requests > 0 {
		rows := [][]string{{"KEY", "REQUESTS", "INPUT", "CACHED", "OUTPUT", "COST"}}
		for _, r := range append(report.Rows, report.Total) {
			u := r.Usage
			rows = append(rows, []string{r.Key, count(r.Requests), count(u.InputTokens), count(u.CacheReadTokens), count(u.OutputTokens), cost(r)})
		}
		text = table(rows)
	}
	if report.PricesOf != "" {
		text += "estimated with prices of " + visible.Text(report.PricesOf) + "\n"
	}
	if len(report.Budgets) > 0 {
		rows := [][]string{{"BUDGET", "SPENT", "RESERVED", "LIMIT", "ENDS"}}
		for _, b := range report.Budgets {
			rows = append(rows, budgetRow(b, named))
		}
		text += "\n" + table(rows)
	}
	_, err := io.WriteString(w, text)
	return err
}

func budgetRow(b proto.BudgetState, named bool) []string {
	amount := func(v float64) string { return strconv.FormatFloat(v, 'f', 0, 64) }
	if strings.HasPrefix(b.Name, "usd_") {
		amount = dollars
	}
	switch {
	case b.Ends != "":
		return []string{b.Name, amount(b.Spent), amount(b.Reserved), amount(b.Limit), b.Ends}
	case named:
		return []string{b.Name, amount(b.Spent), amount(b.Reserved), amount(b.Limit), "with the session"}
	}
	return []string{b.Name, "-", "-", amount(b.Limit), "with the session"}
}

func count(n int64) string { return strconv.FormatInt(n, 10) }

// cost is what the requests of a row cost, as far as that is known.
func cost(r proto.UsageRow) string {
	if r.Usage.CostUSD == nil {
		return "unknown"
	}
	return costOf(r.Usage.CostUSD, int(r.Unpriced))
}

// dollars is an amount with four decimals. One that is less is not nothing.
func dollars(usd float64) string {
	if text := fmt.Sprintf("$%.4f", usd); usd <= 0 || text != "$0.0000" {
		return text
	}
	return "<$0.0001"
}

// table aligns rows: the first column at its left, the others at their right.
func table(rows [][]string) string {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i := range row {
			row[i] = strings.ReplaceAll(visible.Text(row[i]), "\n", " ")
			widths[i] = max(widths[i], utf8.RuneCountInString(row[i]))
		}
	}
	var b strings.Builder
	for _, row := range rows {
		fmt.Fprintf(&b, "%-*s", widths[0], row[0])
		for i, cell := range row[1:] {
			fmt.Fprintf(&b, "  %*s", widths[i+1], cell)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

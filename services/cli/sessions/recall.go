package sessions

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"zino/proto"
	"zino/services/cli/command"
	"zino/services/cli/connect"
	"zino/services/cli/render"
)

// recallMax is the largest top_k of recall_sessions.
const recallMax = 100

// RecallRoles are the values of recall's --role.
var RecallRoles = []string{proto.RoleUser, proto.RoleAssistant, proto.RoleTool}

// NewRecall returns zino sessions recall, which is also zino recall.
func NewRecall(env *command.Env) *cobra.Command {
	var req proto.RecallSessions
	var k int
	cmd := &cobra.Command{
		Use: "recall WORDS...", Short: "find what was said in earlier sessions", Annotations: command.PrintsJSON,
		Long: `Find messages and tool calls of earlier sessions by their words, best first. Not all
words must occur: the score is the part of the query that a passage covers, words
weighed by their rarity; the messages around it and the rest of its session add to
it. 1 would be every word, many times. Results of tools are not searched: see zino
sessions search.

With --explain the words that the passage itself covers are shown. A session that was
begun with --no-recall is not searched.`,
		Example: "  zino recall how did we fix the printer\n  zino sessions recall printer --since 2026-11-01 --role assistant",
		RunE: func(cmd *cobra.Command, args []string) error {
			req.Query, req.TopK = strings.Join(args, " "), &k
			switch {
			case strings.TrimSpace(req.Query) == "":
				return command.Mistake(cmd, "name the words to look for")
			case k < 1 || k > recallMax:
				return command.Mistake(cmd, "-k %d is not the number of passages wanted, 1 to %d", k, recallMax)
			case cmd.Flags().Changed("role") && !slices.Contains(RecallRoles, req.Role):
				return command.Mistake(cmd, "--role %q is not one of %s", req.Role, strings.Join(RecallRoles, ", "))
			case !(req.MinScore >= 0 && req.MinScore <= 1): // true for NaN
				return command.Mistake(cmd, "--min-score %v is not from 0 to 1", req.MinScore)
			}
			err := cmp.Or(command.CheckTime(cmd, "since", &req.Since), command.CheckTime(cmd, "until", &req.Until))
			if err == nil && cmd.Flags().Changed("session") {
				err = command.CheckSession(req.SessionID)
			}
			if err != nil {
				return err
			}
			return withDaemon(env, cmd, func(ctx context.Context, d *connect.Daemon) error { return recall(ctx, env, d, req) })
		},
	}
	flags := cmd.Flags()
	flags.IntVarP(&k, "k", "k", 10, "at most `N` passages, up to 100")
	flags.StringVar(&req.Since, "since", "", "only those of or after `TIME`: YYYY-MM-DD, or RFC 3339")
	flags.StringVar(&req.Until, "until", "", "only those before `TIME`")
	flags.StringVar(&req.SessionID, "session", "", "only those of the session `ID`, or its beginning")
	flags.StringVar(&req.Role, "role", "", "only those of `ROLE`: user, assistant, or tool for calls")
	flags.Float64Var(&req.MinScore, "min-score", 0, "only those with at least this `SCORE`, 0 to 1")
	flags.BoolVar(&req.Explain, "explain", false, "show which words the passage covers")
	return cmd
}

func recall(ctx context.Context, env *command.Env, d *connect.Daemon, req proto.RecallSessions) error {
	found, err := connect.Forward(ctx, d, "mem", proto.MemRecallSessions, req)
	if err != nil {
		return err
	}
	if found.Pending > 0 {
		env.Say("Note: sessions that are not indexed yet: %d. Search again in a moment", found.Pending)
	}
	if found.LeftOut > 0 {
		env.Say("Note: older sessions that are not searched, because there are too many: %d. zino sessions search reads them all", found.LeftOut)
	}
	switch {
	case len(found.Results) > 0 && env.JSON():
		return env.Print(func(w io.Writer) error { return render.JSONList(w, found.Results) })
	case len(found.Results) > 0:
		return env.Print(func(w io.Writer) error { return printPassages(w, found.Results, env.Width()) })
	case env.JSON():
		env.Say("Nothing found.")
		return nil
	}
	return env.PrintLine("Nothing found.")
}

// printPassages prints a line for each passage, and its excerpt below it: on a terminal
// of that width in several lines.
func printPassages(w io.Writer, list []proto.SessionPassage, width int) error {
	const indent = "    "
	var rows [][]string
	for _, p := range list {
		rows = append(rows, []string{p.SessionID, render.LocalTime(p.TS), p.Role, fmt.Sprintf("%.4f", p.Score)})
	}
	var b strings.Builder
	for i, line := range slices.Collect(strings.Lines(render.Columns(rows, 0))) {
		b.WriteString(line)
		for _, line := range lines(render.Line(list[i].Excerpt), width-len(indent)) {
			b.WriteString(indent + line + "\n")
		}
		var shares []string
		for _, word := range list[i].Words {
			shares = append(shares, fmt.Sprintf("%s %.2f", render.Line(word.Word), word.Share))
		}
		if len(shares) > 0 {
			b.WriteString(indent + "words: " + strings.Join(shares, ", ") + "\n")
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// lines breaks a text between words into lines of up to width cells; 0 or less: one line.
func lines(s string, width int) (list []string) {
	line, used := "", 0
	for word := range strings.FieldsSeq(s) {
		cells := render.Cells(word)
		if line != "" && width > 0 && used+1+cells > width {
			list = append(list, line)
			line, used = "", 0
		}
		if line != "" {
			line, used = line+" ", used+1
		}
		line, used = line+word, used+cells
	}
	return append(list, line)
}

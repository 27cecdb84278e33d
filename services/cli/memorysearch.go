package cli

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"zino/proto"
)

const memorySearchLong = `Find the memories nearest to some words, best first. The score is from 0 to 1;
with --explain the words that made it are shown, those with the largest share
first. The exit status is 1 if nothing is found, as with grep.`

func (a *app) memorySearchCommand() *cobra.Command {
	var req proto.SearchHard
	var filter memoryFilter
	var k int
	cmd := &cobra.Command{
		Use: "search WORDS...", Short: "find memories by their words", Long: memorySearchLong, Annotations: printsJSON,
		Example: "  zino memory search where is the spare key -k 3 --min-score 0.2",
		RunE: func(cmd *cobra.Command, args []string) error {
			req.Query, req.TopK = strings.Join(args, " "), &k
			if err := checkSearch(cmd, req); err != nil {
				return err
			}
			if err := filter.settle(cmd); err != nil {
				return err
			}
			req.Tag, req.ChannelID, req.Since, req.Until = filter.tag, filter.channel, filter.since, filter.until
			return a.withMem(cmd, func(ctx context.Context, d *daemon) error {
				return a.memorySearch(ctx, d, req)
			})
		},
	}
	flags := cmd.Flags()
	flags.IntVarP(&k, "k", "k", 10, "at most `N` memories")
	filter.flags(cmd)
	flags.Float64Var(&req.MinScore, "min-score", 0, "only those with at least this `SCORE`, 0 to 1")
	flags.BoolVar(&req.Explain, "explain", false, "show which words made the score")
	return cmd
}

func checkSearch(cmd *cobra.Command, req proto.SearchHard) error {
	switch {
	case strings.TrimSpace(req.Query) == "":
		return mistake(cmd, "name the words to look for")
	case *req.TopK < 1:
		return mistake(cmd, "-k %d is not the number of memories wanted, 1 or more", *req.TopK)
	case !(req.MinScore >= 0 && req.MinScore <= 1): // false for NaN too
		return mistake(cmd, "--min-score %v is not from 0 to 1", req.MinScore)
	}
	return nil
}

func (a *app) memorySearch(ctx context.Context, d *daemon, req proto.SearchHard) error {
	found, err := forward(ctx, d, "mem", proto.MemSearchHard, req)
	if err != nil {
		return err
	}
	if len(found.Results) == 0 {
		a.say("No memory matches.")
		return errQuiet
	}
	if a.asJSON() {
		return a.print(func(w io.Writer) error { return printAll(w, found.Results) })
	}
	_, err = io.WriteString(a.out, columns(searchRows(found.Results, req.Explain), a.width()))
	return err
}

func searchRows(results []proto.HardMemory, explain bool) [][]string {
	head := []string{"ID", "SCORE", "TAG", "TEXT"}
	if explain {
		head = []string{"ID", "SCORE", "TAG", "WORDS", "TEXT"}
	}
	rows := [][]string{head}
	for _, m := range results {
		id := "-"
		if m.ID != nil {
			id = strconv.Itoa(*m.ID)
		}
		row := []string{id, fmt.Sprintf("%.4f", m.Score), dash(m.Tag)}
		if explain {
			row = append(row, shares(m.Words))
		}
		rows = append(rows, append(row, contents(m.Messages)))
	}
	return rows
}

func shares(words []proto.WordShare) string {
	var list []string
	for _, w := range words {
		list = append(list, fmt.Sprintf("%s %.2f", w.Word, w.Share))
	}
	return dash(strings.Join(list, ", "))
}

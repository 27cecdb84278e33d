package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"zino/pkg/visible"
	"zino/proto"
)

func (a *app) sessionsListCommand() *cobra.Command {
	limit, all := 0, false
	cmd := &cobra.Command{
		Use: "list", Short: "list sessions, the newest first", Args: without, Annotations: printsJSON,
		Long: `List the sessions of this directory, or of the one that --root names, the one that
changed last first: the id, its age, turns, cost, directory and title. The title
is how it begins, unless it was given another one. A terminal shows the beginning
of the id, which is enough to name the session. With --json each line is an object.`,
		Example: "  zino sessions list --limit 10\n  zino sessions list --all",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkLimit(cmd, limit); err != nil {
				return err
			}
			req := proto.ListSessions{Limit: limit}
			if !all {
				root, err := a.rootDir()
				if err != nil {
					return err
				}
				req.Root = root
			}
			return a.withDaemon(cmd, storageRequired, func(ctx context.Context, d *daemon) error { return a.sessionsList(ctx, d, req) })
		},
	}
	cmd.Flags().IntVarP(&limit, "limit", "n", 0, "at most `N` of them (default all)")
	cmd.Flags().BoolVarP(&all, "all", "a", false, "those of all directories")
	return cmd
}

func checkLimit(cmd *cobra.Command, limit int) error {
	if limit < 0 || limit == 0 && cmd.Flags().Changed("limit") {
		return mistake(cmd, "--limit %d is not the number of sessions wanted, 1 or more", limit)
	}
	return nil
}

func (a *app) sessionsList(ctx context.Context, d *daemon, req proto.ListSessions) error {
	list, err := forward(ctx, d, "mem", proto.MemListSessions, req)
	if err != nil {
		return err
	}
	switch {
	case len(list.Sessions) > 0 && a.asJSON():
		err = a.print(func(w io.Writer) error { return printAll(w, list.Sessions) })
	case len(list.Sessions) > 0:
		err = a.printSessions(list.Sessions)
	case a.asJSON():
		a.say("No sessions found.")
	default:
		err = a.printLine("No sessions found.")
	}
	if left := list.Total - len(list.Sessions); left > 0 && req.Limit == 0 {
		a.say("Warning: %d more, which did not fit into one answer, are not shown: zino sessions search finds them", left)
	}
	if len(list.Sessions) == 0 && list.Elsewhere > 0 {
		a.say("Sessions of other directories: %d. To list them: zino sessions list --all", list.Elsewhere)
	}
	return err
}

// printSessions prints sessions as a table without a heading. A terminal shows
// short ids, and cuts the lines to its width.
func (a *app) printSessions(list []proto.SessionSummary) error {
	width := a.width()
	short := map[string]int{}
	for _, s := range list {
		short[shortID(s.SessionID)]++
	}
	var rows [][]string
	for _, s := range list {
		id, title := s.SessionID, cmp.Or(s.Title, s.Text, "(nothing said)")
		if begin := shortID(id); width > 0 && short[begin] == 1 {
			id = begin
		}
		if s.Problem != "" {
			title = "(cannot be read: " + s.Problem + ")"
		}
		turns := "1 turn"
		if s.Turns != 1 {
			turns = strconv.Itoa(s.Turns) + " turns"
		}
		rows = append(rows, []string{id, ageOf(s.Updated), turns, costOf(s.CostUSD, s.Unpriced), dash(homeward(s.Root)), title})
	}
	_, err := io.WriteString(a.out, columns(rows, width))
	return err
}

// ageOf is how long ago a time is, in its largest unit; the day of one that is
// older than two months.
func ageOf(text string) string {
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return "-"
	}
	const day = 24 * time.Hour
	switch age := now().Sub(at); {
	case age < time.Minute:
		return "now"
	case age < time.Hour:
		return fmt.Sprintf("%dm ago", age/time.Minute)
	case age < day:
		return fmt.Sprintf("%dh ago", age/time.Hour)
	case age < 60*day:
		return fmt.Sprintf("%dd ago", age/day)
	}
	return at.Local().Format(time.DateOnly)
}

// costOf is a sum of costs, of which some may be unknown.
func costOf(usd *float64, unpriced int) string {
	switch {
	case usd == nil:
		return "-"
	case unpriced > 0:
		return ">= " + dollars(*usd)
	}
	return dollars(*usd)
}

// homeward is a path with ~ for the home directory.
func homeward(path string) string {
	home, err := os.UserHomeDir()
	if err != nil || home == "/" {
		return path
	}
	if rest, ok := strings.CutPrefix(path, filepath.Clean(home)); ok && (rest == "" || rest[0] == '/') {
		return "~" + rest
	}
	return path
}

// hitLine is what a search shows of a session.
type hitLine struct{ id, updated, text string }

// printHits prints lines, cut to the width of a terminal.
func (a *app) printHits(lines []hitLine) error {
	width, longest := a.width(), 0
	for i := range lines {
		lines[i].id = visible.Text(lines[i].id)
		longest = max(longest, cells(lines[i].id))
	}
	return a.print(func(w io.Writer) error {
		for _, l := range lines {
			text := strings.Join(strings.Fields(visible.Text(l.text)), " ")
			line := l.id + strings.Repeat(" ", longest-cells(l.id)) + "  " + visible.Text(localTime(l.updated)) + "  " + text
			if _, err := io.WriteString(w, cut(line, width)+"\n"); err != nil {
				return err
			}
		}
		return nil
	})
}

func (a *app) sessionsSearchCommand() *cobra.Command {
	limit := 0
	cmd := &cobra.Command{
		Use: "search WORDS...", Short: "find sessions by what was said and done in them", Annotations: printsJSON,
		Long: `Find the sessions in whose messages, commands, edits and results all the words
occur, ignoring case, also within longer words, the one that changed last first.
Each is shown with a part of the text that has most of the words. The exit status
is 1 if nothing is found, as with grep.`,
		Example: "  zino sessions search flaky test",
		RunE: func(cmd *cobra.Command, args []string) error {
			query := strings.Join(args, " ")
			if strings.TrimSpace(query) == "" {
				return mistake(cmd, "name the words to look for")
			}
			if err := checkLimit(cmd, limit); err != nil {
				return err
			}
			return a.withDaemon(cmd, storageRequired, func(ctx context.Context, d *daemon) error {
				return a.sessionsSearch(ctx, d, proto.SearchSessions{Query: query, Limit: limit})
			})
		},
	}
	cmd.Flags().IntVarP(&limit, "limit", "n", 0, "at most `N` of them (default 20)")
	return cmd
}

func (a *app) sessionsSearch(ctx context.Context, d *daemon, req proto.SearchSessions) error {
	found, err := forward(ctx, d, "mem", proto.MemSearchSessions, req)
	if err != nil {
		return err
	}
	for _, problem := range found.Problems {
		a.say("Warning: not searched: %s", problem)
	}
	if len(found.Results) == 0 {
		a.say("No session matches.")
		return errQuiet
	}
	if a.asJSON() {
		return a.print(func(w io.Writer) error { return printAll(w, found.Results) })
	}
	var lines []hitLine
	for _, hit := range found.Results {
		lines = append(lines, hitLine{hit.SessionID, hit.Updated, hit.Role + ": " + hit.Excerpt})
	}
	return a.printHits(lines)
}

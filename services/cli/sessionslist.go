package cli

import (
	"context"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"zino/pkg/visible"
	"zino/proto"
)

func (a *app) sessionsListCommand() *cobra.Command {
	limit := 0
	cmd := &cobra.Command{
		Use: "list", Short: "list sessions, the newest first", Args: without, Annotations: printsJSON,
		Long: `List sessions, the one that changed last first: the id, when it changed, and how
it begins. With --json each line is an object.`,
		Example: "  zino sessions list --limit 10",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkLimit(cmd, limit); err != nil {
				return err
			}
			return a.withDaemon(cmd, storageRequired, func(ctx context.Context, d *daemon) error { return a.sessionsList(ctx, d, limit) })
		},
	}
	cmd.Flags().IntVarP(&limit, "limit", "n", 0, "at most `N` of them (default all)")
	return cmd
}

func checkLimit(cmd *cobra.Command, limit int) error {
	if limit < 0 || limit == 0 && cmd.Flags().Changed("limit") {
		return mistake(cmd, "--limit %d is not the number of sessions wanted, 1 or more", limit)
	}
	return nil
}

func (a *app) sessionsList(ctx context.Context, d *daemon, limit int) error {
	list, err := forward(ctx, d, "mem", proto.MemListSessions, proto.ListSessions{Limit: limit})
	if err != nil {
		return err
	}
	if len(list.Sessions) == 0 {
		return a.noSessions("No sessions found.")
	}
	if a.asJSON() {
		err = a.print(func(w io.Writer) error { return printAll(w, list.Sessions) })
	} else {
		err = a.printSessions(sessionLines(list.Sessions))
	}
	if left := list.Total - len(list.Sessions); left > 0 && limit == 0 {
		a.say("Warning: %d more, which did not fit into one answer, are not shown: zino sessions search finds them", left)
	}
	return err
}

// noSessions says that there are none where people look for them. Programs that
// read lines get no line.
func (a *app) noSessions(text string) error {
	if a.asJSON() {
		a.say("%s", text)
		return nil
	}
	return a.printLine(text)
}

// sessionLine is what a list shows of a session.
type sessionLine struct{ id, updated, text string }

func sessionLines(list []proto.SessionSummary) (lines []sessionLine) {
	for _, s := range list {
		text := s.Text
		switch {
		case s.Problem != "":
			text = "(cannot be read: " + s.Problem + ")"
		case text == "":
			text = "(nothing said)"
		}
		lines = append(lines, sessionLine{s.SessionID, s.Updated, text})
	}
	return lines
}

// printSessions prints lines, cut to the width of a terminal.
func (a *app) printSessions(lines []sessionLine) error {
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
		Use: "search WORDS...", Short: "find sessions by what was said in them", Annotations: printsJSON,
		Long: `Find the sessions in whose messages all the words occur, in whatever case and
within longer words too, the one that changed last first. Each is shown with a
part of the message that has most of the words.`,
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
	if len(found.Results) == 0 {
		a.say("No session matches.")
		return nil
	}
	if a.asJSON() {
		return a.print(func(w io.Writer) error { return printAll(w, found.Results) })
	}
	var lines []sessionLine
	for _, hit := range found.Results {
		lines = append(lines, sessionLine{hit.SessionID, hit.Updated, hit.Role + ": " + hit.Excerpt})
	}
	return a.printSessions(lines)
}

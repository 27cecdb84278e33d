// Package sessions implements zino sessions.
package sessions

import (
	"cmp"
	"context"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"zino/pkg/rpc"
	"zino/pkg/text"
	"zino/proto"
	"zino/services/cli/command"
	"zino/services/cli/connect"
	"zino/services/cli/render"
	"zino/services/cli/term"
	"zino/services/cli/turn"
)

// New returns zino sessions; resume is its subcommand of that name.
func New(env *command.Env, resume *cobra.Command) *cobra.Command {
	return command.Group("sessions", "earlier conversations: list, show, resume, search, recall, export, fork, rename, redact, rm", `Find, read and continue earlier conversations.

A session is what was said and done in a chat or with zino exec, over one run or
several. Each has an id, which may be shortened to a beginning that no other id
has. Sessions are stored as JSON lines below sessions/ beside your configuration.`,
		newList(env), newShow(env), resume, newSearch(env), NewRecall(env), newExport(env), newFork(env), newRename(env), newRedact(env), newRemove(env))
}

// withDaemon calls do with the user's own daemon, or with one started for this run.
func withDaemon(env *command.Env, cmd *cobra.Command, do func(context.Context, *connect.Daemon) error) error {
	return env.WithDaemon(cmd, false, connect.StorageRequired, do)
}

func newList(env *command.Env) *cobra.Command {
	limit, all := 0, false
	cmd := &cobra.Command{
		Use: "list", Short: "list sessions, the newest first", Args: command.NoArgs, Annotations: command.PrintsJSON,
		Long: `List the sessions of this directory, or of the one that --root names, the one that
changed last first: the id, its age, turns, cost, directory and title. The title
is how it begins, unless it was given another one. A terminal shows the beginning
of the id, which is enough to name the session. With --json each line is an object.`,
		Example: "  zino sessions list --limit 10\n  zino sessions list --all",
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if err := command.CheckCount(cmd, "limit", limit, "sessions"); err != nil {
				return err
			}
			req := proto.ListSessions{Limit: limit, All: all}
			if !all {
				if req.Root, err = env.RootDir(); err != nil {
					return err
				}
			}
			return withDaemon(env, cmd, func(ctx context.Context, d *connect.Daemon) error { return list(ctx, env, d, req) })
		},
	}
	cmd.Flags().IntVarP(&limit, "limit", "n", 0, "at most `N` of them (default all)")
	cmd.Flags().BoolVarP(&all, "all", "a", false, "those of all directories, and of sub-agents")
	return cmd
}

func list(ctx context.Context, env *command.Env, d *connect.Daemon, req proto.ListSessions) error {
	found, err := connect.Forward(ctx, d, "mem", proto.MemListSessions, req)
	if err != nil {
		return err
	}
	switch {
	case len(found.Sessions) > 0 && env.JSON():
		err = env.Print(func(w io.Writer) error { return render.JSONList(w, found.Sessions) })
	case len(found.Sessions) > 0:
		err = printList(env, found.Sessions)
	case env.JSON():
		env.Say("No sessions found.")
	default:
		err = env.PrintLine("No sessions found.")
	}
	if left := found.Total - len(found.Sessions); left > 0 && req.Limit == 0 {
		env.Say("Warning: %d more, which did not fit into one answer, are not shown: zino sessions search finds them", left)
	}
	if len(found.Sessions) == 0 && found.Elsewhere > 0 {
		env.Say("Sessions of other directories: %d. To list them: zino sessions list --all", found.Elsewhere)
	}
	return err
}

// printList prints sessions as a table without a heading. On a terminal it shortens
// ids that remain unique.
func printList(env *command.Env, list []proto.SessionSummary) error {
	short := map[string]int{}
	for _, s := range list {
		short[turn.ShortID(s.SessionID)]++
	}
	var rows [][]string
	for _, s := range list {
		id, title := s.SessionID, cmp.Or(s.Title, s.Text, "(nothing said)")
		if begin := turn.ShortID(id); env.Width() > 0 && short[begin] == 1 {
			id = begin
		}
		if s.Problem != "" {
			title = "(cannot be read: " + s.Problem + ")"
		}
		rows = append(rows, []string{id, render.Age(s.Updated), text.Count(s.Turns, "turn"), render.Cost(s.CostUSD, s.Unpriced), render.Dash(render.Home(s.Root)), title})
	}
	return env.PrintTable(rows)
}

func newSearch(env *command.Env) *cobra.Command {
	limit := 0
	cmd := &cobra.Command{
		Use: "search WORDS...", Short: "find sessions by what was said and done in them", Annotations: command.PrintsJSON,
		Long: `Find the sessions in whose messages, commands, edits and results all the words
occur, ignoring case, also within longer words, the one that changed last first.
Each is shown with a part of the text that has most of the words. The exit status
is 1 if nothing is found, as with grep.`,
		Example: "  zino sessions search flaky test",
		RunE: func(cmd *cobra.Command, args []string) error {
			query := strings.Join(args, " ")
			if strings.TrimSpace(query) == "" {
				return command.Mistake(cmd, "name the words to look for")
			}
			if err := command.CheckCount(cmd, "limit", limit, "sessions"); err != nil {
				return err
			}
			return withDaemon(env, cmd, func(ctx context.Context, d *connect.Daemon) error {
				return search(ctx, env, d, proto.SearchSessions{Query: query, Limit: limit})
			})
		},
	}
	cmd.Flags().IntVarP(&limit, "limit", "n", 0, "at most `N` of them (default 20)")
	return cmd
}

func search(ctx context.Context, env *command.Env, d *connect.Daemon, req proto.SearchSessions) error {
	found, err := connect.Forward(ctx, d, "mem", proto.MemSearchSessions, req)
	if err != nil {
		return err
	}
	for _, problem := range found.Problems {
		env.Say("Warning: not searched: %s", problem)
	}
	if len(found.Results) == 0 {
		env.Say("No session matches.")
		return render.ErrReported
	}
	if env.JSON() {
		return env.Print(func(w io.Writer) error { return render.JSONList(w, found.Results) })
	}
	var rows [][]string
	for _, hit := range found.Results {
		excerpt := strings.Join(strings.Fields(text.Visible(hit.Role+": "+hit.Excerpt)), " ")
		rows = append(rows, []string{hit.SessionID, render.LocalTime(hit.Updated), excerpt})
	}
	return printHits(env, rows)
}

// printHits prints rows with the whole id, unlike a table of a terminal.
func printHits(env *command.Env, rows [][]string) error {
	return env.Print(func(w io.Writer) error {
		for line := range strings.Lines(render.Columns(rows, 0)) {
			if _, err := io.WriteString(w, render.Cut(strings.TrimSuffix(line, "\n"), env.Width())+"\n"); err != nil {
				return err
			}
		}
		return nil
	})
}

func newExport(env *command.Env) *cobra.Command {
	var format, out, files string
	cmd := &cobra.Command{
		Use: "export ID", Short: "write a session as Markdown or JSON", Annotations: command.PrintsJSON,
		Long: `Write all of a session: as Markdown for people, or as one JSON object with its
events as they are stored. It goes to standard output, or into a file, which only
you can read if it is new. With --files the images and PDF files of the session are
written into a directory, under their names.`,
		Example: "  zino sessions export 550e --out session.md --files images\n  zino sessions export 550e --format json | jq '.events | length'",
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := command.OneSession(cmd, args)
			if err != nil {
				return err
			}
			if env.JSONFlag {
				if cmd.Flags().Changed("format") && format != command.FormatJSON {
					return command.Mistake(cmd, "--json and --format %s exclude each other: leave one out", format)
				}
				format = command.FormatJSON
			}
			if !slices.Contains(ExportFormats, format) {
				return command.Mistake(cmd, "--format %q is not one of %s", format, strings.Join(ExportFormats, ", "))
			}
			return withDaemon(env, cmd, func(ctx context.Context, d *connect.Daemon) error {
				err := export(ctx, env, d, proto.ExportSession{SessionID: id, Format: format}, out)
				if err == nil && files != "" {
					err = exportFiles(ctx, env, d, id, files)
				}
				return err
			})
		},
	}
	cmd.Flags().StringVar(&format, "format", "md", "the form: `md or json`")
	cmd.Flags().StringVarP(&out, "out", "o", "", "`PATH` of the file to write (default standard output)")
	cmd.Flags().StringVar(&files, "files", "", "`DIR` for the attached files; it is made if it is missing")
	return cmd
}

// ExportFormats are the values of export's --format.
var ExportFormats = []string{"md", "json"}

func export(ctx context.Context, env *command.Env, d *connect.Daemon, req proto.ExportSession, out string) error {
	write := func(w io.Writer) error {
		for {
			piece, err := connect.Forward(ctx, d, "mem", proto.MemExportSession, req)
			if err != nil {
				return err
			}
			if _, err := io.WriteString(w, piece.Content); err != nil || !piece.More {
				return err
			}
			if piece.Next < req.From || piece.Next == req.From && piece.Skip <= req.Skip {
				return errEndless
			}
			req.SessionID, req.From, req.Skip = piece.SessionID, piece.Next, piece.Skip
		}
	}
	if out == "" || out == "-" {
		return env.Print(func(w io.Writer) error {
			if term.IsTerminal(env.Out) {
				w = render.Escape(w)
			}
			return write(w)
		})
	}
	const private = 0o600
	if err := command.WriteFile(out, private, write); err != nil {
		return err
	}
	env.Say("The session is in %s", out)
	return nil
}

var errEndless = errors.New("the session does not end: is the daemon of another version? try: zino status")

func newFork(env *command.Env) *cobra.Command {
	return &cobra.Command{
		Use: "fork ID", Short: "copy a session", Annotations: command.PrintsJSON, Long: "Copy a session to try something else from where it stands. The copy's id is\nprinted.",
		Example: "  zino sessions resume \"$(zino sessions fork 550e)\"",
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := command.OneSession(cmd, args)
			if err != nil {
				return err
			}
			return withDaemon(env, cmd, func(ctx context.Context, d *connect.Daemon) error {
				forked, err := connect.Forward(ctx, d, "mem", proto.MemForkSession, proto.ForkSession{SessionID: id})
				if err != nil {
					return err
				}
				return printID(env, forked.SessionID)
			})
		},
	}
}

func newRename(env *command.Env) *cobra.Command {
	return &cobra.Command{
		Use: "rename ID TITLE", Short: "give a session another title", Annotations: command.PrintsJSON,
		Long:    "Give a session another title, of at most 80 characters, in place of how it begins.\nIts id is printed.",
		Example: "  zino sessions rename 550e fix the mean",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) < 2 {
				return command.Mistake(cmd, "name a session by its id, or by the beginning of it, and give its title")
			}
			if err := command.CheckSessionArg(cmd, args[0]); err != nil {
				return err
			}
			return withDaemon(env, cmd, func(ctx context.Context, d *connect.Daemon) error {
				found, err := connect.Forward(ctx, d, "mem", proto.MemFindSession, proto.FindSession{SessionID: args[0]})
				if err != nil {
					return err
				}
				title := strings.Join(args[1:], " ")
				if _, err := rpc.Call(ctx, d.Client, proto.DaemonRenameSession, proto.RenameSession{SessionID: found.SessionID, Title: title}); err != nil {
					return err
				}
				return printID(env, found.SessionID)
			})
		},
	}
}

func newRemove(env *command.Env) *cobra.Command {
	return &cobra.Command{
		Use: "rm ID...", Short: "delete sessions", Annotations: command.PrintsJSON, Long: "Delete sessions, for good. The ids of those that were deleted are printed.",
		Example: "  zino sessions rm 550e 7c1a",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return command.Mistake(cmd, "name sessions by their ids, or by the beginnings of them")
			}
			for _, id := range args {
				if err := command.CheckSessionArg(cmd, id); err != nil {
					return err
				}
			}
			return withDaemon(env, cmd, func(ctx context.Context, d *connect.Daemon) error { return remove(ctx, env, d, args) })
		},
	}
}

// remove deletes sessions. It resolves all names before the first deletion, because a
// deletion can make an ambiguous prefix unique. It continues after an error about one
// session.
func remove(ctx context.Context, env *command.Env, d *connect.Daemon, names []string) error {
	failed := false
	skip := func(err error) bool { // prints an error about one session
		for _, refusal := range []error{proto.ErrNotFound, proto.ErrInvalid, proto.ErrBusy} {
			if errors.Is(err, refusal) {
				env.PrintError(err)
				failed = true
				return true
			}
		}
		return false
	}
	var ids []string
	for _, name := range names {
		found, err := connect.Forward(ctx, d, "mem", proto.MemFindSession, proto.FindSession{SessionID: name})
		switch {
		case skip(err):
		case err != nil:
			return err
		case !slices.Contains(ids, found.SessionID):
			ids = append(ids, found.SessionID)
		}
	}
	for _, id := range ids {
		_, err := connect.Forward(ctx, d, "mem", proto.MemRemoveSession, proto.RemoveSession{SessionID: id})
		if skip(err) {
			continue
		}
		if err != nil {
			return err
		}
		if err := stopJobs(ctx, d, id); err != nil {
			env.Say("Warning: the jobs of session %s were not stopped: %v", id, err)
		}
		// A record that cannot be removed now goes after [undo] max_age.
		if _, err := connect.Forward(ctx, d, "exc", proto.ExcUndoRemove, proto.UndoRemove{SessionID: id}); err != nil {
			env.Say("Warning: what undo keeps of session %s was not removed: %v", id, err)
		}
		if err := printID(env, id); err != nil {
			return err
		}
	}
	if failed {
		return render.ErrReported
	}
	return nil
}

// stopJobs stops the jobs of a session.
func stopJobs(ctx context.Context, d *connect.Daemon, session string) error {
	list, err := connect.Forward(ctx, d, "exc", proto.ExcJobs, proto.ListJobs{SessionID: session})
	if err != nil {
		return err
	}
	var errs []error
	for _, j := range list.Jobs {
		if j.State == proto.JobRunning {
			_, err := connect.Forward(ctx, d, "exc", proto.ExcJobStop, proto.JobID{Job: j.ID})
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// printID prints an id, in JSON as an object.
func printID(env *command.Env, id string) error {
	if env.JSON() {
		return render.JSON(env.Out, proto.SessionName{SessionID: id})
	}
	return env.PrintLine(id)
}

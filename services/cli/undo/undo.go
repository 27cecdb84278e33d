// Package undo implements zino undo, zino redo and zino diff.
package undo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"zino/pkg/text"
	"zino/proto"
	"zino/services/cli/command"
	"zino/services/cli/connect"
	"zino/services/cli/render"
	"zino/services/cli/term"
	"zino/services/cli/turn"
)

// New returns zino undo.
func New(env *command.Env) *cobra.Command {
	var req proto.Undo
	cmd := &cobra.Command{
		Use: "undo [ID] [-- PATH...]", Short: "take back the file changes of a turn", Annotations: command.PrintsJSON,
		Long: `Take back the file changes of the last turn of a session whose changes were not taken
back, or of the turn that --turn names. Without ID it is the latest session of this
directory. Paths behind -- select files, and directories with all below them.

All paths are checked first. If one was changed since, moved, replaced by a link or
given to another owner, nothing is changed and the exit status is 1; --partial takes
back the rest. Only files that the turn created are removed. zino diff shows what
would be taken back, and zino redo makes the changes again.`,
		Example: "  zino undo -n\n  zino undo 5b0c\n  zino undo -- src/main.go",
		RunE: func(cmd *cobra.Command, args []string) error {
			return run(cmd, env, args, req, func(ctx context.Context, d *connect.Daemon, req proto.Undo) error {
				return takeBack(ctx, env, d, proto.DaemonUndo, req)
			})
		},
	}
	cmd.Flags().StringVar(&req.Turn, "turn", "", "the turn with this `ID`")
	cmd.Flags().BoolVar(&req.Partial, "partial", false, "take back what can be, and leave the rest")
	cmd.Flags().BoolVarP(&req.DryRun, "dry-run", "n", false, "change nothing, show what would be done")
	return cmd
}

// NewRedo returns zino redo.
func NewRedo(env *command.Env) *cobra.Command {
	return &cobra.Command{
		Use: "redo [ID] [-- PATH...]", Short: "make the file changes again that undo took back", Annotations: command.PrintsJSON,
		Long: `Take back the last undo of a session. Without ID it is the latest session of this
directory. The paths are checked as by zino undo.`,
		Example: "  zino redo",
		RunE: func(cmd *cobra.Command, args []string) error {
			return run(cmd, env, args, proto.Undo{}, func(ctx context.Context, d *connect.Daemon, req proto.Undo) error {
				return takeBack(ctx, env, d, proto.DaemonRedo, req)
			})
		},
	}
}

// NewDiff returns zino diff.
func NewDiff(env *command.Env) *cobra.Command {
	var req proto.Undo
	stat := false
	cmd := &cobra.Command{
		Use: "diff [ID] [-- PATH...]", Short: "show the file changes of a turn", Annotations: command.PrintsJSON,
		Long: `Show the file changes of the last turn of a session whose changes were not taken
back, or of the turn that --turn names, as a unified diff. Without ID it is the latest
session of this directory. A change that another program made while a command of the
turn ran is among them. With --json the answer is an object.`,
		Example: "  zino diff\n  zino diff 5b0c --stat\n  zino diff -- src | git apply --reverse",
		RunE: func(cmd *cobra.Command, args []string) error {
			return run(cmd, env, args, req, func(ctx context.Context, d *connect.Daemon, req proto.Undo) error {
				return diff(ctx, env, d, req, stat)
			})
		},
	}
	cmd.Flags().StringVar(&req.Turn, "turn", "", "the turn with this `ID`")
	cmd.Flags().BoolVar(&stat, "stat", false, "the changed files and the number of lines")
	return cmd
}

// run finds the session and the paths that the arguments name. Words that do not name
// a session change no file: they may be the beginning of a message.
func run(cmd *cobra.Command, env *command.Env, args []string, req proto.Undo, do func(context.Context, *connect.Daemon, proto.Undo) error) error {
	words := args
	if dash := cmd.ArgsLenAtDash(); dash >= 0 {
		words = args[:dash]
		for _, path := range args[dash:] {
			abs, err := absolute(path)
			if err != nil {
				return render.Usage("%s: %w", cmd.CommandPath(), err)
			}
			req.Paths = append(req.Paths, abs)
		}
	}
	return env.WithDaemon(cmd, false, connect.StorageRequired, func(ctx context.Context, d *connect.Daemon) error {
		var id string
		var err error
		if len(words) == 0 {
			req.SessionID, err = latest(ctx, env, d)
		} else {
			req.SessionID, id, err = turn.Find(ctx, cmd, d, words)
		}
		if err != nil {
			return err
		}
		if len(words) > 1 {
			return command.Mistake(cmd, "it takes one session, but was given %q too; paths stand behind --", words[1])
		}
		if id != "" {
			req.Turn = id
		}
		return do(ctx, d, req)
	})
}

// latest is the session of --root that changed last.
func latest(ctx context.Context, env *command.Env, d *connect.Daemon) (string, error) {
	root, err := env.RootDir()
	if err != nil {
		return "", err
	}
	found, err := connect.Forward(ctx, d, "mem", proto.MemFindSession, proto.FindSession{Root: root})
	if errors.Is(err, proto.ErrNotFound) {
		err = &proto.Error{Code: proto.CodeNotFound, Kind: proto.ErrorKindSession, Message: fmt.Sprintf("No session in %s: name one by its id (zino sessions list --all)", render.Home(root))}
	}
	return found.SessionID, err
}

// absolute is the path of a file, which may not exist any more, without symbolic links
// above it.
func absolute(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	rest := ""
	for dir := abs; ; dir = filepath.Dir(dir) {
		real, err := filepath.EvalSymlinks(filepath.Dir(dir))
		if err == nil || dir == "/" {
			return filepath.Join(real, filepath.Base(dir), rest), nil
		}
		rest = filepath.Join(filepath.Base(dir), rest)
	}
}

// takeBack has the daemon take back changes, and prints what was done: on standard
// error what was not.
func takeBack(ctx context.Context, env *command.Env, d *connect.Daemon, m proto.Method[proto.Undo, proto.Undone], req proto.Undo) error {
	reply, err := turn.Call(ctx, d, m, req)
	if err != nil {
		return err
	}
	changed := len(reply.Restored)+len(reply.Removed) > 0
	if env.JSON() {
		if err := render.JSON(env.Out, reply); err != nil {
			return err
		}
	} else {
		err := env.Print(func(w io.Writer) error { return list(w, reply, req.DryRun) })
		if err != nil {
			return err
		}
		for _, r := range reply.Refused {
			env.Say("%s: %s", render.Line(r.Path), render.Line(r.Explain()))
		}
		switch {
		case len(reply.Refused) > 0 && !changed && !req.Partial && m.Type == proto.DaemonUndo.Type:
			env.Say("Nothing was changed. To take back the rest: zino undo --partial")
		case len(reply.Refused) > 0 && !changed:
			env.Say("Nothing was changed.")
		case !changed && len(reply.Refused) == 0:
			env.Say("Nothing to do.")
		}
	}
	if len(reply.Refused) > 0 {
		return render.ErrReported
	}
	return nil
}

// list prints a path a line.
func list(w io.Writer, reply proto.Undone, dry bool) error {
	restored, removed := "restored", "removed"
	if dry {
		restored, removed = "would restore", "would remove"
	}
	for _, path := range reply.Restored {
		if _, err := fmt.Fprintf(w, "%s %s\n", restored, render.Line(path)); err != nil {
			return err
		}
	}
	for _, path := range reply.Removed {
		if _, err := fmt.Fprintf(w, "%s %s\n", removed, render.Line(path)); err != nil {
			return err
		}
	}
	return nil
}

// diff prints what a turn changed.
func diff(ctx context.Context, env *command.Env, d *connect.Daemon, req proto.Undo, stat bool) error {
	reply, err := turn.Call(ctx, d, proto.DaemonDiff, req)
	switch {
	case err != nil:
		return err
	case env.JSON():
		return render.JSON(env.Out, reply)
	case stat:
		return env.Print(func(w io.Writer) error { return printStat(w, reply.Files, env.Width()) })
	}
	return env.Print(func(w io.Writer) error {
		out := reply.Diff
		if term.IsTerminal(env.Out) {
			out = text.Visible(out)
		}
		_, err := io.WriteString(w, out)
		return err
	})
}

// statWidth is how many signs stand for the lines of a file at most.
const statWidth = 40

// printStat prints the changed files as git diff --stat does. Names are cut at the left
// to fit into width cells if that is positive.
func printStat(w io.Writer, files []proto.DiffFile, width int) error {
	names, most, added, removed := 0, 0, 0, 0
	for _, f := range files {
		names, most = max(names, render.Cells(render.Line(f.Path))), max(most, f.Added+f.Removed)
		added, removed = added+f.Added, removed+f.Removed
	}
	digits, graph := len(strconv.Itoa(most)), min(most, statWidth)
	if room := width - len("  |   ") - digits; width > 0 && names+graph > room {
		graph = max(min(graph, room-names), min(graph, room*3/8), 1)
		names = max(min(names, room-graph), 1)
	}
	scale := func(n int) int {
		if n == 0 || most <= graph {
			return n
		}
		return 1 + n*(graph-1)/most
	}
	for _, f := range files {
		plus, minus := scale(f.Added), scale(f.Removed)
		if plus > minus {
			plus = max(scale(f.Added+f.Removed)-minus, 1)
		} else if minus > 0 {
			minus = max(scale(f.Added+f.Removed)-plus, 1)
		}
		change := fmt.Sprintf("%*d %s%s", digits, f.Added+f.Removed, strings.Repeat("+", plus), strings.Repeat("-", minus))
		switch {
		case f.NotCovered:
			change = "not covered"
		case f.Binary:
			change = "Bin"
		}
		if f.Late {
			change += " (late)"
		}
		name := cutLeft(render.Line(f.Path), names)
		if _, err := fmt.Fprintf(w, " %s%*s | %s\n", name, names-render.Cells(name), "", strings.TrimRight(change, " ")); err != nil {
			return err
		}
	}
	sum := text.Count(len(files), "file") + " changed"
	if added > 0 || removed == 0 {
		sum += ", " + text.Count(added, "insertion") + "(+)"
	}
	if removed > 0 || added == 0 {
		sum += ", " + text.Count(removed, "deletion") + "(-)"
	}
	_, err := fmt.Fprintf(w, " %s\n", sum)
	return err
}

// cutLeft shortens a name to limit cells at its beginning.
func cutLeft(name string, limit int) string {
	if render.Cells(name) <= limit {
		return name
	}
	for i := range name {
		if render.Cells(name[i:]) < limit {
			return "…" + name[i:]
		}
	}
	return ""
}

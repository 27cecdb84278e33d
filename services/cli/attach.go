package cli

import (
	"errors"
	"io"

	"github.com/spf13/cobra"

	"zino/proto"
	"zino/services/cli/command"
	"zino/services/cli/connect"
	"zino/services/cli/render"
	"zino/services/cli/term"
	"zino/services/cli/turn"
)

func newAttach(env *command.Env) *cobra.Command {
	var from int64
	cmd := &cobra.Command{
		Use: "attach [ID]", Short: "show a turn from its beginning, and follow it", Annotations: command.PrintsJSON,
		Long: `Show the open turn of a session from its beginning, and follow it to its end; the exit
status is that of zino exec. Without an id it is the one turn that is open. The last
turn of a session without an open one is shown. Any number of terminals may show one
turn.

Ctrl-C asks whether to detach, to interrupt the turn or to continue; a second one
detaches, as do a closed terminal, SIGTERM and a closed standard output. A turn goes
on when no terminal shows it. With --json each line is a packet of turn_follow, and the
last line is that of zino exec.`,
		Example: "  zino attach\n  zino attach 5b0c",
		RunE: func(cmd *cobra.Command, args []string) error {
			command.CatchPipe()
			if from < 0 {
				return command.Mistake(cmd, "--from %d is not an offset, 0 or more", from)
			}
			d, err := env.Open(cmd.Context(), false, connect.StorageRequired)
			if err != nil {
				return err
			}
			defer d.Close()
			session, id, err := attached(cmd, env, d, args)
			if err != nil {
				return connect.Explain(err)
			}
			var start *int64
			if cmd.Flags().Changed("from") {
				start = &from
			}
			return turn.Attach(cmd.Context(), env, d, session, id, start)
		},
	}
	cmd.Flags().Int64Var(&from, "from", 0, "begin at this `OFFSET` of the session's log, for programs")
	return cmd
}

// attached returns the session and turn that the arguments name.
func attached(cmd *cobra.Command, env *command.Env, d *connect.Daemon, args []string) (session, id string, err error) {
	if len(args) > 0 {
		session, id, err := turn.Find(cmd.Context(), cmd, d, args)
		if err == nil && len(args) > 1 {
			err = command.Mistake(cmd, "it takes one session, but was given %q too", args[1])
		}
		return session, id, err
	}
	open, err := turn.Open(cmd.Context(), d, false)
	switch {
	case err != nil:
		return "", "", err
	case len(open) == 0:
		return "", "", &proto.Error{Code: proto.CodeNotFound, Message: "No turns are running. To show the last turn of a session: zino attach ID"}
	case len(open) > 1:
		_, err := io.WriteString(env.Err, render.Columns(turnRows(open), term.Width(env.Err)))
		return "", "", errors.Join(err, command.Mistake(cmd, "%d turns are open: name one by its session", len(open)))
	}
	return open[0].SessionID, open[0].Turn, nil
}

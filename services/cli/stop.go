package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"zino/proto"
	"zino/services/cli/command"
	"zino/services/cli/connect"
	"zino/services/cli/render"
	"zino/services/cli/turn"
)

func newStop(env *command.Env) *cobra.Command {
	jobs := false
	cmd := &cobra.Command{
		Use: "stop ID", Short: "interrupt a turn that is running, queued or parked", Annotations: command.PrintsJSON,
		Long: `Interrupt the open turn of a session and stop its commands. Background jobs of the
session go on, and are listed, unless --jobs is given.`,
		Example: "  zino stop 5b0c",
		RunE: func(cmd *cobra.Command, args []string) error {
			return withTurn(cmd, env, args, func(ctx context.Context, d *connect.Daemon, session, id string) error {
				if len(args) > 1 {
					return command.Mistake(cmd, "it takes one session, but was given %q too", args[1])
				}
				stopped, err := turn.Call(ctx, d, proto.DaemonTurnCancel, proto.TurnCancel{SessionID: session, Turn: id, Jobs: jobs})
				switch {
				case err != nil:
					return err
				case env.JSON():
					return render.JSON(env.Out, stopped)
				case stopped.State == proto.TurnContinued:
					return env.PrintLine("The turn goes on in a new session: zino ps")
				case stopped.Ended || stopped.State != proto.TurnInterrupted && proto.TurnEnded(stopped.State):
					return env.PrintLine("The turn had ended: " + stopped.State + ".")
				}
				line := "Stopped."
				if running := runningJobs(ctx, d, session); len(running) > 0 {
					line += " Running jobs: " + strings.Join(running, ", ") + " (zino jobs)"
				}
				return env.PrintLine(line)
			})
		},
	}
	cmd.Flags().BoolVar(&jobs, "jobs", false, "stop the session's background jobs too")
	return cmd
}

// withTurn calls do with the session that the first word names. id is empty unless the
// word names a turn.
func withTurn(cmd *cobra.Command, env *command.Env, words []string, do func(ctx context.Context, d *connect.Daemon, session, id string) error) error {
	return env.WithDaemon(cmd, false, connect.StorageRequired, func(ctx context.Context, d *connect.Daemon) error {
		session, id, err := turn.Find(ctx, cmd, d, words)
		if err != nil {
			return err
		}
		return do(ctx, d, session, id)
	})
}

// runningJobs lists the background jobs of a session; none if exc does not answer: they
// are only a hint.
func runningJobs(ctx context.Context, d *connect.Daemon, session string) (ids []string) {
	list, err := connect.Forward(ctx, d, "exc", proto.ExcJobs, proto.ListJobs{SessionID: session})
	if err != nil {
		return nil
	}
	for _, j := range list.Jobs {
		if j.State == proto.JobRunning && j.Background {
			ids = append(ids, j.ID)
		}
	}
	return ids
}

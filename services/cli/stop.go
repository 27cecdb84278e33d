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
			return env.WithDaemon(cmd, false, connect.StorageRequired, func(ctx context.Context, d *connect.Daemon) error {
				session, id, err := turn.Find(ctx, cmd, d, args)
				if err != nil {
					return err
				}
				if len(args) > 1 {
					return command.Mistake(cmd, "it takes one session, but was given %q too", args[1])
				}
				return stop(ctx, env, d, session, id, jobs)
			})
		},
	}
	cmd.Flags().BoolVar(&jobs, "jobs", false, "stop the session's background jobs too")
	return cmd
}

func stop(ctx context.Context, env *command.Env, d *connect.Daemon, session, id string, jobs bool) error {
	stopped, err := turn.Cancel(ctx, d, session, id, jobs)
	switch {
	case err != nil:
		return err
	case env.JSON():
		return render.JSON(env.Out, stopped)
	case stopped.State != proto.TurnInterrupted && proto.TurnEnded(stopped.State):
		return env.PrintLine("The turn had ended: " + stopped.State + ".")
	}
	line := "Stopped."
	if running := runningJobs(ctx, d, session); len(running) > 0 {
		line += " Running jobs: " + strings.Join(running, ", ") + " (zino jobs)"
	}
	return env.PrintLine(line)
}

// runningJobs lists the background jobs of a session. If they cannot be asked for, there
// is nothing to hint at.
func runningJobs(ctx context.Context, d *connect.Daemon, session string) (ids []string) {
	list, err := connect.Forward(ctx, d, "exc", proto.ExcJobs, proto.ListJobs{SessionID: session})
	if err != nil {
		return nil
	}
	for _, j := range list.Jobs {
		if j.State == "running" && j.Background {
			ids = append(ids, j.ID)
		}
	}
	return ids
}

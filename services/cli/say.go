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

func newSay(env *command.Env) *cobra.Command {
	queue := false
	cmd := &cobra.Command{
		Use: "say ID TEXT...", Short: "send a message to a turn that is running", Annotations: command.PrintsJSON,
		Long: `Send a message to the open turn of a session: the model reads it with its next
inference. With --queue it becomes a turn of its own, behind the open one.`,
		Example: "  zino say 5b0c use the staging database\n  zino say 5b0c --queue 'now write the changelog'",
		RunE: func(cmd *cobra.Command, args []string) error {
			return withTurn(cmd, env, args, func(ctx context.Context, d *connect.Daemon, session, id string) error {
				req := proto.TurnSay{SessionID: session, Turn: id, Text: strings.Join(args[1:], " ")}
				if strings.TrimSpace(req.Text) == "" {
					return command.Mistake(cmd, "name the text behind the id")
				}
				if queue {
					req.Mode = proto.ViaQueue
				}
				said, err := turn.Call(ctx, d, proto.DaemonTurnSay, req)
				switch {
				case err != nil:
					return err
				case env.JSON():
					return render.JSON(env.Out, said)
				case said.Mode == proto.ViaQueue:
					return env.PrintLine("Queued as the next turn.")
				}
				return env.PrintLine("Queued for the next inference.")
			})
		},
	}
	cmd.Flags().BoolVar(&queue, "queue", false, "send it as a turn of its own, behind the open one")
	return cmd
}

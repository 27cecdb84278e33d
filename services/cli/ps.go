package cli

import (
	"cmp"
	"context"

	"github.com/spf13/cobra"

	"zino/proto"
	"zino/services/cli/command"
	"zino/services/cli/connect"
	"zino/services/cli/render"
	"zino/services/cli/turn"
)

func newPs(env *command.Env) *cobra.Command {
	all := false
	cmd := &cobra.Command{
		Use: "ps", Short: "list the turns that are running, queued or parked", Args: command.AtMost(0), Annotations: command.PrintsJSON,
		Long: `List the turns that have not ended, of all sessions: state, age, the step that they
are at, tokens and cost so far, and what they do. --all lists turns that have ended
as well, and those of sub-agents. With --json each line is an object.`,
		Example: "  zino ps\n  zino ps --json | jq -r .session_id",
		RunE: func(cmd *cobra.Command, _ []string) error {
			list := func(ctx context.Context, d *connect.Daemon) ([]proto.TurnInfo, error) { return turn.Open(ctx, d, all) }
			return command.List(cmd.Context(), env, all, "No turns are running.", list, turnRows)
		},
	}
	cmd.Flags().BoolVarP(&all, "all", "a", false, "list turns that have ended too, and those of sub-agents")
	return cmd
}

// turnRows returns the table of zino ps.
func turnRows(list []proto.TurnInfo) [][]string {
	rows := [][]string{{"SESSION", "TURN", "STATE", "AGE", "STEP", "TOKENS", "COST", "ACTIVITY"}}
	for _, t := range list {
		step, cost, activity := "-", "-", cmp.Or(t.Activity, t.Reason)
		if t.Step > 0 {
			step = render.Count(int64(t.Step))
		}
		if t.CostUSD != nil {
			cost = render.Dollars(*t.CostUSD)
		}
		if t.Until != "" && !proto.TurnEnded(t.State) {
			activity = "until " + render.Clock(t.Until) + ": " + activity // a narrow terminal cuts the end
		}
		rows = append(rows, []string{
			turn.ShortID(t.SessionID), t.Turn, t.State, render.Elapsed(t.Started), step, render.Count(t.InputTokens + t.OutputTokens), cost, render.Dash(activity),
		})
	}
	return rows
}

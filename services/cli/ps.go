package cli

import (
	"cmp"
	"context"
	"io"

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
as well. With --json each line is an object.`,
		Example: "  zino ps\n  zino ps --json | jq -r .session_id",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return env.Guard(cmd.Context(), func(ctx context.Context) error { return ps(ctx, env, all) })
		},
	}
	cmd.Flags().BoolVarP(&all, "all", "a", false, "those that have ended too")
	return cmd
}

func ps(ctx context.Context, env *command.Env, all bool) error {
	cfg, err := env.Config()
	if err != nil {
		return err
	}
	d, err := env.Find(ctx, cfg, false)
	if d == nil && err == nil && all {
		d, err = env.Spawn(ctx, cfg, connect.StorageRequired)
	}
	if err != nil {
		return err
	}
	var list []proto.TurnInfo
	if d != nil { // without services no turn runs
		defer d.Close()
		if list, err = turn.Open(ctx, d, all); err != nil {
			return err
		}
	}
	const none = "No turns are running."
	switch {
	case len(list) > 0 && env.JSON():
		return env.Print(func(w io.Writer) error { return render.JSONList(w, list) })
	case len(list) > 0:
		return env.PrintTable(turnRows(list))
	case env.JSON():
		env.Say(none)
		return nil
	}
	return env.PrintLine(none)
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
			activity += " until " + render.LocalTime(t.Until)
		}
		rows = append(rows, []string{
			turn.ShortID(t.SessionID), t.Turn, t.State, render.Elapsed(t.Started), step, render.Count(t.InputTokens + t.OutputTokens), cost, render.Dash(activity),
		})
	}
	return rows
}

package sessions

import (
	"context"
	"strconv"

	"github.com/spf13/cobra"

	"zino/pkg/rpc"
	"zino/pkg/text"
	"zino/pkg/wire"
	"zino/proto"
	"zino/services/cli/command"
	"zino/services/cli/connect"
	"zino/services/cli/render"
)

func newRedact(env *command.Env) *cobra.Command {
	var req proto.Redact
	cmd := &cobra.Command{
		Use: "redact ID | --all", Short: "mask secrets in stored sessions", Annotations: command.PrintsJSON,
		Long: `Replace the secrets in a session by placeholders such as [masked:github:1a2b], for
good: keys of providers, configured values ([mask] in zino.toml) and what looks like a
secret, in messages, too. A session with an open turn is left alone.

With --all, do that in all sessions, channels, memories, approvals and the outputs of
jobs that have ended. Copies of files that undo keeps are listed if they have secrets;
--undo deletes them, and those changes cannot be taken back any more. The files
themselves are not changed, nor are copies elsewhere, such as backups and exports.
Images and PDF files of a session are not looked into; their names are.

Each place with secrets is printed, with their number. A secret that has been in a
session was sent to the provider of the model: replace it by a new one as well.`,
		Example: "  zino sessions redact 550e\n  zino sessions redact --all -n",
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case req.All && len(args) > 0:
				return command.Mistake(cmd, "name a session or give --all, not both")
			case !req.All && req.Undo:
				return command.Mistake(cmd, "--undo needs --all")
			case !req.All:
				id, err := command.OneSession(cmd, args)
				if err != nil {
					return err
				}
				req.SessionID = id
			}
			return withDaemon(env, cmd, func(ctx context.Context, d *connect.Daemon) error { return redact(ctx, env, d, req) })
		},
	}
	flags := cmd.Flags()
	flags.BoolVarP(&req.All, "all", "a", false, "all that the services keep")
	flags.BoolVar(&req.Undo, "undo", false, "with --all: delete what undo keeps of files with secrets")
	flags.BoolVarP(&req.DryRun, "dry-run", "n", false, "only say what would be masked")
	return cmd
}

func redact(ctx context.Context, env *command.Env, d *connect.Daemon, req proto.Redact) error {
	if !req.All {
		found, err := connect.Forward(ctx, d, "mem", proto.MemFindSession, proto.FindSession{SessionID: req.SessionID})
		if err != nil {
			return err
		}
		req.SessionID = found.SessionID
	}
	places, left := 0, 0
	done, err := rpc.CallEvents(ctx, d.Client, proto.DaemonRedact, req, func(_ string, payload []byte) error {
		var r proto.Redacted
		if err := wire.DecodeReply(payload, &r); err != nil {
			return err
		}
		places++
		if r.Left != "" {
			left++
		}
		if env.JSON() {
			return render.JSON(env.Out, r)
		}
		return env.PrintTable([][]string{{r.What, strconv.Itoa(r.Masked), render.Dash(r.Name), r.Left}})
	})
	for _, problem := range done.Problems {
		env.Say("Warning: %s", problem)
	}
	switch {
	case err != nil:
		return err
	case places == 0:
		env.Say("No secrets found.")
	case req.DryRun:
		env.Say("Secrets found: %d in %s. Nothing was changed.", done.Masked, text.Count(places, "place"))
	case left > 0:
		env.Say("Warning: in %d of %s the secrets are still there", left, text.Count(places, "place"))
	}
	if left > 0 && !req.DryRun || len(done.Problems) > 0 {
		return render.ErrReported
	}
	return nil
}

package memory

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"zino/pkg/text"
	"zino/proto"
	"zino/services/cli/command"
	"zino/services/cli/connect"
	"zino/services/cli/render"
)

func newEmbed(env *command.Env) *cobra.Command {
	var req proto.EmbedHard
	cmd := &cobra.Command{
		Use: "embed", Short: "ask for the vectors of memories, to find them by meaning", Args: command.NoArgs, Annotations: command.PrintsJSON,
		Long: `Send the memories that have no vector yet to the model that [mem] embed names, the
newest first, and store the vectors. Searches then find memories by meaning, not only
by their words. New memories get their vectors by themselves while services run (in a
chat, or with zino up). This command is for those stored before, and for those that a
single zino memory add has stored. What was received before an error or Ctrl-C stays.`,
		Example: "  zino memory embed --dry-run\n  zino memory embed --max-tokens 50000",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if req.MaxTokens < 0 {
				return command.Mistake(cmd, "--max-tokens %d is not a number of tokens, 0 or more", req.MaxTokens)
			}
			return withDaemon(env, cmd, func(ctx context.Context, d *connect.Daemon) error {
				done, err := connect.Forward(ctx, d, "mem", proto.MemEmbedHard, req)
				if err != nil {
					return err
				}
				if env.JSON() {
					return render.JSON(env.Out, done)
				}
				return env.PrintLine(describeEmbed(done, req.DryRun, endpoint(ctx, d, done)))
			})
		},
	}
	cmd.Flags().BoolVar(&req.DryRun, "dry-run", false, "send nothing: print what would be sent, and where")
	cmd.Flags().IntVar(&req.MaxTokens, "max-tokens", 0, "send at most `N` tokens (default 200000)")
	return cmd
}

// endpoint returns the address of the model, empty if rtr does not say it.
func endpoint(ctx context.Context, d *connect.Daemon, done proto.EmbeddedHard) string {
	caps, err := connect.Forward(ctx, d, "rtr", proto.RtrCapabilities, proto.ModelSelector{Provider: done.Provider, Model: done.Model})
	if err != nil || caps.Endpoint == "" {
		return ""
	}
	return " at " + caps.Endpoint
}

// describeEmbed formats the result for people.
func describeEmbed(done proto.EmbeddedHard, dryRun bool, at string) string {
	to := done.Provider + "/" + done.Model + at
	if dryRun {
		if done.Missing == 0 {
			return fmt.Sprintf("Nothing would be sent to %s: all memories have vectors.", to)
		}
		return fmt.Sprintf("About %d tokens would be sent to %s: %s without a vector, of %d memories in all.",
			done.Tokens, to, text.Count(done.Missing, "text"), done.Memories)
	}
	if done.Embedded == 0 && done.Missing == 0 {
		return "Nothing to do: all memories have vectors of " + done.Provider + "/" + done.Model + "."
	}
	line := fmt.Sprintf("%s embedded with %d tokens by %s; without a vector: %d.", text.Count(done.Embedded, "text"), done.Tokens, to, done.Missing)
	if done.TooLong > 0 {
		line += fmt.Sprintf(" Too long for the model: %d.", done.TooLong)
	}
	if done.Exhausted {
		line += " The limit of tokens is reached: run it again for the rest."
	}
	return line
}

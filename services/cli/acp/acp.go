// Package acp is the agent of zino acp: it speaks the Agent Client Protocol with an editor
// on standard input and output, and is a client of the daemon.
package acp

import (
	"github.com/spf13/cobra"

	"zino/services/cli/command"
)

// New returns zino acp.
func New(env *command.Env) *cobra.Command {
	var flags options
	cmd := &cobra.Command{
		Use: "acp", Short: "be an agent for an editor that speaks ACP",
		Long: `Be an agent for an editor that speaks the Agent Client Protocol (ACP) on standard input
and output. Editors start it themselves: name "zino acp" as the command of an agent.

Prompts are turns as those of zino exec, in the directory that the editor names. What the
mode or a rule says to ask about, and whether files of the project are used, is asked in the
editor. Where services keep running, a turn goes on when the editor is closed; zino ps
lists it. --model, --sandbox and --mode are where the editor's options begin.`,
		Example: "  zino acp\n  zino acp --mode ask --sandbox workspace-write",
		Args:    command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			command.CatchPipe()
			ctx, stop := command.UntilSignal(cmd.Context())
			defer stop()
			return serve(ctx, env, env.In, env.Out, flags)
		},
	}
	cmd.Flags().BoolVar(&flags.clientFS, "client-fs", false, "read files from the editor first, with changes that are not saved")
	cmd.Flags().BoolVar(&flags.v2, "v2", false, "speak version 2 of the protocol, a draft, with editors that ask for it")
	return cmd
}

package cli

import (
	"github.com/spf13/cobra"

	"zino/services/cli/command"
	"zino/services/cli/connect"
)

func newUp(env *command.Env) *cobra.Command {
	var file, dir, private string
	cmd := &cobra.Command{
		Use: "up", Short: "run the services in the foreground, for all your terminals", Args: command.NoArgs,
		Long: `Run the services for one user, in the foreground, so that all terminals share them.

The sockets lie in $XDG_RUNTIME_DIR/zino, or where the configuration that you
name puts them. The file REPL runs with them, see zino repl: its files are in
--dir, or [repl] dir, or ~/.config/zino/repl. A service that dies is started
again. Logs go to stderr; Ctrl-C stops everything.

An edited configuration is read again when no turn is under way, and holds from
the next request on; sockets stay where they are until the next start.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := command.UntilSignal(cmd.Context())
			defer stop()
			switch {
			case private != "":
				return connect.SupervisePrivate(ctx, private, env.In, env.Out)
			case file != "":
				return env.WriteUp(file)
			case cmd.Flags().Changed("dir"):
				if dir == "" || !connect.IsDir(dir) {
					return command.Mistake(cmd, "--dir %s is not a directory", dir)
				}
				dir = connect.Absolute(dir)
			}
			return env.Up(ctx, dir)
		},
	}
	cmd.Flags().StringVar(&dir, "dir", "", "`DIR` of the file REPL's files (default [repl] dir, else ~/.config/zino/repl)")
	cmd.Flags().StringVar(&private, "private", "", "the directory of services that another run starts")
	cmd.Flags().StringVar(&file, "write", "", "only write the configuration of the services to this file, for units that start them")
	cmd.Flags().MarkHidden("private") // cannot fail: the flag exists
	cmd.Flags().MarkHidden("write")
	return cmd
}

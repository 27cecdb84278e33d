package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"zino/pkg/rpc"
	"zino/pkg/text"
	"zino/proto"
	"zino/services/cli/command"
	"zino/services/cli/connect"
	"zino/services/cli/render"
	"zino/services/cli/term"
)

func newHandoff(env *command.Env) *cobra.Command {
	var req proto.Handoff
	var from, out string
	force := false
	cmd := &cobra.Command{
		Use: "handoff --goal GOAL", Short: "write what a new session needs to continue the work", Args: command.NoArgs, Annotations: command.PrintsJSON,
		Long: `Turn a session into a document that a new session can start from: the goal, a
prompt to start with, the files that matter, what is left to do, and commands that
show the current state. The model drafts it; with --offline it is made from the
events of the session, without a model. Read and edit it before use.`,
		Example: "  zino handoff --goal 'finish the migration' --out handoff.md\n  zino handoff --goal 'write the tests' --from-session 550e --offline",
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			req.SessionID = cmp.Or(from, env.Session)
			if strings.TrimSpace(req.Goal) == "" {
				return command.Mistake(cmd, "say with --goal what is to be done next")
			}
			if req.SessionID != "" {
				if err := command.CheckSessionArg(cmd, req.SessionID); err != nil {
					return err
				}
			}
			if req.Root, err = env.RootDir(); err != nil {
				return err
			}
			if info, err := os.Stat(out); err == nil && info.Mode().IsRegular() && !force {
				return proto.Errorf(proto.CodeInvalid, "%s is there already and was not changed; --force overwrites it", out)
			}
			req.Provider, req.Model, req.MaxTokens, req.Effort = env.Provider, env.Model, env.MaxTokens, env.Effort
			return env.WithDaemon(cmd, false, connect.StorageRequired, func(ctx context.Context, d *connect.Daemon) error {
				return handoff(ctx, env, d, req, out)
			})
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&req.Goal, "goal", "", "what is to be done next, in your words: `GOAL`")
	flags.StringVar(&from, "from-session", "", "the session to go on from: its `ID` or the beginning of it (default the latest)")
	flags.StringVarP(&out, "out", "o", "", "`PATH` of the file to write (default standard output)")
	flags.BoolVarP(&force, "force", "f", false, "overwrite the file of --out, which may have been edited")
	flags.BoolVar(&req.Offline, "offline", false, "ask no model: make it of what the session did")
	return cmd
}

func handoff(ctx context.Context, env *command.Env, d *connect.Daemon, req proto.Handoff, out string) error {
	status := render.NewIndicator(env.Err)
	if !req.Offline {
		status.Begin("drafting")
	}
	bundle, err := rpc.Call(ctx, d.Client, proto.DaemonHandoff, req)
	status.End()
	switch {
	case errors.Is(err, proto.ErrUnavailable) && !req.Offline && !strings.Contains(err.Error(), "--offline"):
		return fmt.Errorf("%w; zino handoff --offline makes the bundle without a model", err)
	case err != nil:
		return err
	}
	if len(bundle.Filled) > 0 && !req.Offline {
		env.Say("Warning: the model left out, or garbled: %s. What stands there is taken from the session.", strings.Join(bundle.Filled, ", "))
	}
	content := strings.TrimRight(bundle.Content, "\n") + "\n"
	toFile := out != "" && out != "-"
	if env.JSON() { // on standard output; the file has the Markdown
		if err := render.JSON(env.Out, bundle); err != nil || !toFile {
			return err
		}
	}
	write := func(w io.Writer) error {
		_, err := io.WriteString(w, content)
		return err
	}
	if !toFile {
		if term.IsTerminal(env.Out) {
			content = text.Visible(content)
		}
		return write(env.Out)
	}
	const readable = 0o644
	if err := command.WriteFile(out, readable, write); err != nil {
		return err
	}
	env.Say("The handoff is in %s", out)
	return nil
}

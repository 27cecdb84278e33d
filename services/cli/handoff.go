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
	"zino/pkg/visible"
	"zino/proto"
)

const handoffLong = `Turn a session into a document that a new session can start from: the goal, a
prompt to start with, the files that matter, what is left to do, and commands that
show the current state. The model drafts it; with --offline it is made from the
events of the session, without a model. Read and edit it before use.`

func (a *app) handoffCommand() *cobra.Command {
	var req proto.Handoff
	var from, out string
	force := false
	cmd := &cobra.Command{
		Use: "handoff --goal GOAL", Short: "write what a new session needs to continue the work", Long: handoffLong, Annotations: printsJSON,
		Example: "  zino handoff --goal 'finish the migration' --out handoff.md\n  zino handoff --goal 'write the tests' --from-session 550e --offline",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			req.SessionID = cmp.Or(from, a.session)
			if strings.TrimSpace(req.Goal) == "" {
				return mistake(cmd, "say with --goal what is to be done next")
			}
			if req.SessionID != "" {
				if err := checkSession(cmd, req.SessionID); err != nil {
					return err
				}
			}
			if req.Root, err = a.rootDir(); err != nil {
				return err
			}
			if info, err := os.Stat(out); err == nil && info.Mode().IsRegular() && !force {
				return fmt.Errorf("%s is there already and was not changed; --force overwrites it", out)
			}
			req.Provider, req.Model, req.MaxTokens, req.Effort = a.provider, a.model, a.maxTokens, a.effort
			return a.withDaemon(cmd, storageRequired, func(ctx context.Context, d *daemon) error { return a.handoff(ctx, d, req, out) })
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

func (a *app) handoff(ctx context.Context, d *daemon, req proto.Handoff, out string) error {
	status := a.texts().status
	if !req.Offline {
		status.begin()
		status.change(func() { status.what = "drafting" })
	}
	bundle, err := rpc.Call(ctx, d.client, proto.DaemonHandoff, req)
	status.end()
	switch {
	case errors.Is(err, proto.ErrUnavailable) && !req.Offline && !strings.Contains(err.Error(), "--offline"):
		return fmt.Errorf("%w; zino handoff --offline makes the bundle without a model", err)
	case err != nil:
		return err
	}
	if len(bundle.Filled) > 0 && !req.Offline {
		a.say("Warning: the model left out, or garbled: %s. What stands there is taken from the session.", strings.Join(bundle.Filled, ", "))
	}
	return a.printBundle(bundle, out)
}

// printBundle writes the bundle to a file or to standard output. JSON is for
// standard output alone: the file has the Markdown.
func (a *app) printBundle(bundle proto.HandoffBundle, out string) error {
	content := strings.TrimRight(bundle.Content, "\n") + "\n"
	toFile := out != "" && out != "-"
	if a.asJSON() {
		if err := printJSON(a.out, bundle); err != nil || !toFile {
			return err
		}
	}
	if !toFile {
		if isTerminal(a.out) {
			content = visible.Text(content)
		}
		_, err := io.WriteString(a.out, content)
		return err
	}
	const usual = 0o644
	err := writeOut(out, usual, func(w io.Writer) error {
		_, err := io.WriteString(w, content)
		return err
	})
	if err == nil {
		a.say("The handoff is in %s", out)
	}
	return err
}

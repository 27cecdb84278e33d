package cli

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"zino/pkg/rpc"
	"zino/proto"
	"zino/services/cli/command"
	"zino/services/cli/connect"
	"zino/services/cli/render"
	"zino/services/cli/term"
	"zino/services/cli/turn"
)

func newContext(env *command.Env) *cobra.Command {
	summary := false
	cmd := &cobra.Command{
		Use: "context", Short: "print what would be sent to the model, with sizes", Args: command.NoArgs, Annotations: command.PrintsJSON,
		Long: `Print what would be sent to the model before your message: the system prompt, the
AGENTS.md of --root, the tools, and with --session the earlier messages. A table
with the estimated sizes in tokens comes first, then each part. No model is asked. With --json each line is a part.`,
		Example: "  zino context --summary\n  zino context --session 550e | less",
		RunE: func(cmd *cobra.Command, _ []string) error {
			options, err := env.Request()
			if err != nil {
				return err
			}
			req := proto.Preview{Root: options.Root, Sandbox: options.Sandbox, Network: options.Network, SystemPrompt: options.SystemPrompt}
			return env.WithDaemon(cmd, false, connect.StorageOptional, func(ctx context.Context, d *connect.Daemon) error {
				if env.Session != "" {
					id, _, err := turn.Session(ctx, env, d)
					if err != nil {
						return err
					}
					req.SessionID = id
				}
				report, err := rpc.Call(ctx, d.Client, proto.DaemonContext, req)
				if err != nil {
					return err
				}
				for _, warning := range report.Warnings {
					env.Say("Warning: %s", strings.TrimPrefix(warning, "Warning: "))
				}
				return env.Print(func(w io.Writer) error {
					if env.JSON() {
						return printParts(w, report.Parts, summary)
					}
					if term.IsTerminal(env.Out) {
						w = render.Escape(w)
					}
					return printContext(w, report, summary)
				})
			})
		},
	}
	cmd.Flags().BoolVar(&summary, "summary", false, "print the table only")
	return cmd
}

// printParts prints the parts as JSON, without their content for a summary.
func printParts(w io.Writer, parts []proto.ContextPart, summary bool) error {
	for _, part := range parts {
		if summary {
			part.Content = ""
		}
		if err := render.JSON(w, part); err != nil {
			return err
		}
	}
	return nil
}

func printContext(w io.Writer, report proto.ContextReport, summary bool) error {
	rows := [][]string{{"PART", "TOKENS"}}
	for _, part := range report.Parts {
		rows = append(rows, []string{part.Name, render.Count(part.Tokens)})
	}
	out := render.Numbers(append(rows, []string{"total", render.Count(report.Tokens)}))
	switch {
	case report.TemplateMissing:
		out += "\nTemplate: none (" + render.Line(report.Template) + " is missing)\n"
	case report.Template != "":
		out += "\nTemplate: " + render.Line(report.Template) + "\n"
	}
	if _, err := io.WriteString(w, out); err != nil || summary {
		return err
	}
	for _, part := range report.Parts {
		content := strings.TrimRight(part.Content, "\n")
		if _, err := fmt.Fprintf(w, "\n--- %s (%d tokens) ---\n%s\n", render.Line(part.Name), part.Tokens, content); err != nil {
			return err
		}
	}
	return nil
}

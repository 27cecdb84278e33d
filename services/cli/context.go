package cli

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"zino/pkg/rpc"
	"zino/proto"
)

const contextLong = `Print what would be sent to the model before your message: the system prompt, the
AGENTS.md of --root, the tools, and with --session the earlier messages. A table
with the estimated sizes in tokens comes first, then each part. No model is asked. With --json each line is a part.`

func (a *app) contextCommand() *cobra.Command {
	summary := false
	cmd := &cobra.Command{
		Use: "context", Short: "print what would be sent to the model, with sizes", Long: contextLong,
		Example: "  zino context --summary\n  zino context --session 550e | less",
		Args:    noArgs, Annotations: printsJSON,
		RunE: func(cmd *cobra.Command, _ []string) error {
			root, err := a.rootDir()
			if err != nil {
				return err
			}
			req := proto.Preview{Root: root, Sandbox: proto.Level(a.sandbox)}
			if a.networkSet {
				req.Network = &a.network
			}
			if a.systemPromptSet {
				req.SystemPrompt = &a.systemPrompt
			}
			return a.withDaemon(cmd, storageOptional, func(ctx context.Context, d *daemon) (err error) {
				if a.session != "" {
					if req.SessionID, _, err = a.sessionOf(ctx, d); err != nil {
						return err
					}
				}
				return a.context(ctx, d, req, summary)
			})
		},
	}
	cmd.Flags().BoolVar(&summary, "summary", false, "print the table only")
	return cmd
}

func (a *app) context(ctx context.Context, d *daemon, req proto.Preview, summary bool) error {
	report, err := rpc.Call(ctx, d.client, proto.DaemonContext, req)
	if err != nil {
		return err
	}
	for _, warning := range report.Warnings {
		a.say("Warning: %s", strings.TrimPrefix(warning, "Warning: "))
	}
	return a.print(func(w io.Writer) error {
		if a.asJSON() {
			return printParts(w, report.Parts, summary)
		}
		if isTerminal(a.out) {
			w = visibly{w}
		}
		return printContext(w, report, summary)
	})
}

// printParts prints the parts as JSON, for a summary without what is in them.
func printParts(w io.Writer, parts []proto.ContextPart, summary bool) error {
	for _, part := range parts {
		if summary {
			part.Content = ""
		}
		if err := printJSON(w, part); err != nil {
			return err
		}
	}
	return nil
}

func printContext(w io.Writer, report proto.ContextReport, summary bool) error {
	rows := [][]string{{"PART", "TOKENS"}}
	for _, part := range report.Parts {
		rows = append(rows, []string{part.Name, count(part.Tokens)})
	}
	rows = append(rows, []string{"total", count(report.Tokens)})
	text := table(rows)
	switch {
	case report.TemplateMissing:
		text += "\nTemplate: none (" + inLine(report.Template) + " is missing)\n"
	case report.Template != "":
		text += "\nTemplate: " + inLine(report.Template) + "\n"
	}
	if _, err := io.WriteString(w, text); err != nil || summary {
		return err
	}
	for _, part := range report.Parts {
		content := strings.TrimRight(part.Content, "\n")
		if _, err := fmt.Fprintf(w, "\n--- %s (%d tokens) ---\n%s\n", inLine(part.Name), part.Tokens, content); err != nil {
			return err
		}
	}
	return nil
}

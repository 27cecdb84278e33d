package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"zino/pkg/visible"
	"zino/proto"
)

// exportFormats are the values of export's --format.
var exportFormats = []string{"md", "json"}

func (a *app) sessionsExportCommand() *cobra.Command {
	var format, out string
	cmd := &cobra.Command{
		Use: "export ID", Short: "write a session as Markdown or JSON", Annotations: printsJSON,
		Long: `Write all of a session: as Markdown for people, or as one JSON object with its
events as they are stored. It goes to standard output, or into a file, which only
you can read if it is new.`,
		Example: "  zino sessions export 550e --out session.md\n  zino sessions export 550e --format json | jq '.events | length'",
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := oneSession(cmd, args)
			if err != nil {
				return err
			}
			if a.json {
				if cmd.Flags().Changed("format") && format != formatJSON {
					return mistake(cmd, "--json and --format %s exclude each other: leave one out", format)
				}
				format = formatJSON
			}
			if !slices.Contains(exportFormats, format) {
				return mistake(cmd, "--format %q is none of %s", format, strings.Join(exportFormats, ", "))
			}
			return a.withDaemon(cmd, storageRequired, func(ctx context.Context, d *daemon) error {
				return a.sessionsExport(ctx, d, proto.ExportSession{SessionID: id, Format: format}, out)
			})
		},
	}
	cmd.Flags().StringVar(&format, "format", "md", "the form: `md or json`")
	cmd.Flags().StringVarP(&out, "out", "o", "", "`PATH` of the file to write (default standard output)")
	return cmd
}

func (a *app) sessionsExport(ctx context.Context, d *daemon, req proto.ExportSession, out string) error {
	if out == "" || out == "-" {
		return a.print(func(w io.Writer) error {
			if isTerminal(a.out) {
				w = visibly{w}
			}
			return exportPieces(ctx, d, req, w)
		})
	}
	const private = 0o600
	err := writeOut(out, private, func(w io.Writer) error { return exportPieces(ctx, d, req, w) })
	if err == nil {
		a.say("The session is in %s", out)
	}
	return err
}

// exportPieces writes a session's text, which comes in pieces.
func exportPieces(ctx context.Context, d *daemon, req proto.ExportSession, w io.Writer) error {
	for {
		piece, err := forward(ctx, d, "mem", proto.MemExportSession, req)
		if err != nil {
			return err
		}
		if _, err := io.WriteString(w, piece.Content); err != nil || !piece.More {
			return err
		}
		if piece.Next < req.From || piece.Next == req.From && piece.Skip <= req.Skip {
			return errors.New("the session does not end: is the daemon of another version? try: zino status")
		}
		req.SessionID, req.From, req.Skip = piece.SessionID, piece.Next, piece.Skip
	}
}

// visibly writes texts so that a terminal does nothing with them.
type visibly struct{ w io.Writer }

func (v visibly) Write(text []byte) (int, error) {
	_, err := fmt.Fprint(v.w, visible.Text(string(text)))
	return len(text), err
}

package cli

import (
	"context"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"zino/pkg/visible"
	"zino/proto"
)

const softLong = `Show the soft memory: a text that stands in every system prompt. It is kept byte
for byte.`

func (a *app) softCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "soft", Short: "the text that stands in every system prompt", Long: softLong, Annotations: printsJSON,
		Example: "  zino memory soft\n  zino memory soft set Likes short answers.",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return mistake(cmd, "there is no command %q; there are: set, edit", args[0])
			}
			return a.withMem(cmd, a.softShow)
		},
	}
	cmd.AddCommand(a.softSetCommand(), a.softEditCommand())
	return cmd
}

func (a *app) softShow(ctx context.Context, d *daemon) error {
	soft, err := forward(ctx, d, "mem", proto.MemGetSoft, proto.GetSoft{})
	switch {
	case err != nil:
		return err
	case a.asJSON():
		return printJSON(a.out, soft)
	case soft.Content == "":
		a.say("The soft memory is empty.")
		return nil
	case isTerminal(a.out):
		soft.Content = strings.TrimSuffix(visible.Text(soft.Content), "\n") + "\n"
	}
	_, err = io.WriteString(a.out, soft.Content)
	return err
}

func (a *app) softSetCommand() *cobra.Command {
	return &cobra.Command{
		Use: "set TEXT...|-", Short: "replace the soft memory",
		Long:    "Replace the soft memory by the words given, or by standard input if they are -.\nAn empty text (zino memory soft set '') clears it.",
		Example: "  zino memory soft set Likes short answers.\n  zino memory soft set - < notes.txt",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return mistake(cmd, "name the new text, or - for standard input, or '' for none")
			}
			text := strings.Join(args, " ")
			return a.withMem(cmd, func(ctx context.Context, d *daemon) (err error) {
				if text == "-" {
					if text, err = a.pipedText(ctx); err != nil {
						return err
					}
				}
				a.tellShared(d)
				return setSoft(ctx, d, text)
			})
		},
	}
}

func setSoft(ctx context.Context, d *daemon, text string) error {
	if !utf8.ValidString(text) {
		return errNotText
	}
	_, err := forward(ctx, d, "mem", proto.MemSetSoft, proto.SetSoft{Content: text})
	return err
}

func (a *app) softEditCommand() *cobra.Command {
	return &cobra.Command{
		Use: "edit", Short: "change the soft memory in an editor", Args: without,
		Long:    "Change the soft memory in an editor: $VISUAL, $EDITOR, or vi. Nothing happens if\nthe text stays as it was or is emptied; zino memory soft set '' clears it.",
		Example: "  zino memory soft edit",
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.softEdit(cmd.Context()) },
	}
}

// softEdit opens an editor on the soft memory, as memoryEdit does on a memory.
func (a *app) softEdit(ctx context.Context) error {
	var d *daemon
	var soft proto.SoftMemory
	err := a.guarded(ctx, func(ctx context.Context) (err error) {
		if d, err = a.openMem(ctx); err != nil {
			return err
		}
		soft, err = forward(ctx, d, "mem", proto.MemGetSoft, proto.GetSoft{})
		return err
	})
	if d != nil {
		defer d.close()
	}
	if err != nil {
		return err
	}
	a.tellShared(d)
	return a.edit(soft.Content, "soft-memory.txt", func(changed string) error {
		return a.guarded(ctx, func(ctx context.Context) error { return setSoft(ctx, d, changed) })
	})
}

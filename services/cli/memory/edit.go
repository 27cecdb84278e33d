package memory

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"zino/pkg/text"
	"zino/pkg/wire"
	"zino/proto"
	"zino/services/cli/command"
	"zino/services/cli/connect"
	"zino/services/cli/render"
	"zino/services/cli/term"
)

func newEdit(env *command.Env) *cobra.Command {
	var tag string
	cmd := &cobra.Command{
		Use: "edit ID", Short: "change a memory in an editor",
		Long: `Change a memory in an editor: $VISUAL, $EDITOR, or vi. A memory of several
messages is edited as JSON, one message a line. Nothing happens if the text stays
as it was or is emptied. With --tag the tag is changed, and no editor is opened.`,
		Example: "  EDITOR=nano zino memory edit 7\n  zino memory edit 7 --tag house",
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := oneID(cmd, args)
			if err != nil {
				return err
			}
			if cmd.Flags().Changed("tag") {
				return withDaemon(env, cmd, func(ctx context.Context, d *connect.Daemon) error {
					return update(ctx, d, proto.UpdateHard{ID: id, Tag: &tag})
				})
			}
			var item proto.HardItem
			return withEditor(cmd.Context(), env, func(ctx context.Context, d *connect.Daemon) (content, name string, err error) {
				item, err = connect.Forward(ctx, d, "mem", proto.MemGetHard, proto.GetHard{ID: id})
				if err != nil {
					return "", "", explain(id, err)
				}
				return editable(item.Messages)
			}, func(ctx context.Context, d *connect.Daemon, changed string) error {
				messages, err := edited(item.Messages, changed)
				if err != nil {
					return fmt.Errorf("%w; nothing was changed", err)
				}
				return update(ctx, d, proto.UpdateHard{ID: id, Messages: messages})
			})
		},
	}
	cmd.Flags().StringVar(&tag, "tag", "", "the new `TAG`; empty for none")
	return cmd
}

func update(ctx context.Context, d *connect.Daemon, req proto.UpdateHard) error {
	_, err := connect.Forward(ctx, d, "mem", proto.MemUpdateHard, req)
	return explain(req.ID, err)
}

// withEditor opens an editor on the result of load and calls store with the edited
// text. load and store have separate signal handlers, because EditFile has its own.
func withEditor(ctx context.Context, env *command.Env, load func(context.Context, *connect.Daemon) (content, name string, err error), store func(context.Context, *connect.Daemon, string) error) error {
	var d *connect.Daemon
	var content, name string
	err := env.Guard(ctx, func(ctx context.Context) (err error) {
		if d, err = env.Open(ctx, true, connect.StorageRequired); err != nil {
			return err
		}
		content, name, err = load(ctx, d)
		return err
	})
	if d != nil {
		defer d.Close()
	}
	if err != nil {
		return err
	}
	env.NoteShared(d)
	return env.Edit(content, name, func(changed string) error {
		return env.Guard(ctx, func(ctx context.Context) error { return store(ctx, d, changed) })
	})
}

// editable returns a memory as text for an editor, and a file name: the
// text of a single message, or several messages as they are stored, one a line.
func editable(messages proto.Raw) (content, name string, err error) {
	list, err := render.ReadMessages(messages)
	if err != nil {
		return "", "", err
	}
	if len(list) == 1 {
		return list[0].Content, "memory.txt", nil
	}
	var b strings.Builder
	err = render.JSONItems(&b, messages)
	return b.String(), "memory.jsonl", err
}

// edited is the inverse of editable.
func edited(old proto.Raw, content string) (proto.Raw, error) {
	list, err := wire.Elements(old)
	if err != nil {
		return nil, err
	}
	if len(list) == 1 { // replace the text, keep other keys
		b := []byte("[{")
		for key, value := range wire.Members(list[0]) {
			if len(b) > len("[{") {
				b = append(b, ',')
			}
			b = append(wire.AppendString(b, key), ':')
			if string(key) == "content" {
				b = wire.AppendString(b, content)
			} else {
				b = append(b, value...)
			}
		}
		return append(b, "}]"...), nil
	}
	var lines [][]byte
	for line := range strings.Lines(content) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, []byte(line))
		}
	}
	messages := append(append([]byte("["), bytes.Join(lines, []byte(","))...), ']')
	parsed, err := render.ReadMessages(messages)
	if err != nil {
		return nil, err
	}
	if len(parsed) != len(lines) {
		return nil, errors.New("there is not one message in each line")
	}
	return messages, nil
}

func newSoft(env *command.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use: "soft", Short: "the text that stands in every system prompt", Annotations: command.PrintsJSON,
		Long:    "Show the soft memory: a text that stands in every system prompt. It is kept byte\nfor byte.",
		Example: "  zino memory soft\n  zino memory soft set Likes short answers.",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return command.Mistake(cmd, "there is no command %q; there are: set, edit", args[0])
			}
			return withDaemon(env, cmd, func(ctx context.Context, d *connect.Daemon) error {
				soft, err := connect.Forward(ctx, d, "mem", proto.MemGetSoft, proto.GetSoft{})
				switch {
				case err != nil:
					return err
				case env.JSON():
					return render.JSON(env.Out, soft)
				case soft.Content == "":
					env.Say("The soft memory is empty.")
					return nil
				case term.IsTerminal(env.Out):
					soft.Content = strings.TrimSuffix(text.Visible(soft.Content), "\n") + "\n"
				}
				_, err = io.WriteString(env.Out, soft.Content)
				return err
			})
		},
	}
	cmd.AddCommand(newSoftSet(env), newSoftEdit(env))
	return cmd
}

func newSoftSet(env *command.Env) *cobra.Command {
	return &cobra.Command{
		Use: "set TEXT...|-", Short: "replace the soft memory",
		Long:    "Replace the soft memory by the words given, or by standard input if they are -.\nAn empty text (zino memory soft set '') clears it.",
		Example: "  zino memory soft set Likes short answers.\n  zino memory soft set - < notes.txt",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return command.Mistake(cmd, "name the new text, or - for standard input, or '' for none")
			}
			content := strings.Join(args, " ")
			return withDaemon(env, cmd, func(ctx context.Context, d *connect.Daemon) (err error) {
				if content == "-" {
					if content, err = readStdin(ctx, env); err != nil {
						return err
					}
				}
				env.NoteShared(d)
				return setSoft(ctx, d, content)
			})
		},
	}
}

func setSoft(ctx context.Context, d *connect.Daemon, content string) error {
	if !utf8.ValidString(content) {
		return command.ErrNotUTF8
	}
	_, err := connect.Forward(ctx, d, "mem", proto.MemSetSoft, proto.SetSoft{Content: content})
	return err
}

func newSoftEdit(env *command.Env) *cobra.Command {
	return &cobra.Command{
		Use: "edit", Short: "change the soft memory in an editor", Args: command.NoArgs,
		Long:    "Change the soft memory in an editor: $VISUAL, $EDITOR, or vi. Nothing happens if\nthe text stays as it was or is emptied; zino memory soft set '' clears it.",
		Example: "  zino memory soft edit",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withEditor(cmd.Context(), env, func(ctx context.Context, d *connect.Daemon) (content, name string, err error) {
				soft, err := connect.Forward(ctx, d, "mem", proto.MemGetSoft, proto.GetSoft{})
				return soft.Content, "soft-memory.txt", err
			}, setSoft)
		},
	}
}

package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"zino/pkg/wire"
	"zino/proto"
)

const memoryEditLong = `Change a memory in an editor: $VISUAL, $EDITOR, or vi. A memory of several
messages is edited as JSON, one message a line. Nothing happens if the text stays
as it was or is emptied. With --tag the tag is changed, and no editor is opened.`

func (a *app) memoryEditCommand() *cobra.Command {
	var tag string
	cmd := &cobra.Command{
		Use: "edit ID", Short: "change a memory in an editor", Long: memoryEditLong,
		Example: "  EDITOR=nano zino memory edit 7\n  zino memory edit 7 --tag house",
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := oneMemoryID(cmd, args)
			if err != nil {
				return err
			}
			if cmd.Flags().Changed("tag") {
				return a.withMem(cmd, func(ctx context.Context, d *daemon) error {
					return updateMemory(ctx, d, proto.UpdateHard{ID: id, Tag: &tag})
				})
			}
			return a.memoryEdit(cmd.Context(), id)
		},
	}
	cmd.Flags().StringVar(&tag, "tag", "", "the new `TAG`; empty for none")
	return cmd
}

// memoryEdit opens an editor on a memory. Signals mean something else while it
// is open: the asking before and the storing afterwards are guarded alone.
func (a *app) memoryEdit(ctx context.Context, id int) error {
	var d *daemon
	var item proto.HardItem
	err := a.guarded(ctx, func(ctx context.Context) (err error) {
		if d, err = a.openMem(ctx); err != nil {
			return err
		}
		item, err = forward(ctx, d, "mem", proto.MemGetHard, proto.GetHard{ID: id})
		return noMemory(id, err)
	})
	if d != nil {
		defer d.close()
	}
	if err != nil {
		return err
	}
	text, name, err := editable(item.Messages)
	if err != nil {
		return err
	}
	a.tellShared(d)
	return a.edit(text, name, func(changed string) error {
		messages, err := edited(item.Messages, changed)
		if err != nil {
			return fmt.Errorf("%w; nothing was changed", err)
		}
		return a.guarded(ctx, func(ctx context.Context) error {
			return updateMemory(ctx, d, proto.UpdateHard{ID: id, Messages: messages})
		})
	})
}

func updateMemory(ctx context.Context, d *daemon, req proto.UpdateHard) error {
	_, err := forward(ctx, d, "mem", proto.MemUpdateHard, req)
	return noMemory(req.ID, err)
}

// editable is a memory as it is edited, and the name of a file for it: the text
// of a single message, or several messages as they are stored, one a line.
func editable(messages proto.Raw) (text, name string, err error) {
	list, err := readMessages(messages)
	if err != nil {
		return "", "", err
	}
	if len(list) == 1 {
		return list[0].Content, "memory.txt", nil
	}
	var b strings.Builder
	err = printItems(&b, messages)
	return b.String(), "memory.jsonl", err
}

// edited is editable in the other direction.
func edited(old proto.Raw, text string) (proto.Raw, error) {
	list, err := wire.Elements(old)
	if err != nil {
		return nil, err
	}
	if len(list) == 1 {
		return append(append([]byte("["), withContent(list[0], text)...), ']'), nil
	}
	var lines [][]byte
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, []byte(line))
		}
	}
	messages := append(append([]byte("["), bytes.Join(lines, []byte(","))...), ']')
	if parsed, err := readMessages(messages); err != nil {
		return nil, err
	} else if len(parsed) != len(lines) {
		return nil, errors.New("there is not one message in each line")
	}
	return messages, nil
}

// withContent is a message with another text. Its other keys stay.
func withContent(message []byte, text string) []byte {
	b := []byte("{")
	for key, value := range wire.Members(message) {
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = append(wire.AppendString(b, key), ':')
		if string(key) == "content" {
			b = wire.AppendString(b, text)
		} else {
			b = append(b, value...)
		}
	}
	return append(b, '}')
}

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"zino/pkg/wire"
	"zino/proto"
)

const memoryAddLong = `Remember a text, from the command line or, without words there, from standard
input, and print the memory's id. What is remembered already, with the same tag,
is not stored twice: its id is printed.`

func (a *app) memoryAddCommand() *cobra.Command {
	var tag string
	cmd := &cobra.Command{
		Use: "add TEXT...", Short: "remember a text", Long: memoryAddLong, Annotations: printsJSON,
		Example: "  zino memory add The spare key hangs behind the clock. --tag house",
		RunE: func(cmd *cobra.Command, args []string) error {
			text := strings.Join(args, " ")
			piped := len(args) == 0 && !isTerminal(a.in) || text == "-"
			if !piped && strings.TrimSpace(text) == "" {
				return mistake(cmd, "say what is to be remembered, or pass it on standard input")
			}
			return a.withMem(cmd, func(ctx context.Context, d *daemon) (err error) {
				if piped {
					if text, err = a.pipedText(ctx); err != nil {
						return err
					}
					text = strings.TrimRight(text, "\r\n")
				}
				return a.memoryAdd(ctx, d, text, tag)
			})
		},
	}
	cmd.Flags().StringVar(&tag, "tag", "", "`TAG` by which it can be found, too")
	return cmd
}

func (a *app) memoryAdd(ctx context.Context, d *daemon, text, tag string) error {
	if !utf8.ValidString(text) || !utf8.ValidString(tag) {
		return errNotText
	}
	a.tellShared(d)
	stored, err := forward(ctx, d, "mem", proto.MemStoreHard, proto.StoreHard{Messages: userMessage(text), Tag: tag})
	if err != nil {
		return err
	}
	if a.asJSON() {
		return printJSON(a.out, stored)
	}
	_, err = fmt.Fprintln(a.out, stored.ID)
	return err
}

// userMessage is a list of one message.
func userMessage(text string) proto.Raw {
	b := wire.AppendString([]byte(`[{"role":"user","content":`), text)
	return append(b, "}]"...)
}

var errNotText = errors.New("that is no text in UTF-8, and nothing was changed: convert it first, for example with iconv")

// pipedText is all of standard input, which must be text and not be blank.
func (a *app) pipedText(ctx context.Context) (string, error) {
	text, err := await(ctx, func() (string, error) {
		data, err := io.ReadAll(io.LimitReader(a.in, wire.MaxPayload))
		return string(data), err
	}, nil)
	switch {
	case err != nil:
		return "", err
	case len(text) == wire.MaxPayload:
		return "", errors.New("standard input is larger than 16 MiB, and nothing was changed: pass a shorter text")
	case strings.TrimSpace(text) == "":
		return "", errors.New("nothing came on standard input, and nothing was changed")
	case !utf8.ValidString(text):
		return "", errNotText
	}
	return text, nil
}

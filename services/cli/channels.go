package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"zino/pkg/wire"
	"zino/proto"
)

const channelsLong = `See and clear the histories of channels: what was said with --channel NAME.`

func (a *app) channelsCommand() *cobra.Command {
	cmd := group("channels", "the histories of channels: list, show, clear", channelsLong)
	cmd.AddCommand(a.channelsListCommand(), a.channelsShowCommand(), a.channelsClearCommand())
	return cmd
}

func (a *app) channelsListCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "list", Short: "list the channels", Args: without, Annotations: printsJSON,
		Long:    "List the channels that have a history, the one that was written to last first.",
		Example: "  zino channels list",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withMem(cmd, func(ctx context.Context, d *daemon) error { return a.channelsList(ctx, d) })
		},
	}
	return cmd
}

func (a *app) channelsList(ctx context.Context, d *daemon) error {
	list, err := forward(ctx, d, "mem", proto.MemListChannels, proto.ListChannels{})
	if err != nil {
		return err
	}
	if len(list.Channels) == 0 {
		a.say("No channels.")
		return nil
	}
	if a.asJSON() {
		return a.print(func(w io.Writer) error { return printAll(w, list.Channels) })
	}
	rows := [][]string{{"UPDATED", "BYTES", "CHANNEL"}}
	for _, c := range list.Channels {
		rows = append(rows, []string{localTime(c.Updated), strconv.FormatInt(c.Bytes, 10), c.ChannelID})
	}
	_, err = io.WriteString(a.out, columns(rows, a.width()))
	return err
}

func (a *app) channelsShowCommand() *cobra.Command {
	var n int
	cmd := &cobra.Command{
		Use: "show ID", Short: "show a channel's history", Annotations: printsJSON, Long: "Show what was said in a channel, as \"role: text\".",
		Example: "  zino channels show kitchen -n 4",
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := channelID(cmd, args)
			if err != nil {
				return err
			}
			if n < 0 || n == 0 && cmd.Flags().Changed("n") {
				return mistake(cmd, "-n %d is not the number of messages wanted, 1 or more", n)
			}
			return a.withMem(cmd, func(ctx context.Context, d *daemon) error {
				return a.channelsShow(ctx, d, proto.GetHistory{ChannelID: id, Limit: n})
			})
		},
	}
	cmd.Flags().IntVarP(&n, "n", "n", 0, "the last `N` messages only (default all)")
	return cmd
}

func (a *app) channelsShow(ctx context.Context, d *daemon, req proto.GetHistory) error {
	history, err := historyOf(ctx, d, req)
	if errors.Is(err, proto.ErrTooLarge) {
		return fmt.Errorf("%w; for the last 100 of them: -n 100", err)
	}
	if err != nil {
		return err
	}
	return a.print(func(w io.Writer) error {
		if !a.asJSON() {
			return printMessages(w, history)
		}
		return printItems(w, history)
	})
}

func (a *app) channelsClearCommand() *cobra.Command {
	return &cobra.Command{
		Use: "clear ID", Short: "delete a channel's history", Long: "Delete what was said in a channel, for good.",
		Example: "  zino channels clear kitchen",
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := channelID(cmd, args)
			if err != nil {
				return err
			}
			return a.withMem(cmd, func(ctx context.Context, d *daemon) error {
				// One message is enough to know that the channel is there.
				if _, err := historyOf(ctx, d, proto.GetHistory{ChannelID: id, Limit: 1}); err != nil {
					return err
				}
				_, err := forward(ctx, d, "mem", proto.MemClearHistory, proto.ClearHistory{ChannelID: id})
				return err
			})
		},
	}
}

func channelID(cmd *cobra.Command, args []string) (string, error) {
	if len(args) != 1 || args[0] == "" {
		return "", mistake(cmd, "name one channel")
	}
	return args[0], nil
}

// historyOf asks for a history. mem takes an unknown channel for an empty one;
// people may have mistyped its name.
func historyOf(ctx context.Context, d *daemon, req proto.GetHistory) (proto.Raw, error) {
	history, err := forward(ctx, d, "mem", proto.MemGetHistory, req)
	if err != nil {
		return nil, err
	}
	for range wire.Items(history.Messages) {
		return history.Messages, nil
	}
	list, err := forward(ctx, d, "mem", proto.MemListChannels, proto.ListChannels{})
	if err != nil {
		return nil, err
	}
	for _, c := range list.Channels {
		if c.ChannelID == req.ChannelID {
			return history.Messages, nil
		}
	}
	return nil, fmt.Errorf("there is no channel %q; zino channels list shows those there are", req.ChannelID)
}

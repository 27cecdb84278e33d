package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"zino/pkg/wire"
	"zino/proto"
	"zino/services/cli/command"
	"zino/services/cli/connect"
	"zino/services/cli/render"
)

func newChannels(env *command.Env) *cobra.Command {
	with := func(cmd *cobra.Command, do func(context.Context, *connect.Daemon) error) error {
		return env.WithDaemon(cmd, true, connect.StorageRequired, do)
	}
	list := &cobra.Command{
		Use: "list", Short: "list the channels", Args: command.NoArgs, Annotations: command.PrintsJSON,
		Long:    "List the channels that have a history, the one that was written to last first.",
		Example: "  zino channels list",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return with(cmd, func(ctx context.Context, d *connect.Daemon) error {
				found, err := connect.Forward(ctx, d, "mem", proto.MemListChannels, proto.ListChannels{})
				if err != nil {
					return err
				}
				if len(found.Channels) == 0 {
					env.Say("No channels.")
					return nil
				}
				if env.JSON() {
					return env.Print(func(w io.Writer) error { return render.JSONList(w, found.Channels) })
				}
				rows := [][]string{{"UPDATED", "BYTES", "CHANNEL"}}
				for _, c := range found.Channels {
					rows = append(rows, []string{render.LocalTime(c.Updated), strconv.FormatInt(c.Bytes, 10), c.ChannelID})
				}
				return env.PrintTable(rows)
			})
		},
	}
	var n int
	show := &cobra.Command{
		Use: "show ID", Short: "show a channel's history", Annotations: command.PrintsJSON, Long: "Show what was said in a channel, as \"role: text\".",
		Example: "  zino channels show kitchen -n 4",
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := oneChannel(cmd, args)
			if err != nil {
				return err
			}
			if err := command.CheckCount(cmd, "n", n, "messages"); err != nil {
				return err
			}
			return with(cmd, func(ctx context.Context, d *connect.Daemon) error {
				history, err := historyOf(ctx, d, proto.GetHistory{ChannelID: id, Limit: n})
				if errors.Is(err, proto.ErrTooLarge) {
					return fmt.Errorf("%w; for the last 100 of them: -n 100", err)
				}
				if err != nil {
					return err
				}
				return env.Print(func(w io.Writer) error {
					if !env.JSON() {
						return render.Messages(w, history)
					}
					return render.JSONItems(w, history)
				})
			})
		},
	}
	show.Flags().IntVarP(&n, "n", "n", 0, "the last `N` messages only (default all)")
	remove := &cobra.Command{
		Use: "clear ID", Short: "delete a channel's history", Long: "Delete what was said in a channel, for good.",
		Example: "  zino channels clear kitchen",
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := oneChannel(cmd, args)
			if err != nil {
				return err
			}
			return with(cmd, func(ctx context.Context, d *connect.Daemon) error {
				if _, err := historyOf(ctx, d, proto.GetHistory{ChannelID: id, Limit: 1}); err != nil { // check that it exists
					return err
				}
				_, err := connect.Forward(ctx, d, "mem", proto.MemClearHistory, proto.ClearHistory{ChannelID: id})
				return err
			})
		},
	}
	return command.Group("channels", "the histories of channels: list, show, clear",
		"See and clear the histories of channels: what was said with --channel NAME.", list, show, remove)
}

func oneChannel(cmd *cobra.Command, args []string) (string, error) {
	if len(args) != 1 || args[0] == "" {
		return "", command.Mistake(cmd, "name one channel")
	}
	return args[0], nil
}

// historyOf returns a channel's history. An unknown channel, which is empty for mem, is
// an error, because the name may be mistyped.
func historyOf(ctx context.Context, d *connect.Daemon, req proto.GetHistory) (proto.Raw, error) {
	history, err := connect.Forward(ctx, d, "mem", proto.MemGetHistory, req)
	if err != nil {
		return nil, err
	}
	for range wire.Items(history.Messages) {
		return history.Messages, nil
	}
	list, err := connect.Forward(ctx, d, "mem", proto.MemListChannels, proto.ListChannels{})
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(list.Channels, func(c proto.Channel) bool { return c.ChannelID == req.ChannelID }) {
		return history.Messages, nil
	}
	return nil, proto.Errorf(proto.CodeInvalid, "there is no channel %q; zino channels list shows those there are", req.ChannelID)
}

package cli

import (
	"cmp"
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"zino/pkg/rpc"
	"zino/proto"
	"zino/services/cli/command"
	"zino/services/cli/connect"
	"zino/services/cli/render"
)

// messageFlags are the flags of a plain message: zino MESSAGE.
type messageFlags struct {
	channel string
	stream  bool
}

func (m *messageFlags) flags(cmd *cobra.Command) {
	cmd.Flags().BoolVarP(&m.stream, "stream", "s", false, "print the answer of a plain message as it comes")
	cmd.Flags().StringVar(&m.channel, "channel", "", "`NAME` of the history to add a plain message to (also -ch)")
}

// run answers one message.
func (m *messageFlags) run(cmd *cobra.Command, env *command.Env, args []string) error {
	bare := len(args) == 1 && args[0] != "" && !strings.ContainsAny(args[0], " \t\n")
	if bare && cmd.ArgsLenAtDash() != 0 && !m.stream && !cmd.Flags().Changed("channel") { // a mistyped command?
		if what := command.Suggest(cmd, args[0]); what != "" {
			return render.Usage("unknown command %q: %s; to send it as a message, type: zino -- %[1]s", args[0], what)
		}
	}
	if err := command.CheckPlain(cmd); err != nil {
		return err
	}
	ctx, stop := command.UntilSignal(cmd.Context())
	defer stop()
	cfg, err := env.Config()
	if err != nil {
		return err
	}
	req := proto.Chat{
		Message: strings.Join(args, " "), ChannelID: m.channel, Stream: m.stream, NeedModel: true,
		Provider: env.Provider, Model: env.Model, MaxTokens: env.MaxTokens, Effort: env.Effort,
	}
	places, err := env.Places(cfg, true)
	if err != nil {
		return err
	}
	for _, p := range places {
		err := ask(ctx, env, env.Use(ctx, cfg, p), req)
		if !errors.Is(err, rpc.ErrConnect) || p.Only {
			return err
		}
	}
	if err := env.CheckModel(cfg); err != nil {
		return err
	}
	d, err := env.Spawn(ctx, cfg, connect.StorageOptional)
	if err != nil {
		return err
	}
	return ask(ctx, env, d, req)
}

// ask sends one message to a daemon and closes it. It sends no other requests to a
// daemon that the user named.
func ask(ctx context.Context, env *command.Env, d *connect.Daemon, req proto.Chat) error {
	defer d.Close()
	if !d.Named {
		env.Introduce(ctx, d)
		env.CompareVersions(ctx, d)
	}
	p := render.NewPrinter(env.Out)
	answer, err := rpc.CallText(ctx, d.Client, proto.DaemonChat, d.WithEnvironment(req), p)
	if err == nil && !req.Stream {
		err = p.Text([]byte(answer.Content))
	}
	if err == nil && !p.Wrote() {
		env.Say(render.EmptyAnswer)
		err = p.Newline()
	}
	err = cmp.Or(err, p.End())
	for _, warning := range answer.Warnings {
		env.Say("Warning: %s", warning)
	}
	if err != nil && ctx.Err() != nil {
		env.Interrupted()
		return command.Interruption(ctx)
	}
	if err == nil && answer.NotStored != "" {
		env.Say("Warning: this was not stored in the channel %q: %s", req.ChannelID, render.Line(answer.NotStored))
		return render.ErrReported
	}
	return connect.Explain(d.ExplainKey(err))
}

package cli

import (
	"context"
	"errors"
	"slices"

	"zino/pkg/config"
	"zino/pkg/rpc"
	"zino/proto"
)

// message answers one message and leaves.
func (a *app) message(ctx context.Context, text string) error {
	cfg, err := a.settings()
	if err != nil {
		return err
	}
	req := proto.Chat{
		Message: text, ChannelID: a.channel, Stream: a.stream, NeedModel: true,
		Provider: a.provider, Model: a.model, MaxTokens: a.maxTokens, Effort: a.effort,
	}
	places, err := a.places(cfg, true)
	if err != nil {
		return err
	}
	for _, p := range places {
		d := at(p)
		d.passEnv = cfg.Exc.PassEnv
		a.caughtUp(ctx, p)
		err := a.ask(ctx, d, req)
		if !errors.Is(err, rpc.ErrConnect) || p.only {
			return err
		}
	}
	if err := a.modelSet(cfg); err != nil {
		return err
	}
	d, err := a.bringDaemon(ctx, cfg, storageOptional)
	if err != nil {
		return err
	}
	return a.ask(ctx, d, req)
}

// ask has one daemon answer one message. A daemon that the user named is sent
// nothing else.
func (a *app) ask(ctx context.Context, d *daemon, req proto.Chat) error {
	defer d.close()
	if !d.named {
		a.introduce(ctx, d)
		a.compare(ctx, d)
	}
	return a.turn(ctx, d, req)
}

// turn sends one request and prints its answer.
func (a *app) turn(ctx context.Context, d *daemon, req proto.Chat) error {
	p := &printer{w: a.out, terminal: isTerminal(a.out)}
	text, err := rpc.CallText(ctx, d.client, proto.DaemonChat, d.withEnvironment(req), p)
	if err == nil && !req.Stream {
		err = p.Text([]byte(text.Content))
	}
	if err == nil && !p.wrote {
		a.say(emptyAnswer)
		err = p.blank()
	}
	if endErr := p.end(); err == nil {
		err = endErr
	}
	for _, warning := range text.Warnings {
		a.say("Warning: %s", warning)
	}
	if err != nil && ctx.Err() != nil {
		a.interrupted()
		return errInterrupted
	}
	if err == nil && text.NotStored != "" {
		a.say("Warning: this was not stored in the channel %q: %s", req.ChannelID, oneLine(errors.New(text.NotStored)))
		return errQuiet
	}
	return unreachable(d.withoutKey(err))
}

// daemon is the daemon that this run talks to.
type daemon struct {
	client  *rpc.Client
	named   bool
	passEnv []string // [exc] pass_env
	version string   // if it has told
	own     *brought // the constellation behind it, if this run brought it along
}

func (d *daemon) close() {
	d.client.Close()
	if d.own != nil {
		d.own.stop()
	}
}

// connect finds a daemon, or brings one along. A socket that the user named on
// the command line is used or fails. plain admits the host's daemon, whose
// tools cannot see the caller's files. The caller closes it.
func (a *app) connect(cfg *config.Config, plain bool, need storage) (*daemon, error) {
	ctx := context.Background()
	if d, err := a.find(ctx, cfg, plain); d != nil || err != nil {
		return d, err
	}
	return a.bringDaemon(ctx, cfg, need)
}

// reach is connect for a turn, which needs a model. With storageDiscarded the
// constellation is always a new one.
func (a *app) reach(ctx context.Context, cfg *config.Config, need storage) (*daemon, error) {
	if need != storageDiscarded {
		if d, err := a.find(ctx, cfg, false); d != nil || err != nil {
			return d, err
		}
	}
	if err := a.modelSet(cfg); err != nil {
		return nil, err
	}
	return a.bringDaemon(ctx, cfg, need)
}

// find returns the first daemon that is there, nil if none is.
func (a *app) find(ctx context.Context, cfg *config.Config, plain bool) (*daemon, error) {
	places, err := a.places(cfg, plain)
	for _, p := range places {
		d := at(p)
		d.passEnv = cfg.Exc.PassEnv
		switch {
		case p.only, p.named && answers(p.socket):
			return d, nil
		case p.named:
		case !errors.Is(d.greet(ctx), rpc.ErrConnect): // one that is slow is there
			a.caughtUp(ctx, p)
			return d, nil
		}
	}
	return nil, err
}

func at(p place) *daemon {
	return &daemon{client: &rpc.Client{Service: "daemon", Path: p.socket}, named: p.named}
}

// greet asks for the daemon's version. The connection is kept for the request
// that follows.
func (d *daemon) greet(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	pong, err := rpc.Call(ctx, d.client, proto.Ping, proto.PingRequest{})
	d.version = pong.Version
	return err
}

func (a *app) bringDaemon(ctx context.Context, cfg *config.Config, need storage) (*daemon, error) {
	own, err := a.bring(ctx, cfg, need)
	if err != nil {
		return nil, err
	}
	return &daemon{client: &rpc.Client{Service: "daemon", Path: own.cfg.Daemon.Socket}, own: own}, nil
}

// running reports whether a daemon answers already.
func (a *app) running(cfg *config.Config, plain bool) bool {
	places, err := a.places(cfg, plain)
	return err == nil && slices.ContainsFunc(places, func(p place) bool { return answers(p.socket) })
}

// introduce names a model server that was found rather than configured, before
// the first prompt goes there, and returns what the router says of itself.
func (a *app) introduce(ctx context.Context, d *daemon) proto.RouterCapabilities {
	c, err := forward(ctx, d, "rtr", proto.RtrCapabilities, proto.CapabilitiesRequest{})
	if err != nil {
		return c // the turn itself will say what is wrong
	}
	if c.Found {
		a.say("Using %s at %s, found on this host.", c.Model, c.Endpoint)
	}
	return c
}

// compare warns of a daemon from another version: one that was started before
// an upgrade, most likely.
func (a *app) compare(ctx context.Context, d *daemon) {
	if d.own != nil {
		return
	}
	if d.version == "" && d.greet(ctx) != nil {
		return // what is wrong will be said by who needs it
	}
	if d.version != "" && d.version != rpc.Build {
		a.say("Warning: the daemon is version %s and zino is version %s: restart the services (zino up, or systemctl restart 'zino-*.service')", d.version, rpc.Build)
	}
}

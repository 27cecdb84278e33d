package cli

import (
	"context"
	"errors"
	"fmt"

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
	if err := a.modelSet(cfg); err != nil && a.socket == "" && !a.running(cfg, true) {
		return err
	}
	d, err := a.connect(cfg, true)
	if err != nil {
		return err
	}
	defer d.close()
	if !d.named {
		a.introduce(ctx, d)
	}
	return a.turn(ctx, d, proto.Chat{Message: text, ChannelID: a.channel, Stream: a.stream, NeedModel: true})
}

// turn sends one request and prints its answer.
func (a *app) turn(ctx context.Context, d *daemon, req proto.Chat) error {
	p := &printer{w: a.out, terminal: isTerminal(a.out)}
	text, err := rpc.CallText(ctx, d.client, proto.DaemonChat, req, p)
	if err == nil && !req.Stream {
		err = p.Text([]byte(text.Content))
	}
	if endErr := p.end(); err == nil {
		err = endErr
	}
	if ctx.Err() != nil {
		a.say("^C Interrupted.")
		return errInterrupted
	}
	if errors.Is(err, rpc.ErrConnect) {
		return fmt.Errorf("%w; is the daemon running? try: zino status", err)
	}
	return err
}

// daemon is the daemon that this run talks to.
type daemon struct {
	client *rpc.Client
	named  bool
	own    *brought // the constellation behind it, if this run brought it along
}

func (d *daemon) close() {
	d.client.Close()
	if d.own != nil {
		d.own.stop()
	}
}

// connect finds a daemon, or brings one along. A socket that the user named on
// the command line is used or fails.
func (a *app) connect(cfg *config.Config, plain bool) (*daemon, error) {
	for _, p := range a.places(cfg, plain) {
		if answers(p.socket) || p.socket == a.socket {
			return &daemon{client: &rpc.Client{Service: "daemon", Path: p.socket}, named: p.named}, nil
		}
	}
	own, err := a.bring(cfg)
	if err != nil {
		return nil, err
	}
	return &daemon{client: &rpc.Client{Service: "daemon", Path: own.cfg.Daemon.Socket}, own: own}, nil
}

// running reports whether a daemon answers already.
func (a *app) running(cfg *config.Config, plain bool) bool {
	for _, p := range a.places(cfg, plain) {
		if answers(p.socket) {
			return true
		}
	}
	return false
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

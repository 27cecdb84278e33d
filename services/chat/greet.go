package chat

import (
	"cmp"
	"context"
	"strings"
	"sync"

	"zino/pkg/rpc"
	"zino/proto"
)

// noModel stands in the place of the model's name where no model is connected.
const noModel = "no model: /provider"

// identify learns which model answers and how commands are confined, and prints the first
// line.
func (c *chat) identify() {
	selected := c.selected()
	go func() {
		var caps proto.RouterCapabilities
		var executor proto.ExecutorCapabilities
		var routerErr, execErr error
		var both sync.WaitGroup
		both.Go(func() {
			caps, routerErr = forwarded(c.ctx, c, "rtr", proto.RtrCapabilities, selected)
		})
		both.Go(func() {
			executor, execErr = forwarded(c.ctx, c, "exc", proto.ExcCapabilities, proto.CapabilitiesRequest{})
		})
		both.Wait()
		c.after(func() {
			if routerErr == nil {
				c.connectedTo(caps)
			}
			if execErr == nil && c.sandbox == "" {
				c.sandbox = string(executor.Sandbox) // of requests that name none
			}
			c.greet(routerErr == nil && caps.Provider == offline)
			c.learnMode()
			c.continueSession()
		})
	}()
}

// offline is the provider that answers where no model is connected.
const offline = "offline"

// selected names the model of the next turns.
func (c *chat) selected() proto.ModelSelector {
	return proto.ModelSelector{Provider: c.request.Provider, Model: c.request.Model}
}

// connectedTo keeps what the router says about the model that answers.
func (c *chat) connectedTo(caps proto.RouterCapabilities) {
	c.provider = caps.Provider
	if caps.Model == "" || c.request.Model != "" && caps.Model != c.request.Model {
		return // none answers; an older router reports the configured one
	}
	c.model = caps.Model
	if caps.ContextWindow > 0 {
		c.windows[c.model] = int64(caps.ContextWindow)
	}
}

// reselected learns which model answers after another one, or another provider, was set.
func (c *chat) reselected() {
	selected := c.selected()
	forward(c, "rtr", proto.RtrCapabilities, selected, func(caps proto.RouterCapabilities, err error) {
		if err == nil && c.selected() == selected { // else the next turn reports the error
			c.connectedTo(caps)
		}
	})
}

// greet prints the first line, how to connect a model if none is connected, and warnings.
func (c *chat) greet(unconnected bool) {
	parts := []string{"zino " + c.start.Version, cmp.Or(safe(c.model), noModel), safe(home(c.root))}
	if c.sandbox != "" {
		parts = append(parts, "sandbox "+safe(c.sandbox))
	}
	c.say("%s", strings.Join(append(parts, "/help"), " · "))
	if unconnected && c.model == "" {
		for _, line := range c.start.NoModel {
			c.say("%s", safe(line))
		}
	}
	for _, note := range c.start.Notes {
		c.say("%s", safe(note))
	}
}

// continueSession continues the session that was named, if any.
func (c *chat) continueSession() {
	if c.start.SessionID == "" && !c.start.Latest {
		c.begun()
		return
	}
	req := proto.FindSession{SessionID: c.start.SessionID}
	if c.start.Latest {
		req.Root = c.root
	}
	c.find(req)
}

// forwarded calls a method of another service through the daemon.
func forwarded[Req, Rep any](ctx context.Context, c *chat, service string, m proto.Method[Req, Rep], req Req) (reply Rep, err error) {
	method, wrapped, err := forwarding(service, m, req)
	if err != nil {
		return reply, err
	}
	return rpc.Call(ctx, c.client, method, wrapped)
}

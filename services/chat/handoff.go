package chat

import (
	"context"
	"strings"

	"zino/pkg/rpc"
	"zino/proto"
)

// handoff drafts what a new session needs to reach a goal, has the user edit the draft,
// and begins a new session with it.
func (c *chat) handoff(goal string) {
	if goal == "" {
		c.say("/handoff takes the goal of the new session.")
		return
	}
	if !c.stored() {
		return
	}
	req := proto.Handoff{
		Goal: goal, SessionID: c.session, Root: c.root,
		Provider: c.request.Provider, Model: c.request.Model, MaxTokens: c.request.MaxTokens, Effort: c.request.Effort,
	}
	await(c, &query{what: "Drafting the handoff", alone: true}, func(ctx context.Context) (proto.HandoffBundle, error) {
		return rpc.Call(ctx, c.client, proto.DaemonHandoff, req)
	}, func(bundle proto.HandoffBundle, err error) {
		if err != nil {
			c.fail(errorOf(err))
			return
		}
		if len(bundle.Filled) > 0 {
			c.warn("the model left out, or garbled: " + strings.Join(bundle.Filled, ", ") + ". What stands there is taken from the session.")
		}
		c.edit(strings.TrimRight(bundle.Content, "\n")+"\n", func(draft string, err error) {
			switch draft = strings.TrimSpace(draft); {
			case err != nil:
				c.say("The handoff was dropped, nothing has changed: %s", safe(err.Error()))
			case draft == "":
				c.say("The handoff is empty: nothing has changed.")
			default:
				c.newSession("")
				c.send(draft)
			}
		})
	})
}

package chat

import (
	"cmp"
	"slices"
	"strings"

	"zino/proto"
)

func (c *chat) setModel(args string) {
	if args == "" {
		c.say("%s", cmp.Or(c.model, "no model: /provider"))
		return
	}
	c.request.Model, c.model = args, args
	c.say("The next turns use %s.", safe(args))
}

func (c *chat) setProvider(args string) {
	if args == "" {
		c.say("provider %s", cmp.Or(c.request.Provider, "as configured"))
		return
	}
	c.request.Provider, c.request.Model, c.model = args, "", ""
	c.say("The next turns use %s.", safe(args))
}

func (c *chat) setEffort(args string) {
	switch {
	case args == "":
		c.say("effort %s", cmp.Or(c.request.Effort, "as configured"))
	case !slices.Contains(efforts, args):
		c.refuse("unknown effort %q: use %s", args, strings.Join(efforts, ", "))
		return
	default:
		c.request.Effort = args
		c.say("The next turns use effort %s.", args)
	}
}

func (c *chat) setSandbox(args string) {
	switch {
	case args == "":
		c.say("sandbox %s", cmp.Or(c.sandbox, "as configured"))
	case !slices.Contains(levels, args):
		c.refuse("unknown level %q: use %s", args, strings.Join(levels, ", "))
		return
	default:
		c.request.Sandbox, c.sandbox = proto.Level(args), args
		c.say("The next turns run commands at level %s.", args)
	}
}

package chat

import (
	"bytes"
	"fmt"
	"os/exec"
	"strings"

	"zino/proto"
)

func (c *chat) showCost(string) {
	parts := []string{c.usage.cost(), tokens(c.usage.tokens) + " tokens"}
	if s := c.contextText(); s != "" {
		parts = append(parts, "context "+s)
	}
	c.say("%s", strings.Join(parts, " · "))
}

// zino prints what the command line prints.
func (c *chat) zino(args ...string) {
	full := []string{"--socket", c.start.Socket}
	cmd := exec.CommandContext(c.ctx, c.start.Zino, append(full, args...)...)
	go func() {
		out, err := cmd.CombinedOutput()
		c.after(func() {
			lines := outputLines(string(bytes.TrimSpace(out)))
			c.print(kindLine, lines...)
			if err != nil && len(lines) == 0 {
				c.say("zino %s: %v", strings.Join(args, " "), err)
			}
		})
	}()
}

func (c *chat) showContext(string) {
	req := proto.Preview{SessionID: c.session, Root: c.root, SystemPrompt: c.request.SystemPrompt, Sandbox: c.request.Sandbox, Network: c.request.Network}
	call(c, proto.DaemonContext, req, func(r proto.ContextReport, err error) {
		if err != nil {
			c.fail(errorOf(err))
			return
		}
		var lines []string
		for _, part := range r.Parts {
			lines = append(lines, fmt.Sprintf("  %7d  %s", part.Tokens, safe(part.Name)))
		}
		lines = append(lines, fmt.Sprintf("  %7d  tokens in all · %s", r.Tokens, c.contextText()))
		c.print(kindLine, lines...)
	})
}

func (c *chat) memory(args string) {
	if rest, ok := strings.CutPrefix(args, "add "); ok {
		c.zino("memory", "add", rest)
		return
	}
	if args == "" {
		c.zino("memory", "list")
		return
	}
	c.zino("memory", "search", args)
}

func (c *chat) findSessions(args string) {
	if args == "" {
		c.zino("sessions", "list")
		return
	}
	c.zino("sessions", "search", args)
}

// pageTurn shows the last turn in the pager, with nothing folded.
func (c *chat) pageTurn() {
	whole := c.unfolded.String()
	if whole == "" {
		c.say("There is nothing to show yet.")
		return
	}
	c.page(whole)
}

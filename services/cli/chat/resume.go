package chat

import (
	"context"
	"fmt"
	"io"
	"strings"

	"zino/pkg/wire"
	"zino/proto"
	"zino/services/cli/command"
	"zino/services/cli/connect"
	"zino/services/cli/render"
	"zino/services/cli/sessions"
	"zino/services/cli/term"
	"zino/services/cli/turn"
)

// chooseRoot decides in which directory a session of another directory continues:
// --root, or the answer to a prompt.
func (c *chat) chooseRoot(ctx context.Context, known *proto.SessionSummary) error {
	if known == nil || known.Root == "" || c.req.Root == "" || known.Root == c.req.Root || c.RootSet {
		return nil
	}
	id, there, here := turn.ShortID(known.SessionID), render.Home(known.Root), render.Home(c.req.Root)
	if !term.IsTerminal(c.In) {
		return &proto.Error{Code: proto.CodeInvalid, Kind: "session", Message: fmt.Sprintf(
			"session %s is of %s, and this is %s: choose with%s or --root .", id, there, here, render.ShellFlag("--root", known.Root))}
	}
	c.Say("Session %s is of %s, and this is %s.", id, there, here)
	screen := term.Screen(c.Err)
	for {
		io.WriteString(screen, "Go on (t)here, (h)ere, or (q)uit? ")
		answer, err := command.Await(ctx, func() (string, error) { return term.ReadLine(c.In) }, nil)
		switch strings.TrimSpace(strings.ToLower(answer)) {
		case "t", "there":
			if connect.IsDir(known.Root) {
				c.req.Root, c.Root, c.RootSet = known.Root, known.Root, true
				return nil
			}
			c.Say("%s is not there any more.", there)
		case "h", "here":
			return nil
		case "q", "quit":
			return render.ErrReported
		}
		if err != nil {
			return render.ErrReported
		}
	}
}

// showLast prints the last question and answer of a resumed session.
func (c *chat) showLast(ctx context.Context, id string) error {
	if !term.IsTerminal(c.In) || c.JSON() {
		return nil
	}
	var question, answer string
	err := sessions.Pieces(ctx, c.d, id, func(piece proto.SessionEvents) error {
		for raw := range wire.Items(piece.Events) {
			var e sessions.Event
			if wire.Decode(raw, &e) != nil || e.Type != proto.TypeMessage || e.Text == nil {
				continue // zino sessions show reports invalid events
			}
			switch e.Role {
			case proto.RoleUser:
				question, answer = *e.Text, ""
			case proto.RoleAssistant:
				answer = *e.Text
			}
		}
		return nil
	})
	if err != nil || question == "" {
		return err
	}
	width, most := c.Width(), 5
	c.Say("%s", render.Cut("> "+render.Line(question), width))
	lines := strings.Split(strings.TrimSpace(answer), "\n")
	for i, line := range lines {
		if i == most {
			c.Say("  … %d more lines: zino sessions show %s", len(lines)-most, turn.ShortID(id))
			break
		}
		c.Say("%s", render.Cut("  "+render.Line(line), width))
	}
	return nil
}

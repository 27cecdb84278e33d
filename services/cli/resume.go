package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"zino/pkg/wire"
	"zino/proto"
)

// latestHere is the session of --root that changed last.
func (a *app) latestHere(ctx context.Context, d *daemon) (proto.SessionSummary, error) {
	root, err := a.rootDir()
	if err != nil {
		return proto.SessionSummary{}, err
	}
	found, err := forward(ctx, d, "mem", proto.MemFindSession, proto.FindSession{Root: root})
	if !errors.Is(err, proto.ErrNotFound) {
		return found, err
	}
	none := &proto.Error{Code: proto.CodeNotFound, Kind: "session", Message: "No sessions found to resume"}
	if root == "" {
		return found, none
	}
	latest, err := forward(ctx, d, "mem", proto.MemFindSession, proto.FindSession{})
	if errors.Is(err, proto.ErrNotFound) {
		return found, none
	}
	if err == nil {
		none.Message += fmt.Sprintf(" in %s; the latest of all is of %s: zino sessions resume %s%s",
			homeward(root), dash(homeward(latest.Root)), shortID(latest.SessionID), flagText("--root", latest.Root))
		err = none
	}
	return found, err
}

// flagText is a flag with its value as it is typed in a shell, behind a blank;
// empty without a value.
func flagText(name, value string) string {
	if value == "" {
		return ""
	}
	return " " + name + " " + quoted(value)
}

// quoted is value as a word for a shell.
func quoted(value string) string {
	plain := func(r rune) bool {
		return strings.ContainsRune("/._-+,:@%", r) || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
	}
	if strings.TrimFunc(value, plain) == "" {
		return value
	}
	return "'" + strings.ReplaceAll(value, "'", `'\''`) + "'"
}

// settleRoot decides in which directory a session goes on that was begun in
// another one than the current: --root says so, else a person is asked.
func (c *chat) settleRoot(ctx context.Context, known *proto.SessionSummary) error {
	if known == nil || known.Root == "" || c.req.Root == "" || known.Root == c.req.Root || c.rootSet {
		return nil
	}
	there, here := homeward(known.Root), homeward(c.req.Root)
	if !isTerminal(c.in) {
		return &proto.Error{Code: proto.CodeInvalid, Kind: "session", Message: fmt.Sprintf(
			"session %s is of %s, and this is %s: choose with%s or --root .", shortID(known.SessionID), there, here, flagText("--root", known.Root))}
	}
	c.say("Session %s is of %s, and this is %s.", shortID(known.SessionID), there, here)
	screen := c.screen()
	for {
		io.WriteString(screen, "Go on (t)here, (h)ere, or (q)uit? ")
		answer, err := await(ctx, func() (string, error) { return typedLine(c.in) }, nil)
		switch strings.TrimSpace(strings.ToLower(answer)) {
		case "t", "there":
			info, err := os.Stat(known.Root)
			if err == nil && info.IsDir() {
				c.req.Root, c.root, c.rootSet = known.Root, known.Root, true
				return nil
			}
			c.say("%s is not there any more.", there)
		case "h", "here":
			return nil
		case "q", "quit":
			return errQuiet
		}
		if err != nil {
			return errQuiet
		}
	}
}

// typedLine reads a line byte by byte: what follows it belongs to the chat.
func typedLine(in io.Reader) (string, error) {
	var line []byte
	for b := make([]byte, 1); ; {
		n, err := in.Read(b)
		if n > 0 && b[0] == '\n' || err != nil {
			return string(line), err
		}
		line = append(line, b[:n]...)
	}
}

// showLast prints the last question and answer of a session that goes on.
func (c *chat) showLast(ctx context.Context, id string) error {
	if !isTerminal(c.in) || c.asJSON() {
		return nil
	}
	var question, answer string
	err := sessionPieces(ctx, c.d, id, func(piece proto.SessionEvents) error {
		for raw := range wire.Items(piece.Events) {
			var e storedEvent
			if wire.Decode(raw, &e) != nil || e.Type != "message" || e.Text == nil {
				continue // sessions show says what is wrong with it
			}
			switch e.Role {
			case "user":
				question, answer = *e.Text, ""
			case "assistant":
				answer = *e.Text
			}
		}
		return nil
	})
	if err != nil || question == "" {
		return err
	}
	width, most := c.width(), 5
	c.say("%s", cut("> "+inLine(question), width))
	lines := strings.Split(strings.TrimSpace(answer), "\n")
	for i, line := range lines {
		if i == most {
			c.say("  … %d more lines: zino sessions show %s", len(lines)-most, shortID(id))
			break
		}
		c.say("%s", cut("  "+inLine(line), width))
	}
	return nil
}

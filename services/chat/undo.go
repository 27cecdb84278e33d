package chat

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"zino/pkg/rpc"
	"zino/pkg/text"
	"zino/proto"
	"zino/services/chat/screen"
)

// undo takes back the file changes of the last turns.
func (c *chat) undo(args string) {
	n, partial := 1, false
	for word := range strings.FieldsSeq(args) {
		number, err := strconv.Atoi(word)
		switch {
		case word == "--partial":
			partial = true
		case err != nil || number < 1:
			c.say("/undo takes the number of turns, and --partial.")
			return
		default:
			n = number
		}
	}
	c.takeBackTurns(proto.DaemonUndo, n, partial)
}

// redo makes the changes again that the last undo took back.
func (c *chat) redo(string) { c.takeBackTurns(proto.DaemonRedo, 1, false) }

// takeBackTurns takes the file changes of turns back, one turn after the other, and prints
// what was done.
func (c *chat) takeBackTurns(method proto.Method[proto.Undo, proto.Undone], n int, partial bool) {
	if !c.stored() {
		return
	}
	session := c.session
	await(c, &query{what: "Changing files", alone: true}, func(ctx context.Context) (done []proto.Undone, err error) {
		for range n {
			u, err := rpc.Call(ctx, c.client, method, proto.Undo{SessionID: session, Partial: partial})
			if err != nil {
				return done, err
			}
			done = append(done, u)
			if len(u.Refused) > 0 {
				break
			}
		}
		return done, nil
	}, func(done []proto.Undone, err error) {
		lines := undoLines(done, partial || method.Type != proto.DaemonUndo.Type)
		switch {
		case errors.Is(err, proto.ErrNotFound) && len(done) == 0:
			c.say("There is nothing to take back.")
			return
		case errors.Is(err, proto.ErrNotFound):
			lines = append(lines, fmt.Sprintf("There are changes of %s only.", text.Count(len(done), "turn")))
		}
		c.report("/"+method.Type, lines)
		if err != nil && !errors.Is(err, proto.ErrNotFound) {
			c.fail(errorOf(err))
		}
	})
}

// undoLines says what was changed. all is true if the rest cannot be asked for.
func undoLines(done []proto.Undone, all bool) (lines []string) {
	for _, u := range done {
		for _, path := range u.Restored {
			lines = append(lines, "  restored "+safe(path))
		}
		for _, path := range u.Removed {
			lines = append(lines, "  removed "+safe(path))
		}
		for _, r := range u.Refused {
			lines = append(lines, "  refused "+safe(r.Path)+": "+safe(r.Explain()))
		}
		changed := len(u.Restored)+len(u.Removed) > 0
		switch {
		case len(u.Refused) > 0 && !changed && !all:
			lines = append(lines, "Nothing was changed of this turn. To take back the rest: /undo --partial")
		case len(u.Refused) > 0 && !changed:
			lines = append(lines, "Nothing was changed.")
		case !changed:
			lines = append(lines, "There is nothing to take back.")
		}
	}
	return lines
}

// showDiff prints the file changes of all turns of the session.
func (c *chat) showDiff(string) {
	if !c.stored() {
		return
	}
	session := c.session
	await(c, &query{what: "Comparing files"}, func(ctx context.Context) (string, error) {
		return c.diffOf(ctx, session)
	}, func(diff string, err error) {
		switch {
		case errors.Is(err, proto.ErrBusy) && c.turn != nil:
			c.say("Wait for the turn to end, or press Esc.")
			return
		case err != nil:
			c.fail(errorOf(err))
			return
		}
		var lines []string
		for _, line := range outputLines(diff) {
			lines = append(lines, c.paint(screen.Style{Color: diffColor(line)}, line))
		}
		if len(lines) == 0 {
			lines = []string{"There are no changes."}
		}
		c.report("/diff", lines)
	})
}

// turnsMax is how many turns of a session /diff looks at.
const turnsMax = 1000

// diffOf returns the diffs of the turns of a session, the oldest first.
func (c *chat) diffOf(ctx context.Context, session string) (string, error) {
	list, err := rpc.Call(ctx, c.client, proto.DaemonTurns, proto.ListTurns{All: true, SessionID: session, Limit: turnsMax})
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for _, t := range slices.Backward(list.Turns) {
		if t.SessionID != session {
			continue
		}
		d, err := rpc.Call(ctx, c.client, proto.DaemonDiff, proto.Undo{SessionID: session, Turn: t.Turn})
		if err != nil && !errors.Is(err, proto.ErrNotFound) {
			return "", err
		}
		b.WriteString(d.Diff)
	}
	return b.String(), nil
}

// diffColor returns the colour of a line of a unified diff.
func diffColor(line string) screen.Color {
	switch {
	case strings.HasPrefix(line, "+++"), strings.HasPrefix(line, "---"):
	case strings.HasPrefix(line, "@@"):
		return screen.Cyan
	case strings.HasPrefix(line, "+"):
		return screen.Green
	case strings.HasPrefix(line, "-"):
		return screen.Red
	}
	return screen.Default
}

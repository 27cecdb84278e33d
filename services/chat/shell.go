package chat

import (
	"bytes"
	"context"
	"errors"
	"regexp"
	"strings"

	"zino/pkg/rpc"
	"zino/pkg/wire"
	"zino/proto"
)

// shellLine is what "!" begins. It follows the rules of slash commands.
var shellLine = &command{idle: true, needs: proto.DaemonRunCommand.Type, run: (*chat).shell}

// onlyCD matches a command that would do nothing but change the directory.
var onlyCD = regexp.MustCompile(`^cd(?:[ \t]+([^;&|<>\n]+))?$`)

// shell runs a command in the session as a turn of its own. The next message sends the
// model its output along, unless another "!" is in front of the command.
func (c *chat) shell(line string) {
	line, private := strings.CutPrefix(line, "!")
	line = strings.TrimSpace(line)
	switch {
	case line == "":
		c.say("Nothing to run.")
		return
	case c.turn != nil: // both were typed before the services were there
		c.say("Wait for the turn to end, or press Esc.")
		return
	}
	if cd := onlyCD.FindStringSubmatch(line); cd != nil {
		dir := cd[1]
		if dir == "" {
			dir = "~"
		}
		c.say("The directory of a session is fixed: start zino in %s.", safe(dir))
		return
	}
	c.unfolded.restart()
	session := c.session
	if session == "" {
		session = proto.NewSessionID()
	}
	t := c.newTurn(session, "")
	t.command = true
	req := c.request
	go c.runCommand(c.openTurn(t), t, proto.SessionCommand{
		SessionID: session, Command: line, Root: c.root, Sandbox: req.Sandbox, Network: req.Network, Keep: !private,
		Env: req.Env, Cwd: req.Cwd, Umask: req.Umask, Recall: req.Recall,
	})
}

// runCommand has the daemon run a command and sends its packets to the loop.
func (c *chat) runCommand(ctx context.Context, t *turn, req proto.SessionCommand) {
	id := "" // of the turn
	_, err := rpc.CallEvents(ctx, c.client, proto.DaemonRunCommand, req, func(typ string, payload []byte) error {
		var first struct {
			proto.ToolStarted
			Turn string `json:"turn,omitzero"`
		}
		if id == "" && wire.DecodeReply(payload, &first) == nil && first.Turn != "" {
			id = first.Turn
			c.after(func() { c.commandBegun(t, req, id, first.ToolStarted) })
		}
		select {
		case c.packets <- packet{turn: t, typ: typ, payload: bytes.Clone(payload)}:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	end := proto.TurnEnd{State: proto.TurnDone}
	switch {
	case ctx.Err() != nil:
		end.State, err = proto.TurnInterrupted, nil
	case err != nil && id != "":
		end, err = c.endOf(ctx, req.SessionID, id)
	}
	c.after(func() {
		switch {
		case c.turn != t:
		case err != nil:
			c.turnFailed(errorOf(err))
		default:
			c.ended(end)
		}
	})
}

// commandBegun notes the turn of a command. The daemon sends its result only, not what was
// requested.
func (c *chat) commandBegun(t *turn, req proto.SessionCommand, id string, call proto.ToolStarted) {
	if c.turn != t {
		return
	}
	if c.session == "" {
		c.session, c.made = req.SessionID, req.SessionID
	}
	t.id = id
	input := append(wire.AppendString([]byte(`{"command":`), req.Command), '}')
	c.requested(t, proto.ToolRequested{ID: call.ID, Name: call.Name, Input: input})
	if t.canceled {
		c.cancelTurn()
	}
	c.handAll()
}

// endOf asks how a turn has ended, and which messages were not delivered.
func (c *chat) endOf(ctx context.Context, session, turn string) (end proto.TurnEnd, err error) {
	req := proto.TurnFollow{SessionID: session, Turn: turn}
	_, err = rpc.CallEvents(ctx, c.client, proto.DaemonTurnFollow, req, func(typ string, payload []byte) error {
		if typ == proto.TypeTurnEnded {
			return wire.DecodeReply(bytes.Clone(payload), &end)
		}
		return nil
	})
	switch {
	case unreachable(err):
		err = proto.Errorf(proto.CodeUnavailable, "the services were stopped, and the command with them")
	case err == nil && end.State == "":
		err = errors.New("the end of the command is unknown")
	}
	return end, err
}

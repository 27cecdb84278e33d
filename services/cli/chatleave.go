package cli

import (
	"context"
	"errors"
	"os"
	"strings"
	"time"

	"zino/proto"
)

// leave says how to go on with the session, or removes it.
func (c *chat) leave() {
	if c.d.own != nil && c.d.own.passing {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), leaveLimit)
	defer cancel()
	if c.fleeting {
		if err := c.remove(ctx); err != nil && !errors.Is(err, proto.ErrNotFound) && !errors.Is(err, proto.ErrInvalid) {
			c.say("Warning: the session stays: %v; try: zino sessions rm %s", err, c.req.SessionID)
		}
		return
	}
	if !isTerminal(c.in) {
		return
	}
	if there, err := c.stored(ctx); there && err == nil {
		c.say("To go on: %s sessions resume %s", program(), shortID(c.req.SessionID)+c.wayBack())
	}
}

// program is the command as it was called: one that is not in PATH is called by
// its path.
func program() string {
	if strings.Contains(os.Args[0], "/") {
		return quoted(os.Args[0])
	}
	return "zino"
}

// wayBack is the options without which the session is not found again.
func (c *chat) wayBack() string {
	text := ""
	if c.config != "" {
		text += flagText("--config", absolute(c.config))
	}
	if c.socket != "" {
		text += flagText("--socket", absolute(c.socket))
	}
	if c.host {
		text += " --host"
	}
	if c.rootSet {
		text += flagText("--root", c.req.Root)
	}
	return text
}

// leaveLimit is how long the last request of a chat may take.
const leaveLimit = 5 * time.Second

// stored reports whether there is a session of just this id: mem takes the
// beginnings of others for it.
func (c *chat) stored(ctx context.Context) (bool, error) {
	found, err := forward(ctx, c.d, "mem", proto.MemFindSession, proto.FindSession{SessionID: c.req.SessionID})
	return found.SessionID == c.req.SessionID, err
}

// remove deletes the session. A turn that was interrupted may hold it for a
// moment yet.
func (c *chat) remove(ctx context.Context) error {
	if there, err := c.stored(ctx); !there {
		return err
	}
	for {
		_, err := forward(ctx, c.d, "mem", proto.MemRemoveSession, proto.RemoveSession{SessionID: c.req.SessionID})
		if !errors.Is(err, proto.ErrBusy) {
			return err
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return err
		}
	}
}

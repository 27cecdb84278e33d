package chat

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"zino/pkg/rpc"
	"zino/proto"
	"zino/services/cli/connect"
	"zino/services/cli/render"
	"zino/services/cli/term"
	"zino/services/cli/turn"
)

// Exit statuses of zino-chat.
const (
	chatPanicked = 2 // of a Go program
	chatVersion  = 3 // it has another version
	chatHangup   = 129
	chatTerm     = 130
)

// errPlain says that the plain chat is to be used.
var errPlain = errors.New("plain")

// isInteractive reports whether zino-chat can have the terminal.
func (c *chat) isInteractive() bool {
	name := os.Getenv("TERM")
	return term.IsTerminal(c.In) && term.IsTerminal(c.Out) && name != "" && name != "dumb" && !c.Plain && !c.JSON() && !c.cfg.Chat.Plain
}

// interactive starts zino-chat, which has the terminal until it ends, and the services
// meanwhile. It returns errPlain if the plain chat has to do.
func (c *chat) interactive(ctx context.Context, notes []string) error {
	restore := term.Preserve(c.In)
	p, err := startProgram(c.In, c.Out)
	switch {
	case errors.Is(err, os.ErrNotExist):
		c.Say("Warning: zino-chat is missing: using plain output")
		return errPlain
	case err != nil:
		c.Say("Warning: zino-chat cannot be started (%v): using plain output", err)
		return errPlain
	}
	defer p.close()
	lines := json.NewEncoder(p.line)
	if err := lines.Encode(c.startLine(notes)); err != nil && !errors.Is(err, syscall.EPIPE) {
		return err
	}
	attach, cancel := context.WithCancel(ctx)
	defer cancel()
	ready := make(chan struct{})
	go func() {
		defer close(ready)
		lines.Encode(c.services(attach)) // fails if zino-chat has ended
	}()
	for {
		select {
		case s := <-p.signals:
			p.signal(s)
		case <-c.interrupts: // Ctrl-C is zino-chat's
		case <-p.stops:
			p.signal(syscall.SIGTSTP)
		case status := <-p.states:
			switch {
			case status.Stopped() && status.StopSignal() != syscall.SIGTSTP:
				continue
			case status.Stopped():
				if restore() { // not by Ctrl-Z
					io.WriteString(c.Out, restored)
				}
				p.stop()
				continue
			case status.Signaled(), status.ExitStatus() == chatPanicked:
				restore()
				io.WriteString(c.Out, restored) // fails if the terminal is gone
			}
			cancel()
			<-ready
			made, session := p.opened()
			if c.d != nil && c.discarded {
				c.removeSessions(made)
			}
			return c.chatEnded(status, cmp.Or(session, c.req.SessionID))
		}
	}
}

// startLine returns what zino-chat needs to begin.
func (c *chat) startLine(notes []string) proto.ChatStart {
	base, err := connect.BaseDir()
	if err != nil {
		base = ""
	}
	self, err := os.Executable()
	if err != nil {
		self = os.Args[0]
	}
	socket := ""
	if places, err := c.Places(c.cfg, false); err == nil && len(places) > 0 && places[0].Only {
		socket = places[0].Socket
	}
	named := ""
	if c.Named() {
		named = c.cfg.File
	}
	req := c.req
	req.NoSave = c.NoSave
	o := c.cfg.Chat
	return proto.ChatStart{
		Type: proto.TypeChatStart, Version: rpc.Version, Zino: self, Config: named, Socket: socket, Base: base, Root: c.req.Root, RootGiven: c.RootSet,
		SessionID: c.Session, Latest: c.Latest, OnHangup: c.OnHangup, Mode: c.Mode, Command: programName(), Options: strings.Join(c.resumeOptions(), ""), Request: req, NoModel: c.noModel(), Notes: notes,
		Chat: proto.ChatOptions{
			PreviewLines: o.PreviewLines, Reasoning: o.Reasoning, Width: o.Width, WidthMethod: o.WidthMethod,
			Notify: o.Notify, Title: o.Title, Theme: o.Theme, ScreenReader: o.ScreenReader || os.Getenv("ZINO_SCREEN_READER") == "1",
		},
	}
}

// services finds or starts the daemon, and finds the session.
func (c *chat) services(ctx context.Context) proto.ChatResult {
	var notes []string
	c.Note = func(line string) { notes = append(notes, line) }
	err := c.attach(ctx)
	if err == nil && !c.d.Named {
		c.Introduce(ctx, c.d)
		c.CompareVersions(ctx, c.d)
	}
	if err == nil && (c.Session != "" || c.Latest) {
		var id string
		var known *proto.SessionSummary
		if id, known, err = turn.Session(ctx, c.Env, c.d); err == nil {
			turn.NoteRecall(c.Env, known)
			err = c.use(ctx, id, known)
		}
	}
	c.Note = nil
	if err != nil {
		packet := render.ErrorPacket(connect.Explain(err))
		return proto.ChatResult{Type: proto.TypeChatFailed, Kind: packet.Kind, Message: packet.Message, Notes: notes}
	}
	req := c.d.WithEnvironment(c.req)
	req.NoSave = c.discarded
	return proto.ChatResult{Type: proto.TypeChatReady, Socket: c.d.Client.Path, Request: &req, Notes: notes}
}

// restored resets what zino-chat has changed of the terminal: autowrap, synchronized
// output, bracketed paste, focus reports, keyboard modes, cursor and style. The rows
// below the cursor are deleted.
const restored = "\x1b[?7h\x1b[?2026l\x1b[?2004l\x1b[?1004l\x1b[<u\x1b[>4m\x1b[?25h\x1b[m\r\x1b[999M"

// chatEnded returns the result of zino-chat.
func (c *chat) chatEnded(status syscall.WaitStatus, session string) error {
	why := ""
	switch code := status.ExitStatus(); {
	case status.Signaled():
		why = status.Signal().String()
	case code == 0:
		return nil
	case code == chatPanicked:
		why = "it crashed"
		if base, err := connect.BaseDir(); err == nil {
			why += ", see " + render.Home(filepath.Join(base, "log", "chat.log"))
		}
	case code == chatVersion:
		c.Say("Warning: zino-chat has version %s: using plain output", programVersion())
		if c.d != nil { // the plain chat begins anew
			c.d.Close()
			c.d, c.req.SessionID = nil, ""
		}
		return errPlain
	case code == chatHangup:
		return render.ErrHangup
	case code == chatTerm:
		return render.ErrInterrupted
	default:
		return render.ErrReported
	}
	if session == "" || c.discarded {
		c.Say("zino-chat ended: %s.", why)
	} else {
		c.Say("zino-chat ended: %s. Go on with: %s", why, c.resumeCommand(session))
	}
	return render.ErrReported
}

// removeSessions removes the sessions of a chat with --no-save, and the copy of one.
func (c *chat) removeSessions(ids []string) {
	if c.req.SessionID != "" && !slices.Contains(ids, c.req.SessionID) {
		ids = append(ids, c.req.SessionID)
	}
	for _, id := range ids {
		c.removeSession(id)
	}
}

package chat

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"zino/pkg/rpc"
	"zino/proto"
	"zino/services/cli/connect"
	"zino/services/cli/render"
	"zino/services/cli/term"
)

// Exit statuses of zino-chat.
const (
	chatPanicked = 2 // of a Go program
	chatVersion  = 3 // it has another version
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
func (c *chat) interactive(ctx context.Context) error {
	program, err := sibling("zino-chat")
	if err != nil {
		c.Say("Warning: zino-chat is missing: using plain output")
		return errPlain
	}
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer w.Close()
	restore := term.Preserve(c.In)
	cmd := exec.Command(program)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = c.In, c.Out, os.Stderr
	cmd.ExtraFiles = []*os.File{r}
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	defer signal.Stop(signals)
	if err := cmd.Start(); err != nil {
		r.Close()
		c.Say("Warning: zino-chat cannot be started (%v): using plain output", err)
		return errPlain
	}
	r.Close()
	lines := json.NewEncoder(w)
	if err := lines.Encode(c.startLine()); err != nil && !errors.Is(err, syscall.EPIPE) {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	ready := make(chan proto.ChatResult)
	attach, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		defer close(ready)
		ready <- c.services(attach)
	}()
	for {
		select {
		case result, ok := <-ready:
			if !ok {
				ready = nil
				continue
			}
			lines.Encode(result) // zino-chat may have ended
		case s := <-signals:
			if s != syscall.SIGQUIT {
				cmd.Process.Signal(s)
			}
		case <-c.interrupts:
		case err := <-ended:
			cancel()
			for ready != nil { // what was begun of the services is known then
				if _, ok := <-ready; !ok {
					ready = nil
				}
			}
			return c.chatEnded(err, restore)
		}
	}
}

// startLine returns what zino-chat needs to begin.
func (c *chat) startLine() proto.ChatStart {
	base, err := connect.BaseDir()
	if err != nil {
		base = ""
	}
	self, err := os.Executable()
	if err != nil {
		self = os.Args[0]
	}
	o := c.cfg.Chat
	return proto.ChatStart{
		Type: proto.TypeChatStart, Version: rpc.Version, Zino: self, Base: base, Root: c.req.Root,
		SessionID: c.Session, Latest: c.Latest, OnHangup: c.OnHangup, Resume: c.resumeOptions(), Request: c.req, NoModel: c.noModel(),
		Chat: proto.ChatOptions{
			PreviewLines: o.PreviewLines, Reasoning: o.Reasoning, Width: o.Width, WidthMethod: o.WidthMethod,
			Notify: o.Notify, Title: o.Title, Theme: o.Theme, ScreenReader: o.ScreenReader || os.Getenv("ZINO_SCREEN_READER") == "1",
		},
	}
}

// services finds or starts the daemon.
func (c *chat) services(ctx context.Context) proto.ChatResult {
	if err := c.attach(ctx); err != nil {
		packet := render.ErrorPacket(connect.Explain(err))
		return proto.ChatResult{Type: proto.TypeChatFailed, Kind: packet.Kind, Message: packet.Message}
	}
	req := c.d.WithEnvironment(c.req)
	return proto.ChatResult{Type: proto.TypeChatReady, Socket: c.d.Client.Path, Request: &req}
}

// restored resets what zino-chat has changed of the terminal: autowrap, synchronized
// output, bracketed paste, focus reports, keyboard modes, cursor and style. The
// cursor goes to the lowest row.
const restored = "\x1b[?7h\x1b[?2026l\x1b[?2004l\x1b[?1004l\x1b[<u\x1b[>4m\x1b[?25h\x1b[m\r\x1b[999M"

// chatEnded returns the result of zino-chat. If it was killed, it restores the terminal.
func (c *chat) chatEnded(err error, restore func()) error {
	exit, failed := errors.AsType[*exec.ExitError](err)
	if err == nil {
		return nil
	}
	if !failed {
		return err
	}
	switch code := exit.ExitCode(); code {
	case -1, chatPanicked:
		restore()
		io.WriteString(c.Out, restored)
		c.Say("zino-chat ended: %s. Go on with: zino sessions resume", strings.TrimPrefix(exit.Error(), "signal: "))
		return render.ErrReported
	case chatVersion:
		c.Say("Warning: zino-chat has another version: using plain output")
		return errPlain
	case 129:
		return render.ErrHangup
	case 130:
		return render.ErrInterrupted
	}
	return render.ErrReported
}

// sibling returns the path of a program beside this one.
func sibling(name string) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	path := filepath.Join(filepath.Dir(self), name)
	_, err = os.Stat(path)
	return path, err
}

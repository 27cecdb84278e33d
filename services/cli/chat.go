package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"zino/pkg/config"
	"zino/pkg/rpc"
	"zino/proto"
)

// resume is a chat on a session: the one that id names or begins, a new one of
// that name, or, where id is empty, the one that changed last.
func (a *app) resume(ctx context.Context, id string) error {
	if id != "" && !isSessionID(id) {
		return usageError{notSession(id)}
	}
	a.agent, a.session, a.latest = true, id, id == ""
	return a.chat(ctx)
}

// chat is a conversation: lines, each answered as a turn of one session.
type chat struct {
	*app
	cfg        *config.Config
	d          *daemon
	req        proto.Chat // what all turns have in common
	show       show
	interrupts chan os.Signal
	fleeting   bool // nothing is kept: the session goes with the chat
}

// chat reads lines and answers each, until the input ends.
func (a *app) chat(ctx context.Context) error {
	hearPipe()
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	c := &chat{app: a, show: a.shower(), interrupts: make(chan os.Signal, 1), fleeting: a.noSave}
	signal.Notify(c.interrupts, os.Interrupt)
	defer signal.Stop(c.interrupts)
	err := c.interruptible(ctx, c.prepare)
	if c.d != nil {
		defer func() { c.d.close() }()
	}
	if err != nil {
		return c.broken(err)
	}
	defer c.leave()
	next, restore := a.reader(c.past())
	defer restore()
	return c.converse(ctx, next)
}

// past is what was typed in earlier chats.
func (c *chat) past() *lineHistory {
	if c.fleeting || !isTerminal(c.in) {
		return &lineHistory{}
	}
	base, err := baseDir()
	if err != nil {
		return &lineHistory{} // what that means has been said: nothing is kept
	}
	past, err := openHistory(filepath.Join(base, "chat_history"))
	if err != nil {
		c.say("Warning: what was typed in earlier chats is not there: %v", err)
	}
	return past
}

// broken words the end of a chat that has not begun.
func (c *chat) broken(err error) error {
	if errors.Is(err, errInterrupted) {
		c.interrupted()
	}
	return err
}

// prepare reads the settings, and finds daemon and session.
func (c *chat) prepare(ctx context.Context) (err error) {
	if c.req, err = c.request(); err != nil {
		return err
	}
	c.req.NeedModel = false // the offline provider may do
	if c.cfg, err = c.settings(); err != nil {
		return err
	}
	if isTerminal(c.in) && c.modelSet(c.cfg) != nil {
		c.cfg.Provider = "auto"
	}
	if err := c.attach(ctx); err != nil {
		return err
	}
	if !c.d.named {
		c.greet(c.introduce(ctx, c.d), c.cfg.Tools.Dir)
		c.compare(ctx, c.d)
	}
	id, known, err := c.sessionOf(ctx, c.d)
	if err != nil {
		return unreachable(err)
	}
	if err := c.settleRoot(ctx, known); err != nil {
		return err
	}
	c.tellLoaded(known)
	if known != nil {
		if err := c.showLast(ctx, id); err != nil {
			return unreachable(err)
		}
	}
	if c.req.SessionID = id; c.noSave && known != nil {
		if err := c.fork(ctx); err != nil {
			return err
		}
	}
	header := c.req.SessionID
	if c.fleeting {
		header = ""
	}
	return outputError(c.show.begin(header))
}

// attach finds a daemon. A chat of which nothing is to be kept, and which is
// not about a session that is there, gets a constellation of its own: whatever
// ends the chat, its session ends with that.
func (c *chat) attach(ctx context.Context) error {
	need := storageOptional
	if c.noSave && c.session == "" && !c.latest && c.socket == "" && !c.host && !c.cfg.IsSet("daemon.socket") {
		need = storageDiscarded
	}
	d, err := c.reach(ctx, c.cfg, need)
	if err != nil {
		return err
	}
	c.d = d
	c.fleeting = c.fleeting || d.own != nil && d.own.passing
	return nil
}

// fork goes on with a copy of the session, which is removed in the end.
func (c *chat) fork(ctx context.Context) error {
	copied, err := forward(ctx, c.d, "mem", proto.MemForkSession, proto.ForkSession{SessionID: c.req.SessionID})
	c.req.SessionID = copied.SessionID
	return err
}

// converse answers line after line. On a terminal neither a turn that fails
// nor one that is interrupted ends the chat.
func (c *chat) converse(ctx context.Context, next func() (string, error)) error {
	terminal := isTerminal(c.in)
	for {
		if terminal {
			forgetOne(c.interrupts) // it was meant for the turn that had just ended
		}
		line, err := await(ctx, next, c.interrupts)
		switch text := strings.TrimSpace(line); {
		case errors.Is(err, io.EOF) && text == "", text == ":q", text == "/quit":
			return nil
		case err != nil && !errors.Is(err, io.EOF):
			return err
		case text == "":
			continue
		case text == "/help":
			c.say(chatHelp)
			continue
		}
		err = c.interruptible(ctx, func(ctx context.Context) error { return c.answer(ctx, line) })
		switch {
		case errors.Is(err, errInterrupted) && (ctx.Err() != nil || !terminal), errors.Is(err, errLost):
			return err
		case err != nil && !errors.Is(err, errInterrupted) && !errors.Is(err, errQuiet):
			fmt.Fprint(c.err, errorText(err))
		}
	}
}

const chatHelp = `  a line ending in \ goes on in the next; a paste of several lines is one message
  Ctrl-C   stop the answer; at the prompt: clear the line, twice: leave
  :q       leave (also /quit and Ctrl-D)
  /help    this list`

// answer has one line answered. A daemon that has gone since the last turn is
// looked for, or brought along, once more.
func (c *chat) answer(ctx context.Context, line string) error {
	c.req.Message = line
	err := c.play(ctx, c.d, c.req, c.show)
	if !errors.Is(err, rpc.ErrConnect) || c.d.named {
		return err
	}
	old := c.d
	if err := c.attach(ctx); err != nil {
		return err
	}
	old.close()
	if old.own != nil {
		c.say("Warning: the services had ended and were started again%s", map[bool]string{true: ": what was said before is lost"}[old.own.passing])
	}
	return c.play(ctx, c.d, c.req, c.show)
}

func forgetOne(interrupts chan os.Signal) {
	select {
	case <-interrupts:
	default:
	}
}

// await is next, unless somebody wants an end while it waits. On a terminal
// Ctrl-C is a key meanwhile; the signal may still come from elsewhere.
func await(ctx context.Context, next func() (string, error), interrupts chan os.Signal) (string, error) {
	type result struct {
		line string
		err  error
	}
	read := make(chan result, 1)
	go func() {
		line, err := next()
		read <- result{line, err}
	}()
	select {
	case r := <-read:
		return r.line, r.err
	case <-interrupts:
	case <-ctx.Done():
	}
	return "", errInterrupted
}

// interruptible runs what Ctrl-C ends.
func (c *chat) interruptible(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	over := make(chan struct{})
	var first os.Signal
	var watching sync.WaitGroup
	watching.Go(func() {
		if first = struck(c.interrupts, over); first != nil {
			cancel()
			leaveAtOnce(c.interrupts, over)
		}
	})
	err := do(ctx)
	interrupted := err != nil && ctx.Err() != nil
	close(over)
	cancel()
	watching.Wait()
	if interrupted {
		return errInterrupted
	}
	if first != nil { // too late for what was done: it is for what comes next
		select {
		case c.interrupts <- first:
		default:
		}
	}
	return err
}

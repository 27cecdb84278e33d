// Package chat is the interactive terminal of Zino: an editor below what the agent
// answers. Text that is finished is printed once and belongs to the terminal then; what
// still changes stands in a region above the editor.
//
// One goroutine owns the state and writes to the terminal. Everything that happens
// reaches it over channels: keys, packets of the daemon, results of requests, signals,
// and the lines of zino.
package chat

import (
	"cmp"
	"context"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"zino/pkg/history"
	"zino/pkg/rpc"
	"zino/proto"
	"zino/services/chat/input"
	"zino/services/chat/screen"
)

// Exit statuses besides those of all programs.
const (
	exitFailed  = 1
	exitVersion = 3
	exitHangup  = 129
	exitTerm    = 130 // ended by SIGTERM, as for zino exec
)

// chat is a run of zino-chat.
type chat struct {
	start   proto.ChatStart
	request proto.Chat // what all messages have in common
	noSave  bool       // the sessions are removed when the chat ends
	parent  *parent    // zino
	root    string
	exit    *int // the exit status, when the chat is to end

	ctx     context.Context
	cancel  context.CancelFunc
	typed   chan input.Event
	packets chan packet
	results chan func()  // of requests to the daemon, run by the loop
	tick    *time.Ticker // each second during a turn
	now     func() time.Time

	daemonState
	terminalState
	sessionState
	promptState
	printState
	commandState
	mode modeState
}

// daemonState is what is known of the daemon.
type daemonState struct {
	client        *rpc.Client
	ready         bool            // it can be reached
	modes         bool            // its turns have modes
	methods       map[string]bool // nil: not known yet
	early         []func()        // requests that were made before it could be reached
	version       string
	lifetime      string // of its constellation
	lifetimeNoted bool   // noteLifetime has printed its line
}

// terminalState is the terminal and what is known of it.
type terminalState struct {
	terminal *screen.Terminal
	screen   *screen.Screen
	palette  screen.Palette
	widths   screen.Widths
	keys     *input.Reader
	write    func(seq string) // sends a sequence to the terminal at once
	still    bool             // nothing moves: NO_COLOR
	name     string           // of the terminal, as it answered
	entered  time.Time        // when the terminal was taken over
	focused  bool
	focusing bool     // the terminal reports its focus
	program  *program // that has the terminal; nil: the chat has it
}

// sessionState is the session and its turn.
type sessionState struct {
	session  string // the session's id; "": the first message makes one
	title    string
	made     string           // the last session that this chat has made
	model    string           // that answers, as far as is known
	provider string           // likewise
	windows  map[string]int64 // context of models, in tokens, as far as is known
	sandbox  string
	usage    usage
	turn     *turn     // the open turn; nil: none
	queued   []*queued // messages that wait
	sent     message   // the last one
	answer   string    // the last one
}

// promptState is the editor and what stands in its place or below it.
type promptState struct {
	editor    *input.Editor
	past      past
	search    *search
	revision  *revision // the last message, which is edited again; nil: none
	menu      *menu
	picker    *picker
	choice    *choice // nil: none
	approvals approvals
	questions questions
	leaving   time.Time // the first Ctrl-C at an empty prompt
	escaped   time.Time // the first Esc at an empty prompt
	prefixed  bool      // the last key was Ctrl-X
}

// printState is what was printed, as far as it is needed again.
type printState struct {
	items    items
	unfolded unfolded
	agents   string           // the notice about AGENTS.md that was printed last
	printed  kind             // of what was printed last
	held     *strings.Builder // finished text that is not printed yet; nil: it is printed
	reason   string           // how reasoning is shown
}

// Run runs the chat and returns its exit status. The start line comes from zino.
func Run(zino *os.File) int {
	syscall.CloseOnExec(int(zino.Fd()))
	p := newParent(zino)
	start, err := p.start()
	if err != nil {
		os.Stderr.WriteString("zino-chat is started by zino\n")
		return exitFailed
	}
	if start.Version != rpc.Version {
		return exitVersion
	}
	c := newChat(start, p)
	defer c.cancel()
	logged := logCrashes(start.Base)
	if err := c.open(); err != nil {
		os.Stderr.WriteString("Error [internal]: " + err.Error() + "\n")
		return exitFailed
	}
	if logged != nil {
		c.warn("a crash would not be logged: " + logged.Error())
	}
	status := c.loop()
	c.close()
	return status
}

// logCrashes has the Go runtime write the stack of a panic to <base>/log/chat.log: in raw mode
// it could not be read. os.Stderr stays what it was.
func logCrashes(base string) error {
	const limit = 1 << 20
	if base == "" {
		return nil
	}
	path := filepath.Join(base, "log", "chat.log")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	if info, err := os.Stat(path); err == nil && info.Size() > limit {
		if err := os.Rename(path, path+".1"); err != nil {
			return err
		}
	}
	log, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	stderr, err := syscall.Dup(syscall.Stderr)
	if err != nil {
		return os.NewSyscallError("dup", err)
	}
	syscall.CloseOnExec(stderr)
	os.Stderr = os.NewFile(uintptr(stderr), os.Stderr.Name())
	return os.NewSyscallError("dup3", syscall.Dup3(int(log.Fd()), syscall.Stderr, 0))
}

func newChat(start proto.ChatStart, p *parent) *chat {
	c := &chat{start: start, parent: p, request: start.Request, noSave: start.Request.NoSave, root: start.Root}
	c.reason = start.Chat.Reasoning
	c.request.NoSave = false // zino removes the sessions: the conversation is stored until then
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.terminal = screen.NewTerminal(os.Stdin, os.Stdout, start.Chat.Title)
	c.widths = screen.NewWidths(start.Chat.WidthMethod == "wc")
	c.palette = screen.Palette{Mono: start.Chat.Theme == "mono" || os.Getenv("NO_COLOR") != ""}
	c.screen = screen.New(os.Stdout, c.terminal.Size, time.Now)
	c.screen.Widths, c.screen.Reflows = c.widths, reflows()
	c.editor = input.NewEditor(c.widths)
	c.typed, c.packets, c.results = make(chan input.Event), make(chan packet), make(chan func())
	c.now, c.still, c.windows = time.Now, os.Getenv("NO_COLOR") != "", map[string]int64{}
	c.write = func(seq string) { os.Stdout.WriteString(seq) }
	c.tick = time.NewTicker(time.Hour)
	c.tick.Stop()
	c.past.History = &history.History{}
	c.sandbox = string(start.Request.Sandbox)
	c.model = start.Request.Model
	c.listings = map[string]*listing{}
	c.items.limit()
	c.mode = newModeState(&start)
	return c
}

// reflows reports whether the terminal wraps lines again when its width changes.
func reflows() bool {
	term := os.Getenv("TERM")
	switch {
	case os.Getenv("XTERM_VERSION") != "", term == "linux", strings.HasPrefix(term, "rxvt"):
		return false
	case strings.HasPrefix(term, "screen"):
		return os.Getenv("TMUX") != ""
	}
	return true
}

// open takes the terminal over.
func (c *chat) open() error {
	keys, err := input.NewReader(int(os.Stdin.Fd()))
	if err != nil {
		return err
	}
	c.keys = keys
	if err := c.terminal.Enter(); err != nil {
		return err
	}
	c.entered = time.Now()
	go func() {
		keys.Run(c.ctx, c.typed)
		close(c.typed)
	}()
	if !c.noSave {
		c.loadHistory()
	}
	return nil
}

// answerLimit is how long a terminal may take to answer a question.
const answerLimit = 500 * time.Millisecond

// awaitAnswers reads what the terminal has been asked for a moment ago. The next program
// would take the answers for input.
func (c *chat) awaitAnswers() {
	limit := time.After(answerLimit)
	for c.name == "" && time.Since(c.entered) < answerLimit || c.screen.Asks() {
		select {
		case event, ok := <-c.typed:
			if !ok {
				return
			}
			if _, key := event.(input.Key); !key { // what is typed now is for the next program
				c.input(event)
			}
		case <-limit:
			return
		}
	}
}

// close gives the terminal back and prints how to go on.
func (c *chat) close() {
	signal.Ignore(syscall.SIGTTOU) // after zino's death this process group is in the background
	c.endProgram()
	if !c.editor.Empty() { // Up brings it back in the next chat
		c.keep(c.editor.Text())
	}
	if c.parent.ended { // the shell may have printed its prompt: only what is behind the cursor goes
		os.Stdout.WriteString("\x1b[J")
		c.terminal.Leave()
		return
	}
	c.awaitAnswers()
	if c.turn != nil {
		c.flush(c.turn)
	}
	c.screen.Leave()
	c.terminal.Leave()
	id, goesOn := shortID(c.session), c.turn != nil && !c.turn.canceled
	switch {
	case c.session == "" || c.noSave:
	case goesOn && c.persists():
		os.Stderr.WriteString("\nDetached. The turn goes on: " + c.zinoCommand("attach", id) + "\n")
	default:
		os.Stderr.WriteString("\nGo on with: " + c.zinoCommand("sessions", "resume", id) + "\n")
	}
}

// zinoCommand returns a command line of zino, with the options that reach this session.
func (c *chat) zinoCommand(words ...string) string {
	return cmp.Or(c.start.Command, "zino") + " " + strings.Join(words, " ") + c.start.Options
}

// persists reports whether the daemon outlives this program.
func (c *chat) persists() bool { return c.lifetime == proto.LifetimePersistent }

// loop handles what happens until the chat ends.
func (c *chat) loop() int {
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGWINCH, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGCONT, syscall.SIGINT, syscall.SIGQUIT)
	frame, due := time.NewTimer(0), time.Now()
	for c.exit == nil {
		typed, packets := c.typed, c.packets
		if c.program != nil {
			if typed = nil; c.screen.Waiting() >= printedMax {
				packets = nil
			}
		}
		select {
		case event, ok := <-typed:
			if !ok { // the terminal is gone
				c.hangup()
				continue
			}
			c.input(event)
		case p := <-packets:
			c.packet(p)
		case f := <-c.results:
			f()
		case line, ok := <-c.parent.lines:
			if !ok { // zino has died
				c.parent.ended = true
				c.stop(exitFailed)
				continue
			}
			c.line(line)
		case s := <-signals:
			c.signal(s)
		case <-c.tick.C:
			c.ticked()
		case <-frame.C:
			due = time.Time{}
		}
		c.parent.opened(c.session, c.made)
		if c.exit != nil || c.program != nil {
			continue
		}
		wait, err := c.screen.Update(c.region)
		if err != nil {
			c.hangup()
			continue
		}
		if at := time.Now().Add(wait); wait > 0 && (due.IsZero() || at.Before(due)) { // to set a timer again costs a wake-up
			due = at
			frame.Reset(wait)
		}
	}
	return *c.exit
}

// stop ends the loop.
func (c *chat) stop(status int) {
	if c.exit == nil {
		c.exit = &status
	}
}

// leave ends the chat. A turn of this chat is canceled, also one that is about to begin; one
// that was started elsewhere is only left.
func (c *chat) leave(status int) {
	c.stop(status)
	if t := c.turn; t != nil && t.elsewhere && !t.canceled {
		c.flush(t)
		t.cancel()
		c.turn = nil
	}
	c.cancelTurn()
	limit := time.After(cancelLimit)
	for t := c.turn; t != nil && t == c.turn && t.id == "" && !c.isPlain(); {
		select {
		case f := <-c.results:
			f()
		case <-limit:
			return
		}
	}
}

// hangup ends the chat because its terminal is gone. The turn goes on if the daemon
// does.
func (c *chat) hangup() {
	if t := c.turn; t != nil && c.persists() && (t.elsewhere || c.start.OnHangup != "stop") {
		c.stop(0)
		return
	}
	c.leave(exitHangup)
}

func (c *chat) signal(s os.Signal) {
	switch s {
	case syscall.SIGWINCH:
		c.screen.Resized()
	case syscall.SIGTERM:
		c.leave(exitTerm)
	case syscall.SIGHUP:
		c.hangup()
	case syscall.SIGCONT: // it may have been stopped by SIGSTOP: the shell has used the terminal
		if c.program != nil {
			return
		}
		if err := c.terminal.Again(); err != nil {
			c.hangup()
		}
		c.screen.Resized()
	}
}

// stopLimit is how long a stop is waited for that the kernel may have discarded, because no
// shell could continue the process group.
const stopLimit = time.Second

// suspend gives the terminal back and stops the process group, as Ctrl-Z does, until it is
// continued. SIGTSTP has its default action: os/signal could not restore it.
func (c *chat) suspend() {
	continued := make(chan os.Signal, 1)
	signal.Notify(continued, syscall.SIGCONT)
	defer signal.Stop(continued)
	c.leaveTerminal()
	syscall.Kill(0, syscall.SIGTSTP)
	select {
	case <-continued:
	case <-time.After(stopLimit):
	}
	c.enterTerminal()
}

// Package chat is the plain chat of zino: lines of a terminal or a pipe, each
// answered as a turn of one session.
package chat

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"zino/pkg/config"
	"zino/pkg/history"
	"zino/pkg/rpc"
	"zino/proto"
	"zino/services/cli/command"
	"zino/services/cli/connect"
	"zino/services/cli/render"
	"zino/services/cli/term"
	"zino/services/cli/turn"
)

// New returns zino chat.
func New(env *command.Env) *cobra.Command {
	return &cobra.Command{
		Use: "chat", Short: "talk with the agent", Args: command.AtMost(0), Annotations: command.PrintsJSON,
		Long: `Open a chat, as zino without a command does. On a terminal it is interactive: the
program zino-chat, installed beside zino, has an editor of several lines, Markdown,
folded output of tools with diffs, and commands, which /help lists. What you type
while a turn runs goes to the model with its next step; Esc stops the turn, and
Ctrl-D leaves.

The plain chat is used with --plain, [chat] plain = true, --format json or
TERM=dumb, and if standard input or output is not a terminal, such as a pipe or a
file. There each line is a turn of one session; a line that ends in \ goes on in the
next, and :q or Ctrl-D leaves.`,
		Example: "  zino chat --root ~/project\n  zino --continue\n  zino chat <questions.txt",
		RunE:    func(cmd *cobra.Command, _ []string) error { return Run(cmd, env) },
	}
}

// NewResume returns zino sessions resume.
func NewResume(env *command.Env) *cobra.Command {
	return &cobra.Command{
		Use: "resume [ID]", Short: "continue a session in a chat", Annotations: command.PrintsJSON,
		Long: `Continue a session in a chat: the one with that id, or the one of this directory
that changed last. A name that no session has begins a new one. For a session of
another directory you are asked where to continue; without a terminal --root says so.`,
		Example: "  zino resume\n  zino sessions resume 550e",
		RunE: func(cmd *cobra.Command, args []string) error {
			env.Events = true
			if len(args) > 0 {
				id, err := command.OneSession(cmd, args)
				if err != nil {
					return err
				}
				env.Session, env.Latest = id, false
				return Run(cmd, env)
			}
			env.Session, env.Latest = "", true
			return run(cmd, env, true)
		},
	}
}

// chat is one run of zino chat.
type chat struct {
	*command.Env
	cfg        *config.Config
	d          *connect.Daemon
	req        proto.Chat // what all turns have in common
	turns      render.Turns
	interrupts chan os.Signal
	discarded  bool // the session is removed when the chat ends
}

// Run runs the interactive chat on a terminal. Else it reads lines and answers each, until
// the input ends.
func Run(cmd *cobra.Command, env *command.Env) error { return run(cmd, env, false) }

// run is Run. With latest, only a session of this directory is continued.
func run(cmd *cobra.Command, env *command.Env, latest bool) error {
	command.CatchPipe()
	ctx, stop := command.UntilSignal(cmd.Context(), syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	c := &chat{Env: env, turns: env.Turns(), interrupts: make(chan os.Signal, 1), discarded: env.NoSave}
	signal.Notify(c.interrupts, os.Interrupt)
	defer signal.Stop(c.interrupts)
	defer func() {
		if c.d != nil {
			c.d.Close()
		}
	}()
	err := c.begin(ctx)
	if !errors.Is(err, errPlain) {
		return err
	}
	if latest { // report a missing session before looking for a model
		err := env.WithDaemon(cmd, false, connect.StorageRequired, func(ctx context.Context, d *connect.Daemon) error {
			found, err := turn.Latest(ctx, env, d)
			c.Session = found.SessionID
			return err
		})
		if err != nil {
			return err
		}
	}
	err = c.interruptible(ctx, c.prepare)
	if errors.Is(err, render.ErrInterrupted) {
		c.Interrupted()
	}
	if err != nil {
		return err
	}
	defer c.leave()
	if !term.IsTerminal(c.In) {
		r := bufio.NewReader(c.In)
		return c.converse(ctx, func() (string, error) {
			line, err := r.ReadString('\n')
			return strings.TrimRight(line, "\r\n"), err
		})
	}
	editor := term.NewEditor(c.In, term.Screen(c.Err), c.history(), func(err error) {
		c.Say("Warning: what you type is not kept for the next chat: %v", err)
	})
	defer editor.Leave()
	return c.converse(ctx, editor.Next)
}

// begin reads the configuration and runs the interactive chat. It returns errPlain if the
// plain one has to do.
func (c *chat) begin(ctx context.Context) error {
	var notes []string
	c.Note = func(line string) { notes = append(notes, line) }
	err := c.options()
	c.Note = nil
	if err == nil && c.isInteractive() {
		if err = c.interactive(ctx, notes); !errors.Is(err, errPlain) {
			return err
		}
	}
	for _, note := range notes {
		c.Say("%s", note)
	}
	return cmp.Or(err, errPlain)
}

// history opens the input history of earlier chats.
func (c *chat) history() *history.History {
	base, err := connect.BaseDir()
	if c.discarded || err != nil {
		return &history.History{}
	}
	h, err := history.Open(filepath.Join(base, "chat_history"))
	if err != nil {
		c.Say("Warning: what was typed in earlier chats is not there: %v", err)
	}
	return h
}

// options reads the configuration.
func (c *chat) options() (err error) {
	if c.req, err = c.Request(); err != nil {
		return err
	}
	c.req.NeedModel = false // accept the offline provider
	if c.NoSave {
		c.req.Recall = new(false) // the session is stored until the chat ends
	}
	if c.cfg, err = c.Config(); err != nil {
		return err
	}
	if term.IsTerminal(c.In) && c.CheckModel(c.cfg) != nil {
		c.cfg.Provider = "auto"
	}
	c.OnHangup = c.cfg.CLI.OnHangup
	return nil
}

// prepare finds the daemon and the session.
func (c *chat) prepare(ctx context.Context) error {
	if err := c.attach(ctx); err != nil {
		return err
	}
	if !c.d.Named {
		c.greet(c.Introduce(ctx, c.d))
		c.CompareVersions(ctx, c.d)
	}
	var err error
	if c.req.Reachable, err = turn.Gate(ctx, c.Env, c.d, c.HasPerson()); err != nil {
		return err
	}
	if c.d.Started() != nil && !c.d.Discards() && term.IsTerminal(c.In) {
		c.Say("This chat ends with the terminal; zino up keeps turns running.")
	}
	id, known, err := turn.Session(ctx, c.Env, c.d)
	if err != nil {
		return connect.Explain(err)
	}
	if err := c.chooseRoot(ctx, known); err != nil {
		return err
	}
	turn.NoteRecall(c.Env, known)
	turn.NoteLoaded(c.Env, known)
	if known != nil {
		if err := c.showLast(ctx, id); err != nil {
			return connect.Explain(err)
		}
	}
	if err := c.use(ctx, id, known); err != nil {
		return err
	}
	header := c.req.SessionID
	if c.discarded {
		header = ""
	}
	return render.OutputError(c.turns.Begin(header))
}

// use sets the session of the turns: with --no-save a copy of a known one, which is removed
// when the chat ends.
func (c *chat) use(ctx context.Context, id string, known *proto.SessionSummary) error {
	c.req.SessionID = id
	if !c.NoSave || known == nil {
		return nil
	}
	copied, err := connect.Forward(ctx, c.d, "mem", proto.MemForkSession, proto.ForkSession{SessionID: id})
	c.req.SessionID = copied.SessionID
	return err
}

// attach finds or starts a daemon. A chat with --no-save that does not continue a
// session starts private services, which remove the session even when the chat is
// killed.
func (c *chat) attach(ctx context.Context) error {
	need := connect.StorageOptional
	if c.NoSave && c.Session == "" && !c.Latest && c.Socket == "" && !c.Host && !c.cfg.IsSet("daemon.socket") {
		need = connect.StorageDiscarded
	}
	d, err := c.ConnectForTurn(ctx, c.cfg, need)
	if err != nil {
		return err
	}
	c.d = d
	c.discarded = c.discarded || d.Discards()
	return nil
}

// greet prints how to connect a model, and what works without one, if the offline
// provider answers.
func (c *chat) greet(caps proto.RouterCapabilities) {
	if !caps.Fallback && caps.Provider != "offline" {
		return
	}
	for _, line := range c.noModel() {
		c.Say("%s", line)
	}
}

// noModel returns how to connect a model, and what works without one.
func (c *chat) noModel() []string {
	commands := []string{"run"} // of the offline provider
	for _, tool := range []struct{ command, file string }{{"python", "python3.json"}, {"remember", "remember.json"}, {"recall", "recall.json"}} {
		if _, err := os.Stat(filepath.Join(c.cfg.Tools.Dir, tool.file)); err == nil {
			commands = append(commands, tool.command)
		}
	}
	commands = append(commands, "tour")
	return []string{
		"No model is connected: the offline provider answers (no AI). To connect one:",
		"  zino auth login openrouter; zino auth set PROVIDER; ANTHROPIC_API_KEY (or OPENAI_, GEMINI_, OPENROUTER_API_KEY) in the environment;",
		"  [api] base_url; or a model server on this host (Ollama, llama.cpp, LM Studio, vLLM). For now: " + strings.Join(commands, ", ") + ".",
	}
}

const help = `  a line ending in \ goes on in the next; a paste of several lines is one message
  Ctrl-C   stop the answer; at the prompt: clear the line, twice: leave
  :q       leave (also /quit and Ctrl-D)
  /help    this list`

// converse answers line after line. On a terminal neither a failed nor an
// interrupted turn ends the chat.
func (c *chat) converse(ctx context.Context, next func() (string, error)) error {
	terminal := term.IsTerminal(c.In)
	for {
		if terminal { // drop a late interrupt of the last turn
			select {
			case <-c.interrupts:
			default:
			}
		}
		line, err := command.Await(ctx, next, c.interrupts)
		switch text := strings.TrimSpace(line); {
		case errors.Is(err, io.EOF) && text == "", text == ":q", text == "/quit":
			return nil
		case err != nil && !errors.Is(err, io.EOF):
			return err
		case text == "":
			continue
		case text == "/help":
			c.Say(help)
			continue
		}
		err = c.interruptible(ctx, func(ctx context.Context) error { return c.answer(ctx, line) })
		switch {
		case errors.Is(err, render.ErrInterrupted) && (ctx.Err() != nil || !terminal), errors.Is(err, render.ErrOutputClosed), errors.Is(err, render.ErrDetached):
			return err
		case err != nil && !errors.Is(err, render.ErrInterrupted) && !errors.Is(err, render.ErrReported):
			c.PrintError(err)
		}
	}
}

// answer runs a turn with one line. If the daemon has exited since the last turn,
// another is found or started.
func (c *chat) answer(ctx context.Context, line string) error {
	c.req.Message, c.req.Command, c.req.Arguments = line, "", ""
	err := c.turn(ctx)
	if !errors.Is(err, rpc.ErrConnect) || c.d.Named {
		return err
	}
	old := c.d
	if err := c.attach(ctx); err != nil {
		return err
	}
	old.Close()
	if old.Started() != nil {
		c.Say("Warning: the services had ended and were started again%s", map[bool]string{true: ": what was said before is lost"}[old.Discards()])
	}
	return c.turn(ctx)
}

// turn runs the turn of c.req. A session that is continued in another one stays there.
func (c *chat) turn(ctx context.Context) (err error) {
	if err := turn.Trust(ctx, c.Env, c.d, c.req.Root); err != nil {
		return err
	}
	turn.Slash(ctx, c.d, &c.req)
	c.req.SessionID, err = turn.Run(ctx, c.Env, c.d, c.req, c.turns)
	return err
}

// interruptible runs do with a context that Ctrl-C cancels.
func (c *chat) interruptible(ctx context.Context, do func(context.Context) error) error {
	ctx, received, stop := command.CancelOn(ctx, c.interrupts)
	err := do(ctx)
	interrupted := err != nil && ctx.Err() != nil
	stop()
	switch {
	case errors.Is(err, render.ErrDetached):
		return err
	case interrupted:
		return command.Interruption(ctx)
	}
	if s := received(); s != nil { // do had already returned: interrupt the next step
		select {
		case c.interrupts <- s:
		default:
		}
	}
	return err
}

// leave prints how to continue the session, or removes it.
func (c *chat) leave() {
	if c.discarded {
		c.removeSession(c.req.SessionID)
		return
	}
	if !term.IsTerminal(c.In) {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), leaveLimit)
	defer cancel()
	if stored, err := c.isStored(ctx, c.req.SessionID); stored && err == nil {
		c.Say("To go on: %s", c.resumeCommand(c.req.SessionID))
	}
}

// resumeCommand returns the command that continues a session.
func (c *chat) resumeCommand(id string) string {
	return programName() + " sessions resume " + turn.ShortID(id) + strings.Join(c.resumeOptions(), "")
}

// programName returns how the user called this program.
func programName() string {
	if strings.Contains(os.Args[0], "/") { // not in PATH
		return render.ShellWord(os.Args[0])
	}
	return "zino"
}

// resumeOptions returns the options that are needed to come back.
func (c *chat) resumeOptions() (options []string) {
	if c.File != "" {
		options = append(options, render.ShellFlag("--config", connect.Absolute(c.File)))
	}
	if c.Socket != "" {
		options = append(options, render.ShellFlag("--socket", connect.Absolute(c.Socket)))
	}
	if c.Host {
		options = append(options, " --host")
	}
	if c.RootSet {
		options = append(options, render.ShellFlag("--root", c.req.Root))
	}
	return options
}

// isStored reports whether a session has exactly this id: mem also matches prefixes.
func (c *chat) isStored(ctx context.Context, id string) (bool, error) {
	found, err := connect.Forward(ctx, c.d, "mem", proto.MemFindSession, proto.FindSession{SessionID: id})
	return found.SessionID == id, err
}

// leaveLimit limits the requests at the end of a chat.
const leaveLimit = 5 * time.Second

// removeSession deletes a session of a chat with --no-save, unless the services do when they
// end.
func (c *chat) removeSession(id string) {
	if c.d.Discards() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), leaveLimit)
	defer cancel()
	if err := c.remove(ctx, id); err != nil && !errors.Is(err, proto.ErrNotFound) && !errors.Is(err, proto.ErrInvalid) {
		c.Say("Warning: the session stays: %v; try: zino sessions rm %s", err, id)
	}
}

// remove deletes a session. It retries while an interrupted turn has it locked.
func (c *chat) remove(ctx context.Context, id string) error {
	if stored, err := c.isStored(ctx, id); !stored {
		return err
	}
	for {
		_, err := connect.Forward(ctx, c.d, "mem", proto.MemRemoveSession, proto.RemoveSession{SessionID: id})
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

package chat

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"zino/services/chat/screen"
)

const (
	// printedMax is how much finished text is kept while another program has the
	// terminal. Then the daemon has to wait.
	printedMax = 16 << 20
	// stopTime is how long a program has to end after SIGTERM.
	stopTime = 2 * time.Second
)

// program is another program that has the terminal: an editor or a pager. Meanwhile the
// loop handles packets, but reads no keys and draws nothing.
type program struct {
	cmd   *exec.Cmd
	ended chan error
	then  func(err error)
}

// lend gives the terminal to a program. then runs in the loop when the terminal is the
// chat's again.
func (c *chat) lend(cmd *exec.Cmd, then func(err error)) {
	c.leaveTerminal()
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if cmd.Stdin == nil {
		cmd.Stdin = os.Stdin
	}
	p := &program{cmd: cmd, ended: make(chan error, 1), then: then}
	c.program = p
	if err := cmd.Start(); err != nil {
		c.regain(err)
		return
	}
	go func() {
		p.ended <- cmd.Wait()
		c.after(func() {
			if c.program == p {
				c.regain(<-p.ended)
			}
		})
	}()
}

// regain takes the terminal back after the program has ended.
func (c *chat) regain(err error) {
	p := c.program
	c.program = nil
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() < 0 { // by a signal: it has restored nothing
		os.Stdout.WriteString(screen.Reset)
	}
	if err := c.terminal.Restore(); err != nil {
		c.hangup()
	}
	if c.exit == nil {
		c.enterTerminal()
	}
	p.then(err)
}

// endProgram ends the program that has the terminal, when the chat ends.
func (c *chat) endProgram() {
	p := c.program
	if p == nil {
		return
	}
	p.cmd.Process.Signal(syscall.SIGTERM) // fails if it has ended: Wait says so
	var err error
	select {
	case err = <-p.ended:
	case <-time.After(stopTime):
		p.cmd.Process.Kill()
		err = <-p.ended
	}
	c.regain(err)
}

// leaveTerminal gives the terminal back, as it was.
func (c *chat) leaveTerminal() {
	c.awaitAnswers()
	c.screen.Leave()
	c.keys.Suspend()
	c.terminal.Leave()
}

// enterTerminal takes the terminal over again.
func (c *chat) enterTerminal() {
	if err := c.terminal.Enter(); err != nil {
		c.hangup()
		return
	}
	c.keys.Resume()
	c.screen.Resized()
}

// shellCommand returns the command of a variable such as $EDITOR, with arguments. The shell
// runs what only it understands.
func shellCommand(line string, args ...string) *exec.Cmd {
	words := strings.Fields(line)
	if strings.ContainsAny(line, "|&;<>()$`\\\"'*?[#~=%\n") || len(words) == 0 {
		return exec.Command("sh", append([]string{"-c", line + ` "$@"`, "sh"}, args...)...)
	}
	return exec.Command(words[0], append(words[1:], args...)...)
}

// edit has the user edit a text in $VISUAL, $EDITOR or vi. then runs in the loop.
func (c *chat) edit(s string, then func(edited string, err error)) {
	dir, err := os.MkdirTemp("", "zino-") // 0700
	if err != nil {
		then("", err)
		return
	}
	path := filepath.Join(dir, "message.md")
	if err := os.WriteFile(path, []byte(s), 0o600); err != nil {
		then("", errors.Join(err, os.RemoveAll(dir)))
		return
	}
	editor := cmp.Or(os.Getenv("VISUAL"), os.Getenv("EDITOR"), "vi")
	c.lend(shellCommand(editor, path), func(err error) {
		if err != nil {
			then("", errors.Join(fmt.Errorf("%s: %w", editor, err), os.RemoveAll(dir)))
			return
		}
		data, err := os.ReadFile(path)
		then(string(bytes.ToValidUTF8(data, []byte("\ufffd"))), errors.Join(err, os.RemoveAll(dir)))
	})
}

// editText edits the message in the user's editor.
func (c *chat) editText() {
	c.edit(c.editor.Text(), func(edited string, err error) {
		if err != nil {
			c.say("The message is unchanged: %s", safe(err.Error()))
			return
		}
		c.editor.Revise(edited)
	})
}

// page shows a text in $PAGER.
func (c *chat) page(s string) {
	pager := cmp.Or(os.Getenv("PAGER"), "less -R")
	cmd := shellCommand(pager)
	cmd.Stdin = strings.NewReader(s)
	c.lend(cmd, func(err error) {
		if err != nil {
			c.say("%s: %s", safe(pager), safe(err.Error()))
		}
	})
}

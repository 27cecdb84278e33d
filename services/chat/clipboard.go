package chat

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"zino/pkg/text"
)

const (
	// clipMax is how much OSC 52 carries: terminals drop longer sequences.
	clipMax = 1 << 20
	// clipTime is how long a program for the clipboard may take.
	clipTime = 5 * time.Second
)

// clipPrograms put their standard input into the clipboard.
var clipPrograms = [][]string{{"wl-copy"}, {"xclip", "-selection", "clipboard"}, {"pbcopy"}}

// copy copies the last answer, or a block of code of it, to the clipboard: by OSC 52, and
// by a program for terminals that do not know this.
func (c *chat) copy(args string) {
	what := c.answer
	if what == "" {
		c.say("There is no answer yet.")
		return
	}
	if args != "" {
		n, err := strconv.Atoi(args)
		blocks := text.Blocks(what)
		if err != nil || n < 1 || n > len(blocks) {
			c.say("The last answer has %s.", text.Count(len(blocks), "code block"))
			return
		}
		what = blocks[n-1].Text
	}
	if len(what) <= clipMax {
		c.write("\x1b]52;c;" + base64.StdEncoding.EncodeToString([]byte(what)) + "\x1b\\")
	}
	size := text.Count(strings.Count(strings.TrimSuffix(what, "\n"), "\n")+1, "line")
	await(c, &query{what: "Copying"}, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, toClipboard(ctx, what)
	}, func(_ struct{}, err error) {
		switch {
		case err == nil:
			c.say("Copied %s.", size)
		case len(what) > clipMax:
			c.say("Not copied: %s", safe(err.Error()))
		default:
			c.say("Copied %s, if the terminal allows it. %s", size, safe(err.Error()))
		}
	})
}

// toClipboard runs the first program that succeeds. Without any, the terminal alone has the
// text.
func toClipboard(ctx context.Context, what string) error {
	var failed error
	for _, program := range clipPrograms {
		path, err := exec.LookPath(program[0])
		if err != nil {
			continue
		}
		if err = clip(ctx, path, program[1:], what); err == nil {
			return nil
		}
		failed = cmp.Or(failed, fmt.Errorf("%s: %w", program[0], err))
	}
	if failed == nil && len(what) > clipMax {
		return errors.New("it is too long for the terminal, and wl-copy, xclip and pbcopy are missing")
	}
	return failed
}

// clip runs a program. wl-copy and xclip leave a process behind, which keeps standard
// error open.
func clip(ctx context.Context, path string, args []string, what string) error {
	ctx, cancel := context.WithTimeout(ctx, clipTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.WaitDelay = time.Second
	cmd.Stdin = strings.NewReader(what)
	var message bytes.Buffer
	cmd.Stderr = &message
	err := cmd.Run()
	switch {
	case err == nil, errors.Is(err, exec.ErrWaitDelay):
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("it did not end within %s", clipTime)
	case message.Len() > 0:
		return errors.New(text.OneLine(message.String()))
	}
	return err
}

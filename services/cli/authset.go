package cli

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"golang.org/x/term"

	keystore "zino/pkg/keys" // the type keys is the keyboard
)

// maxTyped is how many bytes of a line are read for a key or a code.
const maxTyped = 64 << 10

// authSet reads a key and keeps it.
func (a *app) authSet(ctx context.Context, account keystore.Account, place keyPlace) error {
	read := a.firstLine
	if isTerminal(a.in) {
		a.say("Get a key of %s at %s", account.Name, account.Page)
		read = func(ctx context.Context) (string, error) {
			return a.secret(ctx, "Key of "+account.Name+" (it is not shown): ")
		}
	}
	key, err := read(ctx)
	if err != nil {
		return err
	}
	if strings.TrimSpace(key) == "" {
		return fmt.Errorf("no key was given, and nothing was changed: zino auth set %s reads it from a prompt or from standard input", account.Name)
	}
	return a.keep(ctx, account, key, place)
}

// firstLine is the first line of standard input.
func (a *app) firstLine(ctx context.Context) (string, error) {
	r := bufio.NewReader(io.LimitReader(a.in, maxTyped))
	line, err := await(ctx, func() (string, error) { return r.ReadString('\n') }, nil)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return line, err
}

// secret reads a line from the terminal and shows nothing of it. The terminal
// is raw before anything is read and is given back whatever ends the reading.
func (a *app) secret(ctx context.Context, prompt string) (string, error) {
	out := a.screen()
	state, err := term.MakeRaw(int(a.in.Fd()))
	if err != nil {
		return "", fmt.Errorf("the terminal cannot be kept from showing the key: %w; pass it on standard input", err)
	}
	defer func() {
		term.Restore(int(a.in.Fd()), state) // there is nothing to be done about an error
		fmt.Fprintln(out)
	}()
	in := &interrupts{r: a.in}
	t := term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{in, out}, "")
	return await(ctx, func() (string, error) {
		line, err := t.ReadPassword(prompt)
		switch {
		case in.struck && err != nil:
			return "", errInterrupted
		case errors.Is(err, io.EOF): // Ctrl-D
			return "", nil
		}
		return line, err
	}, nil)
}

// interrupts notes that Ctrl-C was struck: the line editor tells it from the
// input's end no more.
type interrupts struct {
	r      io.Reader
	struck bool
}

// Read reads what was typed.
func (i *interrupts) Read(b []byte) (int, error) {
	n, err := i.r.Read(b)
	i.struck = i.struck || bytes.IndexByte(b[:n], ctrlC) >= 0
	return n, err
}

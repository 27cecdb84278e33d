package auth

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"zino/pkg/keys"
	"zino/proto"
	"zino/services/cli/command"
	"zino/services/cli/render"
	"zino/services/cli/term"
)

func newSet(env *command.Env) *cobra.Command {
	return accountCommand("set", "store a key, read from a prompt or from standard input", func(ctx context.Context, account keys.Account, at place) error {
		key, err := readKey(ctx, env, account)
		if err != nil {
			return err
		}
		if strings.TrimSpace(key) == "" {
			return proto.Errorf(proto.CodeInvalid, "no key was given, and nothing was changed: zino auth set %s reads it from a prompt or from standard input", account.Name)
		}
		return keep(ctx, env, account, key, at)
	})
}

// readKey reads a key from a prompt without an echo, or the first line of standard
// input.
func readKey(ctx context.Context, env *command.Env, account keys.Account) (string, error) {
	if !term.IsTerminal(env.In) {
		r := bufio.NewReader(io.LimitReader(env.In, readMax))
		line, err := command.Await(ctx, func() (string, error) { return r.ReadString('\n') }, nil)
		if errors.Is(err, io.EOF) {
			err = nil
		}
		return line, err
	}
	env.Say("Get a key of %s at %s", account.Name, account.Page)
	read, restore, err := term.Secret(env.In, term.Screen(env.Err), "Key of "+account.Name+" (it is not shown): ")
	if err != nil {
		return "", fmt.Errorf("the terminal cannot be kept from showing the key: %w; pass it on standard input", err)
	}
	defer restore()
	key, err := command.Await(ctx, read, nil)
	if errors.Is(err, term.ErrCtrlC) {
		err = render.ErrInterrupted
	}
	return key, err
}

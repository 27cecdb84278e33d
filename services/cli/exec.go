package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

const execLong = `Run one prompt: the answer goes to standard output, all else to standard error.

What a pipe or a file gives on standard input is appended to the prompt. The
turn is kept as a session, see zino sessions, unless --no-save is given.`

func (a *app) execCommand() *cobra.Command {
	var prompt string
	cmd := &cobra.Command{
		Use: "exec -p PROMPT", Short: "run one prompt and leave", Long: execLong, Annotations: printsJSON,
		Args: func(cmd *cobra.Command, args []string) error {
			a.agent = true
			return noArgs(cmd, args)
		},
		Example: "  zino exec -p 'what does this do?' <main.go\n  git diff | zino exec -p 'write a commit message' --no-save",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if strings.TrimSpace(prompt) == "" {
				return usageError{errors.New("zino exec needs a prompt: zino exec -p TEXT; try zino exec --help")}
			}
			ctx, stop := untilSignal(cmd.Context())
			defer stop()
			hearPipe()
			err := a.exec(ctx, prompt)
			if err != nil && ctx.Err() != nil && !errors.Is(err, errInterrupted) {
				a.interrupted()
				return errInterrupted
			}
			return err
		},
	}
	cmd.Flags().StringVarP(&prompt, "prompt", "p", "", "the `PROMPT`")
	return cmd
}

// inputPatience is how long standard input may keep silent at first.
const inputPatience = 3 * time.Second

// exec runs one prompt.
func (a *app) exec(ctx context.Context, prompt string) error {
	req, err := a.request()
	if err != nil {
		return err
	}
	input, err := a.input(ctx)
	if err != nil {
		return err
	}
	req.Message = joined(prompt, input)
	cfg, err := a.settings()
	if err != nil {
		return err
	}
	d, err := a.reach(ctx, cfg, false)
	if err != nil {
		return err
	}
	defer d.close()
	if !d.named {
		a.introduce(ctx, d)
		a.compare(ctx, d)
	}
	id, known, err := a.sessionOf(ctx, d)
	if err != nil {
		return unreachable(err)
	}
	a.tellLoaded(known)
	req.SessionID, req.NoSave = id, a.noSave
	s := a.shower()
	if err := s.begin(a.kept(id)); err != nil {
		return outputError(err)
	}
	return a.play(ctx, d, req, s)
}

// kept is the session that a header names, empty if none is kept.
func (a *app) kept(id string) string {
	if a.noSave {
		return ""
	}
	return id
}

// outputError is an error of writing standard output.
func outputError(err error) error {
	if lost(err) {
		return errLost
	}
	return err
}

// joined is the prompt with what came on standard input below it.
func joined(prompt, input string) string {
	if strings.TrimSpace(input) == "" {
		return prompt
	}
	return strings.TrimRight(prompt, "\n") + "\n\n" + input
}

// input reads standard input, if it is a pipe, a socket or a file. One that
// gives nothing at first is left alone, since many who start a program leave
// theirs open.
func (a *app) input(ctx context.Context) (string, error) {
	info, err := a.in.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice != 0 || info.IsDir() {
		return "", nil // closed, a terminal, /dev/null
	}
	timer := time.NewTimer(inputPatience)
	defer timer.Stop()
	text, err := readInput(ctx, a.in, timer.C)
	if errors.Is(err, errSilent) {
		a.say("Nothing came on standard input within %v: going on without it.", inputPatience)
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("standard input: %w", err)
	}
	return text, nil
}

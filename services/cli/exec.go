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

The prompt is the text of -p, or the words of the command. What a pipe or a file
gives on standard input is appended to it, or is the prompt if there is no other.
The turn is kept as a session, see zino sessions, unless --no-save is given.`

func (a *app) execCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "exec [PROMPT]", Short: "run one prompt and leave", Long: execLong, Annotations: printsJSON,
		Example: "  zino exec 'find the flaky test'\n  zino exec -p 'what does this do?' <main.go\n" +
			"  git diff | zino exec -p 'write a commit message' --no-save\n  zino exec <prompt.txt",
		RunE: a.runExec,
	}
	promptFlag(cmd, &a.prompt)
	return cmd
}

// promptFlag declares -p. zino -p TEXT means zino exec -p TEXT.
func promptFlag(cmd *cobra.Command, prompt *string) {
	cmd.Flags().StringVarP(prompt, "prompt", "p", "", "the `PROMPT` to run")
}

// runExec runs the prompt that -p, the words or standard input give.
func (a *app) runExec(cmd *cobra.Command, args []string) error {
	a.agent = true
	switch {
	case len(args) > 0 && cmd.Flags().Changed("prompt"):
		return usageError{fmt.Errorf("the prompt is given twice, with -p and as %q: quote all of it, or leave -p out", args[0])}
	case a.channel != "" || a.stream:
		return usageError{errors.New("--channel and --stream are for a plain message: zino MESSAGE")}
	case len(args) > 0:
		a.prompt = strings.Join(args, " ")
	}
	ctx, stop := untilSignal(cmd.Context())
	defer stop()
	hearPipe()
	err := a.exec(ctx, a.prompt)
	if err != nil && ctx.Err() != nil && !errors.Is(err, errInterrupted) {
		a.interrupted()
		return errInterrupted
	}
	return err
}

// inputPatience is how long standard input may keep silent at first.
const inputPatience = 3 * time.Second

// exec runs one prompt.
func (a *app) exec(ctx context.Context, prompt string) error {
	req, err := a.request()
	if err != nil {
		return err
	}
	input, err := a.input(ctx, strings.TrimSpace(prompt) == "")
	if err != nil {
		return err
	}
	if req.Message = joined(prompt, input); strings.TrimSpace(req.Message) == "" {
		return usageError{errors.New("zino exec needs a prompt: zino exec -p TEXT, or a text on standard input; try zino exec --help")}
	}
	cfg, err := a.settings()
	if err != nil {
		return err
	}
	d, err := a.reach(ctx, cfg, storageOptional)
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
	switch {
	case strings.TrimSpace(input) == "":
		return prompt
	case strings.TrimSpace(prompt) == "":
		return input
	}
	return strings.TrimRight(prompt, "\n") + "\n\n" + input
}

// input reads standard input if it is a pipe, a socket or a file. Input that is
// not needed is given up after inputPatience without a byte: many programs leave
// the standard input of their children open. Where it is the prompt, input waits.
func (a *app) input(ctx context.Context, needed bool) (string, error) {
	info, err := a.in.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice != 0 || info.IsDir() {
		return "", nil // closed, a terminal, /dev/null
	}
	timeout := time.After(inputPatience)
	if needed {
		timeout = nil
		notice := time.AfterFunc(inputPatience, func() { a.say("Waiting for the prompt on standard input.") })
		defer notice.Stop()
	}
	text, err := readInput(ctx, a.in, timeout)
	if errors.Is(err, errSilent) {
		a.say("Nothing came on standard input within %v: going on without it.", inputPatience)
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("standard input: %w", err)
	}
	return text, nil
}

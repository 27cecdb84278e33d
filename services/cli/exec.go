package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"zino/services/cli/command"
	"zino/services/cli/connect"
	"zino/services/cli/render"
	"zino/services/cli/turn"
)

// inputTimeout is the timeout for the first byte of standard input: many programs leave
// the standard input of their children open.
const inputTimeout = 3 * time.Second

// execFlags are the flags of zino exec, and of zino -p.
type execFlags struct{ prompt string }

func (e *execFlags) flags(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&e.prompt, "prompt", "p", "", "the `PROMPT` to run")
}

func newExec(env *command.Env) *cobra.Command {
	var e execFlags
	cmd := &cobra.Command{
		Use: "exec [PROMPT]", Short: "run one prompt and leave", Annotations: command.PrintsJSON,
		Long: `Run one prompt: the answer goes to standard output, all else to standard error.

The prompt is the text of -p, or the words of the command. What a pipe or a file
gives on standard input is appended to it, or is the prompt if there is no other.
The turn is kept as a session, see zino sessions, unless --no-save is given.`,
		Example: "  zino exec 'find the flaky test'\n  zino exec -p 'what does this do?' <main.go\n" +
			"  git diff | zino exec -p 'write a commit message' --no-save\n  zino exec <prompt.txt",
		RunE: func(cmd *cobra.Command, args []string) error { return e.run(cmd, env, args) },
	}
	e.flags(cmd)
	return cmd
}

// run runs the prompt of -p, of the words or of standard input.
func (e *execFlags) run(cmd *cobra.Command, env *command.Env, args []string) error {
	env.Events = true
	prompt := e.prompt
	if len(args) > 0 {
		if cmd.Flags().Changed("prompt") {
			return render.Usage("the prompt is given twice, with -p and as %q: quote all of it, or leave -p out", args[0])
		}
		prompt = strings.Join(args, " ")
	}
	ctx, stop := command.UntilSignal(cmd.Context())
	defer stop()
	command.CatchPipe()
	err := runPrompt(ctx, env, prompt)
	if err != nil && ctx.Err() != nil && !errors.Is(err, render.ErrInterrupted) && !errors.Is(err, render.ErrDetached) {
		env.Interrupted()
		return command.Interruption(ctx)
	}
	return err
}

func runPrompt(ctx context.Context, env *command.Env, prompt string) error {
	req, err := env.Request()
	if err != nil {
		return err
	}
	input, err := readStdin(ctx, env, strings.TrimSpace(prompt) == "")
	if err != nil {
		return err
	}
	switch req.Message = prompt; {
	case strings.TrimSpace(input) == "":
	case strings.TrimSpace(prompt) == "":
		req.Message = input
	default:
		req.Message = strings.TrimRight(prompt, "\n") + "\n\n" + input
	}
	if strings.TrimSpace(req.Message) == "" {
		return render.Usage("zino exec needs a prompt: zino exec -p TEXT, or a text on standard input; try zino exec --help")
	}
	cfg, err := env.Config()
	if err != nil {
		return err
	}
	env.OnHangup = cfg.CLI.OnHangup
	d, err := env.ConnectForTurn(ctx, cfg, connect.StorageOptional)
	if err != nil {
		return err
	}
	defer d.Close()
	if !d.Named {
		env.Introduce(ctx, d)
		env.CompareVersions(ctx, d)
	}
	id, known, err := turn.Session(ctx, env, d)
	if err != nil {
		return connect.Explain(err)
	}
	turn.NoteLoaded(env, known)
	req.SessionID, req.NoSave = id, env.NoSave
	stored := id
	if env.NoSave {
		stored = ""
	}
	turns := env.Turns()
	if err := turns.Begin(stored); err != nil {
		return render.OutputError(err)
	}
	_, err = turn.Run(ctx, env, d, req, turns)
	return err
}

// readStdin reads standard input if it is a pipe, a socket or a file. If there is a
// prompt already, it gives up after inputTimeout without a byte.
func readStdin(ctx context.Context, env *command.Env, needed bool) (string, error) {
	info, err := env.In.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice != 0 || info.IsDir() {
		return "", nil // closed, a terminal, /dev/null
	}
	timeout := time.After(inputTimeout)
	if needed {
		timeout = nil
		notice := time.AfterFunc(inputTimeout, func() { env.Say("Waiting for the prompt on standard input.") })
		defer notice.Stop()
	}
	input, err := command.ReadInput(ctx, env.In, timeout)
	if errors.Is(err, command.ErrSilent) {
		env.Say("Nothing came on standard input within %v: going on without it.", inputTimeout)
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("standard input: %w", err)
	}
	return input, nil
}

// Package cli is the command zino: it sends a request to the daemon, shows what
// comes back, and knows no provider and no tool. Where no daemon answers it
// brings a constellation of its own along for the run.
package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"zino/pkg/rpc"
	"zino/pkg/visible"
)

// Exit statuses.
const (
	exitOK          = 0
	exitError       = 1
	exitUsage       = 2
	exitInterrupted = 130
)

// usageError is a mistake on the command line: status 2.
type usageError struct{ error }

// errInterrupted ends a run that the user interrupted: status 130.
var errInterrupted = errors.New("interrupted")

// errQuiet ends a run with status 1 when everything has been said already.
var errQuiet = errors.New("")

// app is one run of the command.
type app struct {
	in       *os.File
	out, err *os.File

	config  string // --config
	socket  string // --socket
	channel string
	stream  bool
	prompt  string // --prompt
	private string // the directory of a constellation brought along: a hidden flag

	options
	agent bool       // the command plays turns: with --json its errors are events
	args  []string   // of the command line
	lines *jsonLines // what shows the turns, with --json
}

// Main runs the command and returns its exit status.
func Main(args []string, in, out, err *os.File) int {
	a := &app{in: in, out: out, err: err, args: args}
	cmd := a.command()
	if slices.ContainsFunc(args, func(arg string) bool { return strings.HasPrefix(arg, cobra.ShellCompRequestCmd) }) {
		a.complete(cmd) // which takes longer than all the rest of the tree
	}
	cmd.SetArgs(normalize(args))
	return a.status(cmd.ExecuteContext(context.Background()))
}

// normalize spells -ch, the specification's short form of --channel, in a way
// that the flag parser does not take for -c h, and --resume [ID] as the command.
func normalize(args []string) []string {
	list := make([]string, 0, len(args))
	if len(args) > 0 && args[0] == "--resume" {
		args = append([]string{"resume"}, args[1:]...)
	}
	for i, arg := range args {
		if arg == "--" {
			return append(list, args[i:]...)
		}
		if rest, ok := strings.CutPrefix(arg, "-ch"); ok && (rest == "" || rest[0] == '=') {
			arg = "--channel" + rest
		}
		list = append(list, arg)
	}
	return list
}

// status words an error, if there is one, and returns the exit status.
func (a *app) status(err error) int {
	var usage usageError
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, errInterrupted):
		return exitInterrupted
	case errors.As(err, &usage):
		a.complain(err)
		return exitUsage
	case err != errQuiet && err != errLost:
		a.complain(err)
	}
	return exitError
}

// oneLine is an error's text without anything that a terminal would act on.
func oneLine(err error) string {
	return strings.TrimSpace(strings.ReplaceAll(visible.Text(err.Error()), "\n", " "))
}

// command is the command without a subcommand, a message or a chat, with all
// others below it.
func (a *app) command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "zino [message]",
		Short: "an AI agent that belongs to the host", Long: long,
		Version:       rpc.VersionText(),
		SilenceErrors: true, SilenceUsage: true,
		Args:              cobra.ArbitraryArgs,
		Annotations:       printsJSON,
		PersistentPreRunE: a.checkOptions,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case cmd.Flags().Changed("prompt"):
				return a.runExec(cmd, args)
			case len(args) == 0:
				return a.chat(cmd.Context())
			}
			if err := cmp.Or(a.checkWord(cmd, args), a.checkPlain(cmd)); err != nil {
				return err
			}
			ctx, stop := untilSignal(cmd.Context())
			defer stop()
			return a.message(ctx, strings.Join(args, " "))
		},
	}
	cmd.SetOut(a.out)
	cmd.SetErr(a.err)
	cmd.SetVersionTemplate("zino {{.Version}}\n")
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		a.agent = cmd.HasParent() && speaks(cmd, nil)
		return usageError{fmt.Errorf("%w; try zino --help", err)}
	})
	a.flags(cmd)
	cmd.CompletionOptions.DisableDefaultCmd = true
	cmd.AddCommand(a.chatCommand(), a.resumeCommand(), a.loginCommand(), a.versionCommand())
	cmd.AddCommand(a.upCommand(), a.statusCommand(), a.doctorCommand(), a.describeCommand(), a.usageCommand(), a.modelsCommand())
	cmd.AddCommand(a.authCommand(), a.memoryCommand(), a.channelsCommand())
	cmd.AddCommand(a.execCommand(), a.replCommand(), a.pagesCommand(), a.evalCommand())
	cmd.AddCommand(a.sessionsCommand(), a.configCommand(), a.contextCommand(), a.handoffCommand(), a.completionCommand())
	cmd.SetHelpCommand(helpCommand())
	groupCommands(cmd)
	return cmd
}

// flags declares the flags of all commands, and those of a plain message.
func (a *app) flags(cmd *cobra.Command) {
	flags := cmd.PersistentFlags()
	flags.StringVarP(&a.config, "config", "c", "", "configuration `FILE` (default $ZINO_CONFIG, else your config.toml)")
	flags.StringVar(&a.socket, "socket", "", "`SOCKET` of the daemon to use")
	a.optionFlags(cmd)
	cmd.Flags().BoolVarP(&a.stream, "stream", "s", false, "print the answer of a plain message as it comes")
	promptFlag(cmd, &a.prompt)
	cmd.Flags().StringVar(&a.channel, "channel", "", "`NAME` of the history to add a plain message to (also -ch)")
}

// helpCommand is cobra's, except that a command that does not exist is a
// mistake and not an answer.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use: "help [command]", Short: "help about a command",
		RunE: func(cmd *cobra.Command, args []string) error {
			about, _, err := cmd.Root().Find(args)
			if err != nil || len(args) > 0 && about == cmd.Root() {
				return usageError{fmt.Errorf("there is no command %q: %s", args[0], cmp.Or(meant(cmd.Root(), args[0]), "zino --help lists them"))}
			}
			return about.Help()
		},
	}
}

// checkWord refuses a single bare word that is close to a command: it is more
// likely a mistyped command than a message.
func (a *app) checkWord(cmd *cobra.Command, args []string) error {
	bare := len(args) == 1 && args[0] != "" && !strings.ContainsAny(args[0], " \t\n")
	if !bare || cmd.ArgsLenAtDash() == 0 || a.stream || cmd.Flags().Changed("channel") {
		return nil
	}
	if what := meant(cmd, args[0]); what != "" {
		return usageError{fmt.Errorf("unknown command %q: %s; to send it as a message, type: zino -- %[1]s", args[0], what)}
	}
	return nil
}

// noArgs refuses arguments with status 2.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usageError{fmt.Errorf("zino %s takes no arguments, but was given %q; try zino %s --help", cmd.Name(), args[0], cmd.Name())}
	}
	return nil
}

// say prints a line for the person on stderr.
func (a *app) say(format string, args ...any) {
	fmt.Fprintln(a.err, visible.Text(fmt.Sprintf(format, args...)))
}

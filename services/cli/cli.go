// Package cli implements the command zino: it sends requests to the daemon and renders
// the answers. If no daemon runs it starts services for the time of the run.
//
// A command is a function New…(env) *cobra.Command with its flags, help and run in
// one place: in a file named after it here, or in a package of its own.
package cli

import (
	"cmp"
	"context"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"zino/pkg/rpc"
	"zino/services/cli/acp"
	"zino/services/cli/approvals"
	"zino/services/cli/audit"
	"zino/services/cli/auth"
	"zino/services/cli/chat"
	"zino/services/cli/command"
	"zino/services/cli/completion"
	"zino/services/cli/connect"
	"zino/services/cli/doctor"
	"zino/services/cli/jobs"
	"zino/services/cli/mcp"
	"zino/services/cli/memory"
	"zino/services/cli/policy"
	"zino/services/cli/render"
	"zino/services/cli/repl"
	"zino/services/cli/sessions"
	"zino/services/cli/skills"
	"zino/services/cli/status"
	"zino/services/cli/term"
	"zino/services/cli/trust"
	"zino/services/cli/undo"
)

// Template functions of cobra belong to the program, not to a command.
func init() {
	cobra.AddTemplateFunc("flagUsages", func(flags *pflag.FlagSet) string {
		return strings.TrimRight(flags.FlagUsagesWrapped(term.Width(os.Stdout)), "\n")
	})
}

// Main runs the command and returns its exit status.
func Main(args []string, in, out, err *os.File) int {
	env := &command.Env{In: in, Out: out, Target: connect.Target{Err: err}, Args: args}
	cmd := newCommand(env)
	if slices.ContainsFunc(args, func(arg string) bool { return strings.HasPrefix(arg, cobra.ShellCompRequestCmd) }) {
		completion.Complete(env, cmd, usageBy) // not always: it takes longer than building all commands
	}
	cmd.SetArgs(normalize(args))
	return env.Exit(cmd.ExecuteContext(context.Background()))
}

// normalize replaces -ch, the specification's short form of --channel, which the
// flag parser would read as -c h, and --resume [ID] by the command.
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

// newCommand returns zino: a message, a prompt or a chat, with all other commands
// below it.
func newCommand(env *command.Env) *cobra.Command {
	var e execFlags
	var m messageFlags
	cmd := &cobra.Command{
		Use:   "zino [message]",
		Short: "an AI agent that belongs to the host", Long: long,
		Version:       rpc.VersionText(),
		SilenceErrors: true, SilenceUsage: true,
		Args:              cobra.ArbitraryArgs,
		Annotations:       command.PrintsJSON,
		PersistentPreRunE: env.Check,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case cmd.Flags().Changed("prompt"):
				if m.channel != "" || m.stream {
					return render.Usage("--channel and --stream are for a plain message: zino MESSAGE")
				}
				return e.run(cmd, env, args)
			case len(args) == 0:
				return chat.Run(cmd, env)
			}
			return m.run(cmd, env, args)
		},
	}
	cmd.SetOut(env.Out)
	cmd.SetErr(env.Err)
	cmd.SetVersionTemplate("zino {{.Version}}\n")
	cmd.SetUsageTemplate(strings.NewReplacer(
		".LocalFlags.FlagUsages | trimTrailingWhitespaces", "flagUsages .LocalFlags",
		".InheritedFlags.FlagUsages | trimTrailingWhitespaces", "flagUsages .InheritedFlags").Replace(cmd.UsageTemplate()))
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		env.Events = cmd.HasParent() && command.RunsTurns(cmd, nil)
		return render.Usage("%w; try zino --help", err)
	})
	env.Flags(cmd)
	m.flags(cmd)
	e.flags(cmd)
	cmd.CompletionOptions.DisableDefaultCmd = true
	short := func(cmd *cobra.Command) *cobra.Command { // zino resume, zino login
		cmd.Args = command.AtMost(1)
		return cmd
	}
	for _, group := range []struct {
		id, title string
		commands  []*cobra.Command
	}{
		{"everyday", "Everyday:", []*cobra.Command{chat.New(env), newExec(env), short(chat.NewResume(env)), newModels(env), newUsage(env), doctor.New(env)}},
		{"turns", "Turns:", []*cobra.Command{newPs(env), newAttach(env), newSay(env), newStop(env), jobs.New(env), undo.New(env), undo.NewRedo(env), undo.NewDiff(env)}},
		{"approvals", "Approvals:", []*cobra.Command{approvals.New(env), approvals.NewApprove(env), approvals.NewDeny(env), policy.New(env), newHooks(env), trust.New(env), audit.New(env)}},
		{"sessions", "Sessions:", []*cobra.Command{sessions.New(env, chat.NewResume(env)), sessions.NewRecall(env), newHandoff(env), newContext(env)}},
		{"memory", "Memory:", []*cobra.Command{memory.New(env), newChannels(env)}},
		{"pages", "Live pages:", []*cobra.Command{repl.New(env), repl.NewPages(env), repl.NewEval(env)}},
		{"configuration", "Configuration:", []*cobra.Command{auth.New(env), short(auth.NewLogin(env)), mcp.New(env), acp.New(env), skills.New(env), newConfig(env), completion.New(env)}},
		{"services", "Services:", []*cobra.Command{newUp(env), status.New(env), newDescribe(env), newVersion(env)}},
	} {
		cmd.AddGroup(&cobra.Group{ID: group.id, Title: group.title})
		for _, sub := range group.commands {
			sub.GroupID = group.id
			cmd.AddCommand(sub)
		}
	}
	cmd.SetHelpCommand(newHelp())
	cmd.SetHelpCommandGroupID("services")
	return cmd
}

const long = `Zino is an AI agent that belongs to the host.

  zino                         open a chat: /help lists commands, Ctrl-D leaves
  zino -p "why does it fail?"  run one prompt
  git diff | zino -p "review"  run one prompt about the text of standard input
  zino --continue              go on with the latest session of this directory
  zino "what fills /var?"      answer one message, without a session

To connect a model, set ANTHROPIC_API_KEY, OPENAI_API_KEY, GEMINI_API_KEY or
OPENROUTER_API_KEY, store a key with zino auth set PROVIDER, log in with zino login
openrouter, or set [api] base_url with zino config edit. zino doctor checks it all.

On a terminal the chat is interactive; --plain, a pipe or TERM=dumb make it plain
lines, each of them a turn (zino chat --help).

If no daemon runs, zino starts its services for the time of the run.`

// newHelp returns zino help. Unlike cobra's, it refuses commands that do not exist.
func newHelp() *cobra.Command {
	return &cobra.Command{
		Use: "help [command]", Short: "help about a command",
		RunE: func(cmd *cobra.Command, args []string) error {
			about, _, err := cmd.Root().Find(args)
			if err != nil || len(args) > 0 && about == cmd.Root() {
				return render.Usage("there is no command %q: %s", args[0], cmp.Or(command.Suggest(cmd.Root(), args[0]), "zino --help lists them"))
			}
			return about.Help()
		},
	}
}

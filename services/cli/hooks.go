package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"zino/pkg/rpc"
	"zino/pkg/text"
	"zino/proto"
	"zino/services/cli/command"
	"zino/services/cli/connect"
	"zino/services/cli/render"
)

func newHooks(env *command.Env) *cobra.Command {
	return command.Group("hooks", "commands that run at events of a turn: list, test", `Hooks are commands of yours, of the host or of a project that run at events of a turn:
SessionStart, UserPromptSubmit, PreToolUse, PostToolUse, Stop, PreHandoff (or PreCompact)
and Notification. They read a JSON object on standard input. One that exits with status 2
blocks, and its standard error is the reason; with status 0 it may print a decision as
JSON. They run as the turn's commands do: in its root, at its sandbox level, without keys.

    [[hooks.PreToolUse]]               # in the file of zino config edit
    matcher = "Bash"                   # regular expression for names of tools
    command = "python3 ~/.config/zino/hooks/guard.py"

Those of .claude/settings.json of a project run once you trust the file (zino trust). The
page docs/hooks.md has the input and the decisions.`,
		newHooksList(env), newHooksTest(env))
}

func newHooksList(env *command.Env) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "list the hooks that run in this directory", Args: command.NoArgs, Annotations: command.PrintsJSON,
		Long: `List the hooks of turns in --root, or in the working directory: those of the host, yours,
and those of trusted files of the project, in the order in which their results count. With
--json each line is a hook.`,
		Example: "  zino hooks list\n  zino hooks list --json | jq -r .command",
		RunE: func(cmd *cobra.Command, _ []string) error {
			options, err := env.Request()
			if err != nil {
				return err
			}
			return env.WithDaemon(cmd, false, connect.StorageOptional, func(ctx context.Context, d *connect.Daemon) error {
				list, err := rpc.Call(ctx, d.Client, proto.DaemonHooks, proto.ListHooks{Root: options.Root})
				if err != nil {
					return err
				}
				for _, problem := range list.Problems {
					env.Say("Warning: %s", problem)
				}
				switch {
				case env.JSON():
					return env.Print(func(w io.Writer) error { return render.JSONList(w, list.Hooks) })
				case len(list.Hooks) == 0:
					return env.PrintLine("No hooks run here. To add one: zino config edit")
				}
				rows := [][]string{{"EVENT", "MATCHER", "COMMAND", "TIMEOUT", "ON FAILURE", "SOURCE", "FILE"}}
				for _, h := range list.Hooks {
					rows = append(rows, []string{
						h.Event, cmp.Or(h.Matcher, "*"), text.OneLine(h.Command), strconv.FormatFloat(float64(h.TimeoutMS)/1000, 'g', -1, 64) + "s", h.OnFailure, h.Source, h.File,
					})
				}
				return env.PrintTable(rows)
			})
		},
	}
}

func newHooksTest(env *command.Env) *cobra.Command {
	req := proto.TestHooks{}
	var input, response string
	cmd := &cobra.Command{
		Use: "test EVENT", Short: "run the hooks of an event that does not happen", Args: command.AtMost(1), Annotations: command.PrintsJSON,
		Long: `Run the hooks of EVENT as a turn in --root, or in the working directory, would, and print
what they read, what each of them printed, and what they decide together. No model is
asked, and no tool is called. PreToolUse and PostToolUse need --tool, with the input of
the call as --input; for other events --input has members to add to what the hooks read.
With --json the result is one object.`,
		Example: `  zino hooks test PreToolUse --tool bash --input '{"command":"rm -rf /"}'
  zino hooks test UserPromptSubmit --input '{"prompt":"deploy"}'`,
		ValidArgs: proto.HookEvents,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 || !slices.Contains(proto.HookEvents, args[0]) {
				return command.Mistake(cmd, "name an event: %s", strings.Join(proto.HookEvents, ", "))
			}
			if forCall := args[0] == proto.HookPreTool || args[0] == proto.HookPostTool; forCall != (req.Tool != "") {
				return command.Mistake(cmd, "PreToolUse and PostToolUse need --tool, other events take none")
			}
			for flag, value := range map[string]string{"input": input, "response": response} {
				if value = strings.TrimSpace(value); value != "" && (!json.Valid([]byte(value)) || value[0] != '{') {
					return command.Mistake(cmd, "--%s must be a JSON object", flag)
				}
			}
			options, err := env.Request()
			if err != nil {
				return err
			}
			req.Event = args[0]
			if input = strings.TrimSpace(input); input != "" {
				req.Input = proto.Raw(input)
			}
			if response = strings.TrimSpace(response); response != "" {
				req.Response = proto.Raw(response)
			}
			req.Root, req.Sandbox, req.Network, req.Env = options.Root, options.Sandbox, options.Network, options.Env
			return env.WithDaemon(cmd, false, connect.StorageOptional, func(ctx context.Context, d *connect.Daemon) error {
				test, err := rpc.Call(ctx, d.Client, proto.DaemonTestHooks, req)
				if err != nil {
					return err
				}
				return env.Print(func(w io.Writer) error {
					if env.JSON() {
						return render.JSON(w, test)
					}
					return printHookTest(w, test)
				})
			})
		},
	}
	cmd.Flags().StringVar(&req.Tool, "tool", "", "the tool that is called, such as bash")
	cmd.Flags().StringVar(&input, "input", "", "the input of the call, a JSON object")
	cmd.Flags().StringVar(&response, "response", "", "the result of the call, for PostToolUse")
	return cmd
}

// printHookTest prints the result of hooks. What they printed is untrusted.
func printHookTest(w io.Writer, test proto.HookTest) error {
	var b strings.Builder
	var indented bytes.Buffer
	if json.Indent(&indented, test.Input, "", "  ") != nil {
		indented.Reset()
		indented.Write(test.Input)
	}
	fmt.Fprintf(&b, "Input:\n%s\n", indented.String())
	for _, run := range test.Runs {
		end := cmp.Or(run.Failure, fmt.Sprintf("exit %d", run.ExitCode))
		fmt.Fprintf(&b, "\n%s (%s): %s, %d ms\n", run.Hook, run.Source, end, run.DurationMS)
		for _, out := range []struct{ name, text string }{{"stdout", run.Stdout}, {"stderr", run.Stderr}} {
			for line := range strings.Lines(out.text) {
				fmt.Fprintf(&b, "  %s: %s\n", out.name, strings.TrimRight(line, "\r\n"))
			}
		}
	}
	if len(test.Runs) == 0 {
		b.WriteString("\nNo hook matches: zino hooks list\n")
	}
	b.WriteByte('\n')
	for _, notice := range test.Notices {
		fmt.Fprintf(&b, "Notice: %s\n", notice)
	}
	if len(test.RunInput) > 0 {
		fmt.Fprintf(&b, "Changed input: %s\n", test.RunInput)
	}
	if test.Context != "" {
		fmt.Fprintf(&b, "For the model:\n%s\n", test.Context)
	}
	fmt.Fprintf(&b, "Decision: %s", test.Decision)
	if test.Reason != "" {
		fmt.Fprintf(&b, ": %s", test.Reason)
	}
	b.WriteByte('\n')
	_, err := io.WriteString(w, text.Visible(b.String()))
	return err
}

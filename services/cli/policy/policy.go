// Package policy implements zino policy: the rules that decide which calls of a model run.
package policy

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"zino/pkg/config"
	"zino/pkg/gate"
	"zino/pkg/text"
	"zino/proto"
	"zino/services/cli/command"
	"zino/services/cli/connect"
	"zino/services/cli/render"
)

// Exit statuses of zino policy test.
const (
	exitAsk  = command.Status(3)
	exitDeny = command.Status(4)
)

// Actions are those of a rule.
var Actions = []string{"allow", "ask", "deny"}

// Tools are names of tools with an argument that patterns are for.
var Tools = []string{"bash", "read", "write", "edit", "mcp", "egress"}

// New returns zino policy.
func New(env *command.Env) *cobra.Command {
	return command.Group("policy", "rules for the calls of a model: show, check, add, rm, test", `Rules say which calls of a model are allowed, asked about and denied. They stand in
two files: `+gate.HostFile+`, which root writes, and policy.toml in $ZINO_HOME,
else in $XDG_CONFIG_HOME/zino, else in ~/.config/zino. In a file the first rule that
matches decides; of the two files the stricter result counts. What no rule decides, the
mode does: see [gate] mode in man 5 zino.toml.

    version = 1
    [[rule]]
    action  = "allow"               # allow, ask or deny
    tool    = ["bash"]              # absent: all; "mcp:SERVER/TOOL", * allowed
    command = ["git status", "git diff *", "go test *"]
    [[rule]]
    action  = "deny"
    tool    = ["read", "write", "edit"]
    path    = ["~/.ssh/**", "/etc/shadow"]
    reason  = "private keys"

All keys of a rule must match. Further keys are host, sandbox, grantable (once, session
or always), and user, in the host's file only. In a command, * inside a word stands for
any characters of this word, and a last word * for any number of further words. A line
is allowed if each of its commands is; redirections count as write and read. A path is
absolute, below ~/, or relative to the root.

Rules are read at each use. While a file has a mistake, everything but reads is denied.
Patterns express intent, they confine nothing: only the sandbox confines.`,
		newShow(env), newCheck(env), newAdd(env), newRm(env), newTest(env))
}

// load returns the policy of this run.
func load(env *command.Env) (*gate.Policy, *config.Config, error) {
	cfg, err := env.Config()
	if err != nil {
		return nil, nil, err
	}
	p, err := connect.Policy(cfg)
	return p, cfg, err
}

func newShow(env *command.Env) *cobra.Command {
	return &cobra.Command{
		Use: "show", Short: "print the rules in their order, with their file", Args: command.NoArgs, Annotations: command.PrintsJSON,
		Long: `Print the rules in the order in which they are compared: those that are built in, those
of the host, and yours, whose numbers zino policy rm takes. With --json each line is an
object. The exit status is 1 if a file has a mistake.`,
		Example: "  zino policy show",
		RunE: func(*cobra.Command, []string) error {
			p, _, err := load(env)
			if err != nil {
				return err
			}
			type entry struct {
				File   string `json:"file"`
				Number int    `json:"number"`
				gate.Rule
			}
			var list []entry
			rows := [][]string{{"N", "ACTION", "TOOL", "MATCHES", "REASON", "FILE"}}
			builtin, host, own := p.Files()
			for _, f := range []*gate.File{builtin, host, own} {
				for i, r := range f.Rules {
					list = append(list, entry{f.Path, i + 1, r})
					rows = append(rows, []string{strconv.Itoa(i + 1), r.Action.String(), r.ToolNames(), cmp.Or(r.Patterns(), "-"), cmp.Or(r.Reason, "-"), f.Path})
				}
			}
			if env.JSON() {
				err = printJSON(env, list)
			} else {
				err = env.PrintTable(rows)
			}
			return report(env, p, err)
		},
	}
}

// printJSON prints the elements of a list, each on a line.
func printJSON(env *command.Env, list any) error {
	data, err := json.Marshal(list)
	if err != nil {
		return err
	}
	return env.Print(func(w io.Writer) error { return render.JSONItems(w, data) })
}

// report prints the mistakes in the files.
func report(env *command.Env, p *gate.Policy, err error) error {
	problems := p.Problems()
	for _, problem := range problems {
		env.Say("%s", problem)
	}
	if err == nil && len(problems) > 0 {
		env.Say("Only reads are allowed until this is corrected.")
		return render.ErrReported
	}
	return err
}

func newCheck(env *command.Env) *cobra.Command {
	return &cobra.Command{
		Use: "check", Short: "list the mistakes in the rules, and what they cannot do", Args: command.NoArgs, Annotations: command.PrintsJSON,
		Long: `List the mistakes in the two files, each with its line and column. Warnings say what a
rule cannot do at sandbox level off. The exit status is 1 if there is a mistake. With
--json the result is one object.`,
		Example: "  zino policy check",
		RunE: func(*cobra.Command, []string) error {
			p, _, err := load(env)
			if err != nil {
				return err
			}
			_, host, own := p.Files()
			problems, warnings := p.Problems(), append(limits(host), limits(own)...)
			if env.JSON() {
				if err := render.JSON(env.Out, struct {
					OK       bool     `json:"ok"`
					Problems []string `json:"problems"`
					Warnings []string `json:"warnings"`
				}{len(problems) == 0, append([]string{}, problems...), append([]string{}, warnings...)}); err != nil {
					return err
				}
				if len(problems) > 0 {
					return render.ErrReported
				}
				return nil
			}
			for _, w := range warnings {
				env.Say("Warning: %s", w)
			}
			if len(problems) == 0 {
				return env.PrintLine(fmt.Sprintf("The rules are fine: %d of the host, %d of yours.", len(host.Rules), len(own.Rules)))
			}
			return report(env, p, nil)
		},
	}
}

// limits says what the rules of a file cannot do at level off.
func limits(f *gate.File) (warnings []string) {
	for _, r := range f.Rules {
		at := fmt.Sprintf("%s:%d: ", f.Path, r.Line)
		switch {
		case !r.AtOff():
		case r.Action == gate.Allow && (len(r.Tools) == 0 || slices.Contains(strings.Split(r.ToolNames(), ","), "bash")):
			warnings = append(warnings, at+"Patterns express intent, they confine nothing: `go test` runs any code. Only the sandbox confines.")
		case r.Action == gate.Deny && len(r.Paths) > 0:
			warnings = append(warnings, at+"at sandbox level off commands can reach these paths.")
		}
	}
	return warnings
}

func newAdd(env *command.Env) *cobra.Command {
	return &cobra.Command{
		Use: "add ACTION TOOL [PATTERN]", Short: "add a rule to your policy",
		Long: `Add a rule at the end of your policy: allow, ask or deny, for a tool. PATTERN is a
command for bash, a path for read, write and edit, SERVER/TOOL for mcp, and a host for
egress. Without it the rule is for all calls of the tool.`,
		Example: "  zino policy add allow bash \"go test *\"\n  zino policy add deny read '~/.ssh/**'\n  zino policy add ask mcp 'files/*'",
		RunE: func(cmd *cobra.Command, args []string) error {
			var action gate.Action
			switch {
			case len(args) < 2 || len(args) > 3:
				return command.Mistake(cmd, "name an action, a tool and, in quotes, a pattern: allow bash \"go test *\"")
			case action.UnmarshalText([]byte(args[0])) != nil:
				return command.Mistake(cmd, "%q is not an action: allow, ask or deny", args[0])
			case args[1] == "":
				return command.Mistake(cmd, "the name of the tool is empty")
			}
			pattern := ""
			if len(args) == 3 {
				if pattern = args[2]; strings.TrimSpace(pattern) == "" {
					return command.Mistake(cmd, "the pattern is empty: leave it out for all calls of %s", args[1])
				}
			}
			return change(cmd, env, func(f *gate.File) ([]byte, string, error) {
				data, err := f.Add(action, args[1], pattern)
				return data, fmt.Sprintf("Rule %d was added to %s.", len(f.Rules)+1, f.Path), err
			})
		},
	}
}

func newRm(env *command.Env) *cobra.Command {
	return &cobra.Command{
		Use: "rm N", Short: "remove a rule from your policy, by its number",
		Long:    "Remove a rule from your policy by its number in zino policy show.",
		Example: "  zino policy rm 2",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return command.Mistake(cmd, "name one rule by its number: zino policy show lists them")
			}
			n, err := strconv.Atoi(args[0])
			if err != nil {
				return command.Mistake(cmd, "%q is not the number of a rule: zino policy show lists them", args[0])
			}
			return change(cmd, env, func(f *gate.File) ([]byte, string, error) {
				data, err := f.Remove(n)
				if err != nil {
					return nil, "", err
				}
				r := f.Rules[n-1]
				return data, strings.TrimSpace(fmt.Sprintf("Rule %d was removed: %s %s %s", n, r.Action, r.ToolNames(), r.Patterns())), nil
			})
		},
	}
}

// change replaces the user's policy, and prints what was done.
func change(cmd *cobra.Command, env *command.Env, edit func(*gate.File) ([]byte, string, error)) error {
	if err := command.CheckPerson(cmd); err != nil {
		return err
	}
	p, _, err := load(env)
	if err != nil {
		return err
	}
	_, _, f := p.Files()
	if len(f.Problems) > 0 {
		return proto.Errorf(proto.CodeInvalid, "your policy has a mistake and was not changed: %s", f.Problems[0])
	}
	data, done, err := edit(f)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(f.Path), 0o700); err != nil {
		return err
	}
	if err := command.WriteFile(f.Path, 0o600, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	}); err != nil {
		return err
	}
	return env.PrintLine(done)
}

func newTest(env *command.Env) *cobra.Command {
	return &cobra.Command{
		Use: "test TOOL ARG", Short: "say what would happen to a call, and why", Annotations: command.PrintsJSON,
		Long: `Say whether a call would be allowed, asked about or denied, without carrying it out.
ARG is the command of bash, the path of read, write and edit, SERVER/TOOL for mcp, the
host for egress, and the action of job. Each line says what is decided about a simple
command or a redirection, and which rule or mode decides; the last one says what is
decided about the call. The mode is that of --mode, $ZINO_MODE or [gate] mode, else it
follows from the sandbox level, that of --sandbox or [exc] sandbox.

The exit status is 0 for allow, 3 for ask, 4 for deny. With --json the result is one
object.`,
		Example: "  zino policy test bash 'git status && make install'\n  zino policy test --mode auto write /etc/hosts",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 2 {
				return command.Mistake(cmd, "name a tool and, in quotes, what it is called with: bash 'git status'")
			}
			p, cfg, err := load(env)
			if err != nil {
				return err
			}
			c, err := callOf(env, cfg, args[0], args[1])
			if err != nil {
				return err
			}
			d := p.Decide(c)
			if env.JSON() {
				err = printJSON(env, []gate.Decision{d})
			} else {
				err = env.Print(func(w io.Writer) error { return printDecision(w, d) })
			}
			switch {
			case err != nil:
				return err
			case d.Action == gate.Deny:
				return exitDeny
			case d.Action == gate.Ask:
				if pattern := gate.Propose(c.Command); pattern != "" && strings.HasPrefix(d.Parts[0].Rule, "mode ") && !env.JSON() {
					env.Say("To allow it: zino policy add allow bash %q", pattern)
				}
				return exitAsk
			}
			return nil
		},
	}
}

// callOf returns the call that is tested.
func callOf(env *command.Env, cfg *config.Config, tool, arg string) (*gate.Call, error) {
	root, err := env.RootDir()
	if err != nil {
		return nil, err
	}
	level := cmp.Or(proto.Level(env.Sandbox), cfg.Exc.Sandbox) // the flag was checked
	mode := cmp.Or(env.Mode, os.Getenv("ZINO_MODE"), cfg.Gate.Mode, string(gate.Derive(level)))
	if !slices.Contains(config.Modes, mode) {
		return nil, render.Usage("ZINO_MODE %q is not one of %s", mode, strings.Join(config.Modes, ", "))
	}
	c := &gate.Call{
		Tool: tool, Root: root, UID: os.Getuid(), Sandbox: level, Mode: gate.Mode(mode),
		FromSandbox: cfg.Repl.FromSandbox, Trusted: true,
	}
	if home, err := os.UserHomeDir(); err == nil {
		c.Home = home
		if real, err := filepath.EvalSymlinks(home); err == nil {
			c.Home = real
		} else if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	if u, err := user.Current(); err == nil {
		c.User = u.Username
	}
	switch tool {
	case "bash":
		c.Command = arg
	case "read", "write", "edit":
		c.Path = arg
	case "mcp":
		c.Tool = "mcp:" + arg
	case "egress":
		c.Host = arg
	default:
		c.Action = arg
	}
	return c, nil
}

// printDecision prints a decision as text.
func printDecision(w io.Writer, d gate.Decision) error {
	for _, p := range d.Parts {
		why := p.Rule
		if p.Reason != "" {
			why += ": " + p.Reason
		}
		if _, err := fmt.Fprintf(w, "%-5s  %s  (%s)\n", p.Action, text.Visible(text.OneLine(p.Command)), text.Visible(why)); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(w, "decision: %s\n", d.Action)
	return err
}

// Package skills implements zino skills.
package skills

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"zino/pkg/catalog/skill"
	"zino/pkg/config"
	"zino/pkg/rpc"
	"zino/pkg/text"
	"zino/proto"
	"zino/services/cli/command"
	"zino/services/cli/connect"
	"zino/services/cli/render"
)

// New returns zino skills.
func New(env *command.Env) *cobra.Command {
	return command.Group("skills", "instructions for kinds of work: list, show, check", `A skill is a folder with a file SKILL.md: front matter with a description, and
instructions for a kind of work. The model sees the descriptions, and gets the
instructions when one fits. You use a skill with /NAME in a chat.

Skills are looked for in the project (.claude/skills, .agents/skills, once you trust
them: zino trust), in ~/.config/zino/skills, ~/.claude/skills and ~/.agents/skills, and
in /etc/zino/skills and the installation. Of equal names the first one counts.`,
		newList(env), newShow(env), newCheck(env))
}

// list returns the skills that a turn would have, the broken ones included.
func list(cmd *cobra.Command, env *command.Env, use func([]proto.Skill) error) error {
	options, err := env.Request()
	if err != nil {
		return err
	}
	return env.WithDaemon(cmd, false, connect.StorageOptional, func(ctx context.Context, d *connect.Daemon) error {
		report, err := rpc.Call(ctx, d.Client, proto.DaemonContext, proto.Preview{Root: options.Root})
		if err != nil {
			return err
		}
		return use(report.Skills)
	})
}

func newList(env *command.Env) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "list the skills", Args: command.NoArgs, Annotations: command.PrintsJSON,
		Long: `List the skills, nearest first. KIND is folder (a folder with SKILL.md) or json (a file
for the tool task). With --json each line is an object.`,
		Example: "  zino skills list\n  zino skills list --root ~/src/zino --json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return list(cmd, env, func(skills []proto.Skill) error {
				if env.JSON() {
					return env.Print(func(w io.Writer) error { return render.JSONList(w, skills) })
				}
				if len(skills) == 0 {
					return env.PrintLine("No skills.")
				}
				rows := [][]string{{"NAME", "KIND", "SOURCE", "STATE", "DESCRIPTION"}}
				for _, s := range skills {
					rows = append(rows, []string{s.Name, s.Kind, s.Source, state(s), render.Dash(s.Description)})
				}
				return env.PrintTable(rows)
			})
		},
	}
}

func state(s proto.Skill) string {
	switch {
	case s.Problem != "":
		return "broken"
	case s.Shadowed:
		return "shadowed"
	case s.UserOnly && s.ModelOnly:
		return "off"
	case s.UserOnly:
		return "command only"
	case s.ModelOnly:
		return "model only"
	}
	return "ok"
}

func newShow(env *command.Env) *cobra.Command {
	return &cobra.Command{
		Use: "show NAME", Short: "print a skill", Args: cobra.ExactArgs(1),
		Long:    "Print where a skill is, what is wrong with it, and its file.",
		Example: "  zino skills show pdf",
		RunE: func(cmd *cobra.Command, args []string) error {
			return list(cmd, env, func(skills []proto.Skill) error {
				var names []string
				for _, s := range skills {
					if s.Name == args[0] {
						return show(env, s)
					}
					names = append(names, s.Name)
				}
				if len(names) == 0 {
					return proto.Errorf(proto.CodeInvalid, "no skill %s: there are no skills", text.Quote(args[0]))
				}
				return proto.Errorf(proto.CodeInvalid, "no skill %s; did you mean %s?", text.Quote(args[0]), text.Quote(config.Nearest(args[0], names)))
			})
		},
	}
}

func show(env *command.Env, s proto.Skill) error {
	path := s.Dir
	if s.Kind == proto.SkillFolder {
		path = filepath.Join(s.Dir, skill.File)
	}
	return env.Print(func(w io.Writer) error {
		w = render.Escape(w)
		fmt.Fprintf(w, "%s  (%s, %s, %s)\n%s\n", s.Name, s.Kind, s.Source, state(s), path)
		for _, line := range remarks(s) {
			fmt.Fprintln(w, line)
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(w, "\n%s", content)
		return err
	})
}

// remarks returns what is wrong with a skill, a line each.
func remarks(s proto.Skill) (lines []string) {
	if s.Problem != "" {
		lines = append(lines, s.Problem)
	}
	for _, warning := range s.Warnings {
		lines = append(lines, "Warning: "+warning)
	}
	return lines
}

func newCheck(env *command.Env) *cobra.Command {
	return &cobra.Command{
		Use: "check [DIR]", Short: "find what is wrong with skills", Args: command.AtMost(1),
		Long: `Print what is wrong with the skills, with file and line. DIR is a skill's folder, or a
directory of such folders, which need not be in use. The exit status is 1 if a skill
cannot be used; warnings do not count.`,
		Example: "  zino skills check\n  zino skills check ~/src/skills/pdf",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return list(cmd, env, func(skills []proto.Skill) error { return check(env, skills) })
			}
			dir, err := filepath.Abs(args[0])
			if err == nil {
				_, err = os.ReadDir(dir)
			}
			if err != nil {
				return err
			}
			skills := new(skill.Loader).Check(dir)
			if len(skills) == 0 {
				return proto.Errorf(proto.CodeInvalid, "%s has no folder with a file %s", text.VisibleLine(dir), skill.File)
			}
			return check(env, skills)
		},
	}
}

func check(env *command.Env, skills []proto.Skill) error {
	broken, warnings := 0, 0
	var lines []string
	for _, s := range skills {
		lines = append(lines, remarks(s)...)
		warnings += len(s.Warnings)
		if s.Problem != "" {
			broken++
		}
	}
	lines = append(lines, fmt.Sprintf("%s, %d broken, %s", text.Count(len(skills), "skill"), broken, text.Count(warnings, "warning")))
	if err := env.PrintLine(strings.Join(lines, "\n")); err != nil {
		return err
	}
	if broken > 0 {
		return command.Status(1)
	}
	return nil
}

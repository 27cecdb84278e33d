// Package trust implements zino trust: which files of a project are used.
package trust

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"zino/pkg/rpc"
	"zino/proto"
	"zino/services/cli/command"
	"zino/services/cli/connect"
	"zino/services/cli/render"
	"zino/services/cli/term"
	"zino/services/cli/turn"
)

// New returns zino trust.
func New(env *command.Env) *cobra.Command {
	show := false
	cmd := &cobra.Command{
		Use: "trust", Short: "files of a project that need your trust: list, add, rm", Annotations: command.PrintsJSON,
		Long: `List the files of the directory --root that agents use, and whether you trust them:
MCP servers (.mcp.json), hooks (.claude/settings.json, .claude/settings.local.json),
skills (.claude/skills, .agents/skills) and commands (.claude/commands). Those of the
nearest parent with a .git, below your home, count as well.

A file is used only if you trust its content: zino asks when a turn starts, and again
when the content has changed. Hooks are trusted together with .claude/hooks, a skill
with all files in its folder. --show prints the commands, URLs and front matter. With
--json each line is an object.`,
		Example: "  zino trust --show\n  zino trust add .mcp.json\n  zino trust rm .claude/skills/pdf",
		Args:    command.AtMost(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			root, err := env.RootDir()
			if err != nil {
				return err
			}
			return env.WithDaemon(cmd, false, connect.StorageOptional, func(ctx context.Context, d *connect.Daemon) error {
				report, err := report(ctx, d, root)
				switch {
				case err != nil:
					return err
				case env.JSON():
					return env.Print(func(w io.Writer) error { return render.JSONList(w, report.Files) })
				case len(report.Files) == 0:
					return env.PrintLine("No file of " + render.Home(root) + " needs trust.")
				case show:
					return env.Print(func(w io.Writer) error {
						for _, f := range report.Files {
							if _, err := io.WriteString(w, turn.TrustText(f)); err != nil {
								return err
							}
						}
						return nil
					})
				}
				return env.PrintTable(rows(root, report.Files))
			})
		},
	}
	cmd.Flags().BoolVar(&show, "show", false, "print what each file would run or say")
	cmd.AddCommand(newAdd(env), newRemove(env))
	return cmd
}

func rows(root string, files []proto.TrustFile) [][]string {
	rows := [][]string{{"STATE", "FILE", "BRINGS"}}
	for _, f := range files {
		path := render.Home(f.Path)
		if rel, err := filepath.Rel(root, f.Path); err == nil && filepath.IsLocal(rel) {
			path = rel
		}
		state, brings := f.State, f.Summary
		if f.Problem != "" {
			state, brings = "unusable", f.Problem
		}
		rows = append(rows, []string{state, path, brings})
	}
	return rows
}

func report(ctx context.Context, d *connect.Daemon, root string) (proto.TrustReport, error) {
	if root == "" {
		return proto.TrustReport{}, &proto.Error{Code: proto.CodeInvalid, Message: "the host's services use no files of projects: leave --host out"}
	}
	return rpc.Call(ctx, d.Client, proto.DaemonTrust, proto.TrustRequest{Root: root})
}

func newAdd(env *command.Env) *cobra.Command {
	yes := false
	cmd := &cobra.Command{
		Use: "add FILE...", Short: "trust files of a project as they are now",
		Long: `Trust files of a project as they are now: .mcp.json, a settings file with hooks, the
folder of a skill, a command. What they bring is printed first, and on a terminal you
confirm it unless --yes is given. It does not run in a command of a model.`,
		Example: "  zino trust add .mcp.json .claude/skills/pdf",
		RunE: func(cmd *cobra.Command, args []string) error {
			return change(cmd, env, args, func(ctx context.Context, d *connect.Daemon, paths []string) error {
				var list []proto.TrustFile
				for _, path := range paths {
					f, err := find(ctx, d, path)
					if err != nil {
						return err
					}
					list = append(list, f)
					io.WriteString(env.Err, turn.TrustText(f)) // an error on stderr cannot be reported
				}
				if !yes && term.IsTerminal(env.In) {
					if ok, err := env.Confirm(ctx, "Trust this? [y/n] "); !ok {
						return err
					}
				}
				for _, f := range list {
					if err := set(ctx, d, proto.SetTrust{Path: f.Path, SHA256: f.SHA256, Trusted: new(true)}); err != nil {
						return err
					}
					if err := env.PrintLine("Trusted: " + render.Home(render.Line(f.Path))); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask for confirmation")
	return cmd
}

func newRemove(env *command.Env) *cobra.Command {
	return &cobra.Command{
		Use: "rm FILE...", Aliases: []string{"remove"}, Short: "forget your answers about files of a project",
		Long: `Forget your answers about files of a project, yes or no, for any content: they are not
used, and the next turn asks about them. The files may be gone.`,
		Example: "  zino trust rm .mcp.json",
		RunE: func(cmd *cobra.Command, args []string) error {
			return change(cmd, env, args, func(ctx context.Context, d *connect.Daemon, paths []string) error {
				for _, path := range paths {
					if err := set(ctx, d, proto.SetTrust{Path: path}); err != nil {
						return err
					}
					if err := env.PrintLine("Forgotten: " + render.Home(render.Line(path))); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
}

// change calls do with the absolute paths of args, for a person.
func change(cmd *cobra.Command, env *command.Env, args []string, do func(context.Context, *connect.Daemon, []string) error) error {
	if err := command.CheckPerson(cmd); err != nil {
		return err
	}
	if len(args) == 0 || slices.Contains(args, "") {
		return command.Mistake(cmd, "name the files: zino trust lists them")
	}
	var paths []string
	for _, arg := range args {
		path, err := inProject(arg)
		if err != nil {
			return err
		}
		paths = append(paths, path)
	}
	return env.WithDaemon(cmd, false, connect.StorageOptional, func(ctx context.Context, d *connect.Daemon) error { return do(ctx, d, paths) })
}

// inProject returns the path by which the daemon knows a file: that of its project without
// symbolic links, and the name in it.
func inProject(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	if filepath.Base(path) == "SKILL.md" {
		path = filepath.Dir(path)
	}
	dir := projectOf(path)
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return "", err
	}
	return real + strings.TrimPrefix(path, dir), nil
}

// projectOf returns the directory that has .mcp.json, .claude or .agents.
func projectOf(path string) string {
	for dir := path; dir != "/"; dir = filepath.Dir(dir) {
		if base := filepath.Base(dir); base == ".claude" || base == ".agents" {
			return filepath.Dir(dir)
		}
	}
	return filepath.Dir(path)
}

// find returns a file that can be trusted.
func find(ctx context.Context, d *connect.Daemon, path string) (proto.TrustFile, error) {
	report, err := report(ctx, d, projectOf(path))
	if err != nil {
		return proto.TrustFile{}, err
	}
	i := slices.IndexFunc(report.Files, func(f proto.TrustFile) bool { return f.Path == path })
	switch {
	case i < 0:
		return proto.TrustFile{}, &proto.Error{Code: proto.CodeNotFound, Message: fmt.Sprintf("%s is not a file that needs trust: zino trust lists those of a project", render.Line(path))}
	case report.Files[i].Problem != "":
		return proto.TrustFile{}, &proto.Error{Code: proto.CodeInvalid, Message: fmt.Sprintf("%s cannot be used: %s", render.Line(path), report.Files[i].Problem)}
	}
	return report.Files[i], nil
}

func set(ctx context.Context, d *connect.Daemon, req proto.SetTrust) error {
	_, err := rpc.Call(ctx, d.Client, proto.DaemonSetTrust, req)
	return err
}

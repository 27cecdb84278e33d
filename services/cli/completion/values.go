package completion

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"zino/pkg/approval"
	"zino/pkg/config"
	"zino/pkg/keys"
	"zino/pkg/rpc"
	"zino/proto"
	"zino/services/cli/command"
	"zino/services/cli/connect"
	"zino/services/cli/policy"
	"zino/services/cli/render"
	"zino/services/cli/sessions"
	"zino/services/cli/turn"
)

// Timeout is how long the Tab key waits for the answer of a service. Tests, which
// run on busy machines, set a longer one.
var Timeout = connect.Timeout

// Complete registers completions for the arguments and flags of all commands below
// root. by are the values of --by. Other flags are completed as files.
func Complete(env *command.Env, root *cobra.Command, by []string) {
	c := &completer{env}
	flags := map[string]cobra.CompletionFunc{
		"model": c.models, "session": c.sessions, "from-session": c.sessions, "root": directories, "dir": directories, "serve": directories,
		"sandbox": fixed(proto.LevelNames()), "provider": fixed(append([]string{"auto", "offline"}, config.Providers...)),
		"format": fixed([]string{command.FormatText, command.FormatJSON}), "input": fixed([]string{command.FormatText, command.FormatJSON}), "by": fixed(by), "effort": fixed(config.Efforts), "mode": fixed(config.Modes), "role": fixed(sessions.RecallRoles),
	}
	for _, name := range []string{"goal", "prompt", "system-prompt", "channel", "max-tokens", "tag", "timeout", "agent", "http", "since", "until", "limit", "from", "k", "min-score", "pattern", "note"} {
		flags[name] = cobra.NoFileCompletions
	}
	visit(root, func(cmd *cobra.Command) {
		if cmd.ValidArgsFunction == nil && !cmd.HasSubCommands() {
			cmd.ValidArgsFunction = c.arguments(cmd)
		}
		cmd.LocalFlags().VisitAll(func(flag *pflag.Flag) {
			fn := flags[flag.Name]
			if flag.Name == "format" && cmd.Name() == "export" {
				fn = fixed(sessions.ExportFormats)
			}
			if fn == nil || flag.Value.Type() == "bool" {
				return
			}
			if err := cmd.RegisterFlagCompletionFunc(flag.Name, fn); err != nil {
				panic(err) // the flag exists and is registered once
			}
		})
	})
}

func visit(cmd *cobra.Command, do func(*cobra.Command)) {
	do(cmd)
	for _, sub := range cmd.Commands() {
		visit(sub, do)
	}
}

type completer struct{ *command.Env }

// arguments returns the completion of a command's arguments.
func (c *completer) arguments(cmd *cobra.Command) cobra.CompletionFunc {
	switch strings.TrimPrefix(cmd.CommandPath(), "zino ") {
	case "undo", "redo", "diff":
		return c.undone
	case "sessions show", "sessions resume", "resume", "sessions export", "sessions fork", "sessions rename":
		return first(c.sessions)
	case "jobs output", "jobs keep":
		return first(c.jobs)
	case "jobs stop":
		return c.jobs
	case "attach", "say", "stop":
		return first(c.openTurns)
	case "approve", "deny", "approvals show":
		return first(c.approvals(cmd.Name() == "show"))
	case "approvals revoke":
		return first(c.grants)
	case "sessions rm":
		return c.sessions
	case "describe":
		return first(fixed(config.Services))
	case "auth set", "auth logout":
		var names []string
		for _, account := range keys.Accounts() {
			names = append(names, account.Name)
		}
		return first(fixed(names))
	case "auth login", "login":
		return first(fixed([]string{"openrouter"}))
	case "eval", "pages log", "pages outline":
		return first(c.pages)
	case "config get":
		var names []string
		for _, s := range config.Default().Settings() {
			names = append(names, s.Key)
		}
		return first(fixed(names))
	case "policy add":
		return inTurn(policy.Actions, policy.Tools)
	case "policy test":
		return inTurn(policy.Tools)
	case "memory import", "memory export", "config check":
		return nil // files
	}
	return cobra.NoFileCompletions
}

func fixed(values []string) cobra.CompletionFunc {
	return cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)
}

// inTurn completes each argument by values of its own.
func inTurn(values ...[]string) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) < len(values) {
			return values[len(args)], cobra.ShellCompDirectiveNoFileComp
		}
		return nil, cobra.ShellCompDirectiveDefault // a pattern may be a path
	}
}

func directories(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveFilterDirs
}

// undone completes a session, and files behind --.
func (c *completer) undone(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
	if cmd.ArgsLenAtDash() >= 0 {
		return nil, cobra.ShellCompDirectiveDefault
	}
	return first(c.sessions)(cmd, args, word)
}

// first completes the first argument only.
func first(fn cobra.CompletionFunc) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return fn(cmd, args, word)
	}
}

// ask calls do with each daemon that may run, until one answers. None is started,
// and nothing is printed.
func (c *completer) ask(ctx context.Context, do func(context.Context, *connect.Daemon) error) bool {
	cfg, err := c.Config()
	if err != nil {
		return false
	}
	places, err := c.Places(cfg, false)
	if err != nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	for _, p := range places {
		d := connect.At(p)
		err := do(ctx, d)
		d.Close()
		if err == nil {
			return true
		}
	}
	return false
}

// models completes the name of a model of --provider, or of any provider without it.
func (c *completer) models(cmd *cobra.Command, _ []string, word string) (names []string, _ cobra.ShellCompDirective) {
	c.ask(cmd.Context(), func(ctx context.Context, d *connect.Daemon) error {
		list, err := connect.Forward(ctx, d, "rtr", proto.RtrModels, proto.ModelsRequest{Provider: c.Provider})
		seen := map[string]bool{}
		for _, m := range list.Models {
			if strings.HasPrefix(m.Name, word) && !seen[m.Name] {
				seen[m.Name] = true
				names = append(names, cobra.CompletionWithDesc(m.Name, m.Provider))
			}
		}
		return err
	})
	return names, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
}

// sessions completes ids of sessions that are not on the command line yet, most
// recently changed first. Without a daemon it lists the files.
func (c *completer) sessions(cmd *cobra.Command, args []string, word string) (ids []string, _ cobra.ShellCompDirective) {
	const (
		most  = 200
		width = 40 // cells of the title
	)
	var list []proto.SessionSummary
	asked := c.ask(cmd.Context(), func(ctx context.Context, d *connect.Daemon) error {
		found, err := connect.Forward(ctx, d, "mem", proto.MemListSessions, proto.ListSessions{Limit: most})
		list = found.Sessions
		return err
	})
	if cfg, err := c.Config(); !asked && err == nil {
		list = storedSessions(cmp.Or(cfg.Mem.SessionsDir, filepath.Join(cfg.Mem.DataDir, "sessions")), most)
	}
	for _, s := range list {
		if strings.HasPrefix(s.SessionID, word) && !slices.Contains(args, s.SessionID) {
			ids = append(ids, cobra.CompletionWithDesc(s.SessionID, render.Cut(render.Line(s.Text), width)))
		}
	}
	return ids, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
}

// openTurns completes ids of sessions with an open turn.
func (c *completer) openTurns(cmd *cobra.Command, _ []string, word string) (ids []string, _ cobra.ShellCompDirective) {
	const width = 40 // cells of the message
	c.ask(cmd.Context(), func(ctx context.Context, d *connect.Daemon) error {
		open, err := turn.Open(ctx, d, false)
		seen := map[string]bool{}
		for _, t := range open {
			if strings.HasPrefix(t.SessionID, word) && !seen[t.SessionID] {
				seen[t.SessionID] = true
				ids = append(ids, cobra.CompletionWithDesc(t.SessionID, render.Cut(render.Line(t.Text), width)))
			}
		}
		return err
	})
	return ids, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
}

// storedSessions lists the session files in dir, most recently changed first, with
// the modification time as their text. It does not read the files.
func storedSessions(dir string, most int) []proto.SessionSummary {
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil // no sessions yet, or not readable for this user
	}
	type session struct {
		id      string
		changed time.Time
	}
	var found []session
	for _, file := range files {
		id, ok := strings.CutSuffix(file.Name(), ".jsonl")
		if !ok || command.CheckSession(id) != nil || !file.Type().IsRegular() {
			continue
		}
		if info, err := file.Info(); err == nil { // else it was just removed
			found = append(found, session{id, info.ModTime()})
		}
	}
	slices.SortFunc(found, func(a, b session) int { return b.changed.Compare(a.changed) })
	var list []proto.SessionSummary
	for _, s := range found[:min(most, len(found))] {
		list = append(list, proto.SessionSummary{SessionID: s.id, Text: s.changed.Local().Format(render.Minute)})
	}
	return list
}

// pages completes the name of a page: alone if it is unique, else with the id.
func (c *completer) pages(cmd *cobra.Command, _ []string, word string) (names []string, _ cobra.ShellCompDirective) {
	const width = 60 // cells of the description
	ctx, cancel := context.WithTimeout(cmd.Context(), Timeout)
	defer cancel()
	pages := c.connected(ctx)
	for _, p := range pages {
		name := p.Name
		if slices.ContainsFunc(pages, func(q proto.Page) bool { return q.Name == p.Name && q.ID != p.ID }) {
			name += "-" + p.ID
		}
		if strings.HasPrefix(name, word) {
			names = append(names, cobra.CompletionWithDesc(render.Line(name), render.Cut(render.Line(strings.TrimSpace(p.Kind+" "+p.URL)), width)))
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// connected lists the pages of a running REPL.
func (c *completer) connected(ctx context.Context) []proto.Page {
	cfg, err := c.Config()
	if err != nil {
		return nil
	}
	for _, socket := range c.ReplSockets(cfg) {
		client := &rpc.Client{Service: "repl", Path: socket}
		list, err := rpc.Call(ctx, client, proto.ReplPages, proto.PagesRequest{})
		client.Close()
		if err == nil {
			return list.Pages
		}
	}
	return nil
}

// jobs completes the id of a job, with its command as description.
func (c *completer) jobs(cmd *cobra.Command, given []string, word string) (ids []string, _ cobra.ShellCompDirective) {
	const width = 40 // cells of the command
	c.ask(cmd.Context(), func(ctx context.Context, d *connect.Daemon) error {
		list, err := connect.Forward(ctx, d, "exc", proto.ExcJobs, proto.ListJobs{})
		for _, j := range list.Jobs {
			if strings.HasPrefix(j.ID, word) && !slices.Contains(given, j.ID) {
				ids = append(ids, cobra.CompletionWithDesc(j.ID, render.Cut(render.Line(j.Command), width)))
			}
		}
		return err
	})
	return ids, cobra.ShellCompDirectiveNoFileComp
}

// approvals completes the id of a request that is pending, or, with all, of any, with its
// call as description.
func (c *completer) approvals(all bool) cobra.CompletionFunc {
	const width = 40 // cells of the call
	return func(cmd *cobra.Command, _ []string, word string) (ids []string, _ cobra.ShellCompDirective) {
		req := proto.ListApprovals{}
		if all {
			req.State = "all"
		}
		c.ask(cmd.Context(), func(ctx context.Context, d *connect.Daemon) error {
			list, err := rpc.Call(ctx, d.Client, proto.DaemonApprovals, req)
			for _, a := range list.Approvals {
				if strings.HasPrefix(a.ID, word) {
					ids = append(ids, cobra.CompletionWithDesc(a.ID, render.Cut(render.ApprovalLine(&a.Call), width)))
				}
			}
			return err
		})
		return ids, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	}
}

// grants completes the id of a grant, with what it allows as description.
func (c *completer) grants(cmd *cobra.Command, _ []string, word string) (ids []string, _ cobra.ShellCompDirective) {
	const width = 60 // cells of what it allows
	c.ask(cmd.Context(), func(ctx context.Context, d *connect.Daemon) error {
		list, err := rpc.Call(ctx, d.Client, proto.DaemonGrants, proto.ListGrants{})
		for _, g := range list.Grants {
			if strings.HasPrefix(g.ID, word) {
				ids = append(ids, cobra.CompletionWithDesc(g.ID, render.Cut(render.Line(approval.Granted(&g, render.Home)), width)))
			}
		}
		return err
	})
	return ids, cobra.ShellCompDirectiveNoFileComp
}

package cli

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"zino/pkg/config"
	keystore "zino/pkg/keys"
	"zino/proto"
)

// tabPatience is how long who presses Tab waits for ids of sessions. Tests are
// run on machines that have much else to do, and wait longer.
var tabPatience = patience

// complete says what may stand where, for all commands below root. Where it
// says nothing of a flag, files are completed.
func (a *app) complete(root *cobra.Command) {
	flags := map[string]cobra.CompletionFunc{
		"session": a.someSession, "from-session": a.someSession, "root": directories, "dir": directories, "serve": directories,
		"provider": fixed(append([]string{"auto", "offline"}, config.Providers...)), "format": fixed([]string{formatText, formatJSON}), "by": fixed(usageBy),
		"effort": fixed(config.Efforts),
	}
	for _, name := range []string{"goal", "prompt", "model", "system-prompt", "channel", "max-tokens", "tag", "timeout", "agent", "http", "since", "until", "limit"} {
		flags[name] = cobra.NoFileCompletions
	}
	every(root, func(cmd *cobra.Command) {
		if cmd.ValidArgsFunction == nil && !cmd.HasSubCommands() {
			cmd.ValidArgsFunction = a.arguments(cmd)
		}
		cmd.LocalFlags().VisitAll(func(flag *pflag.Flag) {
			fn := flags[flag.Name]
			if flag.Name == "format" && cmd.Name() == "export" {
				fn = fixed(exportFormats)
			}
			if fn == nil {
				return
			}
			if err := cmd.RegisterFlagCompletionFunc(flag.Name, fn); err != nil {
				panic(err) // the flag is there, and nobody else does this
			}
		})
	})
}

// arguments says what the arguments of a command may be.
func (a *app) arguments(cmd *cobra.Command) cobra.CompletionFunc {
	switch strings.TrimPrefix(cmd.CommandPath(), "zino ") {
	case "sessions show", "sessions resume", "resume", "sessions export", "sessions fork":
		return first(a.someSession)
	case "sessions rm":
		return a.someSession
	case "describe":
		return first(fixed(config.Services))
	case "auth set", "auth logout":
		var names []string
		for _, account := range keystore.Accounts() {
			names = append(names, account.Name)
		}
		return first(fixed(names))
	case "auth login", "login":
		return first(fixed([]string{"openrouter"}))
	case "eval":
		return first(a.somePage)
	case "config get":
		var names []string
		for _, s := range config.Default().Settings() {
			names = append(names, s.Key)
		}
		return first(fixed(names))
	case "memory import", "memory export", "config check":
		return nil // files
	}
	return cobra.NoFileCompletions
}

// every hands cmd and all commands below it to do.
func every(cmd *cobra.Command, do func(*cobra.Command)) {
	do(cmd)
	for _, sub := range cmd.Commands() {
		every(sub, do)
	}
}

func fixed(values []string) cobra.CompletionFunc {
	return cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)
}

func directories(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveFilterDirs
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

// someSession completes the id of a session that is not named yet, the one that
// changed last first. Who presses Tab wants an answer at once, or none.
func (a *app) someSession(cmd *cobra.Command, args []string, word string) (ids []string, _ cobra.ShellCompDirective) {
	const (
		most  = 200
		words = 40 // cells
	)
	ctx, cancel := context.WithTimeout(cmd.Context(), tabPatience)
	defer cancel()
	for _, s := range a.sessionsNow(ctx, most) {
		if strings.HasPrefix(s.SessionID, word) && !slices.Contains(args, s.SessionID) {
			ids = append(ids, cobra.CompletionWithDesc(s.SessionID, cut(inLine(s.Text), words)))
		}
	}
	return ids, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
}

// sessionsNow are the sessions of a daemon that is there already, if there is
// one and it answers: none is started, and nothing is said.
func (a *app) sessionsNow(ctx context.Context, most int) []proto.SessionSummary {
	cfg, err := a.settings()
	if err != nil {
		return nil
	}
	places, err := a.places(cfg, false)
	if err != nil {
		return nil
	}
	for _, p := range places {
		d := at(p)
		list, err := forward(ctx, d, "mem", proto.MemListSessions, proto.ListSessions{Limit: most})
		d.close()
		if err == nil {
			return list.Sessions
		}
	}
	return nil
}

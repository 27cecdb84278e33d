package cli

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
		"model": a.someModel, "session": a.someSession, "from-session": a.someSession, "root": directories, "dir": directories, "serve": directories,
		"sandbox": fixed(config.Sandboxes), "provider": fixed(append([]string{"auto", "offline"}, config.Providers...)), "format": fixed([]string{formatText, formatJSON}), "by": fixed(usageBy),
		"effort": fixed(config.Efforts),
	}
	for _, name := range []string{"goal", "prompt", "system-prompt", "channel", "max-tokens", "tag", "timeout", "agent", "http", "since", "until", "limit"} {
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

// sessionsNow are the sessions of a daemon that answers already, or those whose
// files are there: no service is started, and nothing is printed.
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
	return storedSessions(cmp.Or(cfg.Mem.SessionsDir, filepath.Join(cfg.Mem.DataDir, "sessions")), most)
}

// storedSessions lists the session files in dir, the one that changed last
// first. Their text is the time of the change: the files are not read.
func storedSessions(dir string, most int) []proto.SessionSummary {
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil // no sessions yet, or not for this user
	}
	type session struct {
		id      string
		changed time.Time
	}
	var found []session
	for _, file := range files {
		id, ok := strings.CutSuffix(file.Name(), ".jsonl")
		if !ok || !isSessionID(id) || !file.Type().IsRegular() {
			continue
		}
		if info, err := file.Info(); err == nil { // else it was just removed
			found = append(found, session{id, info.ModTime()})
		}
	}
	slices.SortFunc(found, func(a, b session) int { return b.changed.Compare(a.changed) })
	var list []proto.SessionSummary
	for _, s := range found[:min(most, len(found))] {
		list = append(list, proto.SessionSummary{SessionID: s.id, Text: s.changed.Local().Format("2006-01-02 15:04")})
	}
	return list
}

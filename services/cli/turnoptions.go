package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"zino/pkg/config"
)

// options are the flags that say how a turn goes. They may stand before or
// behind any command.
type options struct {
	root            string // --root; see rootDir
	rootSet         bool   // --root was given
	systemPrompt    string // --system-prompt; holds only if systemPromptSet
	systemPromptSet bool
	session         string // --session: an id, the beginning of one, or a new name
	noSave          bool
	provider        string
	model           string
	maxTokens       int
	effort          string // "": as configured
	format          string // "text" or "json"
	json            bool   // --json: the same as --format json
	reasoning       bool
	host            bool // the host's daemon is asked, and no other
	sandbox         string
	network         bool // --network; holds only if networkSet
	networkSet      bool
	latest          bool // the session that changed last is resumed
}

// optionFlags declares them for cmd and all commands below it.
func (a *app) optionFlags(cmd *cobra.Command) {
	flags := cmd.PersistentFlags()
	flags.StringVar(&a.root, "root", ".", "`DIR` that tools work in and whose AGENTS.md is used")
	flags.StringVar(&a.systemPrompt, "system-prompt", "", "`TEXT` to use as the system prompt; empty for none")
	flags.StringVar(&a.session, "session", "", "`ID` of the session to continue, or its beginning, or a new name")
	flags.BoolVar(&a.latest, "continue", false, "continue the latest session of this directory")
	flags.BoolVar(&a.noSave, "no-save", false, "do not store the session")
	flags.StringVar(&a.provider, "provider", "", "provider to use, by `NAME`: anthropic, openai, gemini, openrouter, ollama, offline, auto")
	flags.StringVar(&a.model, "model", "", "model to use, by `NAME`: see zino models")
	flags.IntVar(&a.maxTokens, "max-tokens", 0, "limit each answer to `N` tokens (default the provider's)")
	flags.StringVar(&a.effort, "effort", "", "reasoning effort, a `LEVEL`: off, low, medium, high, max (default [agent] effort, else the model's own)")
	flags.StringVar(&a.format, "format", formatText, "output `FORM`: text, or json with one event or object per line")
	flags.BoolVar(&a.json, "json", false, "the same as --format json")
	flags.BoolVar(&a.reasoning, "reasoning", false, "show the model's reasoning on standard error; most models send it with --effort only")
	flags.StringVar(&a.sandbox, "sandbox", "", "sandbox `LEVEL` for commands: off, read-only, workspace-write, unit (default [exc] sandbox)")
	flags.BoolVar(&a.network, "network", false, "allow network access in the sandbox; --network=false forbids it (default [exc] network)")
	flags.BoolVar(&a.host, "host", false, "use the host's daemon, whose tools cannot see your files")
}

// checkOptions refuses values that no command could make sense of.
func (a *app) checkOptions(cmd *cobra.Command, args []string) error {
	a.agent = speaks(cmd, args)
	flags := cmd.Root().PersistentFlags() // a command may have flags of the same names
	a.systemPromptSet, a.networkSet = flags.Changed("system-prompt"), flags.Changed("network")
	switch {
	case a.maxTokens < 0 || a.maxTokens == 0 && flags.Changed("max-tokens"):
		return usageError{fmt.Errorf("--max-tokens %d is not a number of tokens, 1 or more", a.maxTokens)}
	case flags.Changed("effort") && !slices.Contains(config.Efforts, a.effort):
		return usageError{fmt.Errorf("--effort %q is not one of %s", a.effort, strings.Join(config.Efforts, ", "))}
	case a.sandbox != "" && !slices.Contains(config.Sandboxes, a.sandbox):
		return usageError{fmt.Errorf("--sandbox %q is none of %s", a.sandbox, strings.Join(config.Sandboxes, ", "))}
	case a.sandbox == "off" && a.networkSet && !a.network:
		return usageError{fmt.Errorf("--sandbox off keeps no code from the network: choose another sandbox, or leave --network=false out")}
	case a.host && a.socket != "":
		return usageError{fmt.Errorf("--host and --socket name two daemons: choose one")}
	case a.latest && flags.Changed("session"):
		return usageError{fmt.Errorf("--continue and --session name two sessions: choose one")}
	case a.session == "" && !flags.Changed("session"):
	case !isSessionID(a.session):
		return usageError{notSession(a.session)}
	}
	if a.rootSet = flags.Changed("root"); a.rootSet {
		if _, err := a.rootDir(); err != nil {
			return err
		}
	}
	return a.checkFormat(cmd)
}

// checkPlain refuses what a plain message does not take: it would be sent as if
// the flag were not there.
func (a *app) checkPlain(cmd *cobra.Command) error {
	for _, name := range []string{"root", "session", "continue", "system-prompt", "format", "json", "reasoning", "sandbox", "network"} {
		if cmd.PersistentFlags().Changed(name) {
			return usageError{fmt.Errorf("--%s is for zino exec -p TEXT and for chats, not for a plain message", name)}
		}
	}
	return nil
}

// speaks reports whether a command has the agent work: its errors are told as
// those of a turn.
func speaks(cmd *cobra.Command, args []string) bool {
	if !cmd.HasParent() {
		return len(args) == 0
	}
	return slices.Contains([]string{"exec", "resume", "chat"}, cmd.Name())
}

// rootDir is the absolute path of --root, which must be a directory, without
// symbolic links: where code is confined, the executor follows none that the code
// could turn elsewhere, and a shell's working directory often leads through one.
// The host's daemon is sent none: it cannot see the caller's files.
func (a *app) rootDir() (string, error) {
	if a.host {
		return "", nil
	}
	dir, err := filepath.Abs(a.root)
	if err != nil {
		return "", usageError{fmt.Errorf("--root %s: the working directory is gone: %w", a.root, err)}
	}
	info, err := os.Stat(dir)
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		return "", usageError{fmt.Errorf("--root: %w", err)}
	}
	if !info.IsDir() {
		return "", usageError{fmt.Errorf("--root: %s is not a directory", dir)}
	}
	return dir, nil
}

// isSessionID reports whether id can be a session's id: a file's name and
// nothing else, as mem has it.
func isSessionID(id string) bool {
	const limit = 200 // bytes
	if id == "" || len(id) > limit || !utf8.ValidString(id) || id[0] == '.' || id[0] == '-' {
		return false
	}
	return !strings.ContainsFunc(id, func(r rune) bool {
		return r != '.' && r != '_' && r != '-' && !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r)
	})
}

func notSession(id string) error {
	return fmt.Errorf("%q is no name for a session: it may have letters, digits, '.', '_' and '-', and begins with a letter, a digit or '_'", id)
}

package command

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"zino/pkg/config"
	"zino/proto"
	"zino/services/cli/render"
)

// Options are the global flags, allowed before and after any command.
type Options struct {
	Root            string // --root; see RootDir
	RootSet         bool   // --root was given
	SystemPrompt    string
	SystemPromptSet bool   // --system-prompt was given, which may be empty
	Session         string // --session: an id, the beginning of one, or a new name
	Latest          bool   // --continue: the session that changed last
	NoSave          bool
	NoRecall        bool // --no-recall: new sessions are not found by zino recall
	Plain           bool
	Model           string
	MaxTokens       int
	Effort          string // "": as configured
	Format          string // "text" or "json"
	JSONFlag        bool   // --json
	Reasoning       bool
	Sandbox         string
	Network         bool
	NetworkSet      bool
	Mode            string // --mode or $ZINO_MODE; "": derived by the daemon
}

// Values of --format.
const (
	FormatText = "text"
	FormatJSON = "json"
)

// PrintsJSON is the Annotations of a command that supports --json. Other commands
// reject the flag.
var PrintsJSON = map[string]string{"json": "true"}

// Flags declares the flags of all commands.
func (e *Env) Flags(cmd *cobra.Command) {
	flags := cmd.PersistentFlags()
	flags.StringVarP(&e.File, "config", "c", "", "configuration `FILE` (default $ZINO_CONFIG, else your config.toml)")
	flags.StringVar(&e.Socket, "socket", "", "`SOCKET` of the daemon to use")
	flags.StringVar(&e.Root, "root", ".", "`DIR` that tools work in and whose AGENTS.md is used")
	flags.StringVar(&e.SystemPrompt, "system-prompt", "", "`TEXT` to use as the system prompt; empty for none")
	flags.StringVar(&e.Session, "session", "", "`ID` of the session to continue, or its beginning, or a new name")
	flags.BoolVar(&e.Latest, "continue", false, "continue the latest session of this directory")
	flags.BoolVar(&e.Plain, "plain", false, "chat: use plain lines, each a turn, in place of the interactive chat")
	flags.BoolVar(&e.NoSave, "no-save", false, "do not store the session")
	flags.BoolVar(&e.NoRecall, "no-recall", false, "keep a new session out of zino recall and of the tool recall_sessions")
	flags.StringVar(&e.Provider, "provider", "", "provider to use, by `NAME`: "+strings.Join(config.Providers, ", ")+", offline, auto")
	flags.StringVar(&e.Model, "model", "", "model to use, by `NAME`: see zino models")
	flags.IntVar(&e.MaxTokens, "max-tokens", 0, "limit each answer to `N` tokens (default the provider's)")
	flags.StringVar(&e.Effort, "effort", "", "reasoning effort, a `LEVEL`: off, low, medium, high, max (default [agent] effort, else the model's own)")
	flags.StringVar(&e.Format, "format", FormatText, "output `FORM`: text, or json with one event or object per line")
	flags.BoolVar(&e.JSONFlag, "json", false, "the same as --format json")
	flags.BoolVar(&e.Reasoning, "reasoning", false, "show the model's reasoning on standard error; most models send it with --effort only")
	flags.StringVar(&e.Sandbox, "sandbox", "", "sandbox `LEVEL` for commands: "+strings.Join(proto.LevelNames(), ", ")+" (default [exc] sandbox)")
	flags.StringVar(&e.Mode, "mode", "", "approval `MODE`: "+strings.Join(config.Modes, ", ")+" (default $ZINO_MODE, else [gate] mode, else by the sandbox level)")
	flags.BoolVar(&e.Network, "network", false, "allow network access in the sandbox; --network=false forbids it (default [exc] network)")
	flags.BoolVar(&e.Host, "host", false, "use the host's daemon, whose tools cannot see your files")
}

// Check refuses invalid options before a command runs.
func (e *Env) Check(cmd *cobra.Command, args []string) error {
	e.Events = RunsTurns(cmd, args)
	flags := cmd.Root().PersistentFlags() // a command may have flags of the same names
	e.SystemPromptSet, e.NetworkSet, e.RootSet = flags.Changed("system-prompt"), flags.Changed("network"), flags.Changed("root")
	if _, err := proto.ParseLevel(e.Sandbox); e.Sandbox != "" && err != nil {
		return render.Usage("--sandbox: %w", err)
	}
	modeFrom := "--mode"
	if !flags.Changed("mode") && e.Events {
		e.Mode, modeFrom = os.Getenv("ZINO_MODE"), "ZINO_MODE"
	}
	switch {
	case (e.Mode != "" || flags.Changed("mode")) && !slices.Contains(config.Modes, e.Mode):
		return render.Usage("%s %q is not one of %s", modeFrom, e.Mode, strings.Join(config.Modes, ", "))
	case e.MaxTokens < 0 || e.MaxTokens == 0 && flags.Changed("max-tokens"):
		return render.Usage("--max-tokens %d is not a number of tokens, 1 or more", e.MaxTokens)
	case flags.Changed("effort") && !slices.Contains(config.Efforts, e.Effort):
		return render.Usage("--effort %q is not one of %s", e.Effort, strings.Join(config.Efforts, ", "))
	case e.Sandbox == "off" && e.NetworkSet && !e.Network:
		return render.Usage("--sandbox off keeps no code from the network: choose another sandbox, or leave --network=false out")
	case e.Host && e.Socket != "":
		return render.Usage("--host and --socket name two daemons: choose one")
	case e.Latest && flags.Changed("session"):
		return render.Usage("--continue and --session name two sessions: choose one")
	case flags.Changed("session"):
		if err := CheckSession(e.Session); err != nil {
			return err
		}
	}
	if e.RootSet {
		if _, err := e.RootDir(); err != nil {
			return err
		}
	}
	switch {
	case e.Format != FormatText && e.Format != FormatJSON:
		return render.Usage("--format %q is neither text nor json", e.Format)
	case e.JSONFlag && e.Format == FormatText && flags.Changed("format"):
		return render.Usage("--json and --format text exclude each other: leave one out")
	case e.JSONFlag:
		e.Format = FormatJSON
	}
	if e.JSON() && cmd.Annotations["json"] == "" { // a program would parse the text as JSON
		_, name, _ := strings.Cut(cmd.CommandPath(), " ")
		return render.Usage("zino %s prints text: leave --json and --format json out", name)
	}
	return nil
}

// CheckPlain returns an error for options that a plain message does not support.
func CheckPlain(cmd *cobra.Command) error {
	for _, name := range []string{"root", "session", "continue", "system-prompt", "format", "json", "reasoning", "sandbox", "network", "mode"} {
		if cmd.PersistentFlags().Changed(name) {
			return render.Usage("--%s is for zino exec -p TEXT and for chats, not for a plain message", name)
		}
	}
	return nil
}

// RunsTurns reports whether a command runs turns of the agent.
func RunsTurns(cmd *cobra.Command, args []string) bool {
	if !cmd.HasParent() {
		return len(args) == 0
	}
	return slices.Contains([]string{"exec", "resume", "chat", "attach"}, cmd.Name())
}

// JSON reports whether --json or --format json was given.
func (e *Env) JSON() bool { return e.Format == FormatJSON }

// askedJSON is like JSON, but also works if parsing the command line failed.
func (e *Env) askedJSON() bool {
	if e.JSON() || e.JSONFlag {
		return true
	}
	for i, arg := range e.Args {
		switch {
		case arg == "--":
			return false
		case arg == "--json", arg == "--format=json", arg == "--format" && i+1 < len(e.Args) && e.Args[i+1] == FormatJSON:
			return true
		}
	}
	return false
}

// RootDir returns the absolute path of --root, which must be a directory. Symbolic
// links are resolved, because the executor does not follow links that confined code
// could change. It is empty for the host's daemon, which cannot see the caller's files.
func (e *Env) RootDir() (string, error) {
	if e.Host {
		return "", nil
	}
	dir, err := filepath.Abs(e.Root)
	if err != nil {
		return "", render.Usage("--root %s: the working directory is gone: %w", e.Root, err)
	}
	info, err := os.Stat(dir)
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		return "", render.Usage("--root: %w", err)
	}
	if !info.IsDir() {
		return "", render.Usage("--root: %s is not a directory", dir)
	}
	return dir, nil
}

// Request returns a turn's request with the fields that options set.
func (e *Env) Request() (proto.Chat, error) {
	root, err := e.RootDir()
	req := proto.Chat{
		Root: root, Provider: e.Provider, Model: e.Model, MaxTokens: e.MaxTokens, Effort: e.Effort,
		Sandbox: proto.Level(e.Sandbox), Mode: cmp.Or(e.Mode, proto.ModeDerived), NeedModel: true, Events: true,
	}
	if e.NetworkSet {
		req.Network = &e.Network
	}
	if e.NoRecall {
		req.Recall = new(false)
	}
	if e.SystemPromptSet {
		req.SystemPrompt = &e.SystemPrompt
	}
	return req, err
}

package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"zino/pkg/config"
	"zino/pkg/text"
	"zino/proto"
	"zino/services/cli/command"
	"zino/services/cli/connect"
	"zino/services/cli/render"
	"zino/services/cli/term"
)

func newConfig(env *command.Env) *cobra.Command {
	return command.Group("config", "your configuration: show, get, edit, check, init, path", `Your configuration is config.toml in $ZINO_HOME, else in $XDG_CONFIG_HOME/zino,
else in ~/.config/zino. It may have every key of ZINO.toml: see man 5 zino.toml.
Store keys of providers with zino auth set, not here.`,
		newConfigShow(env), newConfigGet(env), newConfigEdit(env), newConfigPath(env), newConfigInit(env), newConfigCheck(env))
}

func newConfigPath(env *command.Env) *cobra.Command {
	return &cobra.Command{
		Use: "path", Short: "print where your configuration is", Args: command.NoArgs, Annotations: command.PrintsJSON,
		Long:    "Print where your configuration is, or would be.",
		Example: "  $EDITOR \"$(zino config path)\"",
		RunE: func(*cobra.Command, []string) error {
			path, err := connect.UserFile()
			if err != nil {
				return err
			}
			return printPath(env, path)
		},
	}
}

// printPath prints a path unchanged for a program, and escaped for a terminal.
func printPath(env *command.Env, path string) error {
	if env.JSON() {
		return render.JSON(env.Out, struct {
			Path string `json:"path"`
		}{path})
	}
	if term.IsTerminal(env.Out) {
		path = text.Visible(path)
	}
	_, err := io.WriteString(env.Out, path+"\n")
	return err
}

func newConfigInit(env *command.Env) *cobra.Command {
	return &cobra.Command{
		Use: "init", Short: "write a configuration to start with", Args: command.NoArgs, Annotations: command.PrintsJSON,
		Long:    "Write a configuration with the usual keys at their defaults, and print its path. A\nfile that exists is not changed.",
		Example: "  zino config init",
		RunE: func(*cobra.Command, []string) error {
			path, err := connect.UserFile()
			if err != nil {
				return err
			}
			err = command.NewFile(path, initialConfig(config.Default()))
			if errors.Is(err, fs.ErrExist) {
				return proto.Errorf(proto.CodeInvalid, "%s is there already and was not changed", path)
			}
			if err != nil {
				return err
			}
			return printPath(env, path)
		},
	}
}

func initialConfig(c *config.Config) string {
	return fmt.Sprintf(`# Zino's configuration. zino config check finds mistakes in it.

# The model's identifier. Empty: the default of the provider.
model = %q

# Limit of one answer in tokens. 0: the default of the provider.
max_tokens = %d

# How many seconds a tool may run. 0: no limit.
tool_timeout_secs = %v
`, c.Model, c.MaxTokens, c.ToolTimeoutSecs)
}

func newConfigEdit(env *command.Env) *cobra.Command {
	return &cobra.Command{
		Use: "edit", Short: "open your configuration in an editor, and check it", Args: command.NoArgs,
		Long: `Open your configuration, or the file that --config or $ZINO_CONFIG names, in an
editor: $VISUAL, $EDITOR, or vi. A file that does not exist is written first, as
zino config init does. Afterwards it is checked as with zino config check.`,
		Example: "  EDITOR=nano zino config edit",
		RunE: func(*cobra.Command, []string) error {
			path, err := env.ConfigFile()
			if err != nil {
				return err
			}
			if err := command.NewFile(path, initialConfig(config.Default())); err != nil && !errors.Is(err, fs.ErrExist) {
				return err
			}
			if err := env.EditFile(path); err != nil {
				return err
			}
			return checkConfig(env, path, nil)
		},
	}
}

func newConfigCheck(env *command.Env) *cobra.Command {
	return &cobra.Command{
		Use: "check [FILE]", Short: "list all mistakes in the configuration", Annotations: command.PrintsJSON,
		Long: `List all mistakes in FILE, in the file that --config or $ZINO_CONFIG names, or in
your configuration, each with its line and column: keys that do not exist, values
of a wrong type or out of range; without FILE also those of the rules of zino policy.
The exit status is 1 if there are any. With --json the result is one object.`,
		Example: "  zino config check\n  zino config check /etc/zino/ZINO.toml",
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) > 1, len(args) == 1 && env.File != "":
				return command.Mistake(cmd, "name one file")
			case len(args) == 1:
				return checkConfig(env, args[0], nil)
			}
			path, err := env.ConfigFile()
			if err != nil {
				return err
			}
			p, err := connect.Policy(config.Default())
			if err != nil {
				return err
			}
			_, err = os.Stat(path)
			if env.Named() || !errors.Is(err, os.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) {
				return checkConfig(env, path, p.Problems())
			}
			if problems := p.Problems(); env.JSON() || len(problems) > 0 {
				return printProblems(env, "", problems, nil)
			}
			return env.PrintLine(fmt.Sprintf("There is no configuration at %s: the defaults hold. To begin with one: zino config init", path))
		},
	}
}

// checkConfig prints the mistakes in a file, and others that were found.
func checkConfig(env *command.Env, path string, others []string) error {
	problems, warnings, err := config.Problems(path)
	if err != nil {
		return err
	}
	return printProblems(env, path, append(problems, others...), warnings)
}

// printProblems prints the result of a check. path is empty if there is no file.
func printProblems(env *command.Env, path string, problems, warnings []string) (err error) {
	if env.JSON() {
		err = printCheck(env, path, problems, warnings)
	} else {
		for _, p := range problems {
			env.Say("%s", p)
		}
		for _, w := range warnings {
			env.Say("Warning: %s", w)
		}
		if len(problems) == 0 {
			err = env.PrintLine(path + " is fine.")
		}
	}
	if err == nil && len(problems) > 0 {
		return render.ErrReported
	}
	return err
}

// printCheck prints the result of a check as JSON. path is empty if there is no file.
func printCheck(env *command.Env, path string, problems, warnings []string) error {
	return render.JSON(env.Out, struct {
		Path     string   `json:"path,omitzero"`
		OK       bool     `json:"ok"`
		Problems []string `json:"problems"`
		Warnings []string `json:"warnings"`
	}{path, len(problems) == 0, append([]string{}, problems...), append([]string{}, warnings...)})
}

func newConfigShow(env *command.Env) *cobra.Command {
	return &cobra.Command{
		Use: "show", Short: "print all keys with their values, and where these come from", Args: command.NoArgs, Annotations: command.PrintsJSON,
		Long: `Print every key of the configuration with the value that holds, as TOML, and
behind it where the value comes from: a file with the line, a variable of the
environment, or the default. This is what services that zino starts now are given;
services that run already may have been started with other values. Keys of
providers are not shown: zino auth list says where they come from.`,
		Example: "  zino config show | grep -v '# default$'",
		RunE: func(*cobra.Command, []string) error {
			list, err := effective(env)
			if err != nil {
				return err
			}
			return printSettings(env, list)
		},
	}
}

func newConfigGet(env *command.Env) *cobra.Command {
	return &cobra.Command{
		Use: "get KEY", Short: "print the value of one key, or of a section", Annotations: command.PrintsJSON,
		Long:    "Print the value that holds of one key, or the keys of a section with their\nvalues, as zino config show does.",
		Example: "  zino config get exc.timeout\n  zino config get budget",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return command.Mistake(cmd, "name one key, such as exc.timeout")
			}
			list, err := effective(env)
			if err != nil {
				return err
			}
			key := args[0]
			var names []string
			var section []setting
			for _, s := range list {
				switch {
				case s.Key == key && s.Value == connect.Hidden:
					return proto.Errorf(proto.CodeDenied, "%s is a secret and is not printed; zino auth list says where keys come from", key)
				case s.Key == key && env.JSON():
					return render.JSON(env.Out, s)
				case s.Key == key:
					value, err := s.toml()
					if err != nil {
						return err
					}
					if plain, ok := s.Value.(string); ok {
						value = plain
					}
					return env.PrintLine(value)
				case strings.HasPrefix(s.Key, key+"."):
					section = append(section, s)
				}
				names = append(names, s.Key)
			}
			if section != nil {
				return printSettings(env, section)
			}
			if similar := config.Similar(key, names); similar != "" {
				return command.Mistake(cmd, "there is no key %q: the nearest one is %q", key, similar)
			}
			return command.Mistake(cmd, "there is no key %q; zino config show lists all", key)
		},
	}
}

// printSettings prints settings as TOML, each with its origin as a comment.
func printSettings(env *command.Env, list []setting) error {
	return env.Print(func(w io.Writer) error {
		if env.JSON() {
			return render.JSONList(w, list)
		}
		for _, s := range list {
			value, err := s.toml()
			if err != nil {
				return err
			}
			if _, err := fmt.Fprintln(w, text.Visible(s.Key+" = "+value+"  # "+s.From)); err != nil {
				return err
			}
		}
		return nil
	})
}

// setting is a key with its value and where that comes from.
type setting struct {
	Key   string `json:"key"`
	Value any    `json:"value"`
	From  string `json:"from"`
}

func (s setting) toml() (string, error) {
	return config.Setting{Key: s.Key, Value: s.Value}.TOML()
}

// overriding maps keys to the environment variables that override them.
var overriding = map[string]string{
	"anthropic_base_url": "ANTHROPIC_BASE_URL", "openai_base_url": "OPENAI_BASE_URL", "gemini_base_url": "GEMINI_BASE_URL",
	"openrouter_base_url": "OPENROUTER_BASE_URL", "logging.level": "ZINO_LOG_LEVEL",
}

// effective lists all keys with the values for services that are started now.
func effective(env *command.Env) ([]setting, error) {
	cfg, err := env.Config()
	if err != nil {
		return nil, err
	}
	if dir, err := connect.RuntimeDir(); err == nil {
		connect.DefaultSockets(cfg, dir)
	}
	var local *config.Config // the ZINO.toml in the working directory; Config has reported its errors
	if dir, err := os.Getwd(); err == nil && !env.Named() {
		local, _ = connect.ReadLocal(dir)
	}
	var list []setting
	for _, s := range cfg.Settings() {
		e := setting{s.Key, s.Value, "default"}
		value, isText := s.Value.(string)
		switch variable := overriding[s.Key]; {
		case strings.TrimSpace(os.Getenv(variable)) != "":
			value = strings.TrimSpace(os.Getenv(variable))
			e.From = "$" + variable
		case s.Line > 0:
			e.From = fmt.Sprintf("%s:%d", cfg.File, s.Line)
		case local != nil && isBorrowed(local, s):
			e.From = filepath.Join(local.Dir, config.FileName)
		}
		switch {
		case isText && s.Key == "api.key" && value != "":
			e.Value = connect.Hidden
		case isText:
			e.Value = connect.WithoutPassword(value)
		}
		list = append(list, e)
	}
	return list, nil
}

// isBorrowed reports whether a value comes from the ZINO.toml in the working directory,
// of which only these keys are used.
func isBorrowed(local *config.Config, s config.Setting) bool {
	return slices.Contains([]string{"model", "service.model", "sys.personality", "sys.template"}, s.Key) &&
		slices.ContainsFunc(local.Settings(), func(l config.Setting) bool { return l.Key == s.Key && l.Line > 0 && l.Value == s.Value })
}

package cli

import (
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"zino/pkg/config"
	"zino/pkg/visible"
)

const configShowLong = `Print every key of the configuration with the value that holds, as TOML, and
behind it where the value comes from: a file with the line, a variable of the
environment, or the default. This is what services that zino starts now are given;
services that run already may have been started with other values. Keys of
providers are not shown: zino auth list says where they come from.`

func (a *app) configShowCommand() *cobra.Command {
	return &cobra.Command{
		Use: "show", Short: "print all keys with their values, and where these come from", Args: without,
		Long: configShowLong, Annotations: printsJSON,
		Example: "  zino config show | grep -v '# default$'",
		RunE: func(*cobra.Command, []string) error {
			list, err := a.effective()
			if err != nil {
				return err
			}
			return a.printSettings(list)
		},
	}
}

func (a *app) configGetCommand() *cobra.Command {
	return &cobra.Command{
		Use: "get KEY", Short: "print the value of one key, or of a section", Annotations: printsJSON,
		Long:    "Print the value that holds of one key, or the keys of a section with their\nvalues, as zino config show does.",
		Example: "  zino config get exc.timeout\n  zino config get budget",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return mistake(cmd, "name one key, such as exc.timeout")
			}
			list, err := a.effective()
			if err != nil {
				return err
			}
			return a.configGet(cmd, list, args[0])
		},
	}
}

func (a *app) configGet(cmd *cobra.Command, list []effectiveSetting, key string) error {
	var names []string
	var section []effectiveSetting
	for _, s := range list {
		switch {
		case s.Key == key && s.Value == hiddenValue:
			return fmt.Errorf("%s is a secret and is not printed; zino auth list says where keys come from", key)
		case s.Key == key && a.asJSON():
			return printJSON(a.out, s)
		case s.Key == key:
			text, err := s.toml()
			if plain, ok := s.Value.(string); ok {
				text = plain
			}
			if err != nil {
				return err
			}
			return a.printLine(text)
		case strings.HasPrefix(s.Key, key+"."):
			section = append(section, s)
		}
		names = append(names, s.Key)
	}
	if section != nil {
		return a.printSettings(section)
	}
	if near := config.Similar(key, names); near != "" {
		return mistake(cmd, "there is no key %q: the nearest one is %q", key, near)
	}
	return mistake(cmd, "there is no key %q; zino config show lists all", key)
}

// printSettings prints settings as TOML, with where each comes from as a comment.
func (a *app) printSettings(list []effectiveSetting) error {
	return a.print(func(w io.Writer) error {
		if a.asJSON() {
			return printAll(w, list)
		}
		for _, s := range list {
			text, err := s.toml()
			if err != nil {
				return err
			}
			if _, err := fmt.Fprintln(w, visible.Text(s.Key+" = "+text+"  # "+s.From)); err != nil {
				return err
			}
		}
		return nil
	})
}

// effectiveSetting is a key with its value and where that comes from.
type effectiveSetting struct {
	Key   string `json:"key"`
	Value any    `json:"value"`
	From  string `json:"from"`
}

func (s effectiveSetting) toml() (string, error) {
	return config.Setting{Key: s.Key, Value: s.Value}.TOML()
}

// hiddenValue stands for a secret.
const hiddenValue = "(hidden)"

// overriding are the variables of the environment that win over keys.
var overriding = map[string]string{
	"anthropic_base_url": "ANTHROPIC_BASE_URL", "openai_base_url": "OPENAI_BASE_URL", "gemini_base_url": "GEMINI_BASE_URL",
	"openrouter_base_url": "OPENROUTER_BASE_URL", "logging.level": "ZINO_LOG_LEVEL",
}

// effective lists all keys as services that are started now have them.
func (a *app) effective() ([]effectiveSetting, error) {
	cfg, err := a.settings()
	if err != nil {
		return nil, err
	}
	if dir, err := runtimeDir(); err == nil {
		settleSockets(cfg, dir)
	}
	var local *config.Config // the ZINO.toml in the working directory; what is wrong with it was said
	if dir, err := os.Getwd(); err == nil && !a.named() {
		local, _ = readLocal(dir)
	}
	var list []effectiveSetting
	for _, s := range cfg.Settings() {
		e := effectiveSetting{s.Key, s.Value, "default"}
		text, isText := s.Value.(string)
		switch variable := overriding[s.Key]; {
		case strings.TrimSpace(os.Getenv(variable)) != "":
			text = strings.TrimSpace(os.Getenv(variable))
			e.From = "$" + variable
		case s.Line > 0:
			e.From = fmt.Sprintf("%s:%d", cfg.File, s.Line)
		case local != nil && borrowed(local, s):
			e.From = filepath.Join(local.Dir, config.FileName)
		}
		if isText {
			e.Value = withoutSecrets(s.Key, text)
		}
		list = append(list, e)
	}
	return list, nil
}

// borrowed reports whether a value is that of the ZINO.toml in the working
// directory, of which few keys are used.
func borrowed(local *config.Config, s config.Setting) bool {
	if !slices.Contains([]string{"model", "service.model", "sys.personality", "sys.template"}, s.Key) {
		return false
	}
	return slices.ContainsFunc(local.Settings(), func(l config.Setting) bool { return l.Key == s.Key && l.Line > 0 && l.Value == s.Value })
}

// withoutSecrets is a value without a key, or a password in a URL.
func withoutSecrets(key, text string) string {
	if key == "api.key" && text != "" {
		return hiddenValue
	}
	if u, err := url.Parse(text); err == nil && u.User != nil {
		u.User = nil
		return strings.Replace(u.String(), "://", "://"+hiddenValue+"@", 1)
	}
	return text
}

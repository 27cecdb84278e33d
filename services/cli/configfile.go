package cli

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"zino/pkg/config"
	"zino/pkg/visible"
)

const configLong = `Your configuration is config.toml in $ZINO_HOME, else in $XDG_CONFIG_HOME/zino,
else in ~/.config/zino. It may have every key of ZINO.toml: see man 5 zino.toml.
Store keys of providers with zino auth set, not here.`

func (a *app) configCommand() *cobra.Command {
	cmd := group("config", "your configuration: show, get, edit, check, init, path", configLong)
	cmd.AddCommand(
		a.configShowCommand(), a.configGetCommand(), a.configEditCommand(),
		a.configPathCommand(), a.configInitCommand(), a.configCheckCommand(),
	)
	return cmd
}

// configPath is the user's own configuration, which need not be there.
func configPath() (string, error) {
	base, err := baseDir()
	return filepath.Join(base, "config.toml"), err
}

func (a *app) configPathCommand() *cobra.Command {
	return &cobra.Command{
		Use: "path", Short: "print where your configuration is", Args: without, Annotations: printsJSON,
		Long:    "Print where your configuration is, or would be.",
		Example: "  $EDITOR \"$(zino config path)\"",
		RunE: func(*cobra.Command, []string) error {
			path, err := configPath()
			if err != nil {
				return err
			}
			return a.printPath(path)
		},
	}
}

// printPath prints a path as it is to a program, and harmlessly to a terminal.
func (a *app) printPath(path string) error {
	if a.asJSON() {
		return printJSON(a.out, struct {
			Path string `json:"path"`
		}{path})
	}
	if isTerminal(a.out) {
		path = visible.Text(path)
	}
	_, err := io.WriteString(a.out, path+"\n")
	return err
}

func (a *app) configInitCommand() *cobra.Command {
	return &cobra.Command{
		Use: "init", Short: "write a configuration to start with", Args: without, Annotations: printsJSON,
		Long:    "Write a configuration with the usual keys at their defaults, and print its path. A\nfile that exists is not changed.",
		Example: "  zino config init",
		RunE: func(*cobra.Command, []string) error {
			path, err := configPath()
			if err != nil {
				return err
			}
			err = newFile(path, configText(config.Default()))
			if errors.Is(err, fs.ErrExist) {
				return fmt.Errorf("%s is there already and was not changed", path)
			}
			if err != nil {
				return err
			}
			return a.printPath(path)
		},
	}
}

// configText is a configuration to begin with.
func configText(c *config.Config) string {
	return fmt.Sprintf(`# Zino's configuration. zino config check finds mistakes in it.

# The model's identifier. Empty: the default of the provider.
model = %q

# Limit of one answer in tokens. 0: the default of the provider.
max_tokens = %d

# How many seconds a tool may run. 0: no limit.
tool_timeout_secs = %v
`, c.Model, c.MaxTokens, c.ToolTimeoutSecs)
}

// newFile makes a file that is there with all of its text or not at all, and
// that only its owner can read. One that is there already is left alone.
func newFile(path, text string) (err error) {
	defer func() {
		if err != nil && !errors.Is(err, fs.ErrExist) {
			err = about(path, err)
		}
	}()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	temp := filepath.Join(filepath.Dir(path), ".zino-"+rand.Text()[:12])
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Link(temp, path) // unlike a renaming, it replaces nothing
	}
	return errors.Join(err, os.Remove(temp))
}

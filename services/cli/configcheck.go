package cli

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/spf13/cobra"

	"zino/pkg/config"
)

func (a *app) configCheckCommand() *cobra.Command {
	return &cobra.Command{
		Use: "check", Short: "list all mistakes in the configuration", Args: without,
		Long: `List all mistakes in your configuration, or in the file that --config or
$ZINO_CONFIG names, each with its line and column: keys that do not exist, values
of a wrong type or out of range. The exit status is 1 if there are any.`,
		Example: "  zino config check\n  zino config check --config /etc/zino/ZINO.toml",
		RunE:    func(*cobra.Command, []string) error { return a.configCheck() },
	}
}

func (a *app) configCheck() error {
	path, err := a.checkedFile()
	if err != nil {
		return err
	}
	if path == "" {
		return nil
	}
	problems, warnings, err := config.Problems(path)
	if err != nil {
		return err
	}
	for _, p := range problems {
		a.say("%s", p)
	}
	for _, w := range warnings {
		a.say("Warning: %s", w)
	}
	if len(problems) > 0 {
		return errQuiet
	}
	return a.printLine(path + " is fine.")
}

// checkedFile is the file to look at, empty if there is none, which is then
// said.
func (a *app) checkedFile() (string, error) {
	if a.named() {
		return config.Find(a.config)
	}
	path, err := configPath()
	if err != nil {
		return "", err
	}
	_, err = os.Stat(path)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return "", a.printLine(fmt.Sprintf("There is no configuration at %s: the defaults hold. To begin with one: zino config init", path))
	}
	return path, nil
}

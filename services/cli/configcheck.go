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
		Use: "check", Short: "list all mistakes in the configuration", Args: without, Annotations: printsJSON,
		Long: `List all mistakes in your configuration, or in the file that --config or
$ZINO_CONFIG names, each with its line and column: keys that do not exist, values
of a wrong type or out of range. The exit status is 1 if there are any. With
--json the result is one object.`,
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
		if a.asJSON() {
			return a.printCheck("", nil, nil)
		}
		return nil
	}
	problems, warnings, err := config.Problems(path)
	if err != nil {
		return err
	}
	if a.asJSON() {
		err := a.printCheck(path, problems, warnings)
		if err == nil && len(problems) > 0 {
			err = errQuiet
		}
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

// printCheck prints the result of a check as one JSON object. path is empty if
// there is no file.
func (a *app) printCheck(path string, problems, warnings []string) error {
	return printJSON(a.out, struct {
		Path     string   `json:"path,omitzero"`
		OK       bool     `json:"ok"`
		Problems []string `json:"problems"`
		Warnings []string `json:"warnings"`
	}{path, len(problems) == 0, append([]string{}, problems...), append([]string{}, warnings...)})
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
		if a.asJSON() {
			return "", nil
		}
		return "", a.printLine(fmt.Sprintf("There is no configuration at %s: the defaults hold. To begin with one: zino config init", path))
	}
	return path, nil
}

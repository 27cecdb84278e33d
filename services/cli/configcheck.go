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
		Use: "check [FILE]", Short: "list all mistakes in the configuration", Annotations: printsJSON,
		Long: `List all mistakes in FILE, in the file that --config or $ZINO_CONFIG names, or in
your configuration, each with its line and column: keys that do not exist, values
of a wrong type or out of range. The exit status is 1 if there are any. With
--json the result is one object.`,
		Example: "  zino config check\n  zino config check /etc/zino/ZINO.toml",
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) > 1, len(args) == 1 && a.config != "":
				return mistake(cmd, "name one file")
			case len(args) == 1:
				return a.configCheck(args[0])
			}
			path, err := a.ownFile()
			if err != nil {
				return err
			}
			_, err = os.Stat(path)
			if !a.named() && (errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)) {
				if a.asJSON() {
					return a.printCheck("", nil, nil)
				}
				return a.printLine(fmt.Sprintf("There is no configuration at %s: the defaults hold. To begin with one: zino config init", path))
			}
			return a.configCheck(path)
		},
	}
}

// configCheck prints the mistakes in a file.
func (a *app) configCheck(path string) error {
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

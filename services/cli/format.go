package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// Values of --format.
const (
	formatText = "text"
	formatJSON = "json"
)

// printsJSON is the Annotations of a command that looks at asJSON. All others
// refuse --json and --format json.
var printsJSON = map[string]string{"json": "true"}

// asJSON reports whether --json or --format json was given.
func (a *app) asJSON() bool { return a.format == formatJSON }

// askedJSON is asJSON where the flags may not have been parsed to their end.
func (a *app) askedJSON() bool {
	if a.asJSON() || a.json {
		return true
	}
	for i, arg := range a.args {
		switch {
		case arg == "--":
			return false
		case arg == "--json", arg == "--format=json", arg == "--format" && i+1 < len(a.args) && a.args[i+1] == formatJSON:
			return true
		}
	}
	return false
}

// checkFormat settles --json and --format. It refuses JSON where there is only
// text: the reader of the output would take the text for JSON.
func (a *app) checkFormat(cmd *cobra.Command) error {
	flags := cmd.Root().PersistentFlags() // a command may have a flag --format of its own
	switch {
	case a.format != formatText && a.format != formatJSON:
		return usageError{fmt.Errorf("--format %q is neither text nor json", a.format)}
	case a.json && a.format == formatText && flags.Changed("format"):
		return usageError{fmt.Errorf("--json and --format text exclude each other: leave one out")}
	case a.json:
		a.format = formatJSON
	}
	_, name, _ := strings.Cut(cmd.CommandPath(), " ")
	if a.asJSON() && cmd.Annotations["json"] == "" {
		return usageError{fmt.Errorf("zino %s prints text: leave --json and --format json out", name)}
	}
	return nil
}

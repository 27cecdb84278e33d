package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"zino/pkg/wire"
)

// formatted are the commands whose output --format decides.
var formatted = []string{
	"", "exec", "context", "eval", "pages",
	"sessions list", "sessions search", "sessions show", "sessions resume",
}

// checkFormat refuses --format json where there is only text: whoever reads the
// output would take it for JSON. Where a command has a flag --json it means that.
func (a *app) checkFormat(cmd *cobra.Command) error {
	_, name, _ := strings.Cut(cmd.CommandPath(), " ")
	if a.format != formatJSON || slices.Contains(formatted, name) {
		return nil
	}
	if flag := cmd.Flags().Lookup("json"); flag != nil {
		return flag.Value.Set("true")
	}
	return usageError{fmt.Errorf("zino %s prints text: leave --format json out", name)}
}

// printObject writes v as JSON in one line.
func printObject(w io.Writer, v any) error {
	text, err := wire.AppendObject(nil, "", v)
	if err == nil {
		_, err = fmt.Fprintf(w, "%s\n", text)
	}
	return err
}

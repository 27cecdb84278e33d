package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"zino/pkg/config"
)

// habits are commands of other tools, with what to use here.
var habits = map[string]string{
	"zino ask":             "use zino exec",
	"zino cost":            "use zino usage",
	"zino diagnose":        "use zino doctor",
	"zino exit":            "a chat ends with :q or Ctrl-D",
	"zino history":         "use zino sessions",
	"zino init":            "use zino config init",
	"zino key":             "use zino auth",
	"zino keys":            "use zino auth",
	"zino logout":          "use zino auth logout",
	"zino ls":              "use zino sessions list",
	"zino quit":            "a chat ends with :q or Ctrl-D",
	"zino run":             "use zino exec",
	"zino serve":           "use zino up",
	"zino settings":        "use zino config",
	"zino start":           "use zino up",
	"zino auth add":        "use zino auth set",
	"zino auth delete":     "use zino auth logout",
	"zino auth remove":     "use zino auth logout",
	"zino auth rm":         "use zino auth logout",
	"zino auth show":       "use zino auth list",
	"zino channels delete": "use zino channels clear",
	"zino channels ls":     "use zino channels list",
	"zino channels remove": "use zino channels clear",
	"zino channels rm":     "use zino channels clear",
	"zino config list":     "use zino config show",
	"zino config new":      "use zino config init",
	"zino config set":      "use zino config edit",
	"zino memory delete":   "use zino memory rm",
	"zino memory ls":       "use zino memory list",
	"zino memory remove":   "use zino memory rm",
	"zino memory store":    "use zino memory add",
	"zino sessions copy":   "use zino sessions fork",
	"zino sessions delete": "use zino sessions rm",
	"zino sessions find":   "use zino sessions search",
	"zino sessions ls":     "use zino sessions list",
	"zino sessions open":   "use zino sessions resume",
	"zino sessions remove": "use zino sessions rm",
}

// meant says which command below parent a word may have meant, "" if it is not
// close to any.
func meant(parent *cobra.Command, word string) string {
	if hint := habits[parent.CommandPath()+" "+word]; hint != "" {
		return hint
	}
	if name := config.Similar(word, subcommands(parent)); name != "" {
		return fmt.Sprintf("the nearest one is %q", name)
	}
	return ""
}

// subcommands are the names of the commands below parent.
func subcommands(parent *cobra.Command) (names []string) {
	for _, sub := range parent.Commands() {
		if sub.IsAvailableCommand() || sub.Name() == "help" { // which cobra does not count
			names = append(names, sub.Name())
		}
	}
	return names
}

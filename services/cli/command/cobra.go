package command

import (
	"cmp"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"zino/pkg/config"
	"zino/pkg/environ"
	"zino/proto"
	"zino/services/cli/render"
)

// Group returns a command that only contains others.
func Group(name, short, long string, commands ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use: name, Short: short, Long: long,
		RunE: func(cmd *cobra.Command, args []string) error {
			names := strings.Join(subcommands(cmd), ", ")
			if len(args) == 0 {
				return Mistake(cmd, "name one of: %s", names)
			}
			return Mistake(cmd, "there is no command %q: %s", args[0], cmp.Or(Suggest(cmd, args[0]), "there are "+names))
		},
	}
	cmd.AddCommand(commands...)
	return cmd
}

// Mistake returns a usage error of a subcommand: exit status 2.
func Mistake(cmd *cobra.Command, format string, args ...any) error {
	return render.Usage("%s: %s; try %[1]s --help", cmd.CommandPath(), fmt.Sprintf(format, args...))
}

// NoArgs returns an error if there are arguments.
func NoArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return Mistake(cmd, "it takes no arguments, but was given %q", args[0])
	}
	return nil
}

// AtMost allows up to n arguments for a command whose name may also be the first word
// of a message.
func AtMost(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > n {
			return render.Usage("%s: too many arguments; to send this as a message, type: zino -- %s %s", cmd.CommandPath(), cmd.Name(), strings.Join(args, " "))
		}
		return nil
	}
}

// CheckCount returns an error if a numeric flag was set to less than 1.
func CheckCount(cmd *cobra.Command, flag string, n int, things string) error {
	name := "--" + flag
	if len(flag) == 1 {
		name = "-" + flag
	}
	if n < 0 || n == 0 && cmd.Flags().Changed(flag) {
		return Mistake(cmd, "%s %d is not the number of %s wanted, 1 or more", name, n, things)
	}
	return nil
}

// CheckTime returns an error if the value of a flag is not a time. It converts a day to a
// time, in the caller's time zone rather than the service's.
func CheckTime(cmd *cobra.Command, flag string, value *string) error {
	if day, err := time.ParseInLocation(time.DateOnly, *value, time.Local); err == nil {
		*value = day.Format(time.RFC3339)
	}
	if _, err := time.Parse(time.RFC3339, *value); err != nil && *value != "" {
		return Mistake(cmd, "--%s %q is not a time, such as 2026-11-21 or 2026-11-21T14:03:07Z", flag, *value)
	}
	return nil
}

// OneSession returns the session that is a command's only argument.
func OneSession(cmd *cobra.Command, args []string) (string, error) {
	if len(args) != 1 {
		return "", Mistake(cmd, "name one session by its id, or by the beginning of it")
	}
	return args[0], CheckSessionArg(cmd, args[0])
}

// CheckSessionArg returns an error if an argument is not a valid session id.
func CheckSessionArg(cmd *cobra.Command, id string) error {
	if err := CheckSession(id); err != nil {
		return Mistake(cmd, "%v", err)
	}
	return nil
}

// CheckSession returns an error if id is not a valid session id.
func CheckSession(id string) error {
	if err := proto.CheckSessionID(id); err != nil {
		return render.Usage("%w", err)
	}
	return nil
}

// habits maps commands of other tools to those of zino.
var habits = map[string]string{
	"zino allow":           "use zino approve",
	"zino approval":        "use zino approvals",
	"zino ask":             "use zino exec",
	"zino cost":            "use zino usage",
	"zino diagnose":        "use zino doctor",
	"zino exit":            "a chat ends with :q or Ctrl-D",
	"zino history":         "use zino sessions",
	"zino init":            "use zino config init",
	"zino kill":            "use zino stop",
	"zino key":             "use zino auth",
	"zino keys":            "use zino auth",
	"zino grants":          "use zino approvals grants",
	"zino logout":          "use zino auth logout",
	"zino ls":              "use zino sessions list",
	"zino quit":            "a chat ends with :q or Ctrl-D",
	"zino run":             "use zino exec",
	"zino serve":           "use zino up",
	"zino settings":        "use zino config",
	"zino start":           "use zino up",
	"zino tell":            "use zino say",
	"zino approvals list":  "use zino approvals",
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
	"zino policy delete":   "use zino policy rm",
	"zino policy edit":     "edit the file that zino policy show names",
	"zino policy list":     "use zino policy show",
	"zino policy ls":       "use zino policy show",
	"zino policy remove":   "use zino policy rm",
	"zino sessions copy":   "use zino sessions fork",
	"zino sessions delete": "use zino sessions rm",
	"zino sessions find":   "use zino sessions search",
	"zino sessions ls":     "use zino sessions list",
	"zino sessions name":   "use zino sessions rename",
	"zino sessions open":   "use zino sessions resume",
	"zino sessions remove": "use zino sessions rm",
	"zino sessions title":  "use zino sessions rename",
}

// Suggest returns a hint at the command below parent that a mistyped word is similar
// to, or "".
func Suggest(parent *cobra.Command, word string) string {
	if hint := habits[parent.CommandPath()+" "+word]; hint != "" {
		return hint
	}
	if name := config.Similar(word, subcommands(parent)); name != "" {
		return fmt.Sprintf("the nearest one is %q", name)
	}
	return ""
}

func subcommands(parent *cobra.Command) (names []string) {
	for _, sub := range parent.Commands() {
		if sub.IsAvailableCommand() || sub.Name() == "help" { // cobra does not count help as available
			names = append(names, sub.Name())
		}
	}
	return names
}

// CheckPerson returns an error in the environment of a command that a model runs: what a
// model may do is for people to say. It prevents accidents only, as such a command can
// change its environment.
func CheckPerson(cmd *cobra.Command) error {
	if os.Getenv(environ.InJob) == "" {
		return nil
	}
	return proto.Errorf(proto.CodeDenied, "%s is for people, and this is a command of a model (%s is set): run it in a terminal of your own", cmd.CommandPath(), environ.InJob)
}

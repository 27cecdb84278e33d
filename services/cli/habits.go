package cli

import (
	"fmt"
	"runtime"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	keystore "zino/pkg/keys" // the type keys is the keyboard
	"zino/pkg/rpc"
	"zino/proto"
)

func (a *app) chatCommand() *cobra.Command {
	return &cobra.Command{
		Use: "chat", Short: "talk with the agent: each line is a turn", Args: atMost(0), Annotations: printsJSON,
		Long: `Open a chat, as zino without a command does. Each line is a turn of one session;
:q or Ctrl-D leaves. Lines may also come from a pipe or a file.`,
		Example: "  zino chat --root ~/project\n  zino --continue",
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.chat(cmd.Context()) },
	}
}

// resumeCommand is zino sessions resume under its short name.
func (a *app) resumeCommand() *cobra.Command {
	cmd := a.sessionsResumeCommand()
	cmd.Args = atMost(1)
	return cmd
}

// atMost refuses more than n arguments of a command whose name may also begin a
// message.
func atMost(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > n {
			return usageError{fmt.Errorf("%s: too many arguments; to send this as a message, type: zino -- %s %s", cmd.CommandPath(), cmd.Name(), strings.Join(args, " "))}
		}
		return nil
	}
}

// loginCommand is zino auth login under its short name.
func (a *app) loginCommand() *cobra.Command {
	cmd := a.authLoginCommand()
	cmd.Args = atMost(1)
	return cmd
}

// authLoginCommand logs in at a provider, or lists how each one is connected.
func (a *app) authLoginCommand() *cobra.Command {
	cmd := a.accountCommand("login", "log in with the browser to get a key (openrouter)", a.authLogin)
	cmd.Use = "login [PROVIDER]"
	cmd.Example = "  zino login openrouter"
	login := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return login(cmd, args)
		}
		w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
		fmt.Fprintln(w, "PROVIDER\tHOW TO CONNECT")
		for _, account := range keystore.Accounts() {
			how := "zino auth set " + account.Name + " (a key from " + account.Page + ")"
			if account.Name == "openrouter" {
				how = "zino login openrouter (in the browser), or " + how
			}
			fmt.Fprintf(w, "%s\t%s\n", account.Name, how)
		}
		return w.Flush()
	}
	return cmd
}

// version is what zino version prints.
type version struct {
	Version  string `json:"version"`
	Build    string `json:"build"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
	Proto    int    `json:"proto"`
}

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "print the version, the commit and the protocol's number", Args: atMost(0), Annotations: printsJSON,
		Long: `Print the version of zino with the commit and the Go release that it was built
with, and the number of the protocol that it speaks with the services. zino
--version prints the first line only. zino doctor compares it with the services
that run.`,
		Example: "  zino version --json",
		RunE: func(*cobra.Command, []string) error {
			v := version{rpc.Version, rpc.Build, runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH, proto.Version}
			if a.asJSON() {
				return printJSON(a.out, v)
			}
			_, err := fmt.Fprintf(a.out, "zino %s\nbuild %s\n%s %s\nprotocol %d\n", rpc.VersionText(), v.Build, v.Go, v.Platform, v.Proto)
			return err
		},
	}
}

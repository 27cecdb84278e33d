package cli

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"zino/pkg/rpc"
	"zino/proto"
	"zino/services/cli/command"
	"zino/services/cli/render"
)

func newVersion(env *command.Env) *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "print the version, the commit and the protocol's number", Args: command.AtMost(0), Annotations: command.PrintsJSON,
		Long: `Print the version of zino with the commit and the Go release that it was built
with, and the number of the protocol that it speaks with the services. zino
--version prints the first line only. zino doctor compares it with the services
that run.`,
		Example: "  zino version --json",
		RunE: func(*cobra.Command, []string) error {
			v := struct {
				Version  string `json:"version"`
				Build    string `json:"build"`
				Go       string `json:"go"`
				Platform string `json:"platform"`
				Proto    int    `json:"proto"`
			}{rpc.Version, rpc.Build, runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH, proto.Version}
			if env.JSON() {
				return render.JSON(env.Out, v)
			}
			_, err := fmt.Fprintf(env.Out, "zino %s\nbuild %s\n%s %s\nprotocol %d\n", rpc.VersionText(), v.Build, v.Go, v.Platform, v.Proto)
			return err
		},
	}
}

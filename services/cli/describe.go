package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"zino/pkg/config"
	"zino/pkg/rpc"
	"zino/pkg/text"
	"zino/proto"
	"zino/services/cli/command"
	"zino/services/cli/connect"
	"zino/services/cli/render"
)

func newDescribe(env *command.Env) *cobra.Command {
	return &cobra.Command{
		Use: "describe SERVICE", Short: "print what a service can be asked", Annotations: command.PrintsJSON,
		Long: `Print what a service can be asked: its methods with the fields of request and
reply. A running service is asked; else this program's own knowledge is shown.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 || !slices.Contains(config.Services, args[0]) {
				return render.Usage("name one service: %s", strings.Join(config.Services, ", "))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			service := args[0]
			cfg, err := env.Config()
			if err != nil {
				return err
			}
			description, err := rpc.DescriptionOf(service)
			if env.Socket != "" || env.Running(cfg, true) {
				d, connectErr := env.Connect(cmd.Context(), cfg, true, connect.StorageOptional)
				if connectErr != nil {
					return connectErr
				}
				defer d.Close()
				description, err = connect.Forward(cmd.Context(), d, service, proto.Describe, proto.DescribeRequest{})
			}
			if err != nil {
				return err
			}
			if env.JSON() {
				return render.JSON(env.Out, description)
			}
			for _, m := range description.Methods {
				name := m.Type
				if name == "" {
					name = "(no type)"
				}
				fmt.Fprintf(env.Out, "%s -> %s  (%s)\n", text.Visible(name), text.Visible(m.Reply), text.Visible(m.Kind))
				fmt.Fprintf(env.Out, "    %s\n", text.Visible(strings.ReplaceAll(m.Doc, "\n", "\n    ")))
				printFields(env.Out, "->", m.Request)
				printFields(env.Out, "<-", m.Response)
				fmt.Fprintln(env.Out)
			}
			return nil
		},
	}
}

// schema is the part of a JSON schema that is printed.
type schema struct {
	Description string            `json:"description"`
	Type        any               `json:"type"`
	Properties  map[string]schema `json:"properties"`
	Required    []string          `json:"required"`
	Order       []string          `json:"propertyOrder"`
}

func printFields(w io.Writer, arrow string, raw proto.Raw) {
	var s schema
	if json.Unmarshal(raw, &s) != nil {
		return // not an object schema: the method's text was printed
	}
	for _, name := range s.Order {
		field, optional := s.Properties[name], ""
		if arrow == "->" && !slices.Contains(s.Required, name) {
			optional = ", optional"
		}
		description := strings.Join(strings.Fields(field.Description), " ")
		fmt.Fprintf(w, "    %s %s (%v%s): %s\n", arrow, text.Visible(name), field.Type, optional, text.Visible(description))
	}
}

package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"zino/pkg/config"
	"zino/pkg/visible"
	"zino/proto"
)

const describeLong = `Print what a service can be asked: its methods with the fields of request and
reply. A running service is asked; else this program's own knowledge is shown.`

func (a *app) describeCommand() *cobra.Command {
	return &cobra.Command{
		Use: "describe SERVICE", Short: "print what a service can be asked", Long: describeLong, Annotations: printsJSON,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 || !slices.Contains(config.Services, args[0]) {
				return usageError{fmt.Errorf("name one service: %s", strings.Join(config.Services, ", "))}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return a.describe(cmd.Context(), args[0]) },
	}
}

func (a *app) describe(ctx context.Context, service string) error {
	cfg, err := a.settings()
	if err != nil {
		return err
	}
	description, err := proto.DescriptionOf(service)
	if a.socket != "" || a.running(cfg, true) {
		d, connectErr := a.connect(cfg, true, storageOptional)
		if connectErr != nil {
			return connectErr
		}
		defer d.close()
		description, err = forward(ctx, d, service, proto.Describe, proto.DescribeRequest{})
	}
	if err != nil {
		return err
	}
	if a.asJSON() {
		return printJSON(a.out, description)
	}
	for _, m := range description.Methods {
		printMethod(a.out, m)
	}
	return nil
}

// schema is the part of a JSON schema that a person reads.
type schema struct {
	Description string            `json:"description"`
	Type        any               `json:"type"`
	Properties  map[string]schema `json:"properties"`
	Required    []string          `json:"required"`
	Order       []string          `json:"propertyOrder"`
}

func printMethod(w io.Writer, m proto.MethodDescription) {
	name := m.Type
	if name == "" {
		name = "(no type)"
	}
	fmt.Fprintf(w, "%s -> %s  (%s)\n", visible.Text(name), visible.Text(m.Reply), visible.Text(m.Kind))
	fmt.Fprintf(w, "    %s\n", visible.Text(strings.ReplaceAll(m.Doc, "\n", "\n    ")))
	printFields(w, "->", m.Request)
	printFields(w, "<-", m.Response)
	fmt.Fprintln(w)
}

func printFields(w io.Writer, arrow string, raw proto.Raw) {
	var s schema
	if json.Unmarshal(raw, &s) != nil {
		return // a schema of another form than ours: the method's text must do
	}
	for _, name := range s.Order {
		field, optional := s.Properties[name], ""
		if arrow == "->" && !slices.Contains(s.Required, name) {
			optional = ", optional"
		}
		text := strings.Join(strings.Fields(field.Description), " ")
		fmt.Fprintf(w, "    %s %s (%v%s): %s\n", arrow, visible.Text(name), field.Type, optional, visible.Text(text))
	}
}

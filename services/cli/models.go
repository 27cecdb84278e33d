package cli

import (
	"context"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"zino/proto"
	"zino/services/cli/command"
	"zino/services/cli/connect"
	"zino/services/cli/render"
)

func newModels(env *command.Env) *cobra.Command {
	return &cobra.Command{
		Use: "models [WORDS]", Short: "list the models that can be asked", Annotations: command.PrintsJSON,
		Long: `List the models that the connected providers have: all of them, or those whose
name has each of WORDS. --provider asks one provider only. CONTEXT is how many
tokens a model holds, and EFFORT which levels --effort may have; - is unknown.
With --json each line is an object.`,
		Args:    cobra.ArbitraryArgs,
		Example: "  zino models sonnet\n  zino models --provider ollama --json",
		RunE: func(cmd *cobra.Command, words []string) error {
			return env.Guard(cmd.Context(), func(ctx context.Context) error { return models(ctx, env, words) })
		},
	}
}

func models(ctx context.Context, env *command.Env, words []string) error {
	cfg, err := env.Config()
	if err != nil {
		return err
	}
	d, err := env.Connect(ctx, cfg, true, connect.StorageDiscarded) // nothing is stored
	if err != nil {
		return err
	}
	defer d.Close()
	list, err := connect.Forward(ctx, d, "rtr", proto.RtrModels, proto.ModelsRequest{Provider: env.Provider})
	if err != nil {
		return err
	}
	for _, problem := range list.Problems {
		env.Say("Warning: %s", problem)
	}
	models := slices.DeleteFunc(list.Models, func(m proto.Model) bool {
		return slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(strings.ToLower(m.Name), strings.ToLower(word)) })
	})
	if len(models) == 0 {
		if len(words) == 0 {
			env.Say("No models found.")
			return nil
		}
		return proto.Errorf(proto.CodeInvalid, "no model's name has %q; zino models lists all", strings.Join(words, " "))
	}
	if env.JSON() {
		return env.Print(func(w io.Writer) error { return render.JSONList(w, models) })
	}
	rows := [][]string{{"MODEL", "PROVIDER", "CONTEXT", "EFFORT"}}
	for _, m := range models {
		length := "-"
		if m.Context > 0 {
			length = strconv.Itoa(m.Context)
		}
		rows = append(rows, []string{m.Name, m.Provider, length, render.Dash(strings.Join(m.Efforts, " "))})
	}
	return env.PrintTable(rows)
}

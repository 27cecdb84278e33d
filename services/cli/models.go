package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"zino/proto"
)

const modelsLong = `List the models that the connected providers have: all of them, or those whose
name holds each of WORDS. --provider asks one provider only. CONTEXT is how many
tokens a model holds, and EFFORT which levels --effort may have; - is unknown.
With --json each line is an object.`

func (a *app) modelsCommand() *cobra.Command {
	return &cobra.Command{
		Use: "models [WORDS]", Short: "list the models that can be asked", Long: modelsLong, Annotations: printsJSON,
		Args:    cobra.ArbitraryArgs,
		Example: "  zino models sonnet\n  zino models --provider ollama --json",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.guarded(cmd.Context(), func(ctx context.Context) error { return a.models(ctx, args) })
		},
	}
}

func (a *app) models(ctx context.Context, words []string) error {
	cfg, err := a.settings()
	if err != nil {
		return err
	}
	d, err := a.connect(cfg, true, storageDiscarded) // nothing is stored
	if err != nil {
		return err
	}
	defer d.close()
	list, err := forward(ctx, d, "rtr", proto.RtrModels, proto.ModelsRequest{Provider: a.provider})
	if err != nil {
		return err
	}
	for _, problem := range list.Problems {
		a.say("Warning: %s", problem)
	}
	models := slices.DeleteFunc(list.Models, func(m proto.Model) bool { return !holdsAll(m.Name, words) })
	if len(models) == 0 && len(words) == 0 {
		a.say("No models found.")
		return nil
	}
	if len(models) == 0 {
		return fmt.Errorf("no model's name holds %q; zino models lists all", strings.Join(words, " "))
	}
	if a.asJSON() {
		return a.print(func(w io.Writer) error { return printAll(w, models) })
	}
	rows := [][]string{{"MODEL", "PROVIDER", "CONTEXT", "EFFORT"}}
	for _, m := range models {
		length := "-"
		if m.Context > 0 {
			length = strconv.Itoa(m.Context)
		}
		effort := "-"
		if len(m.Efforts) > 0 {
			effort = strings.Join(m.Efforts, " ")
		}
		rows = append(rows, []string{m.Name, m.Provider, length, effort})
	}
	return a.print(func(w io.Writer) error {
		_, err := io.WriteString(w, columns(rows, a.width()))
		return err
	})
}

// holdsAll reports whether text holds each of words, in any case of letters.
func holdsAll(text string, words []string) bool {
	text = strings.ToLower(text)
	return !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(text, strings.ToLower(word)) })
}

// someModel completes the name of a model: of --provider, if it is given, else of
// any. Only a daemon that is running is asked, and not for long.
func (a *app) someModel(cmd *cobra.Command, _ []string, word string) (names []string, _ cobra.ShellCompDirective) {
	const form = cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	cfg, err := a.settings()
	if err != nil {
		return nil, form
	}
	places, err := a.places(cfg, false)
	if err != nil {
		return nil, form
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), tabPatience)
	defer cancel()
	for _, p := range places {
		d := at(p)
		list, err := forward(ctx, d, "rtr", proto.RtrModels, proto.ModelsRequest{Provider: a.provider})
		d.close()
		if err != nil {
			continue
		}
		seen := map[string]bool{}
		for _, m := range list.Models {
			if strings.HasPrefix(m.Name, word) && !seen[m.Name] {
				seen[m.Name] = true
				names = append(names, cobra.CompletionWithDesc(m.Name, m.Provider))
			}
		}
		break
	}
	return names, form
}

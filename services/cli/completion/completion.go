// Package completion implements zino completion: shell scripts and the values they complete.
package completion

import (
	"bytes"

	"github.com/spf13/cobra"

	"zino/services/cli/command"
)

const long = `Print a script that completes commands, flags, names of providers, and ids of sessions,
jobs and approvals with the Tab key. Ids are those that a running daemon has; none is
started for that.`

var shells = []struct {
	name, try, hint string
	write           func(root *cobra.Command, w *bytes.Buffer) error
}{
	{
		"bash", "source <(zino completion bash)", `To have it in every shell:

  mkdir -p ~/.local/share/bash-completion/completions
  zino completion bash >~/.local/share/bash-completion/completions/zino

or, without the package bash-completion, in ~/.bashrc:

  source <(zino completion bash)`, bashScript,
	},
	{
		"zsh", "source <(zino completion zsh)", `To have it in every shell, put it into a directory of $fpath:

  mkdir -p ~/.zfunc
  zino completion zsh >~/.zfunc/_zino

and, if they are not there yet, these lines into ~/.zshrc:

  fpath+=~/.zfunc
  autoload -U compinit && compinit`, func(root *cobra.Command, w *bytes.Buffer) error { return root.GenZshCompletion(w) },
	},
	{
		"fish", "zino completion fish | source", `To have it in every shell:

  mkdir -p ~/.config/fish/completions
  zino completion fish >~/.config/fish/completions/zino.fish`, func(root *cobra.Command, w *bytes.Buffer) error { return root.GenFishCompletion(w, true) },
	},
}

// New returns zino completion.
func New(env *command.Env) *cobra.Command {
	cmd := command.Group("completion", "a script that completes commands in bash, zsh or fish", long)
	for _, shell := range shells {
		cmd.AddCommand(&cobra.Command{
			Use: shell.name, Short: "completions for " + shell.name, Args: command.NoArgs,
			Long:    "Print the completions for " + shell.name + ".\n\n" + shell.hint,
			Example: "  " + shell.try,
			RunE: func(cmd *cobra.Command, _ []string) error {
				var script bytes.Buffer
				if err := shell.write(cmd.Root(), &script); err != nil {
					return err
				}
				_, err := env.Out.Write(script.Bytes())
				return err
			},
		})
	}
	return cmd
}

// bashScript writes the script for bash, with a function that splits the command line
// into words where the package bash-completion is missing.
func bashScript(root *cobra.Command, w *bytes.Buffer) error {
	if err := root.GenBashCompletionV2(w, true); err != nil {
		return err
	}
	_, err := w.WriteString(bashWords)
	return err
}

// bashWords rejoins words that bash split at = and :.
const bashWords = `
__zino_init_completion()
{
    COMPREPLY=()
    if declare -F _get_comp_words_by_ref >/dev/null; then
        _get_comp_words_by_ref "$@" cur prev words cword
        return
    fi
    local line=${COMP_LINE:0:COMP_POINT} word i
    words=()
    for ((i = 0; i <= COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        if [[ $i == 0 || $line == [[:blank:]]* ]]; then
            line=${line#"${line%%[![:blank:]]*}"}
            words+=("")
        fi
        [[ $line == "$word"* ]] || word=$line # up to the cursor
        words[${#words[@]}-1]+=$word
        line=${line#"$word"}
    done
    cword=$((${#words[@]} - 1))
    cur=${words[cword]}
    prev=
    ((cword == 0)) || prev=${words[cword-1]}
}
`

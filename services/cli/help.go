package cli

import "github.com/spf13/cobra"

const long = `Zino is an AI agent that belongs to the host.

  zino                         open a chat; Ctrl-D leaves
  zino -p "why does it fail?"  run one prompt
  git diff | zino -p "review"  run one prompt about the text of standard input
  zino --continue              go on with the latest session of this directory
  zino "what fills /var?"      answer one message, without a session

To connect a model, set ANTHROPIC_API_KEY, OPENAI_API_KEY, GEMINI_API_KEY or
OPENROUTER_API_KEY, store a key with zino auth set PROVIDER, log in with zino login
openrouter, or set [api] base_url with zino config edit. zino doctor checks it all.

If no daemon runs, zino starts its services for the time of the run.`

// helpGroups are the groups of commands in the help.
var helpGroups = []struct {
	id, title string
	commands  []string
}{
	{"everyday", "Everyday:", []string{"chat", "exec", "resume", "models", "usage", "doctor"}},
	{"sessions", "Sessions:", []string{"sessions", "handoff", "context"}},
	{"memory", "Memory:", []string{"memory", "channels"}},
	{"pages", "Live pages:", []string{"repl", "pages", "eval"}},
	{"configuration", "Configuration:", []string{"auth", "login", "config", "completion"}},
	{"services", "Services:", []string{"up", "status", "describe", "version", "help"}},
}

// groupCommands puts the commands of root into the groups of the help.
func groupCommands(root *cobra.Command) {
	for _, group := range helpGroups {
		root.AddGroup(&cobra.Group{ID: group.id, Title: group.title})
		for _, name := range group.commands {
			for _, cmd := range root.Commands() {
				if cmd.Name() == name {
					cmd.GroupID = group.id
				}
			}
		}
	}
	root.SetHelpCommandGroupID("services")
}

package chat

import (
	"slices"

	"zino/proto"
)

// listFiles asks the daemon for the commands of files, and then calls then.
func (c *chat) listFiles(then func(error)) {
	if !c.can(proto.DaemonCommands.Type) {
		c.filesKnown = true
		then(nil)
		return
	}
	insist(c, proto.DaemonCommands, proto.ListCommands{Root: c.root}, func(list proto.CommandList, err error) {
		if err == nil {
			c.files = list.Commands
		}
		c.filesKnown = true
		then(err)
	})
}

// fileNames returns the names of the commands of files that no command of the chat has.
func (c *chat) fileNames() (names []string) {
	for _, k := range c.files {
		if !isBuiltin(k.Name) && k.Problem == "" {
			names = append(names, k.Name)
		}
	}
	return names
}

func isBuiltin(name string) bool {
	return slices.ContainsFunc(commands, func(k *command) bool { return k.name == name })
}

// runFile begins a turn with a command of a file, if the daemon lists it now; during a turn
// it waits. It reports whether the editor may be emptied.
func (c *chat) runFile(word, args, typed string) bool {
	if !c.accepts() {
		return false
	}
	draft, revision := c.editor.Draft(), c.revision
	run := func() {
		c.listFiles(func(err error) {
			i := slices.IndexFunc(c.files, func(k proto.CommandInfo) bool { return k.Name == word })
			switch {
			case err != nil:
				c.fail(errorOf(err))
			case i < 0:
				c.unknown(word, typed)
			case c.files[i].Problem != "":
				c.print(kindCommand, c.quote(typed, nil)...)
				c.say("/%s cannot be used: %s: %s", safe(word), safe(home(c.files[i].Path)), safe(c.files[i].Problem))
			default:
				m := message{draft: draft, command: word, arguments: args}
				if !c.accepts() {
					c.returnToEditor([]*queued{{message: m}})
					return
				}
				if c.turn == nil {
					c.revision = revision
				}
				c.beginOrWait(m, proto.ViaQueue)
			}
		})
	}
	if !c.ready {
		c.typedCommands = append(c.typedCommands, run)
		return true
	}
	run()
	return true
}

package turn

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"zino/proto"
	"zino/services/cli/command"
	"zino/services/cli/connect"
	"zino/services/cli/render"
)

// shortestPrefix is how many characters of an id name a session if more words follow
// it: "be" in `zino say be careful` is a word, although ids may begin with it.
const shortestPrefix = 4

// Named returns the session that the first word names by its id or the beginning of
// it. Commands such as stop, say, attach, undo, redo and diff are also words that a
// message can begin with: if there is no such session and more words follow, the
// error is a usage error that says how to send the line as a message.
func Named(ctx context.Context, cmd *cobra.Command, d *connect.Daemon, words []string) (proto.SessionSummary, error) {
	if len(words) == 0 || words[0] == "" {
		return proto.SessionSummary{}, command.Mistake(cmd, "name one session by its id, or by the beginning of it")
	}
	found, err := proto.SessionSummary{}, error(proto.ErrNotFound)
	if proto.CheckSessionID(words[0]) == nil {
		found, err = connect.Forward(ctx, d, "mem", proto.MemFindSession, proto.FindSession{SessionID: words[0]})
	}
	more := len(words) > 1
	isWord := more && len(words[0]) < shortestPrefix && found.SessionID != words[0]
	switch {
	case err == nil && !isWord:
		return found, nil
	case err != nil && !errors.Is(err, proto.ErrNotFound) && !(isWord && errors.Is(err, proto.ErrInvalid)):
		return found, err
	case more:
		return found, render.Usage("No session %q. To send this as a message: zino -- %s", words[0], ShellWords(cmd.Name(), words))
	}
	return found, sessionError(proto.CodeNotFound, "No session %q.", words[0])
}

// ShellWords formats a command line for a shell.
func ShellWords(name string, words []string) string {
	line := []string{name}
	for _, word := range words {
		line = append(line, render.ShellWord(word))
	}
	return strings.Join(line, " ")
}

// Find is Named for commands about turns: the first word may also be the id of a turn or
// the beginning of it. turn is empty if it names a session.
func Find(ctx context.Context, cmd *cobra.Command, d *connect.Daemon, words []string) (session, turn string, err error) {
	if len(words) > 0 && len(words[0]) > len("t-") && strings.HasPrefix(words[0], "t-") {
		list, err := Open(ctx, d, true)
		if err != nil {
			return "", "", err
		}
		for _, t := range list {
			if strings.HasPrefix(t.Turn, words[0]) && turn != "" {
				return "", "", sessionError(proto.CodeInvalid, "several turns begin with %q", words[0])
			}
			if strings.HasPrefix(t.Turn, words[0]) {
				session, turn = t.SessionID, t.Turn
			}
		}
	}
	if turn != "" {
		return session, turn, nil
	}
	found, err := Named(ctx, cmd, d, words)
	return found.SessionID, "", err
}

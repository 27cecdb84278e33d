package turn

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"sync"

	"zino/pkg/rpc"
	"zino/proto"
	"zino/services/cli/connect"
)

var slashWord = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^/[a-z][A-Za-z0-9_:-]*$`) })

// Slash makes a message a command if its first word is one that the daemon lists. Anything
// else stays text.
func Slash(ctx context.Context, d *connect.Daemon, req *proto.Chat) {
	message := strings.TrimSpace(req.Message)
	word, arguments := message, ""
	if i := strings.IndexAny(message, " \t\r\n"); i >= 0 {
		word, arguments = message[:i], strings.TrimSpace(message[i:])
	}
	if !slashWord().MatchString(word) || !strings.HasPrefix(req.Message, word) { // a blank in front makes it text
		return
	}
	list, err := rpc.Call(ctx, d.Client, proto.DaemonCommands, proto.ListCommands{Root: req.Root})
	if err != nil { // an older daemon has none, and the turn reports other errors
		return
	}
	if slices.ContainsFunc(list.Commands, func(c proto.CommandInfo) bool { return "/"+c.Name == word }) {
		req.Message, req.Command, req.Arguments = "", word[1:], arguments
	}
}

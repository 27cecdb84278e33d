package chat

import (
	"encoding/base64"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"zino/pkg/text"
)

// copy copies the last answer, or a block of code of it, to the clipboard.
func (c *chat) copy(args string) {
	what := c.answer
	if args != "" {
		n, err := strconv.Atoi(args)
		blocks := codeBlocks(c.answer)
		if err != nil || n < 1 || n > len(blocks) {
			c.refuse("The last answer has %s.", text.Count(len(blocks), "block of code"))
			return
		}
		what = blocks[n-1]
	}
	if what == "" {
		c.refuse("There is no answer yet.")
		return
	}
	os.Stdout.WriteString("\x1b]52;c;" + base64.StdEncoding.EncodeToString([]byte(what)) + "\x1b\\")
	for _, tool := range [][]string{{"wl-copy"}, {"xclip", "-selection", "clipboard"}, {"pbcopy"}} {
		if path, err := exec.LookPath(tool[0]); err == nil {
			cmd := exec.CommandContext(c.ctx, path, tool[1:]...)
			cmd.Stdin = strings.NewReader(what)
			go cmd.Run() // the terminal may have it already
			break
		}
	}
	c.say("Copied %s.", text.Count(strings.Count(strings.TrimSuffix(what, "\n"), "\n")+1, "line"))
}

// codeBlocks returns the contents of the fenced blocks of a text.
func codeBlocks(s string) (blocks []string) {
	for _, b := range text.Blocks(s) {
		blocks = append(blocks, b.Text)
	}
	return blocks
}

package chat

import (
	"context"
	"io/fs"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"zino/services/chat/input"
	"zino/services/chat/screen"
)

const (
	menuMax   = 8
	walkNames = 20_000
	walkDepth = 8
	walkTime  = 200 * time.Millisecond
)

// menu is the list of completions below the editor.
type menu struct {
	word    string // that is completed: the end of the text before the cursor
	choices []string
	at      int // the chosen one; -1: none yet
}

func (c *chat) closeMenu() { c.menu = nil }

// complete shows the completions of the word before the cursor. With accept it inserts
// the only one, or what all have in common. It reports whether there are any.
func (c *chat) complete(accept bool) bool {
	word, choices := c.choices()
	if len(choices) == 0 || len(choices) == 1 && choices[0] == word {
		c.menu = nil
		return false
	}
	c.menu = &menu{word: word, choices: choices, at: -1}
	if !accept {
		return true
	}
	if common := commonPrefix(choices); len(choices) == 1 {
		c.accept(choices[0])
	} else if len(common) > len(word) {
		c.editor.Insert(common[len(word):])
		c.complete(false)
	}
	return true
}

// accept puts a completion into the editor.
func (c *chat) accept(choice string) {
	c.editor.ReplaceBefore(len(c.menu.word), choice)
	c.menu = nil
	if !strings.HasSuffix(choice, "/") {
		c.editor.Insert(" ")
	}
}

// choices returns the word before the cursor and what it can become: commands, their
// arguments, and paths behind @.
func (c *chat) choices() (word string, list []string) {
	before := c.editor.BeforeCursor()
	if strings.HasPrefix(before, "/") && !strings.Contains(before, "\n") {
		name, arg, found := strings.Cut(before[1:], " ")
		if !found {
			for _, k := range commands {
				if strings.HasPrefix(k.name, name) {
					list = append(list, "/"+k.name)
				}
			}
			return before, list
		}
		i := slices.IndexFunc(commands, func(k *command) bool { return k.name == name })
		if i < 0 {
			return "", nil
		}
		for _, value := range commands[i].complete {
			if strings.HasPrefix(value, arg) {
				list = append(list, value)
			}
		}
		return arg, list
	}
	at := strings.LastIndexAny(before, " \n\t(") + 1
	if word = before[at:]; !strings.HasPrefix(word, "@") || strings.HasPrefix(word, `@"`) {
		return "", nil
	}
	part := strings.ToLower(word[1:])
	var within []string
	for _, path := range c.paths() {
		lower := strings.ToLower(path)
		choice := "@" + path
		if strings.ContainsAny(path, " \t") {
			choice = `@"` + path + `"`
		}
		switch {
		case strings.HasPrefix(lower, part):
			list = append(list, choice)
		case part != "" && strings.Contains(lower, part):
			within = append(within, choice)
		}
		if len(list) >= 200 {
			break
		}
	}
	if len(list) == 0 {
		list = within
	}
	return word, list
}

// paths returns the files below the root: those that git knows, else those of a walk.
// They are listed anew when the last list is older than a few seconds.
func (c *chat) paths() []string {
	if time.Since(c.listed) < 3*time.Second {
		return c.files
	}
	ctx, cancel := context.WithTimeout(c.ctx, time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, "git", "-C", c.root, "ls-files", "-co", "--exclude-standard").Output()
	c.files = nil
	if err == nil {
		for line := range strings.Lines(string(out)) {
			c.files = append(c.files, strings.TrimSuffix(line, "\n"))
		}
	} else {
		c.files = walk(c.root)
	}
	slices.Sort(c.files)
	c.listed = time.Now()
	return c.files
}

// walk lists the files below a directory, without hidden directories, as far as it gets.
func walk(root string) (list []string) {
	until := time.Now().Add(walkTime)
	filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil || path == root {
			return nil
		}
		if len(list) >= walkNames || time.Now().After(until) {
			return fs.SkipAll
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return nil
		}
		if e.IsDir() && (strings.HasPrefix(e.Name(), ".") || strings.Count(rel, "/") >= walkDepth) {
			return fs.SkipDir
		}
		if !e.IsDir() {
			list = append(list, rel)
		}
		return nil
	})
	return list
}

func commonPrefix(list []string) string {
	prefix := list[0]
	for _, s := range list[1:] {
		for !strings.HasPrefix(s, prefix) {
			prefix = prefix[:len(prefix)-1]
		}
	}
	return strings.ToValidUTF8(prefix, "")
}

// menuKey handles a key while completions are shown. It reports whether the key was for
// them.
func (c *chat) menuKey(key input.Key) bool {
	m := c.menu
	switch key.Name {
	case "esc":
		c.menu = nil
	case "tab", "down":
		if key.Name == "tab" && m.at < 0 {
			return false // what all have in common comes first
		}
		m.at = (m.at + 1) % len(m.choices)
	case "shift+tab", "up":
		if m.at < 0 && key.Name == "up" {
			return false
		}
		m.at = (m.at + len(m.choices) - 1) % len(m.choices)
	case "enter":
		if m.at < 0 {
			return false
		}
		c.accept(m.choices[m.at])
	default:
		return false
	}
	return true
}

// rows returns the rows of the list.
func (m *menu) rows(c *chat, width int) (rows []string) {
	from := 0
	if m.at >= menuMax {
		from = m.at - menuMax + 1
	}
	for i, choice := range m.choices[from:min(len(m.choices), from+menuMax)] {
		row := c.widths.Clip("  "+safe(choice), width-1)
		if from+i == m.at {
			row = c.paint(screen.Style{Bold: true}, "> "+strings.TrimPrefix(row, "  "))
		}
		rows = append(rows, row)
	}
	return rows
}

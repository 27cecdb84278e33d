package chat

import (
	"slices"
	"strings"
	"unicode"

	"zino/services/chat/input"
	"zino/services/chat/screen"
)

const (
	menuMax    = 8   // rows of the list
	choicesMax = 200 // completions that are kept
)

// menu is the list of completions below the editor.
type menu struct {
	word    string // that is completed: the end of the text before the cursor
	choices []string
	at      int // the chosen one; -1: none yet
}

func (c *chat) closeMenu() { c.menu, c.awaited = nil, nil }

// awaited is a completion whose choices are being listed.
type awaited struct {
	before string // the text before the cursor
	accept bool
}

// complete shows the completions of the word before the cursor. With accept it inserts
// the only one, or what all have in common, else it chooses the first. It reports whether there are any, or will be.
func (c *chat) complete(accept bool) bool {
	word, choices, known := c.choices()
	c.closeMenu()
	if !known {
		c.awaited = &awaited{c.editor.BeforeCursor(), accept}
	}
	if len(choices) == 0 || len(choices) == 1 && choices[0] == word {
		return !known
	}
	c.menu = &menu{word: word, choices: choices, at: -1}
	if !accept {
		return true
	}
	if common := commonPrefix(choices); len(choices) == 1 {
		c.accept(choices[0])
	} else if len(common) > len(word) {
		c.editor.ReplaceBefore(len(word), common)
		c.complete(false)
	} else {
		c.menu.at = 0
	}
	return true
}

// listed completes again when choices have been listed.
func (c *chat) listed() {
	if a := c.awaited; a != nil && a.before == c.editor.BeforeCursor() && c.picker == nil && c.search == nil {
		c.complete(a.accept)
	}
}

// accept puts a completion into the editor.
func (c *chat) accept(choice string) {
	word := c.menu.word
	c.closeMenu()
	if strings.HasSuffix(choice, "/") { // its content may follow
		c.editor.ReplaceBefore(len(word), choice)
		c.complete(false)
		return
	}
	c.editor.ReplaceBefore(len(word), choice+" ")
}

// choices returns the word before the cursor and what it can become: commands, their
// arguments, and paths behind @. known is false as long as choices are being listed.
func (c *chat) choices() (word string, list []string, known bool) {
	before := c.editor.BeforeCursor()
	if strings.HasPrefix(before, "/") && !strings.ContainsAny(before, "\n\t") {
		name, arg, found := strings.Cut(before[1:], " ")
		if !found {
			for _, k := range commands {
				if strings.HasPrefix(k.name, name) {
					list = append(list, "/"+k.name)
				}
			}
			for _, file := range c.fileNames() {
				if strings.HasPrefix(file, name) && !slices.Contains(list, "/"+file) {
					list = append(list, "/"+file)
				}
			}
			return before, list, c.filesKnown
		}
		if i := slices.IndexFunc(commands, func(k *command) bool { return k.name == name }); i >= 0 {
			values, known := commands[i].complete, true
			if commands[i].values != nil {
				values, known = commands[i].values(c)
			}
			return arg, matching(arg, values), known
		}
	}
	word = mentionAt(before)
	if word == "" {
		return "", nil, true
	}
	paths, known := c.paths(strings.TrimPrefix(word[1:], `"`))
	list = matching(word, mentionsOf(paths, word))
	return word, list, known
}

// matching returns the values that begin with a word, ignoring case, else those that
// contain it. A word that is complete has none.
func matching(word string, values []string) (list []string) {
	word = strings.ToLower(word)
	var within []string
	inner := strings.TrimLeft(word, `@"`)
	for _, value := range values {
		lower := strings.ToLower(value)
		switch {
		case strings.HasPrefix(lower, word):
			list = append(list, value)
		case inner != "" && strings.Contains(lower, inner):
			within = append(within, value)
		}
		if len(list) == choicesMax {
			break
		}
	}
	if len(list) == 0 {
		list = within[:min(len(within), choicesMax)]
	}
	return list
}

// mentionAt returns the word behind @ at the end of a text, with the @, or "".
func mentionAt(before string) string {
	line := before[strings.LastIndexByte(before, '\n')+1:]
	for at := strings.LastIndexByte(line, '@'); at >= 0; at = strings.LastIndexByte(line[:at], '@') {
		word := line[at:]
		last := []rune(line[:at])
		if n := len(last); n > 0 && !unicode.IsSpace(last[n-1]) && !unicode.In(last[n-1], unicode.Ps, unicode.Pi) && last[n-1] != '"' && last[n-1] != '\'' {
			continue
		}
		if quoted, ok := strings.CutPrefix(word, `@"`); ok {
			if strings.Contains(quoted, `"`) {
				return ""
			}
			return word
		}
		if strings.ContainsFunc(word, unicode.IsSpace) {
			return ""
		}
		return word
	}
	return ""
}

// mentionsOf returns how paths are written behind @. Those that cannot be are left out.
func mentionsOf(paths []string, word string) (list []string) {
	quote := strings.HasPrefix(word, `@"`)
	for _, path := range paths {
		switch {
		case strings.ContainsFunc(path, unicode.IsControl):
		case !quote && !strings.ContainsFunc(path, unicode.IsSpace) && path[0] != '"':
			list = append(list, "@"+path)
		case !strings.Contains(path, `"`) && strings.HasSuffix(path, "/"):
			list = append(list, `@"`+path)
		case !strings.Contains(path, `"`):
			list = append(list, `@"`+path+`"`)
		}
	}
	return list
}

// commonPrefix returns what all of a list begin with.
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
		c.closeMenu()
	case "tab", "down":
		if key.Name == "tab" && m.at < 0 {
			return false // what all have in common comes first
		}
		m.at = (m.at + 1) % len(m.choices)
	case "shift+tab", "up":
		if m.at < 0 && key.Name == "up" {
			return false
		}
		m.at = (max(m.at, 0) + len(m.choices) - 1) % len(m.choices)
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

package chat

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"sort"
	"strings"
	"unicode/utf8"

	"zino/pkg/text"
)

const (
	attachMax    = 64 << 10  // bytes of a file that is appended to a message
	attachAllMax = 256 << 10 // of all files of a message
	attachNames  = 200       // of a directory
)

var mention = regexp.MustCompile(`(^|[\s(])@("[^"\n]+"|[^\s"]+)`)

// attach appends the files that a message names with @.
func (c *chat) attach(message string) string {
	var b strings.Builder
	b.WriteString(message)
	seen, room := map[string]bool{}, attachAllMax
	for _, m := range mention.FindAllStringSubmatch(message, -1) {
		name := strings.TrimRight(strings.Trim(m[2], `"`), ",.;:!?)")
		path, info := c.existing(name, strings.Trim(m[2], `"`))
		if info == nil || seen[path] {
			continue
		}
		seen[path] = true
		content, note := contentOf(path, info, room)
		switch {
		case note != "":
			c.say("%s", safe(name+note))
		default:
			room -= len(content)
			b.WriteString("\n\nContents of " + name + ":\n" + text.Fenced("", content))
		}
	}
	return b.String()
}

// existing returns the path of the first name that exists, and what it is.
func (c *chat) existing(names ...string) (string, os.FileInfo) {
	for _, name := range names {
		path := c.resolve(name)
		if info, err := os.Stat(path); err == nil {
			return path, info
		}
	}
	return "", nil
}

// resolve returns the path of a name as it is typed.
func (c *chat) resolve(name string) string {
	if rest, ok := strings.CutPrefix(name, "~"); ok && (rest == "" || rest[0] == '/') {
		return filepath.Join(homeDir(), rest)
	}
	if filepath.IsAbs(name) {
		return filepath.Clean(name)
	}
	return filepath.Join(c.root, name)
}

// contentOf returns the text of a file or the names in a directory, or a note why it is
// not attached.
func contentOf(path string, info os.FileInfo, room int) (content, note string) {
	switch {
	case info.IsDir():
		entries, err := os.ReadDir(path)
		if err != nil {
			return "", ": " + err.Error()
		}
		var names []string
		for _, e := range entries {
			name := e.Name()
			if e.IsDir() {
				name += "/"
			}
			names = append(names, name)
		}
		sort.Strings(names)
		if over := len(names) - attachNames; over > 0 {
			names = append(names[:attachNames], fmt.Sprintf("… %d more", over))
		}
		return strings.Join(names, "\n") + "\n", ""
	case !info.Mode().IsRegular():
		return "", " is not a file: not attached"
	case info.Size() > attachMax || info.Size() > int64(room):
		return "", fmt.Sprintf(": %s, named only", size(info.Size()))
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return "", ": " + err.Error()
	}
	if !utf8.Valid(data) || strings.ContainsRune(string(data), 0) {
		return "", " is not text: not attached"
	}
	return string(data), ""
}

// size formats a number of bytes as files are listed.
func size(n int64) string {
	if n >= 1_000_000 {
		return fmt.Sprintf("%d MB", (n+500_000)/1_000_000)
	}
	return fmt.Sprintf("%d KB", (n+500)/1000)
}

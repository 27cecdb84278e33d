package handoff

import (
	"path/filepath"
	"regexp"
	"strings"
)

// pathMax is how long a path may be that a bundle lists, in bytes.
const pathMax = 512

// places are the directories that paths in a session and in its bundle are
// relative to; "" is one that is not known. Nothing is looked up on disk: the
// session may be from elsewhere.
type places struct {
	root string // of the bundle
	base string // of the session: where its tools worked
}

// from learns the directory that a session's first line says it was begun in.
func (p *places) from(dir string) {
	if !filepath.IsAbs(dir) || p.base != "" {
		return
	}
	p.base = filepath.Clean(dir)
	if p.root == "" {
		p.root = p.base
	}
}

// ofTool is a path in a tool's input as the bundle has it, "" if it can not be
// listed.
func (p places) ofTool(path string) string {
	if path != "" && !filepath.IsAbs(path) && p.base != "" {
		path = filepath.Join(p.base, path)
	}
	return p.relative(path)
}

// relative is a path relative to the root if it is inside, else absolute, and ""
// if it can not be listed.
func (p places) relative(path string) string {
	if path == "" || len(path) > pathMax || strings.Contains(path, "\n") || !exact(path) {
		return ""
	}
	path = filepath.Clean(path)
	if p.root == "" {
		return named(path)
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(p.root, path)
	}
	if rel, err := filepath.Rel(p.root, path); err == nil && filepath.IsLocal(rel) {
		return named(rel)
	}
	return path
}

// named leaves out what is no file's name.
func named(path string) string {
	if path == "." {
		return ""
	}
	return path
}

// withoutRoot is a text in which "." stands for the root.
func (p places) withoutRoot(text string) string {
	if len(p.root) < 2 { // "/" is everywhere
		return text
	}
	var b strings.Builder
	done := 0
	for {
		i := strings.Index(text[done:], p.root)
		if i < 0 {
			b.WriteString(text[done:])
			return b.String()
		}
		start, end := done+i, done+i+len(p.root)
		b.WriteString(text[done:start])
		b.WriteString(p.standIn(text[:start], text[end:]))
		done = end
	}
}

// standIn is what takes the place of the root between two texts.
func (p places) standIn(before, after string) string {
	switch {
	case !beginsPath(before) || !endsName(after):
		return p.root
	case strings.HasPrefix(after, "."):
		return "./" // ".." would be another place
	}
	return "."
}

// beginsPath reports whether a path can begin behind a text: it does not go on
// with one, but may stand right behind a flag, as in -I/usr/include.
func beginsPath(before string) bool {
	before = before[max(0, len(before)-pathMax):] // no further back, however long the text is
	word := before[strings.LastIndexFunc(before, func(r rune) bool { return !inPath(r) })+1:]
	return word == "" || word[0] == '-' && !strings.Contains(word, "/")
}

// endsName reports whether a name is at its end in front of a text: the dot
// of a sentence ends it, that of an extension does not.
func endsName(after string) bool {
	after = strings.TrimPrefix(after, ".")
	for _, r := range after {
		return r == '/' || !inPath(r)
	}
	return true
}

func inPath(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r > 0x7f || strings.ContainsRune("/._-", r)
}

// changesDir finds commands that change the directory.
var changesDir = regexp.MustCompile(`(^|[\s;&|(])(cd|pushd)\s`)

// command is a command with "." for the root. ok is false if "." would be
// another place there.
func (p places) command(text string) (command string, ok bool) {
	text = strings.TrimSpace(text)
	for _, quote := range []string{"", "'", `"`} {
		if rest, found := strings.CutPrefix(text, "cd "+quote+p.root+quote); found && p.root != "" {
			if rest, found = cutAnd(rest); found {
				text = rest
			}
		}
	}
	command = p.withoutRoot(text)
	return command, command == text || !changesDir.MatchString(text)
}

// cutAnd returns what is run behind a command.
func cutAnd(text string) (rest string, ok bool) {
	text = strings.TrimLeft(text, " ")
	for _, and := range []string{"&&", ";", "\n"} {
		if rest, ok := strings.CutPrefix(text, and); ok {
			return strings.TrimSpace(rest), true
		}
	}
	return "", false
}

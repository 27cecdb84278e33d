// Package slash reads slash commands from Markdown files and expands their bodies.
package slash

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"unicode"
	"unicode/utf8"

	"zino/pkg/catalog/frontmatter"
	"zino/pkg/text"
	"zino/proto"
)

const (
	// FileMax is the size of the largest file.
	FileMax    = 64 << 10
	filesMax   = 500
	depthMax   = 8
	runsMax    = 32       // commands of a shell in a body
	mentionMax = 32       // files in a body
	textMax    = 1 << 20  // bytes of an expanded body
	outputMax  = 16 << 10 // bytes of the output of a command
	argsMax    = 64 << 10
)

// Name is a name that can be typed behind a slash.
var Name = regexp.MustCompile(`^[a-z][A-Za-z0-9_:-]*$`)

// Command is a file.
type Command struct {
	Name, Path        string
	Description, Hint string
	Model             string // "": that of the turn
	Problem           string // why it cannot be used
	Source            string
	Untrusted         bool
	body              string

	// Text returns the text of a command that is not a file; nil: it is one.
	Text func(ctx context.Context, arguments string) (string, []proto.FileData, error)
}

// New parses the content of a file.
func New(name, path, source string, content []byte) Command {
	c := Command{Name: name, Path: path, Source: source}
	doc, err := frontmatter.Parse(filepath.Base(path), content)
	if err != nil {
		c.Problem = err.Error()
		return c
	}
	c.body = strings.TrimSpace(doc.Body)
	for key, to := range map[string]*string{"description": &c.Description, "argument-hint": &c.Hint, "model": &c.Model} {
		value, err := doc.Text(key)
		if err != nil { // a list as a hint, say
			continue
		}
		*to = text.Clip(text.VisibleLine(text.OneLine(value)), 500)
	}
	switch {
	case !Name.MatchString(name):
		c.Problem = "its name cannot be typed: use letters, digits, _ and -, and a small letter first"
	case c.body == "":
		c.Problem = "it has no text"
	}
	return c
}

// Dir reads the files of a directory of the user or the host. A missing one has none.
func Dir(dir, source string) (list []Command) {
	if dir == "" {
		return nil
	}
	left := filesMax
	var walk func(at, prefix string, depth int)
	walk = func(at, prefix string, depth int) {
		entries, err := os.ReadDir(at)
		if err != nil || depth > depthMax {
			return
		}
		for _, e := range entries {
			path := filepath.Join(at, e.Name())
			if info, err := os.Stat(path); err == nil && info.IsDir() { // through links of the user's own
				walk(path, prefix+e.Name()+":", depth+1)
				continue
			}
			name, ok := strings.CutSuffix(e.Name(), ".md")
			if !ok || name == "" || left == 0 {
				continue
			}
			left--
			content, err := read(path)
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			c := Command{Name: prefix + name, Path: path, Source: source}
			if err == nil {
				c = New(prefix+name, path, source, content)
			} else {
				c.Problem = err.Error()
			}
			list = append(list, c)
		}
	}
	walk(dir, "", 0)
	return list
}

func read(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > FileMax {
		return nil, fmt.Errorf("it is not a regular file of up to %s", text.Bytes(FileMax))
	}
	return io.ReadAll(io.LimitReader(f, FileMax))
}

// Merge joins lists, of which the first one with a name wins, sorted by name.
func Merge(lists ...[]Command) (all []Command) {
	known := map[string]bool{}
	for _, list := range lists {
		for _, c := range list {
			if !known[c.Name] {
				known[c.Name] = true
				all = append(all, c)
			}
		}
	}
	slices.SortFunc(all, func(a, b Command) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// Host is what an expansion may do on the host. Its results are not expanded.
type Host struct {
	// Run runs a command of a shell; failed is "" if its exit status is 0, else how it
	// ended.
	Run func(ctx context.Context, command string) (output, failed string, err error)
	// Read returns the text of a file; ok is false for one that does not exist.
	Read func(ctx context.Context, path string) (content string, ok bool, err error)
}

// Expand returns the text of a command with its arguments. What runs and what is read is
// found before arguments are put in, and nothing in results counts.
func (c *Command) Expand(ctx context.Context, arguments string, h Host) (string, error) {
	if len(arguments) > argsMax {
		return "", fmt.Errorf("the arguments of /%s are longer than %s", c.Name, text.Bytes(argsMax))
	}
	a := args{all: strings.TrimSpace(arguments)}
	a.words = Words(a.all)
	var b, files strings.Builder
	runs, mentions, used := 0, 0, false
	for _, p := range parse(c.body) {
		used = used || placeholder.MatchString(p.text)
		switch p.kind {
		case plain:
			b.WriteString(a.insert(p.text))
		case command:
			if runs++; runs > runsMax {
				return "", fmt.Errorf("/%s runs more than %d commands", c.Name, runsMax)
			}
			output, failed, err := h.Run(ctx, a.script(p.text))
			if err != nil {
				return "", err
			}
			if len(output) > outputMax {
				output = text.Middle(output, outputMax/2, outputMax/2, "\n[%d bytes left out]\n")
			}
			output = strings.TrimRight(output, "\n")
			if failed != "" {
				output = strings.TrimRight("[command failed: "+failed+"]\n"+output, "\n")
			}
			b.WriteString(output)
		case mention:
			path := a.insert(p.text)
			b.WriteString("@" + p.quote + path + p.quote)
			if mentions++; mentions > mentionMax {
				continue
			}
			content, ok, err := h.Read(ctx, path)
			switch {
			case err != nil:
				return "", err
			case ok:
				files.WriteString("\n\nContents of " + path + ":\n" + text.Fenced("", content))
			}
		}
		if b.Len()+files.Len() > textMax {
			return "", fmt.Errorf("the text of /%s is longer than %s", c.Name, text.Bytes(textMax))
		}
	}
	if !used && a.all != "" {
		b.WriteString("\n\nARGUMENTS: " + a.all)
	}
	return b.String() + files.String(), nil
}

type kind int

const (
	plain   kind = iota
	command      // between !` and `
	mention      // behind @
)

type part struct {
	kind  kind
	text  string
	quote string // of a mention
}

// parse splits a body into its parts.
func parse(body string) (parts []part) {
	from := 0
	add := func(end int, p part, next int) {
		if end > from {
			parts = append(parts, part{kind: plain, text: body[from:end]})
		}
		parts = append(parts, p)
		from = next
	}
	before := ' '
	for i := 0; i < len(body); {
		r, size := utf8.DecodeRuneInString(body[i:])
		switch {
		case r == '!' && strings.HasPrefix(body[i+1:], "`"):
			if end := strings.IndexByte(body[i+2:], '`'); end > 0 {
				add(i, part{kind: command, text: body[i+2 : i+2+end]}, i+3+end)
				i, before = from, '`'
				continue
			}
		case r == '@' && (unicode.IsSpace(before) || strings.ContainsRune(`("'[`, before)):
			if p, n := mentionAt(body[i+1:]); n > 0 {
				add(i, p, i+1+n)
				i, before = from, 'x'
				continue
			}
		}
		before = r
		i += size
	}
	if from < len(body) {
		parts = append(parts, part{kind: plain, text: body[from:]})
	}
	return parts
}

// mentionAt returns the path at the start of s, and its length there.
func mentionAt(s string) (p part, n int) {
	if quoted, ok := strings.CutPrefix(s, `"`); ok {
		if end := strings.IndexAny(quoted, "\"\n"); end > 0 && quoted[end] == '"' {
			return part{kind: mention, text: quoted[:end], quote: `"`}, end + 2
		}
		return p, 0
	}
	if end := strings.IndexFunc(s, unicode.IsSpace); end >= 0 {
		s = s[:end]
	}
	s = strings.TrimRight(s, ".,;:!?)]}'\"`")
	return part{kind: mention, text: s}, len(s)
}

// args are the arguments of a command.
type args struct {
	all   string
	words []string
}

// placeholder is $ARGUMENTS or $1 to $9.
var placeholder = regexp.MustCompile(`\$(ARGUMENTS\b|[1-9](?:[^0-9]|$))`)

// insert puts the arguments into a text.
func (a args) insert(s string) string {
	return a.replace(s, func(name string, _ int) string {
		if name == "ARGUMENTS" {
			return a.all
		}
		return a.word(name)
	})
}

func (a args) word(digit string) string {
	if n := int(digit[0] - '1'); n < len(a.words) {
		return a.words[n]
	}
	return ""
}

// replace calls with for each placeholder, whose offset is at. It stops when the text is
// longer than textMax.
func (a args) replace(s string, with func(name string, at int) string) string {
	var b strings.Builder
	for at := 0; ; {
		m := placeholder.FindStringIndex(s[at:])
		if m == nil || b.Len() > textMax {
			b.WriteString(s[at:])
			return b.String()
		}
		name := "ARGUMENTS"
		if s[at+m[0]+1] != 'A' {
			name = s[at+m[0]+1 : at+m[0]+2]
		}
		b.WriteString(s[at:at+m[0]] + with(name, at+m[0]))
		at += m[0] + 1 + len(name)
	}
}

// script returns a command of a shell in which the placeholders are quoted variables: the
// text of the arguments never stands where a shell would parse it.
func (a args) script(s string) string {
	if !placeholder.MatchString(s) {
		return s
	}
	var set strings.Builder
	set.WriteString("ARGUMENTS=" + Quote(a.all) + "; set --")
	for _, word := range a.words {
		set.WriteString(" " + Quote(word))
	}
	var q quoting
	read := 0
	return set.String() + "\n" + a.replace(s, func(name string, at int) string {
		variable := "${" + name + "-}"
		q.read(s[read:at])
		read = at
		switch q.open {
		case '\'':
			return `'"` + variable + `"'`
		case '"':
			return variable
		}
		return `"` + variable + `"`
	})
}

// quoting is the state of a shell that reads a command.
type quoting struct {
	open rune // the quote that is open; 0: none is
	skip bool // the next character is escaped
}

func (q *quoting) read(s string) {
	for _, r := range s {
		switch {
		case q.skip:
			q.skip = false
		case r == '\\' && q.open != '\'':
			q.skip = true
		case q.open == 0 && (r == '\'' || r == '"'):
			q.open = r
		case r == q.open:
			q.open = 0
		}
	}
}

// Quote returns s as one word of a shell.
func Quote(s string) string {
	return "'" + strings.ReplaceAll(strings.ReplaceAll(s, "\x00", ""), "'", `'\''`) + "'"
}

// Words splits arguments like a shell, with quotes and backslashes, and expands nothing. A
// quote that does not end goes on to the end.
func Words(s string) (words []string) {
	var b strings.Builder
	var open rune
	in, skip := false, false
	for _, r := range s {
		switch {
		case skip:
			b.WriteRune(r)
			skip = false
		case r == '\\' && open != '\'':
			skip, in = true, true
		case open == 0 && (r == '\'' || r == '"'):
			open, in = r, true
		case open != 0 && r == open:
			open = 0
		case open == 0 && unicode.IsSpace(r):
			if in {
				words = append(words, b.String())
			}
			b.Reset()
			in = false
		default:
			b.WriteRune(r)
			in = true
		}
	}
	if in {
		words = append(words, b.String())
	}
	return words
}

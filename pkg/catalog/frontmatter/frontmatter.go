// Package frontmatter splits a Markdown file into its YAML front matter and its body,
// and gives typed access to the fields. The files come from anywhere: aliases, which
// let a small document expand without bound, and large documents are refused.
package frontmatter

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

const (
	// Max is the size of the largest front matter that is parsed.
	Max = 16 << 10

	fence = "---"
	mark  = "\ufeff" // byte order mark, which some editors write
)

// Error is a fault in a file.
type Error struct {
	File   string
	Line   int // from 1; 0 if the fault has no place
	Reason string
}

func (e *Error) Error() string {
	if e.Line == 0 {
		return e.File + ": " + e.Reason
	}
	return e.File + ":" + strconv.Itoa(e.Line) + ": " + e.Reason
}

// Document is a parsed file.
type Document struct {
	// File is the name for errors.
	File string
	// Body is the text after the front matter, the whole text without it. Lines
	// end with \n.
	Body string
	// Found reports whether the file has front matter.
	Found bool

	fields []field // in the file's order
}

type field struct {
	key   string
	line  int
	value *yaml.Node
}

// Parse splits and parses the content of a file.
func Parse(file string, data []byte) (*Document, error) {
	d := &Document{File: file}
	if !utf8.Valid(data) {
		before := data
		for i := 0; i < len(data); {
			r, n := utf8.DecodeRune(data[i:])
			if r == utf8.RuneError && n == 1 {
				before = data[:i]
				break
			}
			i += n
		}
		return nil, d.fault(1+bytes.Count(before, []byte{'\n'}), "is not UTF-8")
	}
	text := strings.ReplaceAll(strings.TrimPrefix(string(data), mark), "\r\n", "\n")
	first, rest, _ := strings.Cut(text, "\n")
	if strings.TrimRight(first, " \t") != fence {
		d.Body = text
		return d, nil
	}
	d.Found = true
	size, closed := 0, false
	for line := range strings.Lines(rest) {
		if strings.TrimRight(line, " \t\n") == fence {
			d.Body, closed = rest[size+len(line):], true
			break
		}
		size += len(line)
	}
	switch {
	case size > Max:
		return nil, d.fault(1, fmt.Sprintf("the front matter is larger than %d bytes", Max))
	case !closed:
		return nil, d.fault(1, "the front matter does not end: write --- on a line of its own after it")
	}
	return d, d.parse(rest[:size])
}

// quoteHint puts the value of argument-hint in quotes if it begins with a bracket:
// files of commands write [file] [branch] there, which is not YAML.
func quoteHint(source string) string {
	lines := strings.Split(source, "\n")
	for i, line := range lines {
		value, ok := strings.CutPrefix(line, "argument-hint:")
		if value = strings.TrimSpace(value); ok && strings.HasPrefix(value, "[") {
			lines[i] = "argument-hint: '" + strings.ReplaceAll(value, "'", "''") + "'"
		}
	}
	return strings.Join(lines, "\n")
}

// parse reads the fields of front matter, which begins in line 2.
func (d *Document) parse(source string) error {
	decoder := yaml.NewDecoder(strings.NewReader(quoteHint(source)))
	var root, second yaml.Node
	if err := decoder.Decode(&root); errors.Is(err, io.EOF) {
		return nil // empty
	} else if err != nil {
		return d.syntax(err)
	}
	if err := decoder.Decode(&second); !errors.Is(err, io.EOF) {
		return d.fault(2, "the front matter has more than one YAML document")
	}
	if line := alias(&root); line > 0 {
		return d.fault(line+1, "YAML aliases are not allowed: write the value out")
	}
	top := root.Content[0]
	if top.Kind == yaml.ScalarNode && top.Tag == "!!null" {
		return nil // only comments
	}
	if top.Kind != yaml.MappingNode {
		return d.fault(top.Line+1, "the front matter must have lines of the form key: value")
	}
	for pair := range slices.Chunk(top.Content, 2) {
		key, value := pair[0], pair[1]
		if key.Kind != yaml.ScalarNode {
			return d.fault(key.Line+1, "a key must be text, not "+kind(key))
		}
		if d.find(key.Value) != nil {
			return d.fault(key.Line+1, fmt.Sprintf("the key %q is there twice", key.Value))
		}
		d.fields = append(d.fields, field{key.Value, key.Line + 1, value})
	}
	return nil
}

// syntax adds the file to an error of package yaml, which may begin "yaml: line 3: ".
func (d *Document) syntax(err error) error {
	message, line := strings.TrimPrefix(err.Error(), "yaml: "), 1
	if at, rest, ok := strings.Cut(message, ": "); ok {
		if n, err := strconv.Atoi(strings.TrimPrefix(at, "line ")); err == nil {
			message, line = rest, n+1
		}
	}
	if strings.Contains(message, "mapping values are not allowed") {
		message += `: put a value with ": " in quotes`
	}
	return d.fault(line, message)
}

func (d *Document) fault(line int, reason string) error { return &Error{d.File, line, reason} }

// alias returns the line of the first alias below n, 0 without one.
func alias(n *yaml.Node) int {
	if n.Kind == yaml.AliasNode {
		return n.Line
	}
	for _, child := range n.Content {
		if line := alias(child); line > 0 {
			return line
		}
	}
	return 0
}

func kind(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	default:
		return strconv.Quote(n.Value)
	}
}

func (d *Document) find(key string) *field {
	i := slices.IndexFunc(d.fields, func(f field) bool { return f.key == key })
	if i < 0 {
		return nil
	}
	return &d.fields[i]
}

// Keys returns the keys in the file's order.
func (d *Document) Keys() (keys []string) {
	for _, f := range d.fields {
		keys = append(keys, f.key)
	}
	return keys
}

// Line returns the line of a key, 0 if it is absent.
func (d *Document) Line(key string) int {
	if f := d.find(key); f != nil {
		return f.line
	}
	return 0
}

// Text returns the value of a key as text: numbers and booleans as they are written,
// "" if the key is absent or null.
func (d *Document) Text(key string) (string, error) {
	f := d.find(key)
	if f == nil {
		return "", nil
	}
	if f.value.Kind != yaml.ScalarNode {
		return "", d.fault(f.line, fmt.Sprintf("%s: must be text, not %s", key, kind(f.value)))
	}
	return scalar(f.value), nil
}

func scalar(n *yaml.Node) string {
	if n.Tag == "!!null" {
		return ""
	}
	return n.Value
}

// Bool returns the value of a key that is true or false, absent if the key is not
// there.
func (d *Document) Bool(key string, absent bool) (bool, error) {
	f := d.find(key)
	if f == nil || f.value.Kind == yaml.ScalarNode && scalar(f.value) == "" {
		return absent, nil
	}
	if f.value.Kind == yaml.ScalarNode {
		switch strings.ToLower(f.value.Value) {
		case "true":
			return true, nil
		case "false":
			return false, nil
		}
	}
	return absent, d.fault(f.line, fmt.Sprintf("%s: must be true or false, not %s", key, kind(f.value)))
}

// List returns the value of a key that is a list of texts, or one text with the
// elements between commas.
func (d *Document) List(key string) (list []string, err error) {
	f := d.find(key)
	if f == nil {
		return nil, nil
	}
	switch f.value.Kind {
	case yaml.SequenceNode:
		for _, element := range f.value.Content {
			if element.Kind != yaml.ScalarNode {
				return nil, d.fault(element.Line+1, fmt.Sprintf("%s: an element must be text, not %s", key, kind(element)))
			}
			list = append(list, scalar(element))
		}
		return list, nil
	case yaml.ScalarNode:
		for part := range strings.SplitSeq(scalar(f.value), ",") {
			if part = strings.TrimSpace(part); part != "" {
				list = append(list, part)
			}
		}
		return list, nil
	}
	return nil, d.fault(f.line, fmt.Sprintf("%s: must be a list, not %s", key, kind(f.value)))
}

// Map returns the value of a key that is a mapping of texts, in no order.
func (d *Document) Map(key string) (map[string]string, error) {
	f := d.find(key)
	if f == nil || f.value.Kind == yaml.ScalarNode && scalar(f.value) == "" {
		return nil, nil
	}
	if f.value.Kind != yaml.MappingNode {
		return nil, d.fault(f.line, fmt.Sprintf("%s: must be a mapping, not %s", key, kind(f.value)))
	}
	m := map[string]string{}
	for pair := range slices.Chunk(f.value.Content, 2) {
		if pair[0].Kind != yaml.ScalarNode || pair[1].Kind != yaml.ScalarNode {
			return nil, d.fault(pair[0].Line+1, fmt.Sprintf("%s: must have lines of the form key: text", key))
		}
		m[pair[0].Value] = scalar(pair[1])
	}
	return m, nil
}

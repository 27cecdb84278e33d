package frontmatter

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"zino/pkg/zinotest"
)

func parse(t *testing.T, content string) *Document {
	t.Helper()
	d, err := Parse("x.md", []byte(content))
	zinotest.Must(t, err)
	return d
}

func TestParse(t *testing.T) {
	for _, tt := range []struct {
		name, content string
		found         bool
		keys          string
		description   string
		body          string
	}{
		{"empty file", "", false, "", "", ""},
		{"no front matter", "# Title\n---\ndescription: x\n---\n", false, "", "", "# Title\n---\ndescription: x\n---\n"},
		{"plain", "---\nname: a\ndescription: Does it.\n---\nBody\n", true, "name description", "Does it.", "Body\n"},
		{"CRLF", "---\r\ndescription: Does it.\r\n---\r\nBody\r\nmore\r\n", true, "description", "Does it.", "Body\nmore\n"},
		{"BOM", mark + "---\ndescription: Does it.\n---\nBody", true, "description", "Does it.", "Body"},
		{"blanks after the fences", "---  \ndescription: x\n--- \t\nBody", true, "description", "x", "Body"},
		{"no newline at the end", "---\ndescription: x\n---", true, "description", "x", ""},
		{"empty front matter", "---\n---\nBody", true, "", "", "Body"},
		{"comments only", "---\n# nothing\n---\nBody", true, "", "", "Body"},
		{"rule in the body", "---\ndescription: x\n---\na\n---\nb\n", true, "description", "x", "a\n---\nb\n"},
		{"folded", "---\ndescription: >\n  one\n  two\n\n  three\n---\n", true, "description", "one two\nthree\n", ""},
		{"folded, stripped", "---\ndescription: >-\n  one\n  two\n---\n", true, "description", "one two", ""},
		{"literal", "---\ndescription: |\n  one\n  two\n---\n", true, "description", "one\ntwo\n", ""},
		{"continued", "---\ndescription: one\n  two\n  three\n---\n", true, "description", "one two three", ""},
		{"double quotes", "---\ndescription: \"a: b\\n\\u00e9\"\n---\n", true, "description", "a: b\né", ""},
		{"single quotes", "---\ndescription: 'it''s: so'\n---\n", true, "description", "it's: so", ""},
		{"number", "---\ndescription: 1.10\n---\n", true, "description", "1.10", ""},
		{"null", "---\ndescription:\n---\n", true, "description", "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := parse(t, tt.content)
			text, err := d.Text("description")
			zinotest.Must(t, err)
			if d.Found != tt.found || strings.Join(d.Keys(), " ") != tt.keys || text != tt.description || d.Body != tt.body {
				t.Errorf("found %v, keys %q, description %q, body %q", d.Found, d.Keys(), text, d.Body)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	for name, tt := range map[string]struct{ content, want string }{
		"open":         {"---\nname: a\n", "x.md:1: the front matter does not end"},
		"colon":        {"---\nname: a\ndescription: a: b\n---\n", "x.md:3: mapping values are not allowed in this context: put a value"},
		"tab":          {"---\nmetadata:\n\ta: b\n---\n", "x.md:3: found character that cannot start any token"},
		"list":         {"---\n- a\n---\n", "x.md:2: the front matter must have lines of the form key: value"},
		"text":         {"---\n\nhello\n---\n", "x.md:3: the front matter must have lines of the form key: value"},
		"twice":        {"---\nname: a\nname: b\n---\n", `x.md:3: the key "name" is there twice`},
		"alias":        {"---\na: &x 1\nb: [*x, *x]\n---\n", "x.md:3: YAML aliases are not allowed"},
		"merge":        {"---\na: &x {b: c}\nd:\n  <<: *x\n---\n", "x.md:4: YAML aliases are not allowed"},
		"documents":    {"---\nname: a\n...\nname: b\n---\n", "x.md:2: the front matter has more than one YAML document"},
		"key":          {"---\n[a]: b\n---\n", "x.md:2: a key must be text, not a list"},
		"not UTF-8":    {"---\nname: a\n---\n\xff", "x.md:4: is not UTF-8"},
		"NUL":          {"---\nname: a\x00\n---\n", "control characters are not allowed"},
		"large":        {"---\nname: " + strings.Repeat("a", Max) + "\n---\n", "x.md:1: the front matter is larger than 16384 bytes"},
		"never closed": {"---\n" + strings.Repeat("a\n", Max), "x.md:1: the front matter is larger than 16384 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse("x.md", []byte(tt.content))
			zinotest.Error(t, err, nil, tt.want)
			if _, ok := errors.AsType[*Error](err); !ok {
				t.Errorf("%T is not an *Error", err)
			}
		})
	}
}

func TestFields(t *testing.T) {
	d := parse(t, `---
argument-hint: [file] [it's optional]
yes: true
no: False
none:
tools: [Read, "Bash(git *)"]
more: Read, Write ,
metadata:
  version: "1.0"
  stable: true
bad: [[a]]
---
`)
	if hint, err := d.Text("argument-hint"); err != nil || hint != "[file] [it's optional]" {
		t.Errorf("hint %q, %v", hint, err)
	}
	for key, want := range map[string]bool{"yes": true, "no": false, "none": true, "absent": true} {
		if got, err := d.Bool(key, true); err != nil || got != want {
			t.Errorf("%s: %v, %v", key, got, err)
		}
	}
	for key, want := range map[string][]string{"tools": {"Read", "Bash(git *)"}, "more": {"Read", "Write"}, "none": nil, "absent": nil} {
		if got, err := d.List(key); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %q, %v", key, got, err)
		}
	}
	if got, err := d.Map("metadata"); err != nil || !reflect.DeepEqual(got, map[string]string{"version": "1.0", "stable": "true"}) {
		t.Errorf("metadata: %v, %v", got, err)
	}
	if line := d.Line("metadata"); line != 8 || d.Line("absent") != 0 {
		t.Errorf("line %d", line)
	}
	for want, err := range map[string]error{
		"x.md:6: tools: must be text, not a list":                  second(d.Text("tools")),
		"x.md:6: tools: must be true or false, not a list":         second(d.Bool("tools", false)),
		`x.md:7: more: must be true or false, not "Read, Write ,"`: second(d.Bool("more", false)),
		"x.md:8: metadata: must be a list, not a mapping":          second(d.List("metadata")),
		"x.md:11: bad: an element must be text, not a list":        second(d.List("bad")),
		"x.md:6: tools: must be a mapping, not a list":             second(d.Map("tools")),
		`x.md:7: more: must be a mapping, not "Read, Write ,"`:     second(d.Map("more")),
	} {
		if err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func second[T any](_ T, err error) error { return err }

// FuzzParse checks that any content gives a document or an error with a line in the
// file, and that every accessor of a document returns.
func FuzzParse(f *testing.F) {
	f.Fuzz(func(t *testing.T, content []byte) {
		d, err := Parse("x.md", content)
		if err != nil {
			fault, ok := errors.AsType[*Error](err)
			if !ok || fault.Line < 1 || fault.Line > 2+strings.Count(string(content), "\n") {
				t.Errorf("error %v", err)
			}
			return
		}
		if len(d.Body) > len(content) {
			t.Errorf("body %q", d.Body)
		}
		for _, key := range d.Keys() {
			if d.Line(key) < 2 {
				t.Errorf("key %q in line %d", key, d.Line(key))
			}
			for _, err := range []error{second(d.Text(key)), second(d.Bool(key, true)), second(d.List(key)), second(d.Map(key))} {
				if _, ok := errors.AsType[*Error](err); err != nil && !ok {
					t.Errorf("error %v", err)
				}
			}
		}
	})
}

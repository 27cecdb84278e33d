package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// key is a key in a file, with its position.
type key struct {
	name         string // dotted: "exc.timeout"
	line, column int    // from 1; columns count bytes
	section      bool   // an unknown section, not a key
}

type keys []key

func (ks keys) has(name string) bool {
	return slices.ContainsFunc(ks, func(k key) bool { return k.name == name })
}

// checkSyntax returns the error for data that is not TOML, with a better message and
// position than those of keysOf.
func checkSyntax(data []byte) error { return toml.Unmarshal(data, &map[string]any{}) }

// keysOf lists the keys in data, in order. An unknown section counts as one key, so
// that it is reported once.
func keysOf(data []byte) (keys, error) {
	var set keys
	p := unstable.Parser{}
	p.Reset(data)
	table := ""
	for p.NextExpression() {
		e := p.Expression()
		switch e.Kind {
		case unstable.Table, unstable.ArrayTable:
			table = dotted(e.Key()) + "."
			if !knownSection(table) {
				k := keyAt(&p, table[:len(table)-1], e.Child())
				k.section = true
				set = append(set, k)
			}
		case unstable.KeyValue:
			set = append(set, flatten(&p, table+dotted(e.Key()), e.Key(), e.Value())...)
		}
	}
	return set, p.Error()
}

// flatten lists a key, or the keys in an inline table.
func flatten(p *unstable.Parser, name string, at unstable.Iterator, value *unstable.Node) keys {
	if tables := tablesIn(value); tables != nil {
		var set keys
		for _, table := range tables {
			set = append(set, flatten(p, name, at, table)...)
		}
		return set
	}
	if value.Kind != unstable.InlineTable {
		at.Next()
		return keys{keyAt(p, name, at.Node())}
	}
	var set keys
	for inner := value.Children(); inner.Next(); {
		node := inner.Node()
		set = append(set, flatten(p, name+"."+dotted(node.Key()), node.Key(), node.Value())...)
	}
	return set
}

// tablesIn returns the inline tables of an array, nil for other values.
func tablesIn(value *unstable.Node) (tables []*unstable.Node) {
	if value.Kind != unstable.Array {
		return nil
	}
	for inner := value.Children(); inner.Next(); {
		if node := inner.Node(); node.Kind == unstable.InlineTable {
			tables = append(tables, node)
		}
	}
	return tables
}

func keyAt(p *unstable.Parser, name string, node *unstable.Node) key {
	start := p.Shape(node.Raw).Start
	return key{name: name, line: start.Line, column: start.Column}
}

func dotted(it unstable.Iterator) string {
	var parts []string
	for it.Next() {
		parts = append(parts, string(it.Node().Data))
	}
	return strings.Join(parts, ".")
}

// unknown returns an error if the key does not exist. Keys of an unknown section are
// skipped: the section is reported.
func (k key) unknown() error {
	if k.section {
		return fmt.Errorf("unknown section %q: the nearest one is %q", k.name, Nearest(k.name, sections()))
	}
	section, _, inSection := strings.Cut(k.name, ".")
	if slices.Contains(known(), generic(k.name)) || inSection && !knownSection(section+".") || knownSection(k.name+".") {
		return nil // the last case: a section as a value, such as an empty list of tables
	}
	return fmt.Errorf("unknown key %q: the nearest one is %q", k.name, Nearest(generic(k.name), siblings(section+".")))
}

// ownedBy reports whether the key belongs to a section of the service.
func (k key) ownedBy(service string) bool {
	section, _, inSection := strings.Cut(k.name, ".")
	return inSection && (section == service || section == "logging" || slices.Contains(owned[service], section))
}

// owned lists the sections of a service besides the one with its name.
var owned = map[string][]string{
	"daemon": {"agent", "gate", "hooks", "audit"},
	"rtr":    {"api", "service", "budget", "audit"},
	"agr":    {"tools", "skills", "gate", "mask", "audit"},
	"sys":    {"tools", "skills"},
	"exc":    {"tools", "skills", "undo", "gate", "mask", "audit"},
	"ctx":    {"skills"},
	"repl":   {"gate", "audit"},
	"mcp":    {"gate", "audit"},
}

// known returns the names of all keys, computed on first use: most clients read no
// file.
var known = sync.OnceValue(func() []string { return namesIn(reflect.TypeFor[Config](), "") })

// namesIn lists the keys of a struct, its sections and its arrays of tables.
func namesIn(typ reflect.Type, prefix string) (names []string) {
	for field := range typ.Fields() {
		name := field.Tag.Get("toml")
		inner := field.Type
		if inner.Kind() == reflect.Slice {
			inner = inner.Elem()
		}
		switch {
		case name == "" || name == "-": // not in the file
		case inner.Kind() == reflect.Struct:
			names = append(names, namesIn(inner, prefix+name+".")...)
		case inner.Kind() == reflect.Map && inner.Elem().Kind() == reflect.Struct:
			names = append(names, namesIn(inner.Elem(), prefix+name+".*.")...)
		case inner.Kind() == reflect.Map:
			names = append(names, prefix+name+".*")
		default:
			names = append(names, prefix+name)
		}
	}
	return names
}

func knownSection(prefix string) bool {
	prefix = generic(strings.TrimSuffix(prefix, ".")) + "."
	return slices.ContainsFunc(known(), func(name string) bool { return strings.HasPrefix(name, prefix) })
}

// sections returns the names of all sections.
func sections() (names []string) {
	for _, name := range known() {
		if i := strings.LastIndexByte(name, '.'); i >= 0 && !slices.Contains(names, name[:i]) {
			names = append(names, name[:i])
		}
	}
	return names
}

// siblings returns the keys of a section, or all keys if it does not exist.
func siblings(prefix string) []string {
	if !knownSection(prefix) {
		return known()
	}
	return slices.DeleteFunc(slices.Clone(known()), func(name string) bool { return !strings.HasPrefix(name, prefix) })
}

// Nearest returns the candidate with the smallest edit distance to name.
// candidates must not be empty.
func Nearest(name string, candidates []string) string {
	return slices.MinFunc(candidates, func(a, b string) int { return distance(name, a) - distance(name, b) })
}

// Similar returns the candidate that word is most likely a typo of, or "". The edit
// distance is at most 2, and 2 only for words of six letters or more, swapped letters
// and prefixes: "hello" is not similar to "help".
func Similar(word string, candidates []string) string {
	similar := slices.DeleteFunc(slices.Clone(candidates), func(name string) bool {
		d := distance(word, name)
		return d > 2 || d >= len(word) || d == 2 && len(word) < 6 && !strings.HasPrefix(name, word) && letters(word) != letters(name)
	})
	if len(similar) == 0 {
		return ""
	}
	return Nearest(word, similar)
}

// letters returns the bytes of a word, sorted.
func letters(word string) string {
	sorted := []byte(word)
	slices.Sort(sorted)
	return string(sorted)
}

// distance returns the Levenshtein distance in bytes.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// typeError returns the text for a value of the wrong type.
func (ks keys) typeError(e *toml.DecodeError) string {
	line, column := e.Position()
	name := ""
	for _, k := range ks {
		if k.line < line || k.line == line && k.column <= column {
			name = k.name
		}
	}
	if want := wanted(reflect.TypeFor[Config](), name); want != "" && name != "" {
		return name + " must be " + want
	}
	return strings.TrimPrefix(e.Error(), "toml: ")
}

// wanted describes the type of a key's value, "" for an unknown key.
func wanted(typ reflect.Type, name string) string {
	first, rest, more := strings.Cut(name, ".")
	for field := range typ.Fields() {
		if field.Tag.Get("toml") != first {
			continue
		}
		inner := field.Type
		if inner.Kind() == reflect.Slice && inner.Elem().Kind() == reflect.Struct {
			inner = inner.Elem()
		}
		if more && inner.Kind() == reflect.Struct {
			return wanted(inner, rest)
		}
		if _, key, more := strings.Cut(rest, "."); more && inner.Kind() == reflect.Map && inner.Elem().Kind() == reflect.Struct {
			return wanted(inner.Elem(), key)
		}
		if more && inner.Kind() == reflect.Map && inner.Elem().Kind() == reflect.String {
			return describe(inner.Elem())
		}
		return describe(field.Type)
	}
	return ""
}

// describe describes the values of a type, "" for a type that no key has.
func describe(typ reflect.Type) string {
	switch typ.Kind() {
	case reflect.Pointer:
		return describe(typ.Elem())
	case reflect.String:
		return `text in quotes, such as "x"`
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int64:
		return "a whole number"
	case reflect.Float64:
		return "a number"
	case reflect.Struct, reflect.Map:
		return "a section"
	case reflect.Slice:
		if typ.Elem().Kind() == reflect.Struct {
			return "a list of tables"
		}
		return `a list of texts, such as ["x", "y"]`
	}
	return ""
}

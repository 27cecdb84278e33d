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

// key is one key that a file sets, with its place.
type key struct {
	name         string // dotted: "exc.timeout"
	line, column int    // from 1; columns count bytes
	section      bool   // an unknown section, not a key
}

type keys []key

func (ks keys) has(name string) bool {
	return slices.ContainsFunc(ks, func(k key) bool { return k.name == name })
}

// keysOf lists the keys that data sets, in order. An unknown section counts as
// a key, so that it is remarked on once.
func keysOf(data []byte) (keys, error) {
	var set keys
	if err := toml.Unmarshal(data, &map[string]any{}); err != nil {
		return nil, err // worded and placed better than the walk below would
	}
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

// flatten lists a key, or the keys inside an inline table.
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

// tablesIn returns the inline tables of an array of them, nil for anything else.
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

// unknown is the error for a key that does not exist, nil for one that does.
// Keys below an unknown section are passed over: the section was remarked on.
func (k key) unknown() error {
	if k.section {
		return fmt.Errorf("unknown section %q: the nearest one is %q", k.name, Nearest(k.name, sections()))
	}
	section, _, inSection := strings.Cut(k.name, ".")
	if slices.Contains(known(), k.name) || inSection && !knownSection(section+".") || knownSection(k.name+".") {
		return nil // the last: a section written as a value, such as an empty list of tables
	}
	return fmt.Errorf("unknown key %q: the nearest one is %q", k.name, Nearest(k.name, siblings(section+".")))
}

// ownedBy reports whether a mistake in k concerns the service.
func (k key) ownedBy(service string) bool {
	section, _, inSection := strings.Cut(k.name, ".")
	return inSection && (section == service || section == "logging" || slices.Contains(owned[service], section))
}

// owned are the sections of a service besides the one that bears its name.
var owned = map[string][]string{
	"daemon": {"agent"},
	"rtr":    {"api", "service", "budget"},
	"agr":    {"tools", "skills"},
	"sys":    {"tools", "skills"},
	"exc":    {"tools"},
	"ctx":    {"skills"},
}

// known are the names of all keys. Who reads no file needs none of them.
var known = sync.OnceValue(func() []string { return namesIn(reflect.TypeFor[Config](), "") })

// namesIn lists the keys of a struct, those of its sections and of its arrays
// of tables included.
func namesIn(typ reflect.Type, prefix string) (names []string) {
	for field := range typ.Fields() {
		name := field.Tag.Get("toml")
		inner := field.Type
		if inner.Kind() == reflect.Slice {
			inner = inner.Elem()
		}
		switch {
		case name == "" || name == "-": // not of the file
		case inner.Kind() == reflect.Struct:
			names = append(names, namesIn(inner, prefix+name+".")...)
		default:
			names = append(names, prefix+name)
		}
	}
	return names
}

func knownSection(prefix string) bool {
	return slices.ContainsFunc(known(), func(name string) bool { return strings.HasPrefix(name, prefix) })
}

// sections are the names of all sections.
func sections() (names []string) {
	for _, name := range known() {
		if i := strings.LastIndexByte(name, '.'); i >= 0 && !slices.Contains(names, name[:i]) {
			names = append(names, name[:i])
		}
	}
	return names
}

// siblings are the keys of a section, or all keys where there is no such section.
func siblings(prefix string) []string {
	if !knownSection(prefix) {
		return known()
	}
	return slices.DeleteFunc(slices.Clone(known()), func(name string) bool { return !strings.HasPrefix(name, prefix) })
}

// Nearest returns the candidate with the smallest edit distance to name: what a
// person who mistyped it may have meant. There must be at least one.
func Nearest(name string, candidates []string) string {
	return slices.MinFunc(candidates, func(a, b string) int { return distance(name, a) - distance(name, b) })
}

// Similar returns the candidate that a person who typed word most likely meant,
// "" if none is close. The edit distance is 2 at most; 2 counts only for words of
// six letters or more, swapped letters and a shortened word: "hello" is not "help".
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

// letters is a word with its bytes in order.
func letters(word string) string {
	sorted := []byte(word)
	slices.Sort(sorted)
	return string(sorted)
}

// distance is the Levenshtein distance in bytes.
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

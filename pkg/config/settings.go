package config

import (
	"bytes"
	"cmp"
	"reflect"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

// Setting is a key with its effective value.
type Setting struct {
	Key   string // dotted: "exc.timeout"; for an array of tables its name
	Value any    // a string, a bool, a number, a list of strings, or []map[string]any for tables
	Line  int    // in the file; 0: not set there
}

// twins are pairs of keys with the same meaning.
var twins = map[string]string{
	"model": "service.model", "temperature": "agent.temperature", "tool_timeout_secs": "exc.timeout",
	"service.model": "model", "agent.temperature": "temperature", "exc.timeout": "tool_timeout_secs",
	"agent.max_iterations": "agr.max_iterations", "agr.max_iterations": "agent.max_iterations",
}

// Settings lists all keys in the order of Config. Both twins have the effective value
// and the line of the key that set it.
func (c *Config) Settings() []Setting {
	list := settingsIn(reflect.ValueOf(c).Elem(), "")
	for i := range list {
		s := &list[i]
		first, second := s.Key, twins[s.Key]
		if top := !strings.Contains(s.Key, "."); top && second != "" { // the section's key takes precedence
			first, second = second, first
			s.Value = list[slices.IndexFunc(list, func(other Setting) bool { return other.Key == first })].Value
		}
		s.Line = cmp.Or(c.set.lineOf(first), c.set.lineOf(second))
	}
	return list
}

func settingsIn(v reflect.Value, prefix string) (list []Setting) {
	for field, value := range v.Fields() {
		name := field.Tag.Get("toml")
		switch {
		case name == "" || name == "-": // not in the file
		case value.Kind() == reflect.Struct:
			list = append(list, settingsIn(value, prefix+name+".")...)
		case value.Kind() == reflect.Slice && value.Type().Elem().Kind() == reflect.Struct:
			list = append(list, Setting{Key: prefix + name, Value: tablesOf(value)})
		default:
			list = append(list, Setting{Key: prefix + name, Value: value.Interface()})
		}
	}
	return list
}

// tablesOf returns an array of tables without absent keys.
func tablesOf(array reflect.Value) []map[string]any {
	tables := []map[string]any{}
	for i := range array.Len() {
		table := map[string]any{}
		for field, value := range array.Index(i).Fields() {
			if value.Kind() != reflect.Pointer {
				table[field.Tag.Get("toml")] = value.Interface()
			} else if !value.IsNil() {
				table[field.Tag.Get("toml")] = value.Elem().Interface()
			}
		}
		tables = append(tables, table)
	}
	return tables
}

// lineOf returns the line of a key, or of the first table of an array; 0 if absent.
func (ks keys) lineOf(name string) int {
	i := slices.IndexFunc(ks, func(k key) bool { return k.name == name || strings.HasPrefix(k.name, name+".") })
	if i < 0 {
		return 0
	}
	return ks[i].line
}

// TOML returns the value in TOML.
func (s Setting) TOML() (string, error) {
	var b bytes.Buffer
	err := toml.NewEncoder(&b).SetTablesInline(true).SetArraysMultiline(false).Encode(map[string]any{"v": s.Value})
	return strings.TrimSpace(strings.TrimPrefix(b.String(), "v = ")), err
}

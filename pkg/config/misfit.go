package config

import (
	"reflect"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

// misfit says what a value should have been.
func (ks keys) misfit(e *toml.DecodeError) string {
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

// wanted says in words of what type a key's value is, "" if there is no such key.
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
		return words(field.Type)
	}
	return ""
}

// words says in words what values a type has, "" if no key has that type.
func words(typ reflect.Type) string {
	switch typ.Kind() {
	case reflect.Pointer:
		return words(typ.Elem())
	case reflect.String:
		return `text in quotes, such as "x"`
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int64:
		return "a whole number"
	case reflect.Float64:
		return "a number"
	case reflect.Struct:
		return "a section"
	case reflect.Slice:
		if typ.Elem().Kind() == reflect.Struct {
			return "a list of tables"
		}
		return `a list of texts, such as ["x", "y"]`
	}
	return ""
}

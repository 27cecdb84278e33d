// Package form reads the forms that MCP servers ask people to fill in (elicitation): flat
// JSON schemas of strings, numbers, truth values and lists of choices. Everything in a form
// is text of the server: who shows it escapes control characters.
package form

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/mail"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"zino/pkg/environ"
	"zino/pkg/wire"
)

const (
	// SizeMax is the largest schema in bytes.
	SizeMax    = 64 << 10
	fieldsMax  = 32
	choicesMax = 100
)

// Kinds of fields.
const (
	Text    = "text"
	Number  = "number"
	Integer = "whole number"
	Boolean = "yes or no"
	Choice  = "one of"
	Choices = "some of"
)

// Form is what a person fills in.
type Form struct {
	Fields []Field // required ones first
}

// Field is a value of a form.
type Field struct {
	Name        string
	Title       string // Name if the server gives none
	Description string
	Kind        string
	Required    bool
	Default     json.RawMessage // nil: none
	Options     []Option        // of Choice and Choices
	rules
}

// Option is a value that can be chosen.
type Option struct{ Value, Title string }

// rules are what values of a field have to obey.
type rules struct {
	Format    string   `json:"format"`
	MinLength *int     `json:"minLength"`
	MaxLength *int     `json:"maxLength"`
	Minimum   *float64 `json:"minimum"`
	Maximum   *float64 `json:"maximum"`
	MinItems  *int     `json:"minItems"`
	MaxItems  *int     `json:"maxItems"`
}

// options are the keywords for choices.
type options struct {
	Enum  []string `json:"enum"`
	Names []string `json:"enumNames"`
	OneOf []titled `json:"oneOf"`
	AnyOf []titled `json:"anyOf"`
}

type titled struct {
	Const string `json:"const"`
	Title string `json:"title"`
}

// property is a property of the schema.
type property struct {
	Type        string          `json:"type"`
	Title       string          `json:"title"`
	Description string          `json:"description"`
	Default     json.RawMessage `json:"default"`
	Items       options         `json:"items"`
	options
	rules
}

// Parse reads the schema of a form.
func Parse(schema []byte) (*Form, error) {
	var object struct {
		Type       string          `json:"type"`
		Properties json.RawMessage `json:"properties"`
		Required   []string        `json:"required"`
	}
	if len(schema) > SizeMax {
		return nil, fmt.Errorf("the form has %d bytes, more than %d", len(schema), SizeMax)
	}
	if err := json.Unmarshal(schema, &object); err != nil {
		return nil, fmt.Errorf("the form is not a schema: %w", err)
	}
	if object.Type != "object" {
		return nil, fmt.Errorf("the form is of type %.40q, not an object", object.Type)
	}
	f := &Form{}
	if len(object.Properties) > 0 {
		if object.Properties[0] != '{' {
			return nil, errors.New("the properties of the form are not an object")
		}
		for key, value := range wire.Members(object.Properties) {
			name := string(key)
			field, err := parseField(name, value)
			if err != nil {
				return nil, fmt.Errorf("field %.80q: %w", name, err)
			}
			if f.field(name) != nil {
				return nil, fmt.Errorf("two fields have the name %.80q", name)
			}
			if field.Required = slices.Contains(object.Required, name); len(f.Fields) == fieldsMax {
				return nil, fmt.Errorf("the form has more than %d fields", fieldsMax)
			}
			f.Fields = append(f.Fields, field)
		}
	}
	for _, name := range object.Required {
		if f.field(name) == nil {
			return nil, fmt.Errorf("the required field %.80q is missing", name)
		}
	}
	place := func(f Field) int { // required fields in their order, then the others
		if i := slices.Index(object.Required, f.Name); i >= 0 {
			return i
		}
		return len(object.Required)
	}
	slices.SortStableFunc(f.Fields, func(a, b Field) int { return place(a) - place(b) })
	return f, nil
}

func parseField(name string, schema []byte) (f Field, err error) {
	var p property
	if err := json.Unmarshal(schema, &p); err != nil {
		return f, err
	}
	f = Field{Name: name, Title: p.Title, Description: p.Description, Default: p.Default, rules: p.rules}
	if f.Title == "" {
		f.Title = name
	}
	switch p.Type {
	case "string":
		if f.Kind, f.Options = Text, p.list(); len(f.Options) > 0 {
			f.Kind = Choice
		}
	case "number":
		f.Kind = Number
	case "integer":
		f.Kind = Integer
	case "boolean":
		f.Kind = Boolean
	case "array":
		if f.Kind, f.Options = Choices, p.Items.list(); len(f.Options) == 0 {
			return f, errors.New("a list without choices")
		}
	default:
		return f, fmt.Errorf("unknown type %.40q", p.Type)
	}
	if len(f.Options) > choicesMax {
		return f, fmt.Errorf("more than %d choices", choicesMax)
	}
	if string(f.Default) == "null" || f.Default != nil && f.check(f.Default) != nil {
		f.Default = nil // one that could not be sent
	}
	return f, nil
}

func (o *options) list() (list []Option) {
	for i, value := range o.Enum {
		option := Option{value, value}
		if i < len(o.Names) && o.Names[i] != "" {
			option.Title = o.Names[i]
		}
		list = append(list, option)
	}
	for _, t := range slices.Concat(o.OneOf, o.AnyOf) {
		if t.Title == "" {
			t.Title = t.Const
		}
		list = append(list, Option{t.Const, t.Title})
	}
	return list
}

func (f *Form) field(name string) *Field {
	for i := range f.Fields {
		if f.Fields[i].Name == name {
			return &f.Fields[i]
		}
	}
	return nil
}

// Secret returns the title of the first field that looks like a secret by its name or its
// title, as variables of an environment do; "" if none does.
func (f *Form) Secret() string {
	for _, field := range f.Fields {
		if environ.Secret(field.Name, "") || environ.Secret(field.Title, "") {
			return field.Title
		}
	}
	return ""
}

// Check returns what is wrong with the values of a form, a JSON object.
func (f *Form) Check(content []byte) error {
	var values map[string]json.RawMessage
	if json.Unmarshal(content, &values) != nil || values == nil {
		return errors.New("the values are not an object")
	}
	for name := range values {
		if f.field(name) == nil {
			return fmt.Errorf("the form has no field %.80q", name)
		}
	}
	for _, field := range f.Fields {
		value, ok := values[field.Name]
		switch {
		case !ok && field.Required:
			return fmt.Errorf("%s: a value is required", field.Name)
		case ok:
			if err := field.check(value); err != nil {
				return fmt.Errorf("%s: %w", field.Name, err)
			}
		}
	}
	return nil
}

// Hint says which values a field takes.
func (f *Field) Hint() string {
	hint := f.Kind
	if f.Format != "" && f.Kind == Text {
		hint = f.Format
	}
	between := func(least, most, unit string) {
		switch {
		case least != "" && most != "":
			hint += ", " + least + " to " + most + unit
		case least != "":
			hint += ", at least " + least + unit
		case most != "":
			hint += ", at most " + most + unit
		}
	}
	switch f.Kind {
	case Text:
		between(whole(f.MinLength), whole(f.MaxLength), " characters")
	case Number, Integer:
		between(real(f.Minimum), real(f.Maximum), "")
	case Choices:
		between(whole(f.MinItems), whole(f.MaxItems), " of them")
	}
	if !f.Required {
		hint += ", optional"
	}
	return hint
}

func whole(n *int) string {
	if n == nil {
		return ""
	}
	return strconv.Itoa(*n)
}

func real(x *float64) string {
	if x == nil {
		return ""
	}
	return strconv.FormatFloat(*x, 'g', -1, 64)
}

// Typed is a value as a person would type it: what Read takes. Of a choice it is the title.
func (f *Field) Typed(value json.RawMessage) string {
	title := func(value string) string {
		for _, o := range f.Options {
			if o.Value == value {
				return o.Title
			}
		}
		return value
	}
	var v any
	if json.Unmarshal(value, &v) != nil {
		return ""
	}
	switch v := v.(type) {
	case string:
		return title(v)
	case bool:
		if v {
			return "yes"
		}
		return "no"
	case []any:
		var list []string
		for _, one := range v {
			list = append(list, title(fmt.Sprint(one)))
		}
		return strings.Join(list, ", ")
	}
	return string(value)
}

// Read returns the value of what a person typed: the default, or nil, for an empty line.
// Choices are given by their numbers, from 1, or by their texts, several with commas.
func (f *Field) Read(typed string) (value json.RawMessage, err error) {
	typed = strings.TrimSpace(typed)
	if typed == "" {
		if f.Default == nil && f.Required {
			return nil, errors.New("a value is required")
		}
		return f.Default, nil
	}
	var v any = typed
	switch f.Kind {
	case Number, Integer:
		if !json.Valid([]byte(typed)) {
			return nil, fmt.Errorf("want a %s", f.Kind)
		}
		v = json.RawMessage(typed)
	case Boolean:
		switch strings.ToLower(typed) {
		case "y", "yes", "true":
			v = true
		case "n", "no", "false":
			v = false
		default:
			return nil, errors.New("want yes or no")
		}
	case Choice:
		if v, err = f.choose(typed); err != nil {
			return nil, err
		}
	case Choices:
		list := []string{}
		for one := range strings.SplitSeq(typed, ",") {
			value, err := f.choose(strings.TrimSpace(one))
			if err != nil {
				return nil, err
			}
			if !slices.Contains(list, value) {
				list = append(list, value)
			}
		}
		v = list
	}
	if value, err = json.Marshal(v); err != nil {
		return nil, err
	}
	return value, f.check(value)
}

// choose returns the value of a choice.
func (f *Field) choose(typed string) (string, error) {
	if i := slices.IndexFunc(f.Options, func(o Option) bool { return o.Value == typed || o.Title == typed }); i >= 0 {
		return f.Options[i].Value, nil
	}
	if n, err := strconv.Atoi(typed); err == nil && n >= 1 && n <= len(f.Options) {
		return f.Options[n-1].Value, nil
	}
	return "", fmt.Errorf("want a number from 1 to %d", len(f.Options))
}

// errNoChoice does not name the value: errors are logged, values are not.
var errNoChoice = errors.New("the value is not one of the choices")

// check returns what is wrong with a value.
func (f *Field) check(value json.RawMessage) error {
	switch f.Kind {
	case Number, Integer:
		var x *float64
		switch {
		case json.Unmarshal(value, &x) != nil || x == nil || f.Kind == Integer && *x != math.Trunc(*x):
			return fmt.Errorf("want a %s", f.Kind)
		case f.Minimum != nil && *x < *f.Minimum:
			return fmt.Errorf("want at least %s", real(f.Minimum))
		case f.Maximum != nil && *x > *f.Maximum:
			return fmt.Errorf("want at most %s", real(f.Maximum))
		}
		return nil
	case Boolean:
		if v := string(bytes.TrimSpace(value)); v != "true" && v != "false" {
			return errors.New("want yes or no")
		}
		return nil
	case Choices:
		var list []string
		switch {
		case json.Unmarshal(value, &list) != nil || list == nil:
			return errors.New("want a list of choices")
		case f.MinItems != nil && len(list) < *f.MinItems:
			return fmt.Errorf("choose at least %d", *f.MinItems)
		case f.MaxItems != nil && len(list) > *f.MaxItems:
			return fmt.Errorf("choose at most %d", *f.MaxItems)
		}
		for _, one := range list {
			if !f.offers(one) {
				return errNoChoice
			}
		}
		return nil
	}
	var s *string
	if json.Unmarshal(value, &s) != nil || s == nil {
		return errors.New("want text")
	}
	n := utf8.RuneCountInString(*s)
	switch {
	case f.Kind == Choice && !f.offers(*s):
		return errNoChoice
	case f.MinLength != nil && n < *f.MinLength:
		return fmt.Errorf("want at least %d characters", *f.MinLength)
	case f.MaxLength != nil && n > *f.MaxLength:
		return fmt.Errorf("want at most %d characters", *f.MaxLength)
	case !isFormat(f.Format, *s):
		return fmt.Errorf("want a value of the form %.40q", f.Format)
	}
	return nil
}

func (f *Field) offers(value string) bool {
	return slices.ContainsFunc(f.Options, func(o Option) bool { return o.Value == value })
}

// isFormat reports whether a text has a format. One that is unknown here is left to the
// server.
func isFormat(format, s string) bool {
	var err error
	switch format {
	case "email":
		var address *mail.Address
		if address, err = mail.ParseAddress(s); err == nil && address.Address != s {
			return false
		}
	case "uri":
		var u *url.URL
		if u, err = url.Parse(s); err == nil && u.Scheme == "" {
			return false
		}
	case "date":
		_, err = time.Parse(time.DateOnly, s)
	case "date-time":
		_, err = time.Parse(time.RFC3339, s)
	}
	return err == nil
}

// Content returns the values of a form as an object. Fields without a value are left out.
func (f *Form) Content(values []json.RawMessage) json.RawMessage {
	b := []byte{'{'}
	for i, field := range f.Fields {
		if i >= len(values) || values[i] == nil {
			continue
		}
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = append(append(wire.AppendString(b, field.Name), ':'), values[i]...)
	}
	return append(b, '}')
}

package proto_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"zino/pkg/zinotest"
)

// source is what the comments in this package say: they are the reference that
// schema.json and PROTOCOL.md are made of.
type source struct {
	types        map[string]string            // by name
	fields       map[string]map[string]string // by type and name
	methods      map[[2]string]string         // by service and request type
	codes        []documented                 // the error codes in their order
	toolCodes    []documented                 // the codes of tool errors in their order
	undocumented []string                     // exported names without a comment
}

// documented is a name with its text.
type documented struct{ Name, Doc string }

// readSource parses the package's files.
func readSource(t *testing.T) *source {
	t.Helper()
	names, err := filepath.Glob("*.go")
	zinotest.Must(t, err)
	s := &source{types: map[string]string{}, fields: map[string]map[string]string{}, methods: map[[2]string]string{}}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments|parser.SkipObjectResolution)
		zinotest.Must(t, err)
		for _, decl := range file.Decls {
			s.decl(decl)
		}
	}
	return s
}

func (s *source) decl(decl ast.Decl) {
	switch d := decl.(type) {
	case *ast.FuncDecl:
		s.need(d.Name.Name, d.Doc.Text())
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				s.typeSpec(spec, first(spec.Doc, d.Doc))
			case *ast.ValueSpec:
				group, _, _ := strings.Cut(d.Doc.Text(), ".")
				s.valueSpec(spec, first(spec.Doc, spec.Comment, d.Doc), group)
			}
		}
	}
}

func (s *source) typeSpec(spec *ast.TypeSpec, doc string) {
	name := spec.Name.Name
	s.need(name, doc)
	s.types[name] = sentence(name, doc)
	fields, ok := spec.Type.(*ast.StructType)
	if !ok {
		return
	}
	s.fields[name] = map[string]string{}
	for _, field := range fields.Fields.List {
		for _, ident := range field.Names {
			text := first(field.Doc, field.Comment)
			if ast.IsExported(name) {
				s.need(ident.Name, text)
			}
			s.fields[name][ident.Name] = oneLine(sentence(ident.Name, text))
		}
	}
}

// valueSpec takes variables, among them the methods, and constants, among them
// the error codes.
func (s *source) valueSpec(spec *ast.ValueSpec, doc, group string) {
	for i, ident := range spec.Names {
		s.need(ident.Name, doc)
		if i >= len(spec.Values) {
			continue
		}
		if key, ok := methodKey(spec.Values[i]); ok {
			s.methods[key] = sentence(ident.Name, doc)
		}
		if typ, ok := spec.Type.(*ast.Ident); ok && typ.Name == "Code" {
			s.codes = append(s.codes, documented{literal(spec.Values[i]), oneLine(doc)})
		}
		if group == "Codes of tool errors" && literal(spec.Values[i]) != "" {
			s.toolCodes = append(s.toolCodes, documented{literal(spec.Values[i]), oneLine(doc)})
		}
	}
}

func (s *source) need(name, doc string) {
	if ast.IsExported(name) && strings.TrimSpace(doc) == "" {
		s.undocumented = append(s.undocumented, name)
	}
}

// methodKey returns service and type of method[Req, Rep]("mem", "get_soft", …).
func methodKey(value ast.Expr) (key [2]string, ok bool) {
	call, ok := value.(*ast.CallExpr)
	if !ok || len(call.Args) < 3 || literal(call.Args[0]) == "" {
		return key, false
	}
	return [2]string{literal(call.Args[0]), literal(call.Args[1])}, true
}

// literal is the text of a string literal.
func literal(value ast.Expr) string {
	lit, ok := value.(*ast.BasicLit)
	if !ok {
		return ""
	}
	text, err := strconv.Unquote(lit.Value)
	if err != nil {
		return ""
	}
	return text
}

// first is the text of the first comment that says something.
func first(groups ...*ast.CommentGroup) string {
	for _, group := range groups {
		if text := strings.TrimSpace(group.Text()); text != "" {
			return text
		}
	}
	return ""
}

// sentence turns Go's form of a comment, "Limit asks for …", into one for
// readers who know the name already: "Asks for …".
func sentence(name, doc string) string {
	text := strings.TrimSpace(doc)
	if rest, ok := strings.CutPrefix(text, name+" "); ok {
		text = rest
		for _, verb := range []string{"is ", "are "} {
			text = strings.TrimPrefix(text, verb)
		}
	}
	r, size := utf8.DecodeRuneInString(text)
	if size == 0 {
		return ""
	}
	return string(unicode.ToUpper(r)) + text[size:]
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

func TestSentence(t *testing.T) {
	for _, c := range [][3]string{
		{"Limit", "Limit asks for\nthe last.\n", "Asks for\nthe last."},
		{"Content", "Content is the text.", "The text."},
		{"Messages", "Messages are objects.", "Objects."},
		{"Tag", "Tagged things.", "Tagged things."},
		{"X", "", ""},
	} {
		if got := sentence(c[0], c[1]); got != c[2] {
			t.Errorf("sentence(%q, %q) = %q, want %q", c[0], c[1], got, c[2])
		}
	}
}

package proto_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"text/template"

	"zino/pkg/zinotest"
	"zino/proto"
)

// roles introduce the services.
var roles = map[string]string{
	"*":      "What every service answers.",
	"daemon": "The entrance for clients. It takes a message, has the prompt assembled and the agent answer, and stores the turn.",
	"sys":    "Keeps the system prompt: a template with the tools, the skills and the soft memory in it.",
	"ctx":    "Assembles what stands between the system prompt and the user's message.",
	"mem":    "Keeps histories of channels, hard memories, the soft memory and the terminal agent's sessions in files.",
	"agr":    "The agent's loop: asks the model and carries out what it asks for.",
	"rtr":    "Routes inferences to a language model. It alone holds the provider's key.",
	"exc":    "Runs code.",
	"run":    "Runs one command in a systemd unit of its own, for exc. Its socket is `/run/zino-run/run.sock`.",
	"job":    "The supervisor of one job, for exc. Its socket is `j/ID` in exc's runtime directory.",
	"audit":  "Appends records of what the other services do to a chain of lines, each with the hash of the one before. A constellation without it writes a plain log.",
	"mcp":    "The client of MCP servers. It alone holds their tokens; their programs run in exc. Its socket is `mcp.sock`.",
	"repl":   "The file REPL: live pages and programs, each with a Markdown file of what was run in it.",
}

// section is one service in the reference.
type section struct {
	Name, Role string
	Methods    []entry
}

// entry is one method in the reference.
type entry struct {
	Type, Reply, Kind, Doc string
	Public                 bool // open to forward
	Examples               []exampleText
	Request, Response      []row
	Errors                 []errorText
}

// row describes one field.
type row struct{ Name, Type, Given, Doc string }

type exampleText struct {
	Request string
	Replies []string
}

type errorText struct{ Message, Code string }

// reference renders PROTOCOL.md from its template.
func (s *source) reference(t *testing.T, list []proto.Description) []byte {
	t.Helper()
	tmpl, err := template.New("PROTOCOL.md.tmpl").ParseFiles("testdata/PROTOCOL.md.tmpl")
	zinotest.Must(t, err)
	var buf bytes.Buffer
	err = tmpl.Execute(&buf, map[string]any{
		"Version": proto.Version, "Changelog": proto.Changelog, "Codes": s.codes, "Sections": sections(t, list),
		"EventsVersion": proto.EventsVersion, "LogSchema": proto.LogSchema,
		"Events":    s.events(t, append([]proto.Event{{Type: proto.TypeHeader, Fields: reflect.TypeFor[proto.EventsHeader]()}}, proto.Events()...)),
		"LogEvents": s.events(t, proto.LogEvents()), "FollowEvents": s.events(t, proto.FollowEvents()),
		"Envelope": rows(s.schemaOf(t, reflect.TypeFor[proto.Envelope]()), "", true), "ToolCodes": s.toolCodes,
		"Meta": rows(s.schemaOf(t, metaType), "", false), "Error": rows(s.schemaOf(t, errorType), "", true),
	})
	if err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// sections are the common methods, once, and then each service with its own.
func sections(t *testing.T, list []proto.Description) []section {
	t.Helper()
	examples, errors := readExamples(t), errorTexts(t)
	common := 0
	for _, m := range proto.Methods() {
		if m.Service == "*" {
			common++
		}
	}
	sectionOf := func(service string, methods []proto.MethodDescription) section {
		out := section{Name: service, Role: roles[service]}
		if out.Role == "" {
			t.Errorf("the service %s has no entry in roles", service)
		}
		for _, m := range methods {
			out.Methods = append(out.Methods, entryOf(t, service, m, examples[[2]string{service, m.Type}], errors[[2]string{service, m.Type}]))
		}
		return out
	}
	all := []section{sectionOf("*", list[0].Methods[:common])}
	for _, d := range list {
		all = append(all, sectionOf(d.Service, d.Methods[common:]))
	}
	return all
}

// events describes the kinds of events.
func (s *source) events(t *testing.T, all []proto.Event) (list []entry) {
	t.Helper()
	for _, e := range all {
		doc := s.types[e.Fields.Name()]
		if doc == "" {
			t.Errorf("the event %s has no comment", e.Type)
		}
		list = append(list, entry{Type: e.Type, Doc: oneLine(doc), Response: rows(s.schemaOf(t, e.Fields), "", true)})
	}
	return list
}

func entryOf(t *testing.T, service string, m proto.MethodDescription, examples []exampleText, errors []errorText) entry {
	t.Helper()
	if len(examples) == 0 {
		t.Errorf("the method %q has no example in testdata/examples.jsonl", m.Type)
	}
	return entry{
		Type: m.Type, Reply: m.Reply, Kind: m.Kind, Public: proto.IsPublic(service, m.Type), Doc: oneLine(m.Doc), Examples: examples, Errors: errors,
		Request: rows(parseSchema(t, m.Request), "", false), Response: rows(parseSchema(t, m.Response), "", true),
	}
}

func parseSchema(t *testing.T, raw []byte) *schema {
	t.Helper()
	s := &schema{}
	zinotest.Must(t, json.Unmarshal(raw, s))
	return s
}

// rows are the fields of an object, those of inner objects after their own.
func rows(s *schema, prefix string, reply bool) (list []row) {
	for _, name := range s.PropertyOrder {
		p := s.Properties[name]
		list = append(list, row{prefix + name, typeText(p), givenText(slices.Contains(s.Required, name), reply), strings.ReplaceAll(p.Description, "|", `\|`)})
		switch {
		case p.Items != nil:
			list = append(list, rows(p.Items, prefix+name+"[].", reply)...)
		case p.AdditionalProperties != nil:
			list = append(list, rows(p.AdditionalProperties, prefix+name+".*.", reply)...)
		default:
			list = append(list, rows(p, prefix+name+".", reply)...)
		}
	}
	return list
}

func givenText(required, reply bool) string {
	switch {
	case required && reply:
		return "always"
	case required:
		return "required"
	}
	return "optional"
}

// typeText names a type in words.
func typeText(s *schema) string {
	if list, ok := s.Type.([]any); ok {
		var names []string
		for _, name := range list {
			names = append(names, fmt.Sprint(name))
		}
		return strings.Join(names, " or ")
	}
	switch {
	case s.Items != nil:
		return "array of " + typeText(s.Items)
	case s.AdditionalProperties != nil:
		return "object of " + typeText(s.AdditionalProperties)
	}
	return fmt.Sprint(s.Type)
}

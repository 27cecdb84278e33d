package form

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"zino/pkg/zinotest"
	"zino/proto"
)

const person = `{"type":"object","properties":{
	"colours":{"type":"array","minItems":1,"maxItems":2,"items":{"anyOf":[{"const":"r","title":"Red"},{"const":"g","title":"Green"},{"const":"b"}]}},
	"mail":{"type":"string","format":"email"},
	"name":{"type":"string","title":"Full name","minLength":2,"maxLength":5,"default":"Ann"},
	"age":{"type":"integer","minimum":0,"maximum":150},
	"size":{"type":"number","minimum":0.5},
	"member":{"type":"boolean","default":false},
	"plan":{"type":"string","enum":["free","paid"],"enumNames":["No cost",""],"default":"none of them"}},
	"required":["name","age"]}`

func mustParse(t *testing.T, schema string) *Form {
	t.Helper()
	f, err := Parse([]byte(schema))
	zinotest.Must(t, err)
	return f
}

func TestParse(t *testing.T) {
	f := mustParse(t, person)
	var lines []string
	for _, field := range f.Fields {
		lines = append(lines, strings.TrimSpace(fmt.Sprintf("%s: %s [%s] %v %s", field.Name, field.Title, field.Hint(), field.Options, field.Typed(field.Default))))
	}
	zinotest.Equal(t, "fields", strings.Join(lines, "\n"), `name: Full name [text, 2 to 5 characters] [] Ann
age: age [whole number, 0 to 150] []
colours: colours [some of, 1 to 2 of them, optional] [{r Red} {g Green} {b b}]
mail: mail [email, optional] []
size: size [number, at least 0.5, optional] []
member: member [yes or no, optional] [] no
plan: plan [one of, optional] [{free No cost} {paid paid}]`)
	zinotest.Equal(t, "no fields", len(mustParse(t, `{"type":"object","properties":{}}`).Fields), 0)
}

func TestParseRefuses(t *testing.T) {
	var many strings.Builder
	many.WriteString(`{"type":"object","properties":{`)
	for i := range 33 {
		many.WriteString(fmt.Sprintf(`"f%d":{"type":"string"},`, i))
	}
	for schema, want := range map[string]string{
		`{`:                                 "not a schema",
		`{"type":"array"}`:                  "not an object",
		`{"type":"object","properties":[]}`: "not an object",
		`{"type":"object","properties":{"a":{"type":"object"}}}`:                                                `field "a": unknown type "object"`,
		`{"type":"object","properties":{"a":{"type":"array","items":{"type":"string"}}}}`:                       "without choices",
		`{"type":"object","properties":{"a":{"type":"string"},"a":{"type":"number"}}}`:                          "two fields",
		`{"type":"object","properties":{"a":{"type":"string"}},"required":["b"]}`:                               `"b" is missing`,
		strings.TrimSuffix(many.String(), ",") + `}}`:                                                           "more than 32 fields",
		`{"type":"object","properties":{"a":{"type":"string","title":"` + strings.Repeat("x", SizeMax) + `"}}}`: "bytes, more than",
	} {
		_, err := Parse([]byte(schema))
		zinotest.Contains(t, schema[:min(len(schema), 60)], fmt.Sprint(err), want)
	}
}

func TestRead(t *testing.T) {
	f := mustParse(t, person)
	for _, test := range []struct{ field, typed, want string }{
		{"name", "", `"Ann"`},
		{"name", " Bob ", `"Bob"`},
		{"name", "B", "want at least 2 characters"},
		{"name", "Müller", "want at most 5 characters"},
		{"name", "Mülle", `"Mülle"`},
		{"age", "", "a value is required"},
		{"age", "31", "31"},
		{"age", "3.5", "want a whole number"},
		{"age", "x", "want a whole number"},
		{"age", "-1", "want at least 0"},
		{"age", "151", "want at most 150"},
		{"age", "null", "want a whole number"},
		{"size", "", ""},
		{"size", "0.75", "0.75"},
		{"size", "0.1", "want at least 0.5"},
		{"size", "1 2", "want a number"},
		{"member", "", "false"},
		{"member", "Yes", "true"},
		{"member", "n", "false"},
		{"member", "maybe", "want yes or no"},
		{"plan", "", ""},
		{"plan", "1", `"free"`},
		{"plan", "No cost", `"free"`},
		{"plan", "paid", `"paid"`},
		{"plan", "3", "want a number from 1 to 2"},
		{"colours", "2, r,2", `["g","r"]`},
		{"colours", "1,2,3", "choose at most 2"},
		{"colours", "", ""},
		{"mail", "a@b.example", `"a@b.example"`},
		{"mail", "Ann <a@b.example>", "want a value of the form \"email\""},
	} {
		value, err := f.field(test.field).Read(test.typed)
		got := string(value)
		if err != nil {
			got = err.Error()
		}
		zinotest.Equal(t, test.field+" "+test.typed, got, test.want)
	}
}

func TestCheck(t *testing.T) {
	f := mustParse(t, person)
	for content, want := range map[string]string{
		`{"name":"Ann","age":3}`:                     "<nil>",
		`{"name":"Ann"}`:                             "age: a value is required",
		`{"name":"Ann","age":3,"colours":["x"]}`:     "colours: the value is not one of the choices",
		`{"name":"Ann","age":3,"colours":[]}`:        "colours: choose at least 1",
		`{"name":"Ann","age":3,"plan":"nothing"}`:    "plan: the value is not one of the choices",
		`{"name":null,"age":3}`:                      "name: want text",
		`{"name":"Ann","age":3,"member":"yes"}`:      "member: want yes or no",
		`{"name":"Ann","age":3,"other":1}`:           `the form has no field "other"`,
		`[]`:                                         "the values are not an object",
		`null`:                                       "the values are not an object",
		`{"name":"Ann","age":3,"mail":"an address"}`: `mail: want a value of the form "email"`,
	} {
		zinotest.Equal(t, content, fmt.Sprint(f.Check([]byte(content))), want)
	}
}

func TestFormats(t *testing.T) {
	for _, test := range []struct {
		format, value string
		ok            bool
	}{
		{"uri", "https://a.example/b", true},
		{"uri", "a/b", false},
		{"date", "2026-11-24", true},
		{"date", "24.11.2026", false},
		{"date-time", "2026-11-24T10:00:00Z", true},
		{"date-time", "2026-11-24", false},
		{"other", "x", true},
	} {
		zinotest.Equal(t, test.format+" "+test.value, isFormat(test.format, test.value), test.ok)
	}
}

func TestSecret(t *testing.T) {
	for property, want := range map[string]string{
		`"apiKey":{"type":"string"}`:                       "apiKey",
		`"x":{"type":"string","title":"Your password"}`:    "Your password",
		`"x":{"type":"string","title":"Access token"}`:     "Access token",
		`"name":{"type":"string","title":"Name of a key"}`: "Name of a key",
		`"name":{"type":"string","title":"Monkey"}`:        "",
	} {
		zinotest.Equal(t, property, mustParse(t, `{"type":"object","properties":{`+property+`}}`).Secret(), want)
	}
}

func FuzzForm(f *testing.F) {
	f.Add([]byte(person), "1")
	f.Add([]byte(`{"type":"object","properties":{"a":{"type":"array","items":{"enum":["x"]},"default":["x"]}},"required":["a","a"]}`), "x,1")
	f.Add([]byte(`{"type":"object","properties":{"":{"type":"integer","minimum":1e400}}}`), "1e2")
	f.Fuzz(func(t *testing.T, schema []byte, typed string) {
		form, err := Parse(schema)
		if err != nil {
			return
		}
		var values []json.RawMessage
		for i := range form.Fields {
			field := &form.Fields[i]
			field.Hint()
			value, err := field.Read(typed)
			if err != nil {
				value = field.Default
			}
			field.Typed(value)
			if values = append(values, value); value == nil && field.Required {
				return
			}
		}
		if err := form.Check(form.Content(values)); err != nil {
			t.Errorf("what was read does not fit: %v", err)
		}
	})
}

// TestDialog checks the texts and answers of a dialog.
func TestDialog(t *testing.T) {
	in := proto.InputRequested{ID: "in-1", Server: "test", Message: "Who\x1b[2J are\nyou?\u202e", Schema: []byte(person)}
	for name, test := range map[string]struct {
		lines   []string
		answer  string
		prompts string // each with what stands above it
	}{
		"filled in": {
			[]string{"x", "fill in", "A", "Bob", "41", "g", "", "1.5", "no", "", "send"},
			`accept {"name":"Bob","age":41,"colours":["g"],"size":1.5,"member":false}`,
			`The MCP server test asks for input:
    Who^[[2J are
    you?\u202e
What you type goes to this server, not to the model.
[f]ill in, [d]ecline, [c]ancel: 
Type one of the letters in brackets.
[f]ill in, [d]ecline, [c]ancel: 
Full name (text, 2 to 5 characters)
Full name [Ann]: 
Full name: want at least 2 characters
Full name [Ann]: 
age (whole number, 0 to 150)
age: 
colours (some of, 1 to 2 of them, optional)
    1 Red
    2 Green
    3 b
colours: 
mail (email, optional)
mail: 
size (number, at least 0.5, optional)
size: 
member (yes or no, optional)
member [no]: 
plan (one of, optional)
    1 No cost
    2 paid
plan: 
    Full name: Bob
    age: 41
    colours: Green
    size: 1.5
    member: no
[s]end, [a]gain, [d]ecline, [c]ancel: `,
		},
		"declined": {[]string{"D"}, "decline ", ""},
		"canceled": {[]string{"f", "Bob", "1", "", "", "", "", "", "cancel"}, "cancel ", ""},
		"again":    {[]string{"f", "Bob", "1", "", "", "", "", "", "again", "", "2", "", "", "", "", "", "s"}, `accept {"name":"Ann","age":2,"member":false}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			d, err := NewDialog(in)
			zinotest.Must(t, err)
			var answer *proto.AnswerInput
			var shown strings.Builder
			shown.WriteString(d.Text() + d.Prompt())
			for _, line := range test.lines {
				if answer = d.Enter(line); answer == nil {
					shown.WriteString("\n" + d.Text() + d.Prompt())
				}
			}
			if answer == nil {
				t.Fatalf("no answer after\n%s", shown.String())
			}
			zinotest.Equal(t, "answer", answer.ID+" "+answer.Action+" "+string(answer.Content), "in-1 "+test.answer)
			if test.prompts != "" {
				zinotest.Equal(t, "shown", shown.String(), test.prompts)
			}
		})
	}
	page, err := NewDialog(proto.InputRequested{ID: "in-2", Server: "test", Message: "Sign in.", URL: "https://login.exämple.com/start?state=" + strings.Repeat("4711", 50)})
	zinotest.Must(t, err)
	zinotest.Equal(t, "page", page.Text()+page.Prompt(), "The MCP server test asks you to visit a page:\n    Sign in.\n    https://login.exämple.com/start?state="+strings.Repeat("4711", 50)+
		"\nIt is on login.ex\\u00e4mple.com. Zino does not open it.\n[a]ccept, [d]ecline, [c]ancel: ")
	if answer := page.Enter("a"); answer.Action != "accept" || answer.Content != nil {
		t.Errorf("accepted: %+v", answer)
	}
	page.Refused("content: no")
	zinotest.Equal(t, "refused", page.Text(), "content: no\n")
}

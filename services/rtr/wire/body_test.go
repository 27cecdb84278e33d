package wire

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"zino/pkg/attach/kind"
	"zino/pkg/fakellm"
	"zino/pkg/wire"
	"zino/pkg/zinotest"
	"zino/proto"
)

// update writes what the tests of testdata/bodies and testdata/streams expect.
var update = flag.Bool("update", false, "write the expected bodies of testdata/bodies and the events of testdata/streams")

// bodies are the wires: the path of a request and its body.
var bodies = map[string]struct {
	path string
	body func(*Request) ([]byte, error)
}{
	"openai":     {"/v1/chat/completions", func(r *Request) ([]byte, error) { return completionBody(r, "openai") }},
	"openrouter": {"/api/v1/chat/completions", func(r *Request) ([]byte, error) { return completionBody(r, "openrouter") }},
	"responses":  {"/v1/responses", responsesBody},
	"anthropic":  {"/v1/messages", anthropicBody},
	"gemini":     {"/v1beta/models/m:streamGenerateContent", geminiBody},
	"ollama":     {"/api/chat", ollamaBody},
}

// encode returns the body of a request on a wire. It is the same each time, and
// the provider accepts it.
func encode(t *testing.T, wire string, req *Request) []byte {
	t.Helper()
	w := bodies[wire]
	body, err := w.body(req)
	zinotest.Must(t, err)
	if again, err := w.body(req); err != nil || !bytes.Equal(again, body) {
		t.Fatalf("again: %s, %v", again, err)
	}
	sent := fakellm.Request{Path: w.path, Header: http.Header{"Anthropic-Version": {anthropicVersion}}, Body: body}
	if err := sent.Legal(); err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	return body
}

// bodyCase is a request and the body that a wire makes of it. What a request leaves
// out is as in ask; with a base, the traits are those of the model there.
type bodyCase struct {
	name, want string

	Wire, Base, Model string
	Messages          json.RawMessage
	Tools             proto.Raw
	Temperature       *float64
	TopP              *float64 `json:"top_p"`
	MaxTokens         *int     `json:"max_tokens"`
	Context           int
	Collected         bool // the caller wants the answer whole
	Effort            string
	NoSummary         bool `json:"no_summary"`
	Schema            json.RawMessage
	Traits            Traits
}

// readBodies reads an archive of testdata/bodies: for each case a section with the
// request and one with the body.
func readBodies(t testing.TB, file string) (cases []*bodyCase, archive *txtar.Archive) {
	t.Helper()
	archive, err := txtar.ParseFile(file)
	zinotest.Must(t, err)
	usual, _, _ := strings.Cut(strings.TrimPrefix(string(archive.Comment), "wire: "), "\n")
	for i, section := range archive.Files {
		if i%2 == 1 {
			zinotest.Equal(t, "section", section.Name, cases[i/2].name+": body")
			cases[i/2].want = string(section.Data)
			continue
		}
		c := &bodyCase{name: section.Name, Wire: usual}
		decoder := json.NewDecoder(bytes.NewReader(section.Data))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(c); err != nil {
			t.Fatalf("%s: %s: %v", file, section.Name, err)
		}
		cases = append(cases, c)
	}
	return cases, archive
}

func (c *bodyCase) request(t testing.TB) *Request {
	t.Helper()
	req := ask(t, func(r *Request) {
		r.Model = cmp.Or(c.Model, r.Model)
		if c.Messages != nil {
			r.Raw = c.Messages
		}
		if c.Temperature != nil {
			r.Temperature = *c.Temperature
		}
		if c.TopP != nil {
			r.TopP = *c.TopP
		}
		if c.MaxTokens != nil {
			r.MaxTokens = *c.MaxTokens
		}
		r.Context, r.Stream, r.Effort, r.NoSummary, r.Traits = c.Context, !c.Collected, c.Effort, c.NoSummary, c.Traits
		r.Schema = c.Schema
		if c.Base != "" {
			r.Traits = TraitsOf(true, c.Base, r.Model)
		}
	})
	var err error
	req.Tools, err = ReadTools(c.Tools)
	zinotest.Must(t, err)
	if HasFiles(req.Messages) {
		fitted, _, err := FitFiles(req.Messages, c.Wire, req.Model, true)
		zinotest.Must(t, err)
		Fill(fitted, func(id string) ([]byte, bool) { return known[id], true })
		if req.Messages = PlaceFiles(fitted, c.Wire, len(req.Tools) > 0); len(req.Tools) == 0 {
			req.Messages = AsText(req.Messages)
		}
	}
	return req
}

// known are the attachments in the archives, by id.
var known = func() map[string][]byte {
	files := map[string][]byte{}
	for _, encoded := range []string{
		"iVBORw0KGgoAAAANSUhEUgAAAAIAAAABAQMAAADO7O3JAAAABlBMVEX///8AAABVwtN+AAAADklEQVR4nGJgAAQAAP//AAIAAUu7KZ8AAAAASUVORK5CYII=",
		"JVBERi0xLjQK",
	} {
		data, _ := base64.StdEncoding.DecodeString(encoded)
		files[kind.ID(data)] = data
	}
	return files
}()

// message begins a message in a body, which stands on a line of its own.
var message = regexp.MustCompile(`([\[,])(\{"role":)`)

// TestBodies checks the bodies of all requests in testdata/bodies, byte by byte.
func TestBodies(t *testing.T) {
	files, err := filepath.Glob("testdata/bodies/*.txtar")
	if err != nil || len(files) < 5 {
		t.Fatalf("%d archives, %v", len(files), err)
	}
	for _, file := range files {
		cases, archive := readBodies(t, file)
		for i, c := range cases {
			t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar")+"/"+c.name, func(t *testing.T) {
				got := string(message.ReplaceAll(encode(t, c.Wire, c.request(t)), []byte("$1\n $2"))) + "\n"
				if *update {
					archive.Files[2*i+1].Data = []byte(got)
				} else if got != c.want {
					t.Errorf("got\n%swant\n%s", got, c.want)
				}
			})
		}
		if *update {
			zinotest.Must(t, os.WriteFile(file, txtar.Format(archive), 0o644))
		}
	}
}

// utterances returns messages of all kinds for conversations.
func utterances() []Message {
	call := func(ids ...string) Message {
		m := Message{Role: "assistant"}
		for _, id := range ids {
			m.Calls = append(m.Calls, Call{id, "f", "{}"})
		}
		return m
	}
	signed := call("1")
	signed.State = newState("anthropic", "m", []byte(`[{"type":"thinking","thinking":"t","signature":"s"},{"type":"tool_use","id":"1","name":"f","input":{}}]`))
	return []Message{
		{Role: "system", Text: "s"},
		{Role: "user", Text: "u"},
		{Role: "user", Text: " \n"},
		{Role: "assistant", Text: "a"},
		{Role: "assistant", Text: "\n"},
		call("1"), call("1", "."), call("", ""), signed,
		{Role: "tool", CallID: "1"},
		{Role: "tool", CallID: ".", Text: "r", Failed: true},
	}
}

// TestAnthropicLegal checks that every conversation of a few messages becomes a
// legal one.
func TestAnthropicLegal(t *testing.T) {
	conversations := [][]Message{nil}
	for n := 0; n < len(conversations); n++ {
		list := conversations[n]
		encode(t, "anthropic", &Request{Model: "m", Messages: list})
		for _, m := range utterances() {
			if next := append(slices.Clip(list), m); len(next) <= 3 {
				conversations = append(conversations, next)
			}
		}
	}
}

// TestAnthropicPrefix checks that a longer conversation begins with the same
// bytes, on which the provider's cache and the signatures of reasoning depend.
func TestAnthropicPrefix(t *testing.T) {
	say := utterances()
	user, blank, answer, system := say[1], say[2], say[3], say[0]
	one, two, none, signed := say[5], say[6], say[7], say[8]
	result := func(id string) Message { return Message{Role: "tool", CallID: id, Text: "r"} }
	var all []Message
	before := "["
	for n, step := range [][]Message{
		{user},
		{one, result("1")},
		{signed, result("1")},
		{user},
		{answer, user},
		{two, result("1"), result(".")},
		{blank},
		{none, result(""), result("")},
		{system},
		{one, result("1"), user},
		{answer, signed, result("1")},
		{two, result("1"), result(".")},
	} {
		all = append(all, step...)
		if !isLegal(all) {
			t.Fatalf("step %d: %s", n, sketch(all))
		}
		raw, _ := anthropicMessages(all, "m")
		now := strings.ReplaceAll(string(raw), cacheMark, "}")
		if !strings.HasPrefix(now, before) {
			t.Errorf("step %d: got\n%s\nwhich does not begin with\n%s", n, now, before)
		}
		before = strings.TrimSuffix(now, "]}]")
	}
}

// TestNotANumber checks that NaN, which JSON cannot express, is refused without a
// request.
func TestNotANumber(t *testing.T) {
	for _, tt := range wires {
		ep, s := endpointFor(t)
		err := tt.infer(context.Background(), ep, ask(t, func(r *Request) { r.Temperature = math.NaN() }), &gathered{})
		if e, ok := errors.AsType[*proto.Error](err); !ok || e.Code != proto.CodeInvalid || len(s.paths) > 0 {
			t.Errorf("%s: got %v", tt.name, err)
		}
	}
}

// TestSameArgs checks that arguments are compared by their values.
func TestSameArgs(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want bool
	}{
		{"", "{}", true},
		{" {} ", "{}", true},
		{`{"a":1,"b":"ü"}`, `{"b":"\u00fc","a":1}`, true},
		{`{"a":1}`, `{"a":2}`, false},
		{`{"a":9007199254740993}`, `{"a":9007199254740992}`, false},
		{`{"a":1}`, `{"a":`, false},
		{"", "null", false},
	} {
		if got := sameArgs(tt.a, tt.b); got != tt.want {
			t.Errorf("%q and %q: %v", tt.a, tt.b, got)
		}
	}
}

// planned makes a conversation of a plan: a byte is a message, with text in it.
func planned(plan []byte, text string) []byte {
	said := wire.AppendString(nil, text)
	b := []byte("[")
	for i, p := range plan[:min(len(plan), 40)] {
		if i > 0 {
			b = append(b, ',')
		}
		id := string('a' + p>>3&3)
		switch p & 7 {
		case 0, 1, 2:
			b = fmt.Appendf(b, `{"role":%q,"content":%s}`, []string{"user", "assistant", "system"}[p&7], said)
		case 3:
			b = fmt.Appendf(b, `{"role":"tool","tool_call_id":%q,"content":%s}`, id, said)
		case 4:
			b = append(b, `{"role":"user","content":""}`...)
		case 5, 6:
			b = fmt.Appendf(b, `{"role":"assistant","content":null,"tool_calls":[{"id":%q,"function":{"name":"f","arguments":"{\"x\":1}"}},{"id":"b","function":{"name":%s,"arguments":%s}}]`, id, said, said)
			if p&7 == 6 {
				b = fmt.Appendf(b, `,"reasoning_state":{"provider":%q,"model":"m","content":%s}`, []string{"gemini", "ollama"}[p>>5&1], kept(p, said))
			}
			b = append(b, '}')
		case 7:
			b = fmt.Appendf(b, `{"role":"assistant","content":%s,"tool_calls":[{"id":%q,"function":{"name":"g","arguments":{}}}]}`, said, id)
		}
	}
	return append(b, ']')
}

// kept returns a state of a wire with the calls in planned.
func kept(p byte, said []byte) []byte {
	if p>>5&1 == 1 {
		return fmt.Appendf(nil, `{"thinking":%s}`, said)
	}
	return fmt.Appendf(nil, `[{"text":"x"},{"functionCall":{"name":"f","args":{"x":1}},"thoughtSignature":"c2ln"},{"functionCall":{"id":"b","name":%s,"args":{}}}]`, said)
}

// fuzzBodies checks that every conversation of planned becomes a body that the
// provider accepts, with all texts of the user.
func fuzzBodies(f *testing.F, name string) {
	f.Add([]byte{2, 0, 1, 0}, "hi")
	f.Add([]byte{0, 5, 3, 3 + 8, 1, 0}, `{"ok":true}`)
	f.Add([]byte{0, 6, 3, 3 + 8}, "{}")
	f.Add([]byte{0, 6 + 32, 3, 7, 3}, "\u2028 \xff")
	f.Add([]byte{3, 1, 2, 13, 3 + 8, 3 + 8, 4, 6}, "")
	f.Fuzz(func(t *testing.T, plan []byte, text string) {
		raw := planned(plan, text)
		list, err := ReadMessages(raw)
		if err != nil {
			t.Fatalf("%s: %v", raw, err)
		}
		body := encode(t, name, &Request{Model: "m", Raw: raw, Messages: list, Temperature: 1, TopP: 1})
		for _, m := range list {
			if said := wire.AppendString(nil, m.Said()); m.Role == "user" && !bytes.Contains(body, said) && m.Said() != "" {
				t.Fatalf("%s is not in %s", said, body)
			}
		}
	})
}

func FuzzGeminiBody(f *testing.F) { fuzzBodies(f, "gemini") }

func FuzzOllamaBody(f *testing.F) { fuzzBodies(f, "ollama") }

// TestResponsesMissing checks that an endpoint without this wire is an error with
// a remedy.
func TestResponsesMissing(t *testing.T) {
	server := fakellm.New(fakellm.Failure(404, "404 page not found"))
	defer server.Close()
	ep := endpointAt(t, server.URL)
	err := Responses(t.Context(), ep, ask(t, nil), &gathered{})
	f, ok := err.(*Fault)
	if !ok || f.Status != http.StatusNotFound || !strings.Contains(f.Details, `set wire = "chat" in [[rtr.model]]`) {
		t.Errorf("got %+v", err)
	}
}

// TestResponsesGrows checks that a conversation with more at its end has the same
// items at its beginning.
func TestResponsesGrows(t *testing.T) {
	var raw []string
	before := ""
	for i := range 4 {
		id := fmt.Sprint("c", i%2)
		raw = append(raw, `{"role":"user","content":"hi"}`, `{"role":"assistant","content":"","tool_calls":[{"id":"`+id+`","type":"function","function":{"name":"f","arguments":"{}"}}]}`, `{"role":"tool","tool_call_id":"`+id+`","content":"r"}`)
		list, err := ReadMessages(proto.Raw("[" + strings.Join(raw, ",") + "]"))
		zinotest.Must(t, err)
		_, list = split(legal(list))
		now := string(responsesInput(list, "m"))
		if !strings.HasPrefix(now, before) {
			t.Errorf("step %d: got\n%s\nwhich does not begin with\n%s", i, now, before)
		}
		before = strings.TrimSuffix(now, "]")
	}
}

// fuzzMessages checks that every conversation becomes a body that the provider
// accepts. The seeds are those of testdata/bodies.
func fuzzMessages(f *testing.F, wire string) {
	files, err := filepath.Glob("testdata/bodies/*.txtar")
	zinotest.Must(f, err)
	for _, file := range files {
		cases, _ := readBodies(f, file)
		for _, c := range cases {
			f.Add([]byte(c.Messages))
		}
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		list, err := ReadMessages(raw)
		if err != nil {
			return
		}
		for i := range list {
			list[i].State = nil // the provider's own data, which is sent back as it is
		}
		fitted, _, err := FitFiles(list, wire, "m", true)
		if err != nil {
			return // a PDF file where the wire takes none
		}
		Fill(fitted, func(id string) ([]byte, bool) { return known[id], true })
		encode(t, wire, &Request{Model: "m", Messages: PlaceFiles(fitted, wire, true)})
	})
}

func FuzzAnthropicBody(f *testing.F) { fuzzMessages(f, "anthropic") }

func FuzzResponsesBody(f *testing.F) { fuzzMessages(f, "responses") }

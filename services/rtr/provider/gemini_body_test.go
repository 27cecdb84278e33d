package provider

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"zino/pkg/fakellm"
	"zino/pkg/wire"
	"zino/proto"
)

func byteByByte(s string) io.Reader { return iotest.OneByteReader(strings.NewReader(s)) }

// shape is a request and the body that it is to give.
type shape struct {
	About     string          `json:"about"`
	Model     string          `json:"model"`
	Messages  json.RawMessage `json:"messages"`
	Tools     json.RawMessage `json:"tools"`
	TopP      float64         `json:"top_p"`
	MaxTokens int             `json:"max_tokens"`
	Context   int             `json:"context"`
	Traits    Traits          `json:"traits"`
	Body      json.RawMessage `json:"body"`
}

// shapesFit holds a wire's bodies against those in a directory of testdata, and
// that its provider would take them.
func shapesFit(t *testing.T, wire, path string, body func(*Request) ([]byte, error)) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", wire, "*.json"))
	if err != nil || len(files) < 10 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".json"), func(t *testing.T) {
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var s shape
			if err := json.Unmarshal(raw, &s); err != nil {
				t.Fatal(err)
			}
			got, err := body(s.request(t))
			if err != nil {
				t.Fatal(err)
			}
			if got, want := compacted(t, got), compacted(t, s.Body); got != want {
				t.Errorf("%s: got\n%s\nwant\n%s", s.About, got, want)
			}
			if err := (&fakellm.Request{Path: path, Body: got}).Legal(); err != nil {
				t.Errorf("%s: %v", s.About, err)
			}
		})
	}
}

// compacted is JSON without white space.
func compacted(t *testing.T, raw []byte) string {
	t.Helper()
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	return b.String()
}

func (s *shape) request(t *testing.T) *Request {
	t.Helper()
	req := ask(t, func(r *Request) {
		r.Model, r.Raw, r.TopP, r.MaxTokens, r.Context, r.Traits = s.Model, s.Messages, s.TopP, s.MaxTokens, s.Context, s.Traits
	})
	var err error
	if req.Tools, err = ReadTools(proto.Raw(s.Tools)); err != nil {
		t.Fatal(err)
	}
	return req
}

const geminiPath = "/v1beta/models/m:streamGenerateContent"

func TestGeminiBodies(t *testing.T) { shapesFit(t, "gemini", geminiPath, geminiBody) }

// TestNoNumber holds that what JSON has no word for is refused before anything
// is asked.
func TestNoNumber(t *testing.T) {
	for _, tt := range wires {
		ep, s := endpointFor(t)
		err := tt.infer(context.Background(), ep, ask(t, func(r *Request) { r.Temperature = math.NaN() }), &gathered{})
		if e, ok := errors.AsType[*proto.Error](err); !ok || e.Code != proto.CodeInvalid || len(s.paths) > 0 {
			t.Errorf("%s: got %v", tt.name, err)
		}
	}
}

// handedBack makes the next request of an answer's words and holds that it is
// JSON, and the state one line of it.
func handedBack(t *testing.T, words []string, body func(*Request) ([]byte, error)) {
	t.Helper()
	var state string
	var calls []Call
	for _, w := range words {
		kind, rest, _ := strings.Cut(w, " ")
		switch kind {
		case "state":
			state = rest
		case "tool":
			_, rest, _ = strings.Cut(rest, " ")
			id, name, _ := strings.Cut(rest, " ")
			calls = append(calls, Call{ID: id, Name: name})
		case "args":
			_, calls[len(calls)-1].Args, _ = strings.Cut(rest, " ")
		}
	}
	if state == "" {
		return
	}
	if !wire.Valid([]byte(state)) || strings.ContainsAny(state, "\r\n") {
		t.Fatalf("the state %q is not one line of JSON", state)
	}
	list := []Message{{Role: "user", Text: "u"}, {Role: "assistant", Calls: calls, State: json.RawMessage(state)}}
	got, err := body(&Request{Model: "m", Messages: list})
	if err != nil || !wire.Valid(got) {
		t.Fatalf("%s\nbecame %s: %v", state, got, err)
	}
}

// answeredBy asks for an answer and returns the message that it makes, as it is
// sent back.
func answeredBy(t *testing.T, infer Func, stream string) string {
	t.Helper()
	ep, _ := endpointFor(t, strings.NewReader(stream))
	var g gathered
	if err := infer(context.Background(), ep, ask(t, nil), &g); err != nil {
		t.Fatal(err)
	}
	text, err := g.Finished()
	if err != nil {
		t.Fatal(err)
	}
	return asMessage(text)
}

// asMessage is an answer as it goes back.
func asMessage(text proto.Text) string {
	message := wire.AppendString([]byte(`{"role":"assistant","content":`), text.Content)
	if len(text.ToolCalls) > 0 {
		message = append(append(message, `,"tool_calls":`...), text.ToolCalls...)
	}
	if len(text.State) > 0 {
		message = append(append(message, `,"reasoning_state":`...), text.State...)
	}
	return string(append(message, '}'))
}

// sentBack returns the body for a conversation whose second message is an answer
// with calls that are answered.
func sentBack(t *testing.T, model, answer string, results string, body func(*Request) ([]byte, error)) string {
	t.Helper()
	req := ask(t, func(r *Request) {
		r.Model, r.Raw = model, json.RawMessage(`[{"role":"user","content":"hi"},`+answer+`,`+results+`]`)
	})
	got, err := body(req)
	if err != nil {
		t.Fatal(err)
	}
	return string(got)
}

// TestGeminiGoesBack holds that an answer's parts go back as they came, and
// only to the model that they came from.
func TestGeminiGoesBack(t *testing.T) {
	answer := answeredBy(t, Gemini, geminiEvents(geTools...))
	list, err := ReadMessages(proto.Raw("[" + answer + "]"))
	if err != nil {
		t.Fatal(err)
	}
	results := `{"role":"tool","tool_call_id":"a1","content":"x"},{"role":"tool","tool_call_id":"` + list[0].Calls[1].ID + `","content":"noon"}`
	_, kept, _ := strings.Cut(geToolsWant[6], `"content":`)
	kept = strings.TrimSuffix(kept, "]}")
	want := `{"role":"model","parts":` + kept + `]},{"role":"user","parts":[{"functionResponse":{"id":"a1","name":"bash","response":{"result":"x"}}},` +
		`{"functionResponse":{"name":"clock","response":{"result":"noon"}}}]}]`
	got := sentBack(t, "m", answer, results, geminiBody)
	if !strings.Contains(got, want) {
		t.Errorf("got\n%s\nwant in it\n%s", got, want)
	}
	if again := sentBack(t, "m", answer, results, geminiBody); again != got {
		t.Errorf("another time:\n%s", again)
	}
	for name, changed := range map[string]string{
		"another name": strings.Replace(answer, `"name":"bash"`, `"name":"sh"`, 1), "another id": strings.Replace(answer, `"id":"a1"`, `"id":"a2"`, 1),
		"other arguments": strings.Replace(answer, `\"ls\"`, `\"rm\"`, 1),
	} {
		got := sentBack(t, "m", changed, strings.Replace(results, `"a1"`, `"`+strings.TrimPrefix(name, "another id")+`"`, 1), geminiBody)
		if strings.Contains(got, "EpwC") || !strings.Contains(got, `"parts":[{"text":"Let me`) {
			t.Errorf("%s: the parts went back: %s", name, got)
		}
	}
	if got := sentBack(t, "gemini-2.5-pro", answer, results, geminiBody); strings.Contains(got, "houghtSignature") {
		t.Errorf("another model gets signatures: %s", got)
	}
}

// TestSameArgs holds that arguments are told apart by what they mean.
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

// kept is what a wire may have kept of the calls in planned.
func kept(p byte, said []byte) []byte {
	if p>>5&1 == 1 {
		return fmt.Appendf(nil, `{"thinking":%s}`, said)
	}
	return fmt.Appendf(nil, `[{"text":"x"},{"functionCall":{"name":"f","args":{"x":1}},"thoughtSignature":"c2ln"},{"functionCall":{"id":"b","name":%s,"args":{}}}]`, said)
}

// bodyHolds holds that a conversation gives a body that the provider takes, the
// same in every request, in which no text of the user's is lost.
func bodyHolds(t *testing.T, raw []byte, path string, body func(*Request) ([]byte, error)) {
	t.Helper()
	list, err := ReadMessages(raw)
	if err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	req := &Request{Model: "m", Raw: raw, Messages: list, Temperature: 1, TopP: 1}
	got, err := body(req)
	if err != nil {
		t.Fatal(err)
	}
	if err := (&fakellm.Request{Path: path, Body: got}).Legal(); err != nil {
		t.Fatalf("%s\nbecame %s: %v", raw, got, err)
	}
	if again, err := body(req); err != nil || !bytes.Equal(again, got) {
		t.Fatalf("again: %s, %v", again, err)
	}
	for _, m := range list {
		if said := wire.AppendString(nil, m.Text); m.Role == "user" && !bytes.Contains(got, said) && m.Text != "" {
			t.Fatalf("%s is not in %s", said, got)
		}
	}
}

// fuzzBodies holds bodyHolds for every conversation.
func fuzzBodies(f *testing.F, path string, body func(*Request) ([]byte, error)) {
	f.Add([]byte{2, 0, 1, 0}, "hi")
	f.Add([]byte{0, 5, 3, 3 + 8, 1, 0}, `{"ok":true}`)
	f.Add([]byte{0, 6, 3, 3 + 8}, "{}")
	f.Add([]byte{0, 6 + 32, 3, 7, 3}, "\u2028 \xff")
	f.Add([]byte{3, 1, 2, 13, 3 + 8, 3 + 8, 4, 6}, "")
	f.Fuzz(func(t *testing.T, plan []byte, text string) { bodyHolds(t, planned(plan, text), path, body) })
}

func FuzzGeminiBody(f *testing.F) { fuzzBodies(f, geminiPath, geminiBody) }

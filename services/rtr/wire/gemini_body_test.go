package wire

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
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
	return asMessage(g.Finished())
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

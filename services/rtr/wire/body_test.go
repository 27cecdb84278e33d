package wire

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"zino/pkg/fakellm"
	"zino/pkg/wire"
	"zino/proto"
)

var updateAnthropic = flag.Bool("update.anthropic", false, "write the bodies of testdata/anthropic")

// legalForAnthropic is the first thing that Anthropic would refuse in a body.
func legalForAnthropic(body []byte) error {
	req := fakellm.Request{Path: "/v1/messages", Header: http.Header{"Anthropic-Version": {anthropicVersion}}, Body: body}
	return req.Legal()
}

// TestAnthropicBodies writes the bodies of all conversations in testdata.
func TestAnthropicBodies(t *testing.T) {
	files, err := filepath.Glob("testdata/anthropic/*.in.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no conversations: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".in.json"), func(t *testing.T) {
			body, err := anthropicBody(readConversation(t, file))
			if err != nil {
				t.Fatal(err)
			}
			if err := legalForAnthropic(body); err != nil {
				t.Errorf("not legal: %v", err)
			}
			var shown bytes.Buffer
			if err := json.Indent(&shown, body, "", " "); err != nil {
				t.Fatal(err)
			}
			shown.WriteByte('\n')
			golden := strings.Replace(file, ".in.", ".out.", 1)
			if *updateAnthropic {
				if err := os.WriteFile(golden, shown.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil || !bytes.Equal(shown.Bytes(), want) {
				t.Errorf("%v, got\n%s\nwant\n%s", err, shown.Bytes(), want)
			}
		})
	}
}

// readConversation reads a request from a file.
func readConversation(t *testing.T, file string) *Request {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var in struct {
		Messages proto.Raw
		Tools    proto.Raw
		Tokens   int `json:"max_tokens"`
	}
	if err := json.Unmarshal(raw, &in); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	req := &Request{Model: "claude-x", MaxTokens: in.Tokens, Temperature: 0.7, TopP: 1, Traits: Traits{OneSampling: true}}
	if req.Messages, err = ReadMessages(in.Messages); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	if req.Tools, err = ReadTools(in.Tools); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return req
}

func TestAnthropicSampling(t *testing.T) {
	for _, tt := range []struct {
		temperature, topP float64
		traits            Traits
		want              string
	}{
		{0, 1, Traits{OneSampling: true}, `"temperature":0,`},
		{2, 0.5, Traits{OneSampling: true}, `"temperature":1,`},
		{-1, 1.5, Traits{}, `"temperature":0,"top_p":1,`},
		{0.3, 0.5, Traits{NoTemperature: true, OneSampling: true}, `"top_p":0.5,`},
		{0.3, 0.5, Traits{NoTemperature: true, NoTopP: true}, ""},
	} {
		req := ask(t, func(r *Request) { r.Temperature, r.TopP, r.Traits, r.MaxTokens = tt.temperature, tt.topP, tt.traits, 0 })
		body, err := anthropicBody(req)
		want := `{"model":"m","max_tokens":4096,"stream":true,` + tt.want + `"messages":[{"role":"user","content":[{"type":"text","text":"hi","cache_control":{"type":"ephemeral"}}]}]}`
		if err != nil || string(body) != want {
			t.Errorf("got %s, %v, want %s", body, err, want)
		}
	}
	if _, err := anthropicBody(ask(t, func(r *Request) { r.Temperature = math.NaN() })); err == nil {
		t.Error("no number passed as a temperature")
	}
}

// utterances are messages of all sorts, of which conversations are made.
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
		body, err := anthropicBody(&Request{Model: "m", Messages: list})
		if err == nil {
			err = legalForAnthropic(body)
		}
		if err != nil {
			t.Fatalf("%s: %v in %s", sketch(list), err, body)
		}
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

// FuzzAnthropicBody checks that every valid conversation becomes a
// body that the provider takes.
func FuzzAnthropicBody(f *testing.F) {
	files, err := filepath.Glob("testdata/anthropic/*.in.json")
	if err != nil || len(files) == 0 {
		f.Fatalf("no conversations: %v", err)
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add([]byte(memberOf(raw, "messages")))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		list, err := ReadMessages(raw)
		if err != nil {
			return
		}
		for i := range list {
			list[i].State = nil // what it holds is the provider's own
		}
		body, err := anthropicBody(&Request{Model: "m", Messages: list})
		if err != nil {
			t.Fatal(err)
		}
		if err := legalForAnthropic(body); err != nil {
			t.Fatalf("%v in %s", err, body)
		}
	})
}

// TestAnthropicMarks checks, for a conversation as a session has it, that tools,
// system prompt and the last thing that the user's side says are marked for the
// cache, nothing else is, and that a result which says that it failed is
// marked as an error.
func TestAnthropicMarks(t *testing.T) {
	list, err := ReadMessages(proto.Raw(`[{"role":"system","content":"s"},{"role":"user","content":"u"},
	 {"role":"assistant","content":"a","tool_calls":[{"id":"1","type":"function","function":{"name":"read","arguments":"{}"}},{"id":"2","type":"function","function":{"name":"bash","arguments":"{}"}}]},
	 {"role":"tool","tool_call_id":"1","content":"{\"ok\":false,\"error\":{\"code\":\"path_error\",\"message\":\"no\"}}"},
	 {"role":"tool","tool_call_id":"2","content":"{\"ok\":true,\"data\":{\"stdout\":\"\\\"ok\\\":false\"}}"}]`))
	if err != nil {
		t.Fatal(err)
	}
	body, err := anthropicBody(&Request{Model: "m", Messages: list, Tools: someTools(t)})
	if err != nil {
		t.Fatal(err)
	}
	type block struct {
		Type    string
		Cache   json.RawMessage `json:"cache_control"`
		IsError bool            `json:"is_error"`
	}
	var got struct {
		System, Tools []block
		Messages      []struct{ Content []block }
	}
	if err := json.Unmarshal(body, &got); err != nil {
		t.Fatal(err)
	}
	parts := [][]block{got.System, got.Tools}
	for _, m := range got.Messages {
		parts = append(parts, m.Content)
	}
	for i, part := range parts {
		for j, b := range part {
			marked := len(b.Cache) > 0
			if want := j == len(part)-1 && (i < 2 || i == len(parts)-1); marked != want {
				t.Errorf("part %d, block %d: marked %v", i, j, marked)
			}
		}
	}
	if results := parts[len(parts)-1]; len(parts) != 5 || len(results) != 2 || !results[0].IsError || results[1].IsError {
		t.Errorf("the results are %+v", results)
	}
}

// TestAnthropicState checks that the blocks of an answer with calls go back as
// they came, wherever the conversation is the same.
func TestAnthropicState(t *testing.T) {
	blocks := `[{"type":"thinking","thinking":"Let me \"look\" ‽","signature":"EqQB/+=="},` +
		`{"type":"tool_use","id":"toolu_1","name":"bash","input":{"code":"ls"}},{"type":"tool_use","id":"toolu_2","name":"read","input":{"path":"a"}}]`
	answer := proto.Text{
		ToolCalls: proto.Raw(`[{"id":"toolu_1","function":{"name":"bash","arguments":"{\"code\":\"ls\"}"}},{"id":"toolu_2","function":{"name":"read","arguments":"{\"path\":\"a\"}"}}]`),
		State:     newState("anthropic", "m", []byte(blocks)),
	}
	for _, tt := range []struct {
		name, model, calls string
		want               string
	}{
		{"the same", "m", string(answer.ToolCalls), blocks},
		{"another model", "n", string(answer.ToolCalls), strings.Replace(blocks, blocks[1:strings.Index(blocks, "},")+2], "", 1)},
		{"other calls", "m", `[{"id":"toolu_1","function":{"name":"bash","arguments":"{}"}}]`, `[{"type":"tool_use","id":"toolu_1","name":"bash","input":{}}]`},
		{"no calls", "m", `[]`, ""},
	} {
		raw := `[{"role":"user","content":"hi"},{"role":"assistant","content":null,"tool_calls":` + tt.calls + `,"reasoning_state":` + string(answer.State) + `},` +
			`{"role":"tool","tool_call_id":"toolu_1","content":"x"},{"role":"tool","tool_call_id":"toolu_2","content":"y"}]`
		body, err := anthropicBody(ask(t, func(r *Request) { r.Raw, r.Model = json.RawMessage(raw), tt.model }))
		if err == nil {
			err = legalForAnthropic(body)
		}
		var sent struct {
			Messages []struct {
				Role    string
				Content json.RawMessage
			}
		}
		if err != nil || json.Unmarshal(body, &sent) != nil {
			t.Fatalf("%s: %v in %s", tt.name, err, body)
		}
		got := ""
		for _, m := range sent.Messages {
			if m.Role == "assistant" {
				got = string(m.Content)
			}
		}
		if strings.ReplaceAll(got, "{\n\"code\": ", `{"code":`) != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, got, tt.want)
		}
	}
}

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

// TestNoNumber checks that what JSON has no word for is refused before anything
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

// TestGeminiGoesBack checks that an answer's parts go back as they came, and
// only to the model that they came from.
func TestGeminiGoesBack(t *testing.T) {
	const parts = `{"thought":true,"text":"**Thinking** \u2026\n"},{"text":"Let me \"look\""},` +
		`{"functionCall":{"name":"bash","args":{"code": "ls"},"id":"a1"},"thoughtSignature":"EpwC/+=="},{"functionCall":{"name":"clock"}}`
	answer := asMessage(proto.Text{
		Content: `Let me "look"`, State: newState("gemini", "m", []byte("["+parts+"]")),
		ToolCalls: proto.Raw(`[{"id":"a1","function":{"name":"bash","arguments":"{\"code\":\"ls\"}"}},{"id":"call_2","function":{"name":"clock","arguments":"{}"}}]`),
	})
	results := `{"role":"tool","tool_call_id":"a1","content":"x"},{"role":"tool","tool_call_id":"call_2","content":"noon"}`
	want := `{"role":"model","parts":[` + parts + `]},{"role":"user","parts":[{"functionResponse":{"id":"a1","name":"bash","response":{"result":"x"}}},` +
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
		if said := wire.AppendString(nil, m.Said()); m.Role == "user" && !bytes.Contains(got, said) && m.Said() != "" {
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

func TestOllamaBodies(t *testing.T) { shapesFit(t, "ollama", "/api/chat", ollamaBody) }

func FuzzOllamaBody(f *testing.F) { fuzzBodies(f, "/api/chat", ollamaBody) }

// compact takes the blanks out that the tests have between tokens.
func compact(s string) string {
	return strings.NewReplacer("}, {", "},{", "}  ,{", "},{", "\n", "").Replace(s)
}

// bodyFor is the body of a request for a model at a base URL.
func bodyFor(t *testing.T, base, name string, req *Request) string {
	t.Helper()
	var err error
	if req.Messages, err = ReadMessages(proto.Raw(req.Raw)); err != nil {
		t.Fatal(err)
	}
	req.Traits = TraitsOf(true, base, req.Model)
	body, err := completionBody(req, name)
	if err != nil || !json.Valid(body) {
		t.Fatalf("%s: %v", body, err)
	}
	return string(body)
}

func TestCompletionBody(t *testing.T) {
	const empty = `[]`
	const user = `[{"role":"user","content":"a"}]`
	messages := `[{"role":"system","content":"é <b> \u00fc \ud83c\udf0d"}, {"role":"assistant","content":null,"tool_calls":[{"id":"1","x":[1.50]}]},{"role":"tool","tool_call_id":"1","content":"r","extra":{"a":null}}]`
	tool := []Tool{{"f", "does <f>", json.RawMessage(`{"type": "object"}`)}}
	const toolJSON = `"tools":[{"type":"function","function":{"name":"f","description":"does <f>","parameters":{"type": "object"}}}]`
	for _, tt := range []struct {
		name, base string
		req        Request
		want       string
	}{
		{
			"as it came", "http://h/v1",
			Request{Model: "m", Raw: []byte(messages), TopP: 0.5, Stream: true},
			`{"messages":` + messages + `,"model":"m","stream":true,"stream_options":{"include_usage":true},"temperature":0,"top_p":0.5}`,
		},
		{
			"collected, limited", "http://h/v1",
			Request{Model: "m", Raw: []byte(empty), Temperature: 0.7, TopP: 1, MaxTokens: 100},
			`{"max_tokens":100,"messages":[],"model":"m","stream":false,"temperature":0.7,"top_p":1}`,
		},
		{
			"openai", openAIBase,
			Request{Model: "gpt-4.1", Raw: []byte(empty), Temperature: 0.7, TopP: 1, MaxTokens: 100},
			`{"max_completion_tokens":100,"messages":[],"model":"gpt-4.1","stream":false,"temperature":0.7,"top_p":1}`,
		},
		{
			"openai, reasoning", openAIBase,
			Request{Model: "gpt-6-luna", Raw: []byte(empty), Temperature: 0.7, TopP: 1},
			`{"messages":[],"model":"gpt-6-luna","stream":false}`,
		},
		{
			"openai, reasoning with tools", openAIBase,
			Request{Model: "gpt-6-luna", Raw: []byte(empty), Tools: tool},
			`{"messages":[],"model":"gpt-6-luna","stream":false,` + toolJSON + `}`,
		},
		{
			"tools", "http://h/v1",
			Request{Model: "m", Raw: []byte(empty), TopP: 1, Tools: tool},
			`{"messages":[],"model":"m","stream":false,"temperature":0,` + toolJSON + `,"top_p":1}`,
		},
		{
			"openrouter", "https://openrouter.ai/api/v1",
			Request{Model: "x/m", Raw: []byte(empty), TopP: 1},
			`{"messages":[],"model":"x/m","stream":false,"temperature":0,"top_p":1,"usage":{"include":true}}`,
		},
		{
			"claude continues", "https://gateway/v1",
			Request{Model: "anthropic/claude-x", Raw: []byte(`[{"role":"assistant","content":"a"}  ] `), TopP: 1},
			`{"messages":[{"role":"assistant","content":"a"},{"role":"user","content":"Continue."}],"model":"anthropic/claude-x","stream":false,"temperature":0}`,
		},
		{
			"claude after a user", "https://gateway/v1",
			Request{Model: "claude-x", Raw: []byte(user), TopP: 0.9},
			`{"messages":` + user + `,"model":"claude-x","stream":false,"temperature":0}`,
		},
		{"a new claude", "https://gateway/v1", Request{Model: "claude-opus-4.8", Raw: []byte(user), TopP: 0.9}, `{"messages":` + user + `,"model":"claude-opus-4.8","stream":false}`},
		{
			"mistral", "https://api.mistral.ai/v1",
			Request{Model: "m", Raw: []byte(`[{"role":"assistant","content":"b","tool_calls":null}]`), TopP: 1, Stream: true},
			`{"messages":[{"role":"assistant","content":"b","tool_calls":null},{"role":"user","content":"Continue."}],"model":"m","stream":true,"temperature":0,"top_p":1}`,
		},
		{
			"surrogates", "http://h/v1",
			Request{Model: "m", Raw: []byte(`[{"role":"user","content":"\ud83c\udf0d \ud800 \udc00\\ud800\uD83Cx\ud800\ud83c\udf0d"}]`)},
			`{"messages":[{"role":"user","content":"\ud83c\udf0d \ufffd \ufffd\\ud800\ufffdx\ufffd\ud83c\udf0d"}],"model":"m","stream":false,"temperature":0,"top_p":0}`,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			name := "openai"
			if strings.Contains(tt.base, "openrouter") {
				name = "openrouter"
			}
			if got := bodyFor(t, tt.base, name, &tt.req); compact(got) != compact(tt.want) {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

// TestContinue checks where the user is made to speak.
func TestContinue(t *testing.T) {
	const more = `,{"role":"user","content":"Continue."}]`
	const called = `[{"role":"assistant","tool_calls":[{"id":"1"}]},{"role":"tool","tool_call_id":"1","content":"r"}]`
	for _, tt := range []struct{ in, want string }{
		{`[]`, `[]`},
		{`[{"role":"user"}]`, `[{"role":"user"}]`},
		{called, called},
		{`[{"role":"assistant","content":"a"}]`, `[{"role":"assistant","content":"a"}` + more},
		{"[ {\"role\":\"user\"} , {\"role\":\"assistant\",\"content\":\"]\"} ]\n", `[{"role":"user"},{"role":"assistant","content":"]"}` + more},
	} {
		for _, needs := range []bool{true, false} {
			req := ask(t, func(r *Request) { r.Raw, r.Traits.NoAssistantLast = json.RawMessage(tt.in), needs })
			want := tt.want
			if !needs {
				want = tt.in // verbatim
			}
			if got := string(completionMessages(req, "openai")); got != want {
				t.Errorf("%s, needed %v: got %s, want %s", tt.in, needs, got, want)
			}
		}
	}
}

// TestMended checks that a conversation which no provider takes is put in order
// for the wire.
func TestMended(t *testing.T) {
	req := ask(t, func(r *Request) {
		r.Raw = json.RawMessage(`[{"role":"user","content":"u"},{"role":"assistant","tool_calls":[{"id":"1","function":{"name":"f","arguments":"{}"}}]},{"role":"user","content":"v"},{"role":"tool","tool_call_id":"9","content":"r"},{"role":"assistant","content":""}]`)
	})
	want := `[{"role":"user","content":"u"},{"role":"assistant","tool_calls":[{"id":"1","function":{"name":"f","arguments":"{}"}}]},` +
		`{"role":"tool","tool_call_id":"1","content":` + jsonString(t, lost) + `},{"role":"user","content":"v"}]`
	if got := string(completionMessages(req, "openai")); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func jsonString(t *testing.T, s string) string {
	t.Helper()
	b, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestStateGoesBack checks that what came with calls beyond their form goes back
// in its places, to the model that it came from and to no other.
func TestStateGoesBack(t *testing.T) {
	const state = `{"fields":{"reasoning_content":"hm","reasoning_details":[{"type":"reasoning.text","signature":"s"}]},"calls":{"1":{"extra_content":{"google":{"thought_signature":"t"}}}}}`
	for _, tt := range []struct {
		provider, model string
		backs           bool
	}{{"openai", "m", true}, {"openai", "other", false}, {"openrouter", "m", false}} {
		req := ask(t, func(r *Request) {
			r.Raw = json.RawMessage(`[{"role":"user","content":"u"},{"role":"assistant","content":null,"x":1,"tool_calls":[{"id":"1"},{"id":"2","y":2}],"reasoning_state":` + string(newState(tt.provider, tt.model, []byte(state))) +
				`},{"role":"tool","tool_call_id":"1","content":"r"},{"role":"tool","tool_call_id":"2","content":"r"}]`)
		})
		var got []map[string]any
		if err := json.Unmarshal(completionMessages(req, "openai"), &got); err != nil {
			t.Fatal(err)
		}
		second := map[string]any{"id": "2", "y": 2.0}
		want := map[string]any{"role": "assistant", "content": nil, "x": 1.0, "tool_calls": []any{map[string]any{"id": "1"}, second}}
		if tt.backs {
			second["extra_content"] = map[string]any{"google": map[string]any{"thought_signature": "t"}}
			want["reasoning_content"] = "hm"
			want["reasoning_details"] = []any{map[string]any{"type": "reasoning.text", "signature": "s"}}
		}
		if !reflect.DeepEqual(got[1], want) {
			t.Errorf("%s %s: got %v, want %v", tt.provider, tt.model, got[1], want)
		}
	}
}

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

// responsesBodyOf is a body that the judge of the fake provider takes.
func responsesBodyOf(t *testing.T, req *Request) string {
	t.Helper()
	body, err := responsesBody(req)
	if err != nil {
		t.Fatal(err)
	}
	if err := (&fakellm.Request{Path: "/v1/responses", Body: body}).Legal(); err != nil {
		t.Errorf("%v in %s", err, body)
	}
	return string(body)
}

// TestResponsesBody checks whole bodies, which the judge takes.
func TestResponsesBody(t *testing.T) {
	tool := []Tool{{"f", "does <f>", json.RawMessage(`{"type": "object"}`)}}
	for _, tt := range []struct {
		name   string
		change func(*Request)
		want   string
	}{
		{"plain", nil, `{"model":"m","input":[{"role":"user","content":"hi"}],"max_output_tokens":100,"include":["reasoning.encrypted_content"],"store":false,"stream":true,"temperature":0.5,"top_p":1}`},
		{
			"a model that reasons", func(r *Request) {
				r.Model, r.Effort, r.MaxTokens, r.Stream, r.Tools = "gpt-6-luna", "max", 0, false, tool
				r.Traits = TraitsOf(true, openAIBase, r.Model)
				r.Raw = json.RawMessage(`[{"role":"system","content":"be"},{"role":"developer","content":"brief"},{"role":"user","content":"hi"}]`)
			},
			`{"model":"gpt-6-luna","instructions":"be\n\nbrief","input":[{"role":"user","content":"hi"}],` +
				`"tools":[{"type":"function","name":"f","description":"does <f>","parameters":{"type": "object"},"strict":false}],` +
				`"reasoning":{"effort":"max","summary":"auto"},"include":["reasoning.encrypted_content"],"store":false,"stream":false}`,
		},
		{"off", func(r *Request) { r.Effort = "none" }, `{"model":"m","input":[{"role":"user","content":"hi"}],"max_output_tokens":100,"reasoning":{"effort":"none"},"include":["reasoning.encrypted_content"],"store":false,"stream":true,"temperature":0.5,"top_p":1}`},
		{"without summaries", func(r *Request) { r.Effort, r.NoSummary = "high", true }, `{"model":"m","input":[{"role":"user","content":"hi"}],"max_output_tokens":100,"reasoning":{"effort":"high"},"include":["reasoning.encrypted_content"],"store":false,"stream":true,"temperature":0.5,"top_p":1}`},
		{"a model that does not reason", func(r *Request) { r.Model = "gpt-4.1" }, `{"model":"gpt-4.1","input":[{"role":"user","content":"hi"}],"max_output_tokens":100,"store":false,"stream":true,"temperature":0.5,"top_p":1}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := responsesBodyOf(t, ask(t, tt.change)); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

// TestResponsesInput checks how messages become items.
func TestResponsesInput(t *testing.T) {
	const user = `{"role":"user","content":"hi"}`
	called := func(state, id string) string {
		return `{"role":"assistant","content":"I look.","tool_calls":[{"id":"` + id + `","type":"function","function":{"name":"f","arguments":"{\"n\":1}"}}]` + state + `},{"role":"tool","tool_call_id":"` + id + `","content":"r"}`
	}
	items := func(id string) string {
		return `{"role":"assistant","content":"I look."},{"type":"function_call","call_id":"` + id + `","name":"f","arguments":"{\"n\":1}"},{"type":"function_call_output","call_id":"` + id + `","output":"r"}`
	}
	const kept = `{"id":"rs_1","type":"reasoning","summary":[],"encrypted_content":"x"},{"id":"fc","type":"function_call","call_id":"a","name":"f","arguments":"{ }"}`
	state := func(model, list string) string {
		return `,"reasoning_state":{"provider":"responses","model":"` + model + `","content":[` + list + `]}`
	}
	long := strings.Repeat("x", 65)
	for _, tt := range []struct{ name, in, want string }{
		{"a call", user + `,` + called("", "a"), user + `,` + items("a")},
		{"its own items", user + `,` + called(state("m", kept), "a"), user + `,` + kept + `,{"type":"function_call_output","call_id":"a","output":"r"}`},
		{"another model's", user + `,` + called(state("n", kept), "a"), user + `,` + items("a")},
		{"items of another call", user + `,` + called(state("m", kept), "b"), user + `,` + items("b")},
		{"an id twice", user + `,` + called("", "a") + `,` + called("", "a"), user + `,` + items("a") + `,` + items("call_1")},
		{"an id that is too long", user + `,` + called("", long), user + `,` + items("call_0")},
		{
			"a lost result", user + `,` + called("", "a") + `,` + `{"role":"assistant","content":null,"tool_calls":[{"id":"b","type":"function","function":{"name":"g.h","arguments":"oops"}}]}`,
			user + `,` + items("a") + `,{"type":"function_call","call_id":"b","name":"g_h","arguments":"{\"_malformed\":\"oops\"}"},{"type":"function_call_output","call_id":"b","output":` + string(wire.AppendString(nil, lost)) + `}`,
		},
		{"the assistant first and last", `{"role":"assistant","content":"a"}`, `{"role":"user","content":"Continue."},{"role":"assistant","content":"a"},{"role":"user","content":"Continue."}`},
		{"nothing", ``, `{"role":"user","content":"Continue."}`},
		{"nothing said", `{"role":"user","content":""},{"role":"assistant","content":"a"},` + user, `{"role":"user","content":"Continue."},{"role":"assistant","content":"a"},` + user},
	} {
		t.Run(tt.name, func(t *testing.T) {
			body := responsesBodyOf(t, ask(t, func(r *Request) { r.Raw = json.RawMessage(`[` + tt.in + `]`) }))
			if got := string(memberOf([]byte(body), "input")); got != `[`+tt.want+`]` {
				t.Errorf("got  %s\nwant [%s]", got, tt.want)
			}
		})
	}
}

// TestResponsesGrows checks that a conversation with more at its end has the same
// items before.
func TestResponsesGrows(t *testing.T) {
	var raw []string
	before := ""
	for i := range 4 {
		id := fmt.Sprint("c", i%2)
		raw = append(raw, `{"role":"user","content":"hi"}`, `{"role":"assistant","content":"","tool_calls":[{"id":"`+id+`","type":"function","function":{"name":"f","arguments":"{}"}}]}`, `{"role":"tool","tool_call_id":"`+id+`","content":"r"}`)
		list, err := ReadMessages(proto.Raw("[" + strings.Join(raw, ",") + "]"))
		if err != nil {
			t.Fatal(err)
		}
		_, list = split(legal(list))
		now := string(responsesInput(list, "m"))
		if !strings.HasPrefix(now, before) {
			t.Errorf("step %d: got\n%s\nwhich does not begin with\n%s", i, now, before)
		}
		before = strings.TrimSuffix(now, "]")
	}
}

// FuzzResponsesBody checks that every conversation becomes a body that the
// provider takes.
func FuzzResponsesBody(f *testing.F) {
	files, err := filepath.Glob("testdata/anthropic/*.in.json")
	if err != nil || len(files) == 0 {
		f.Fatalf("no conversations: %v", err)
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add([]byte(memberOf(raw, "messages")))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		list, err := ReadMessages(raw)
		if err != nil {
			return
		}
		for i := range list {
			list[i].State = nil // what it holds is the provider's own
		}
		responsesBodyOf(t, &Request{Model: "m", Messages: list})
	})
}

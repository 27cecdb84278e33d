package fakellm

import (
	"io"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"zino/pkg/zinotest"
)

// rich is a turn with reasoning, text, calls and usage.
var rich = Turn{
	Text: "Grüße, <b> 🌍", Reasoning: "Über das Wetter", Size: 2,
	Calls: []Call{{Name: "read", Args: `{"path":"ä b"}`}, {ID: "own", Name: "date", Args: `{}`, Whole: true}},
	Usage: &Usage{In: 100, Out: 50, CacheRead: 40, CacheWrite: 20, Reasoning: 10},
	Cost:  "0.25",
}

// richAs returns the answer that a client of a wire reads for rich.
func richAs(name string) heard {
	want := heard{
		text: rich.Text, reasoning: rich.Reasoning, reason: "tool_calls", usage: *rich.Usage, end: true,
		calls: []Call{{ID: "call_1", Name: "read", Args: `{"path":"ä b"}`}, {ID: "own", Name: "date", Args: `{}`}},
	}
	switch name {
	case "Anthropic":
		want.reason, want.signature, want.usage.Reasoning = "tool_use", "sig-1", 0
	case "Responses":
		want.reason, want.signature = "completed", "sig-1"
	case "Gemini":
		want.reason, want.signature, want.usage.CacheWrite = "STOP", "sig-1", 0
	case "Ollama":
		want.reason, want.usage = "stop", Usage{In: 100, Out: 50}
	}
	return want
}

// each runs a test for every wire, streamed and whole.
func each(t *testing.T, run func(t *testing.T, c client, stream bool)) {
	for _, c := range clients {
		t.Run(c.name, func(t *testing.T) { run(t, c, true) })
		t.Run(c.name+" whole", func(t *testing.T) { run(t, c, false) })
	}
}

// compare compares answers; whole answers have no end mark.
func compare(t *testing.T, got, want heard, stream bool) {
	t.Helper()
	if !stream {
		got.end, want.end = false, false
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%+v\nwant\n%+v", got, want)
	}
}

// TestOneScript checks that one turn gives the same answer on every wire, whatever
// the size of its deltas.
func TestOneScript(t *testing.T) {
	each(t, func(t *testing.T, c client, stream bool) {
		for _, change := range []func(*Turn){
			func(*Turn) {},
			func(t *Turn) { t.Size = 0 },
			func(t *Turn) { t.Bytes = 7 },
			func(t *Turn) { t.Size, t.Bytes = 1, 1 },
			func(t *Turn) { t.Whole = true },
		} {
			turn := rich
			change(&turn)
			s := start(t, turn)
			got := c.ask(t, s, stream, "hi")
			got.end = got.end || turn.Whole
			compare(t, got, richAs(c.name), stream)
		}
	})
}

// TestBytes checks the streams in testdata/streams.txtar. OpenAI's differs from
// OpenRouter's only in the usage, which TestUsage checks.
func TestBytes(t *testing.T) {
	archive, err := txtar.ParseFile("testdata/streams.txtar")
	zinotest.Must(t, err)
	for _, file := range archive.Files {
		c := clients[slices.IndexFunc(clients, func(c client) bool { return c.name == file.Name })]
		s := start(t, Turn{
			Text: "ok", Reasoning: "hm", Size: 5, Calls: []Call{{Name: "f", Args: `{"a":1}`}},
			Usage: &Usage{In: 9, Out: 2, CacheRead: 3}, Cost: "0.5",
		})
		got, err := read(c.post(t, s, true, "hi"))
		zinotest.Must(t, err)
		zinotest.Equal(t, file.Name, got, string(file.Data))
	}
}

func TestCalls(t *testing.T) {
	turn := Turn{Text: "", Size: 1, Calls: []Call{
		{Name: "a", Args: `{"x":1}`, NoID: true, NoIndex: true, Whole: true}, {Name: "b", Args: ""}, {Name: "c", Args: `[1]`},
	}}
	each(t, func(t *testing.T, c client, stream bool) {
		got := c.ask(t, start(t, turn), stream, "hi")
		want := []Call{{Name: "a", Args: `{"x":1}`}, {ID: "call_2", Name: "b"}, {ID: "call_3", Name: "c", Args: "[1]"}}
		if strings.HasPrefix(c.name, "Gemini") || c.name == "Ollama" || c.name == "Anthropic" && !stream {
			want[1].Args = "{}" // arguments are JSON here
		}
		if !reflect.DeepEqual(got.calls, want) || got.text != "" || got.failure != "" {
			t.Errorf("got %+v", got)
		}
	})
}

// TestNumbers checks that ids and signatures are not used twice.
func TestNumbers(t *testing.T) {
	turn := Turn{Reasoning: "x", Calls: []Call{{Name: "f", Args: "{}"}, {Name: "g", Args: "{}"}}, Times: Forever}
	s := start(t, turn)
	first, second := clients[2].ask(t, s, true, "a"), clients[2].ask(t, s, true, "b")
	if first.signature != "sig-1" || second.signature != "sig-2" || first.calls[1].ID != "call_2" || second.calls[0].ID != "call_3" {
		t.Errorf("got %+v, %+v", first, second)
	}
}

func TestFinish(t *testing.T) {
	call := []Call{{Name: "f", Args: "{}"}}
	for _, tt := range []struct {
		turn                              Turn
		openai, anthropic, gemini, ollama string
	}{
		{Turn{Text: "x"}, "stop", "end_turn", "STOP", "stop"},
		{Turn{Calls: call}, "tool_calls", "tool_use", "STOP", "stop"},
		{Turn{Calls: call, Finish: "stop"}, "stop", "end_turn", "STOP", "stop"},
		{Turn{Text: "x", Finish: "tool_calls"}, "tool_calls", "tool_use", "STOP", "stop"},
		{Turn{Calls: call, Finish: "length"}, "length", "max_tokens", "MAX_TOKENS", "length"},
		{Turn{Text: "x", Finish: "content_filter"}, "content_filter", "refusal", "SAFETY", "stop"},
		{Turn{Text: "x", Finish: "pause_turn"}, "pause_turn", "pause_turn", "pause_turn", "pause_turn"},
	} {
		responses, ok := map[string]string{"length": "max_output_tokens", "stop": "completed", "tool_calls": "completed"}[tt.openai]
		if !ok {
			responses = tt.openai
		}
		want := map[string]string{"Responses": responses, "OpenAI": tt.openai, "OpenRouter": tt.openai, "Anthropic": tt.anthropic, "Gemini": tt.gemini, "Ollama": tt.ollama}
		each(t, func(t *testing.T, c client, stream bool) {
			if got := c.ask(t, start(t, tt.turn), stream, "hi"); got.reason != want[c.name] {
				t.Errorf("%+v: got %q, want %q", tt.turn, got.reason, want[c.name])
			}
		})
	}
}

func TestUsage(t *testing.T) {
	each(t, func(t *testing.T, c client, stream bool) {
		counted := Turn{Text: "four", Calls: []Call{{Name: "f", Args: `{}`}}}
		got := c.ask(t, start(t, counted), stream, "hi").usage
		if got.Out != 6 || got.In < 50 || got.CacheRead != 0 {
			t.Errorf("counted: got %+v", got)
		}
		counted.NoUsage = true
		if got := c.ask(t, start(t, counted), stream, "hi").usage; got != (Usage{}) {
			t.Errorf("none: got %+v", got)
		}
	})
	s := start(t, Turn{Text: "x", Usage: &Usage{In: 1, Out: 1}})
	quiet := clients[0]
	quiet.body = strings.ReplaceAll(quiet.body, `"include_usage":true`, `"include_usage":false`)
	if got := quiet.ask(t, s, true, "hi"); got.usage.In != 0 || !got.end {
		t.Errorf("not asked for: got %+v", got)
	}
}

// TestReasoningKeys checks the forms of reasoning on the OpenAI wire.
func TestReasoningKeys(t *testing.T) {
	for _, tt := range []struct {
		key, contains, reasoning, signature string
	}{
		{"", `"reasoning_content":"`, "hm hm", ""},
		{"reasoning_content", `"reasoning_content":"`, "hm hm", ""},
		{"reasoning", `"reasoning":"`, "hm hm", ""},
		{"reasoning_details", `"type":"reasoning.text"`, "hm hm", "sig-1"},
		{"extra_content", `"extra_content":{"google":{"thought_signature":"sig-1"}}`, "", "sig-1"},
	} {
		for _, stream := range []bool{true, false} {
			turn := Turn{Reasoning: "hm hm", ReasoningKey: tt.key, Size: 2, Calls: []Call{{Name: "f", Args: "{}"}}, Times: 2}
			s := start(t, turn)
			raw, err := read(clients[0].post(t, s, stream, "hi"))
			if err != nil || !strings.Contains(raw, tt.contains) {
				t.Errorf("%s: got %v\n%s", tt.key, err, raw)
			}
			got := clients[0].ask(t, start(t, turn), stream, "hi")
			if got.reasoning != tt.reasoning || got.signature != tt.signature {
				t.Errorf("%s: got %+v", tt.key, got)
			}
		}
	}
}

func TestLists(t *testing.T) {
	s := start(t)
	s.SetModels("one", "two")
	for _, tt := range []struct{ method, path, want string }{
		{"GET", "/v1/models", `{"data":[{"id":"one","object":"model","owned_by":"fakellm"},{"id":"two","object":"model","owned_by":"fakellm"}],"object":"list"}`},
		{"GET", "/api/v1/models", `"id":"two"`},
		{"GET", "/v1beta/models", `{"displayName":"one","inputTokenLimit":32768,"name":"models/one"`},
		{"GET", "/api/tags", `"model":"two"`},
		{"GET", "/api/version", `{"version":"0.17.4"}`},
		{"POST", "/api/show", `{"capabilities":["completion","tools"],"model_info":{"fake.context_length":32768`},
	} {
		if got := call(t, s, tt.method, tt.path); !strings.Contains(got, tt.want) {
			t.Errorf("%s: got %s", tt.path, got)
		}
	}
	s.SetCapabilities()
	if got := call(t, s, "POST", "/api/show"); !strings.Contains(got, `"capabilities":[]`) {
		t.Errorf("got %s", got)
	}
	asked := s.Requests()
	if last := asked[len(asked)-1]; len(asked) != 7 || string(last.Body) != `{"model":"one"}` {
		t.Errorf("%d requests, the last %s", len(asked), last.Body)
	}
}

// call asks for a list.
func call(t *testing.T, s *Server, method, path string) string {
	t.Helper()
	var body io.Reader
	if method == http.MethodPost {
		body = strings.NewReader(`{"model":"one"}`)
	}
	req, err := http.NewRequestWithContext(t.Context(), method, s.Host+path, body)
	zinotest.Must(t, err)
	resp, err := http.DefaultClient.Do(req)
	zinotest.Must(t, err)
	defer resp.Body.Close()
	got, err := read(resp)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %v", path, resp.Status, err)
	}
	return got
}

// TestRefuses checks that the server's own errors have the wire's form.
func TestRefuses(t *testing.T) {
	s := start(t)
	each(t, func(t *testing.T, c client, stream bool) {
		resp := c.post(t, s, stream, "hi")
		raw, err := read(resp)
		if err != nil || resp.StatusCode != http.StatusInternalServerError {
			t.Errorf("got %s, %v", resp.Status, err)
		}
		var h heard
		if h.take(c, "", []byte(raw)); h.failure != "fakellm: the script has no turn for this request" {
			t.Errorf("got %s", raw)
		}
		c.body = "no json"
		if resp := c.post(t, s, stream, "hi"); resp.StatusCode != http.StatusBadRequest {
			t.Errorf("no JSON: got %s", resp.Status)
		}
	})
	for path, want := range map[string]string{
		"m:streamGenerateContent": "?alt=sse", "m:countTokens": "countTokens", "m": "no such method",
	} {
		resp, err := http.Post(s.Host+"/v1beta/models/"+path, "", strings.NewReader("{}"))
		zinotest.Must(t, err)
		defer resp.Body.Close()
		if got, err := read(resp); err != nil || resp.StatusCode != http.StatusBadRequest || !strings.Contains(got, want) || !strings.Contains(got, "INVALID_ARGUMENT") {
			t.Errorf("%s: got %s %s, %v", path, resp.Status, got, err)
		}
	}
}

// TestLastText checks that match sees tool results.
func TestLastText(t *testing.T) {
	bodies := map[string][]string{
		"OpenAI": {`{"messages":[{"role":"tool","content":"the needle"}]}`, `{"messages":[{"role":"user","content":[{"type":"text","text":"the needle"}]}]}`},
		"Anthropic": {
			`{"messages":[{"content":"the needle"}]}`,
			`{"messages":[{"content":[{"type":"tool_result","content":"x"},{"type":"tool_result","content":"the needle"}]}]}`,
			`{"messages":[{"content":[{"type":"tool_result","content":[{"type":"text","text":"the needle"}]},{"type":"text","text":"go on"}]}]}`,
		},
		"Gemini": {
			`{"contents":[{"parts":[{"text":"x"},{"text":"the needle"}]}]}`,
			`{"contents":[{"parts":[{"functionResponse":{"response":{"a":[1,{"result":"the needle"}]}}},{"functionResponse":{}}]}]}`,
		},
		"Responses": {`{"input":"the needle"}`, `{"input":[{"role":"user","content":"x"},{"type":"function_call_output","call_id":"1","output":"the needle"}]}`},
		"Ollama":    {`{"messages":[{"role":"user","content":"hay"},{"role":"tool","content":"the needle"}]}`},
	}
	for _, c := range clients {
		for _, body := range append(bodies[c.name], `{}`) {
			c.body = body
			s := start(t, Turn{Match: "the needle", Text: "found"}, Reply("lost"))
			want := "found"
			if c.body == `{}` {
				want = "lost"
			}
			if got := c.ask(t, s, false, ""); got.text != want {
				t.Errorf("%s: %s: got %+v", c.name, c.body, got)
			}
		}
	}
}

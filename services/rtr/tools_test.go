package rtr

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"zino/pkg/config"
	"zino/pkg/fakellm"
	"zino/proto"
)

// oneTool is a list of one tool.
var oneTool = proto.Raw(`[{"type":"function","function":{"name":"f","description":"does it","parameters":{"type":"object","properties":{"n":{"type":"integer"}}}}}]`)

// toolRouter serves a router that asks a scripted provider of OpenAI's wire
// which is known to have tools.
func toolRouter(t *testing.T, change func(*config.Config), script ...fakellm.Turn) (*router, *fakellm.Server) {
	t.Helper()
	alone(t)
	llm := fakellm.New(script...)
	t.Cleanup(llm.Close)
	t.Setenv("OPENAI_BASE_URL", llm.URL)
	t.Setenv("OPENROUTER_BASE_URL", llm.Host+"/api/v1")
	return start(t, func(c *config.Config) {
		if c.Provider = "openai"; change != nil {
			change(c)
		}
	}), llm
}

func askTools(stream bool) proto.Infer {
	in := ask("hi", stream)
	in.Tools = oneTool
	return in
}

// callWords writes calls as "id name arguments"; an id that a provider did not
// give is "?".
func callWords(t *testing.T, raw proto.Raw) (out []string) {
	t.Helper()
	var list []struct {
		ID, Type string
		Function struct{ Name, Arguments string }
	}
	if len(raw) == 0 {
		return nil
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	seen := map[string]bool{}
	for _, c := range list {
		if c.ID == "" || c.Type != "function" || seen[c.ID] {
			t.Errorf("no function, or its id is not its own: %s", raw)
		}
		seen[c.ID] = true
		if strings.HasPrefix(c.ID, "call_") && len(c.ID) > 10 {
			c.ID = "?"
		}
		out = append(out, c.ID+" "+c.Function.Name+" "+c.Function.Arguments)
	}
	return out
}

// TestCalls holds that calls come out alike, whatever form a server gives them.
func TestCalls(t *testing.T) {
	for _, tt := range []struct {
		name string
		turn fakellm.Turn
		want []string
		stop string
	}{
		{"none", fakellm.Turn{Text: "x"}, nil, "stop"},
		{"one, in fragments", fakellm.Turn{Size: 2, Calls: []fakellm.Call{{Name: "f", Args: `{"n":1}`}}}, []string{`call_1 f {"n":1}`}, "tool_calls"},
		{"one with text", fakellm.Turn{Text: "x", Calls: []fakellm.Call{{Name: "f", Args: `{"n":1}`, Whole: true}}}, []string{`call_1 f {"n":1}`}, "tool_calls"},
		{"several", fakellm.Turn{Size: 3, Calls: []fakellm.Call{{Name: "f", Args: `{"n":1}`}, {Name: "f", Args: `{"n":2}`}, {Name: "g", Args: `{}`}}}, []string{`call_1 f {"n":1}`, `call_2 f {"n":2}`, `call_3 g {}`}, "tool_calls"},
		{"several whole ones without an index", fakellm.Turn{Calls: []fakellm.Call{{Name: "f", Args: `{"n":1}`, Whole: true, NoIndex: true}, {Name: "f", Args: `{"n":2}`, Whole: true, NoIndex: true}}}, []string{`call_1 f {"n":1}`, `call_2 f {"n":2}`}, "tool_calls"},
		{"fragments without an index", fakellm.Turn{Size: 2, Calls: []fakellm.Call{{Name: "f", Args: `{"n":1}`, NoIndex: true}, {Name: "f", Args: `{"n":2}`, NoIndex: true}}}, []string{`call_1 f {"n":1}`, `call_2 f {"n":2}`}, "tool_calls"},
		{"no ids", fakellm.Turn{Size: 2, Calls: []fakellm.Call{{Name: "f", Args: `{"n":1}`, NoID: true}, {Name: "g", Args: `{}`, NoID: true}}}, []string{`? f {"n":1}`, `? g {}`}, "tool_calls"},
		{"neither", fakellm.Turn{Calls: []fakellm.Call{{Name: "f", Args: `{}`, Whole: true, NoID: true, NoIndex: true}, {Name: "g", Args: `{}`, Whole: true, NoID: true, NoIndex: true}}}, []string{`? f {}`, `? g {}`}, "tool_calls"},
		{"finished with stop", fakellm.Turn{Calls: []fakellm.Call{{Name: "f", Args: `{"n":1}`}}, Finish: "stop"}, []string{`call_1 f {"n":1}`}, "tool_calls"},
		{"no arguments", fakellm.Turn{Calls: []fakellm.Call{{Name: "f"}}}, []string{`call_1 f {}`}, "tool_calls"},
		{"cut by the limit", fakellm.Turn{Text: "x", Finish: "length", Calls: []fakellm.Call{{Name: "f", Args: `{"n":1}`}, {Name: "g", Args: `{"n":`}}}, []string{`call_1 f {"n":1}`}, "length"},
		{"all cut by the limit", fakellm.Turn{Text: "x", Reasoning: "hm", Finish: "length", Calls: []fakellm.Call{{Name: "f", Args: `{"n":`}}}, nil, "length"},
	} {
		for _, stream := range []bool{true, false} {
			t.Run(tt.name, func(t *testing.T) {
				r, _ := toolRouter(t, nil, tt.turn)
				text, err := r.answer(t.Context(), askTools(stream), &chunks{})
				if got := callWords(t, text.ToolCalls); err != nil || !slices.Equal(got, tt.want) || text.StopReason != tt.stop || text.Content != tt.turn.Text {
					t.Errorf("stream %v: got %q, %+v, %v", stream, got, text, err)
				}
				if len(text.State) > 0 && tt.want == nil {
					t.Errorf("a state without calls: %s", text.State)
				}
			})
		}
	}
}

// TestToolsDropped holds which models get tools in their own form: those of
// providers that are known by name, and those that the configuration says.
func TestToolsDropped(t *testing.T) {
	const came = `[{"role":"user","content":"hi"},{"role":"assistant","content":"so","tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{\"n\":1}"}}]},{"role":"tool","tool_call_id":"1","content":"42"}]`
	const told = `{"role":"user","content":"hi"},{"role":"assistant","content":"so<tool_call>\n{\"name\":\"f\",\"arguments\":{\"n\":1}}\n</tool_call>\n<tool_response>\n42\n</tool_response>\n"}]`
	tools := func(rules ...config.Model) func(*config.Config) {
		return func(c *config.Config) { c.Rtr.Model = rules }
	}
	for _, tt := range []struct {
		name   string
		base   bool // [api] base_url is set
		set    func(*config.Config)
		native bool
	}{
		{"by name", false, tools(), true},
		{"by address", true, tools(), false},
		{"by address, configured", true, tools(config.Model{Name: "m", Tools: "native"}), true},
		{"by name, configured", false, tools(config.Model{Name: "*", Provider: "openai", Tools: "text"}), false},
		{"of another provider", false, tools(config.Model{Name: "*", Provider: "gemini", Tools: "text"}), true},
		{"the first that says it", true, tools(config.Model{Name: "*", Context: 9}, config.Model{Name: "m*", Tools: "native"}, config.Model{Name: "m", Tools: "text"}), true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, llm := toolRouter(t, func(c *config.Config) {
				if tt.set(c); tt.base {
					c.API.BaseURL = os.Getenv("OPENAI_BASE_URL")
				}
			}, fakellm.Reply("x"))
			if caps := r.caps(t); caps.NativeTools != tt.native {
				t.Errorf("got %+v", caps)
			}
			in := askTools(true)
			in.Messages = proto.Raw(came)
			if _, err := r.infer(t.Context(), in, &chunks{}); err != nil {
				t.Fatal(err)
			}
			var body struct{ Messages, Tools json.RawMessage }
			if err := json.Unmarshal(llm.Requests()[0].Body, &body); err != nil {
				t.Fatal(err)
			}
			wantMessages, wantTools := came, string(oneTool)
			if !tt.native {
				wantMessages, wantTools = told, ""
			}
			messages := string(body.Messages)
			if !tt.native {
				messages = withoutLesson(t, messages)
			}
			if messages != wantMessages || string(body.Tools) != wantTools {
				t.Errorf("asked with %s and %s", body.Messages, body.Tools)
			}
		})
	}
}

// withoutLesson takes the description of oneTool off the front of messages.
func withoutLesson(t *testing.T, messages string) string {
	t.Helper()
	lesson, rest, ok := strings.Cut(messages, `"},`)
	if !ok || !strings.HasPrefix(lesson, `[{"role":"system","content":"`) || !strings.HasSuffix(lesson, `\n- f: does it {\"type\":\"object\",\"properties\":{\"n\":{\"type\":\"integer\"}}}`) {
		t.Errorf("no description of the tool in %s", messages)
	}
	return rest
}

// TestTextTools holds that a model without native tools is taught the form of a
// call behind its system prompt, on every wire, and that a request without
// tools is what it was.
func TestTextTools(t *testing.T) {
	for _, wire := range wireNames {
		for _, tools := range []proto.Raw{oneTool, nil} {
			llm := fakellm.New(fakellm.Reply("x"))
			r := onWire(t, wire, llm.Host, func(c *config.Config) { c.Rtr.Model = append(c.Rtr.Model, config.Model{Name: "*", Tools: "text"}) })
			in := ask("hi", true)
			in.System, in.Tools = "Be brief.", tools
			if text, err := r.infer(t.Context(), in, &chunks{}); err != nil || text != "x" {
				t.Errorf("%s: got %q, %v", wire, text, err)
			}
			requests := llm.Requests()
			last := requests[len(requests)-1]
			taught := strings.Contains(string(last.Body), `Be brief.\n\n# Tools\n`) && strings.Contains(string(last.Body), `\n- f: does it {`)
			if err := last.Legal(); err != nil || taught != (tools != nil) || strings.Contains(string(last.Body), `"tools"`) {
				t.Errorf("%s: asked with %s, %v", wire, last.Body, err)
			}
			llm.Close()
		}
	}
}

// TestStateGoesBack holds that what a model wants to have back with its calls
// comes back in its place, in the same turn and to the same model only.
func TestStateGoesBack(t *testing.T) {
	const details = `"reasoning_details":[{"format":"fakellm-v1","index":0,`
	for _, tt := range []struct{ provider, key, want string }{
		{"openai", "reasoning_content", `"reasoning_content":"It needs f."`},
		{"openrouter", "reasoning_details", details + `"text":"It needs f.","type":"reasoning.text","signature":"sig-1"}]`},
		{"openai", "extra_content", `"extra_content":{"google":{"thought_signature":"sig-1"}}`},
	} {
		for _, stream := range []bool{true, false} {
			for _, model := range []string{"m", "another"} {
				r, llm := toolRouter(t, func(c *config.Config) { c.Provider = tt.provider },
					fakellm.Turn{Text: "so", Size: 4, Reasoning: "It needs f.", ReasoningKey: tt.key, Calls: []fakellm.Call{{Name: "f", Args: `{"n":1}`}, {Name: "f", Args: `{}`}}}, fakellm.Reply("done"))
				text, err := r.answer(t.Context(), askTools(stream), &chunks{})
				if err != nil || len(text.State) == 0 {
					t.Fatalf("%s: got %+v, %v", tt.key, text, err)
				}
				in := askTools(stream)
				in.Model = model
				in.Messages = proto.Raw(`[{"role":"user","content":"hi"},{"role":"assistant","content":"so","tool_calls":` + string(text.ToolCalls) + `,"reasoning_state":` + string(text.State) +
					`},{"role":"tool","tool_call_id":"call_1","content":"1"},{"role":"tool","tool_call_id":"call_2","content":"2"}]`)
				if text, err = r.answer(t.Context(), in, &chunks{}); err != nil || text.Content != "done" {
					t.Fatalf("%s: got %+v, %v", tt.key, text, err)
				}
				body := string(llm.Requests()[1].Body)
				want := 0
				if model == "m" {
					want = 1
				}
				if strings.Count(compactJSON(t, body), sorted(t, tt.want)) != want || strings.Contains(body, "reasoning_state") {
					t.Errorf("%s, stream %v, asked with %s; want %d times %s", tt.key, stream, body, want, tt.want)
				}
			}
		}
	}
}

// TestManyCalls: all calls of a reply come through, with the state that belongs to
// them, and go back so that the provider takes them.
func TestManyCalls(t *testing.T) {
	const n = 140
	calls := make([]fakellm.Call, n)
	for i := range calls {
		calls[i] = fakellm.Call{Name: "f", Args: fmt.Sprintf(`{"n":%d}`, i)}
	}
	for _, wire := range []string{"anthropic", "openai", "gemini", "ollama"} {
		t.Run(wire, func(t *testing.T) {
			alone(t)
			llm := fakellm.New(fakellm.Turn{Text: "so", Reasoning: "It needs f.", Calls: calls}, fakellm.Reply("done"))
			defer llm.Close()
			for name, url := range map[string]string{"ANTHROPIC_BASE_URL": llm.Host, "OPENAI_BASE_URL": llm.URL, "GEMINI_BASE_URL": llm.Host, "OLLAMA_HOST": llm.Host} {
				t.Setenv(name, url)
			}
			r := start(t, func(c *config.Config) { c.Provider = wire })
			text, err := r.answer(t.Context(), askTools(true), &chunks{})
			if got := callWords(t, text.ToolCalls); err != nil || len(got) != n || len(text.State) == 0 {
				t.Fatalf("%d calls, state %s, %v", len(got), text.State, err)
			}
			in := askTools(true)
			var messages strings.Builder
			messages.WriteString(`[{"role":"user","content":"hi"},{"role":"assistant","content":"so","tool_calls":` + string(text.ToolCalls) + `,"reasoning_state":` + string(text.State) + `}`)
			for i := range n {
				messages.WriteString(fmt.Sprintf(`,{"role":"tool","tool_call_id":"call_%d","content":"%d"}`, i+1, i))
			}
			in.Messages = proto.Raw(messages.String() + "]")
			if text, err = r.answer(t.Context(), in, &chunks{}); err != nil || text.Content != "done" {
				t.Fatalf("got %+v, %v", text, err)
			}
			all := llm.Requests()
			if err := all[len(all)-1].Legal(); err != nil {
				t.Error(err)
			}
		})
	}
}

// compactJSON writes JSON with sorted keys and no blanks; sorted does so for a
// member.
func compactJSON(t *testing.T, raw string) string {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(raw), &v); err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func sorted(t *testing.T, member string) string {
	t.Helper()
	return strings.Trim(compactJSON(t, "{"+member+"}"), "{}") // ends in the braces of the member too
}

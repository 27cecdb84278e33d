package wire

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestAnthropicState holds that the blocks of an answer with calls go back as
// they came, wherever the conversation is the same.
func TestAnthropicState(t *testing.T) {
	ep, _ := endpointFor(t, strings.NewReader(anthropicEvents(anTools...)))
	var g gathered
	if err := Anthropic(t.Context(), ep, ask(t, nil), &g); err != nil {
		t.Fatal(err)
	}
	answer := g.Finished()
	blocks := `[{"type":"thinking","thinking":"Let me \"look\" ‽","signature":"EqQB/+=="},` +
		`{"type":"tool_use","id":"toolu_1","name":"bash","input":{"code":"ls"}},{"type":"tool_use","id":"toolu_2","name":"read","input":{"path":"a"}}]`
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

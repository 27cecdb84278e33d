package wire

import (
	"encoding/json"
	"testing"

	"zino/proto"
)

// TestAnthropicMarks holds, for a conversation as a session has it, that tools,
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

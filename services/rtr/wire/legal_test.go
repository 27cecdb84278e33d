package wire

import (
	"fmt"
	"strings"
	"testing"

	"zino/proto"
)

// sketch writes a conversation in few letters: s, u, a for a message with
// text, "-" for an assistant's without, c1,2 for calls, t1 for a result, l1 for
// a result that was lost.
func sketch(list []Message) string {
	var words []string
	for _, m := range list {
		switch {
		case m.Role == "tool" && m.Said() == lost:
			words = append(words, "l"+m.CallID)
		case m.Role == "tool":
			words = append(words, "t"+m.CallID)
		case len(m.Calls) > 0:
			var ids []string
			for _, c := range m.Calls {
				ids = append(ids, c.ID)
			}
			words = append(words, "c"+strings.Join(ids, ","))
		case m.Role == "assistant" && m.Said() == "":
			words = append(words, "-")
		case m.Said() == continuation:
			words = append(words, "go")
		default:
			words = append(words, m.Role[:1])
		}
	}
	return strings.Join(words, " ")
}

// drawn is the conversation of a sketch.
func drawn(t *testing.T, words string) []Message {
	t.Helper()
	var parts []string
	for w := range strings.FieldsSeq(words) {
		part := map[byte]string{
			's': `{"role":"system","content":"s"}`, 'u': `{"role":"user","content":"u"}`,
			'a': `{"role":"assistant","content":"a"}`, '-': `{"role":"assistant","content":""}`,
			't': fmt.Sprintf(`{"role":"tool","tool_call_id":%q,"content":"r"}`, w[1:]),
		}[w[0]]
		if w[0] == 'c' {
			var calls []string
			for id := range strings.SplitSeq(w[1:], ",") {
				calls = append(calls, fmt.Sprintf(`{"id":%q,"type":"function","function":{"name":"f","arguments":"{}"}}`, id))
			}
			part = `{"role":"assistant","content":null,"tool_calls":[` + strings.Join(calls, ",") + "]}"
		}
		parts = append(parts, part)
	}
	list, err := ReadMessages(proto.Raw("[" + strings.Join(parts, ",") + "]"))
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func TestLegal(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{"s u a u", "s u a u"},
		{"u c1,2 t1 t2 a", "u c1,2 t1 t2 a"},
		{"u c1,2 t2 t1", "u c1,2 t1 t2"},
		{"u c1,2 t1 u", "u c1,2 t1 l2 u"},
		{"u c1", "u c1 l1"},
		{"u t1 a", "u a"},
		{"u c1 t2 u", "u c1 l1 u"},
		{"u c1 t1 t1 a", "u c1 t1 a"},
		{"u c1,1 t1 t1", "u c1,1 t1 t1"},
		{"u - u", "u u"},
		{"c1 u t1", "c1 l1 u"},
		{"", ""},
	} {
		in := drawn(t, tt.in)
		if got := sketch(legal(in)); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.in, got, tt.want)
		}
		if got := sketch(in); got != tt.in {
			t.Errorf("%s: the list that came was changed to %s", tt.in, got)
		}
		if !isLegal(legal(in)) {
			t.Errorf("%s: what came out is not legal", tt.in)
		}
	}
}

func TestSplit(t *testing.T) {
	for _, tt := range []struct{ in, system, want string }{
		{"s s u a u", "s\n\ns", "u a u"},
		{"a u", "", "go a u"},
		{"u s u", "", "u u u"},
		{"u a", "", "u a go"},
		{"s", "s", "go"},
		{"s a", "s", "go a go"},
		{"u c1 t1", "", "u c1 t1"},
	} {
		system, rest := split(drawn(t, tt.in))
		if system != tt.system || sketch(rest) != tt.want {
			t.Errorf("%s: got %q and %s, want %q and %s", tt.in, system, sketch(rest), tt.system, tt.want)
		}
	}
}

// TestState holds that a state goes back to the wire and model that gave it,
// and to no other.
func TestState(t *testing.T) {
	m := Message{State: newState("anthropic", "claude", []byte(`[{"a":1}]`))}
	if got := string(stateOf(m, "anthropic", "claude")); got != `[{"a":1}]` {
		t.Errorf("got %s", got)
	}
	for _, who := range [][2]string{{"gemini", "claude"}, {"anthropic", "other"}} {
		if got := stateOf(m, who[0], who[1]); got != nil {
			t.Errorf("%s gets %s", who, got)
		}
	}
	if got := stateOf(Message{State: []byte(`[1,"x"]`)}, "anthropic", "claude"); got != nil {
		t.Errorf("a foreign state gives %s", got)
	}
}

package wire

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"zino/proto"
)

// answerOf gives events to an answer and returns it.
func answerOf(list ...Event) *Answer {
	a := &Answer{}
	for _, e := range list {
		a.Event(e)
	}
	return a
}

func piece(kind Kind, text string) Event { return Event{Kind: kind, Delta: []byte(text)} }

func callStart(i int, id, name string) Event {
	return Event{Kind: ToolStart, Index: i, ID: id, Name: name}
}

func callArgs(i int, text string) Event { return Event{Kind: ToolArgs, Index: i, Delta: []byte(text)} }

func TestAnswer(t *testing.T) {
	usage := &proto.Usage{InputTokens: 1, OutputTokens: 2}
	a := answerOf(piece(Text, "a"), piece(Reasoning, "not"), piece(Text, "b"), callStart(0, "1", "f"), callArgs(0, `{"x":`), callStart(1, "2", "g"), callArgs(0, `1}`),
		Event{Kind: Used, Usage: usage}, piece(State, `{"s":1}`), Event{Kind: Finish, Reason: "stop"})
	if a.Text() != "ab" || a.Size() != 12 || a.Usage() != usage {
		t.Errorf("got %q, %d bytes, %v", a.Text(), a.Size(), a.Usage())
	}
	got := a.Finished()
	calls := `[{"id":"1","type":"function","function":{"name":"f","arguments":"{\"x\":1}"}},{"id":"2","type":"function","function":{"name":"g","arguments":"{}"}}]`
	if string(got.ToolCalls) != calls || string(got.State) != `{"s":1}` || got.StopReason != "tool_calls" || got.Content != "ab" || got.Usage != usage {
		t.Errorf("got %+v", got)
	}
}

func TestAnswerEnds(t *testing.T) {
	stop := func(why string) Event { return Event{Kind: Finish, Reason: why} }
	for _, tt := range []struct {
		name        string
		events      []Event
		calls, stop string
	}{
		{"nothing", nil, "", ""},
		{"a state without calls goes", []Event{piece(Text, "x"), piece(State, "{}"), stop("stop")}, "", "stop"},
		{"calls and stop", []Event{callStart(0, "1", "f"), stop("stop")}, "f{}", "tool_calls"},
		{"calls and no reason", []Event{callStart(0, "1", "f"), stop("")}, "f{}", "tool_calls"},
		{"calls and another reason", []Event{callStart(0, "1", "f"), stop("filter")}, "f{}", "filter"},
		{"blank arguments", []Event{callStart(0, "1", "f"), callArgs(0, " \n"), stop("stop")}, "f{}", "tool_calls"},
		{"no JSON at all", []Event{callStart(0, "1", "f"), callArgs(0, "ls -l"), stop("stop")}, "fls -l", "tool_calls"},
		{"more behind the object", []Event{callStart(0, "1", "f"), callArgs(0, `{"a":1}}`), stop("stop")}, `f{"a":1}}`, "tool_calls"},
		{"never closed", []Event{callStart(0, "1", "f"), callArgs(0, `{"a":"`), stop("stop")}, `f{"a":"`, "tool_calls"},
		{"never closed, second", []Event{callStart(0, "1", "f"), callStart(1, "2", "g"), callArgs(1, `{`), stop("tool_calls")}, "f{} g{", "tool_calls"},
		{"cut by the limit", []Event{callStart(0, "1", "f"), callStart(1, "2", "g"), callArgs(1, `{"a":"`), stop("length")}, "f{}", "length"},
		{"only one, cut by the limit", []Event{piece(State, "{}"), callStart(0, "1", "f"), callArgs(0, `{`), stop("length")}, "", "length"},
		{"arguments of no call", []Event{callArgs(3, `{"a"`), stop("stop")}, "", "stop"},
		{"an index out of all bounds", []Event{callStart(1<<40, "1", "f"), callArgs(-1, `{"a"`), stop("stop")}, "", "stop"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := answerOf(tt.events...).Finished()
			if calls := callWords(t, got.ToolCalls); calls != tt.calls || got.StopReason != tt.stop || len(got.State) > 0 && tt.calls == "" {
				t.Errorf("got %s, %q", calls, got.StopReason)
			}
		})
	}
}

// callWords writes the names and arguments of calls.
func callWords(t *testing.T, raw proto.Raw) string {
	t.Helper()
	var list []struct {
		ID, Type string
		Function struct{ Name, Arguments string }
	}
	if len(raw) == 0 {
		return ""
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	var out []string
	for _, c := range list {
		if c.ID == "" || c.Type != "function" {
			t.Errorf("a call without an id or type: %s", raw)
		}
		out = append(out, c.Function.Name+c.Function.Arguments)
	}
	return strings.Join(out, " ")
}

// TestNewIDs holds that calls without ids get ones of their own.
func TestNewIDs(t *testing.T) {
	got := answerOf(callStart(0, "", "f"), callStart(1, "", "f"), callStart(2, "mine", "f")).Finished()
	ids := regexp.MustCompile(`"id":"([^"]*)"`).FindAllStringSubmatch(string(got.ToolCalls), -1)
	if len(ids) != 3 || ids[0][1] == ids[1][1] || ids[2][1] != "mine" || !regexp.MustCompile(`^call_[a-z0-9]{16}$`).MatchString(ids[0][1]) {
		t.Errorf("got %v", ids)
	}
}

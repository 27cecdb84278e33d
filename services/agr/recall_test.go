package agr

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"zino/proto"
)

func hit(id int, score float64, tag, messages string) proto.HardMemory {
	return proto.HardMemory{ID: &id, Score: score, Tag: tag, Messages: proto.Raw(messages)}
}

func TestRecallLines(t *testing.T) {
	anonymous := hit(0, 0.5, "", `[{"content":"a"}]`)
	anonymous.ID = nil
	for _, c := range []struct {
		name  string
		found []proto.HardMemory
		want  string
	}{
		{"nothing", nil, "No memories found."},
		{"one", []proto.HardMemory{hit(0, 0.8349, "", `[{"role":"user","content":"the <key>"}]`)}, "[0] (score 0.83) the <key>"},
		{
			"several, in mem's order",
			[]proto.HardMemory{hit(12, 1, "house", `[{"role":"user","content":"a"}]`), hit(3, 0.1, "", `[{"role":"user","content":"b"},{"role":"assistant","content":"c","x":1}]`)},
			"[12] (score 1.00, tag house) a\n[3] (score 0.10) b c",
		},
		{"each on one line", []proto.HardMemory{hit(1, 0.5, "t\nu", `[{"content":"a\r\n  b\n\nc"}]`)}, "[1] (score 0.50, tag t u) a   b c"},
		{"without an id", []proto.HardMemory{anonymous}, "(score 0.50) a"},
		{"no messages", []proto.HardMemory{hit(1, 0.5, "", `[]`)}, "[1] (score 0.50) "},
		{"messages that are none", []proto.HardMemory{hit(1, 0.5, "", `[{"content":[1]}]`), hit(2, 0.5, "", `{"a":1}`)}, "[1] (score 0.50) [{\"content\":[1]}]\n[2] (score 0.50) {\"a\":1}"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b, result := memories(t)
			b.mem.finds(c.found...)
			if got := result(`{"name":"recall","arguments":{"query":"x"}}`); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// TestRecallQueries: what mem is asked, and the results of calls of which it is
// asked nothing.
func TestRecallQueries(t *testing.T) {
	b, result := memories(t)
	const wrongCount = "Malformed tool_call JSON: top_k must be a whole number from 1 to 20"
	for _, c := range []struct{ name, arguments, want, asked string }{
		{"a query", `{"query":" the <key> "}`, "", `{"query":" the <key> ","top_k":5}`},
		{"all", `{"query":"x","top_k":20,"tag":"t "}`, "", `{"query":"x","top_k":20,"tag":"t"}`},
		{"null for nothing", `{"query":"x","top_k":null,"tag":null}`, "", `{"query":"x","top_k":5}`},
		{"a number in a string", `{"query":"x","top_k":"1"}`, "", `{"query":"x","top_k":1}`},
		{"a whole number with a fraction", `{"query":"x","top_k":3.0}`, "", `{"query":"x","top_k":3}`},
		{"in a string", `"{\"query\":\"x\"}"`, "", `{"query":"x","top_k":5}`},

		{"none wanted", `{"query":"x","top_k":0}`, wrongCount, ""},
		{"too many", `{"query":"x","top_k":21}`, wrongCount, ""},
		{"a huge number", `{"query":"x","top_k":1e300}`, wrongCount, ""},
		{"no whole number", `{"query":"x","top_k":1.5}`, wrongCount, ""},
		{"words for a number", `{"query":"x","top_k":"many"}`, wrongCount, ""},
		{"a list for a number", `{"query":"x","top_k":[1]}`, wrongCount, ""},
		{"an empty number", `{"query":"x","top_k":""}`, wrongCount, ""},
		{"no query", `{"tag":"t"}`, "Error: Empty query.", ""},
		{"a blank query", `{"query":" \t"}`, "Error: Empty query.", ""},
		{"null", `null`, "Error: Empty query.", ""},
		{"a query that is a number", `{"query":1}`, "Malformed tool_call JSON: query must be a string", ""},
		{"all of it wrong", `{"query":1,"tag":[],"top_k":-1}`, "Malformed tool_call JSON: query must be a string; tag must be a string; top_k must be a whole number from 1 to 20", ""},
		{"a list", `[]`, "Malformed tool_call JSON: arguments: expected an object", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := len(b.mem.asked())
			if c.asked != "" {
				c.want = "No memories found."
			}
			if got := result(`{"name":"recall","arguments":` + c.arguments + `}`); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
			var asked strings.Builder
			enc := json.NewEncoder(&asked)
			enc.SetEscapeHTML(false)
			for _, q := range b.mem.asked()[before:] {
				if err := enc.Encode(q); err != nil {
					t.Fatal(err)
				}
			}
			if got := strings.TrimSpace(asked.String()); got != c.asked {
				t.Errorf("asked %s, want %s", got, c.asked)
			}
		})
	}
}

// TestHangUpDuringRecall: a caller who goes away ends the search.
func TestHangUpDuringRecall(t *testing.T) {
	n := newBlocked()
	b := newBench(t, says(`<tool_call>{"name":"recall","arguments":{"query":"x"}}</tool_call>`), says("never"))
	b.remembering()
	b.mem.found = func(ctx context.Context, _ proto.SearchHard) (proto.HardMemories, error) {
		return proto.HardMemories{}, n.wait(ctx)
	}
	b.leave(request(question, ""), n)
	if asked := len(b.rtr.asked()); asked != 1 {
		t.Errorf("%d inferences", asked)
	}
}

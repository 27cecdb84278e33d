package agr

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"zino/proto"
)

// costing is a reply that took tokens, and cost dollars if that is known.
func costing(text proto.Text, in, out int64, cost ...float64) reply {
	text.Usage = &proto.Usage{InputTokens: in, OutputTokens: out, CacheReadTokens: 1, CacheWriteTokens: 2, ReasoningTokens: 3}
	if len(cost) > 0 {
		text.Usage.CostUSD = &cost[0]
	}
	return replies(text)
}

// TestSessionRequests: every inference of a session's turn, those of skills
// included, is asked with what the turn came with. Tools are offered to the
// main loop only, and the same in each request of a turn.
func TestSessionRequests(t *testing.T) {
	modes(t, func(t *testing.T, stream bool, more string) {
		b := newBench(t, asks("", native("a", "task", `{"skill":"disk","request":"x"}`)), says("i"), says("code"), says(delegate("snake", "y")), says("j"), says("1"), says("Done."))
		b.ask(request(question, more+inSession+`,"provider":"gemini","model":"m-1","max_tokens":77,"effort":"low","need_model":true`))
		asked := b.rtr.asked()
		if len(asked) != 7 {
			t.Fatalf("%d inferences", len(asked))
		}
		for i, req := range asked {
			main := i == 0 || i == 3 || i == 6
			want := proto.Infer{
				Temperature: 0.3, TopP: 0.9, NeedModel: true, Provider: "gemini", Model: "m-1", MaxTokens: 77, Effort: "low", SessionID: "s-1",
				Messages: req.Messages, Stream: stream && main,
			}
			if main {
				want.Tools = asked[0].Tools
			}
			if !reflect.DeepEqual(req, want) || main != (len(req.Tools) > 0) {
				t.Errorf("inference %d: %+v", i+1, req)
			}
		}
	})
}

// TestPlainRuns: without a session no tools are offered, calls that nobody asked
// for are not carried out, and the answer says nothing of its making. A model
// that was asked for is asked all the same.
func TestPlainRuns(t *testing.T) {
	t.Parallel()
	modes(t, func(t *testing.T, stream bool, more string) {
		full := proto.Text{Content: "a " + bash("x"), ToolCalls: callList(nativeBash("a", "native")), State: proto.Raw(`{"s":1}`), StopReason: "tool_calls", Provider: "openai", Model: "m"}
		end := full
		end.Content = "Done."
		b := newBench(t, costing(full, 10, 20, 0.5), costing(end, 10, 20, 0.5))
		_, last := b.ask(request(question, more+`,"provider":"openai","model":"m-1","max_tokens":77,"session_id":""`))
		want := `{"type":"result","content":"Done.","iterations":2}`
		if stream {
			want = `{"type":"done","full_text":"Done.","iterations":2}`
		}
		if last.raw != want {
			t.Errorf("got %s, want %s", last.raw, want)
		}
		if got := b.exc.code(); !slices.Equal(got, []string{"bash:x"}) {
			t.Errorf("executed %q", got)
		}
		for i, messages := range []string{question, strings.TrimSuffix(question, "]") + "," + assistant("a "+bash("x")+response("(no output)")) + "]"} {
			want := proto.Infer{Messages: proto.Raw(messages), Temperature: 0.3, TopP: 0.9, Stream: stream, Provider: "openai", Model: "m-1", MaxTokens: 77}
			if got := b.rtr.asked()[i]; !reflect.DeepEqual(got, want) {
				t.Errorf("inference %d: %+v, messages %s", i+1, got, got.Messages)
			}
		}
	})
}

// TestUsage: the answer of a session's turn has the usage of all its inferences,
// and who gave the last one and why it ended.
func TestUsage(t *testing.T) {
	t.Parallel()
	task := proto.Text{ToolCalls: callList(native("a", "task", `{"skill":"disk","request":"x"}`)), StopReason: "tool_calls", Provider: "one", Model: "m-1"}
	skill := proto.Text{Content: "code", StopReason: "length", Provider: "two", Model: "m-2"}
	end := proto.Text{Content: "Done.", StopReason: "stop", Provider: "three", Model: "m-3"}
	for _, c := range []struct {
		name   string
		script []reply
		usage  string
	}{
		{
			"all known",
			[]reply{costing(task, 1000, 100, 0.5), costing(skill, 200, 20, 0.25), costing(skill, 30, 3, 0), costing(end, 4, 0, 0.125)},
			`{"input_tokens":1234,"output_tokens":123,"cache_read_tokens":4,"cache_write_tokens":8,"reasoning_tokens":12,"cost_usd":0.875}`,
		},
		{
			"some known",
			[]reply{costing(task, 1000, 100), replies(skill), costing(skill, 30, 3, 0.25), replies(end)},
			`{"input_tokens":1030,"output_tokens":103,"cache_read_tokens":2,"cache_write_tokens":4,"reasoning_tokens":6,"cost_usd":0.25}`,
		},
		{
			"no costs",
			[]reply{costing(task, 1, 1), costing(skill, 1, 1), costing(skill, 1, 1), costing(end, 1, 1)},
			`{"input_tokens":4,"output_tokens":4,"cache_read_tokens":4,"cache_write_tokens":8,"reasoning_tokens":12}`,
		},
		{"free", []reply{costing(end, 1, 1, 0)}, `{"input_tokens":1,"output_tokens":1,"cache_read_tokens":1,"cache_write_tokens":2,"reasoning_tokens":3,"cost_usd":0}`},
		{"nothing known", []reply{replies(task), replies(skill), replies(skill), replies(end)}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			modes(t, func(t *testing.T, stream bool, more string) {
				b := newBench(t, c.script...)
				_, last := b.ask(request(question, more+inSession))
				usage := ""
				if c.usage != "" {
					usage = `,"usage":` + c.usage
				}
				want := fmt.Sprintf(`{"type":"result","content":"Done.","iterations":%d,"stop_reason":"stop"%s,"provider":"three","model":"m-3"}`, last.iterations(), usage)
				if stream {
					want = strings.Replace(want, `"result","content"`, `"done","full_text"`, 1)
				}
				if last.raw != want {
					t.Errorf("got  %s\nwant %s", last.raw, want)
				}
			})
		})
	}
}

// TestStopReasons: the calls say whether the turn goes on, whatever the reason
// to stop. Of an answer that was cut, a call counts if it came whole.
func TestStopReasons(t *testing.T) {
	t.Parallel()
	whole, cut, begun := nativeBash("a", "x"), native("b", "execute_bash", `{"code":"rm -r`), native("c", "execute_bash", "")
	for _, c := range []struct {
		reason string
		calls  []string
		runs   bool
	}{
		{"tool_calls", nil, false},
		{"stop", nil, false},
		{"length", nil, false},
		{"", nil, false},
		{"stop", []string{whole}, true},
		{"", []string{whole}, true},
		{"SOMETHING", []string{whole}, true},
		{"length", []string{whole}, true},
		{"length", []string{whole, cut}, true},
		{"length", []string{cut}, false},
		{"length", []string{begun}, false},
	} {
		t.Run(c.reason+fmt.Sprint(len(c.calls)), func(t *testing.T) {
			b := newBench(t, replies(proto.Text{Content: "text", ToolCalls: callList(c.calls...), StopReason: c.reason}), replies(proto.Text{Content: "Done.", StopReason: "stop"}))
			_, last := b.ask(request(question, inSession))
			if !c.runs {
				if last.text() != "text" || last.StopReason != c.reason || last.iterations() != 1 || len(b.exc.code()) > 0 {
					t.Errorf("executed %q, last packet %s", b.exc.code(), last.raw)
				}
				return
			}
			if last.text() != "Done." || last.StopReason != "stop" || !slices.Equal(b.exc.code(), []string{"bash:x"}) {
				t.Errorf("executed %q, last packet %s", b.exc.code(), last.raw)
			}
			base := strings.TrimSuffix(question, "]") + "," + calling("text", "", c.calls...) + "," + result("a", ran(""))
			if got := string(b.rtr.asked()[1].Messages); !strings.HasPrefix(got, base) || strings.Count(got, `"role":"tool"`) != len(c.calls) {
				t.Errorf("the model sees %s", got)
			}
		})
	}
}

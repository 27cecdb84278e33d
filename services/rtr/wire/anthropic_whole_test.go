package wire

import (
	"reflect"
	"strings"
	"testing"

	"zino/pkg/fakellm"
	"zino/proto"
)

// TestAnthropicWhole holds that an answer in one piece says what the same one
// says as a stream.
func TestAnthropicWhole(t *testing.T) {
	usage := &fakellm.Usage{In: 9, Out: 5, CacheRead: 4, CacheWrite: 3}
	for name, turn := range map[string]fakellm.Turn{
		"text":      {Text: "Grüße 🌍", Usage: usage},
		"cut":       {Text: "half", Finish: "length", Usage: usage},
		"calls":     {Text: "I look.", Calls: []fakellm.Call{{Name: "a", Args: `{"x":1}`}, {Name: "b", Args: "{}"}}, Usage: usage},
		"reasoning": {Reasoning: "hm", Text: "I look.", Calls: []fakellm.Call{{Name: "a", Args: `{"x":1}`}}, Usage: usage},
	} {
		t.Run(name, func(t *testing.T) {
			var answers [2]proto.Text
			for i, whole := range []bool{false, true} {
				server, ep := anthropicServer(t, turn)
				var g gathered
				if err := Anthropic(t.Context(), ep, ask(t, func(r *Request) { r.Whole = whole }), &g); err != nil {
					t.Fatal(err)
				}
				got := server.Requests()[0]
				if streams := strings.Contains(string(got.Body), `"stream":true`); streams == whole || got.Header.Get("Accept") == "text/event-stream" == whole {
					t.Errorf("asked for %s with %s", got.Header.Get("Accept"), got.Body)
				}
				answers[i] = g.Finished()
			}
			if !reflect.DeepEqual(answers[0], answers[1]) {
				t.Errorf("streamed %+v\nwhole    %+v", answers[0], answers[1])
			}
		})
	}
}

// TestAnthropicWholeFaults: what is no message is no answer.
func TestAnthropicWholeFaults(t *testing.T) {
	for body, want := range map[string]string{
		`{"type":"error","error":{"type":"overloaded_error","message":"too busy"}}`: "too busy",
		`{"type":"message","content":[`:                                             "broken or cut off",
		`{"type":"future","x":1}`:                                                   "nothing that is a model's answer",
		`{"type":"message","content":"hi"}`:                                         "nothing that is a model's answer",
		`[]`:                                                                        "not JSON",
		"event: message_start\ndata: {\"type\":\"message_start\",\"message\":{}}\n\n": "ended before the answer was complete",
	} {
		_, ep := anthropicServer(t, fakellm.Turn{Status: 200, Text: body})
		var g gathered
		err := Anthropic(t.Context(), ep, ask(t, func(r *Request) { r.Whole = true }), &g)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", body, err, want)
		}
	}
}

// TestAnthropicWholeStreamed: a server that streams all the same is read.
func TestAnthropicWholeStreamed(t *testing.T) {
	body := anthropicEvents(anStart, anText, anStop0, anEnd, anMark)
	_, ep := anthropicServer(t, fakellm.Turn{Status: 200, Text: body})
	var g gathered
	err := Anthropic(t.Context(), ep, ask(t, func(r *Request) { r.Whole = true }), &g)
	if text := g.Finished(); err != nil || text.StopReason != "stop" {
		t.Errorf("got %+v, %v", text, err)
	}
}

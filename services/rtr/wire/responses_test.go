package wire

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"zino/pkg/fakellm"
	"zino/pkg/wire"
	"zino/proto"
)

// eventsOf writes a stream of the Responses wire.
func eventsOf(events ...string) string {
	var b strings.Builder
	for _, data := range events {
		fmt.Fprintf(&b, "event: %s\ndata: %s\n\n", text(memberOf([]byte(data), "type")), data)
	}
	return b.String()
}

const (
	reCreated  = `{"type":"response.created","sequence_number":0,"response":{"id":"resp_1","status":"in_progress","output":[],"error":null}}`
	reThinks   = `{"type":"response.output_item.added","output_index":0,"item":{"id":"rs_1","type":"reasoning","summary":[],"encrypted_content":"part"}}`
	reSummary  = `{"type":"response.reasoning_summary_text.delta","item_id":"rs_1","output_index":0,"summary_index":0,"delta":"hm"}`
	reSecond   = `{"type":"response.reasoning_summary_part.added","item_id":"rs_1","output_index":0,"summary_index":1,"part":{"type":"summary_text","text":""}}`
	reText     = `{"type":"response.reasoning_text.delta","item_id":"rs_1","output_index":0,"content_index":0,"delta":"raw"}`
	reThought  = `{"type":"response.output_item.done","output_index":0,"item":{"id":"rs_1","type":"reasoning","summary":[{"type":"summary_text","text":"hm"}],"encrypted_content":"all"}}`
	reMessage  = `{"type":"response.output_item.added","output_index":1,"item":{"id":"msg_1","type":"message","role":"assistant","content":[]}}`
	reDelta    = `{"type":"response.output_text.delta","item_id":"msg_1","output_index":1,"content_index":0,"delta":"Grü\u00dfe"}`
	reSaid     = `{"type":"response.output_item.done","output_index":1,"item":{"id":"msg_1","type":"message","role":"assistant","phase":"commentary","content":[{"type":"output_text","text":"Grüße"}]}}`
	reCall     = `{"type":"response.output_item.added","output_index":2,"item":{"id":"fc_1","type":"function_call","call_id":"call_1","name":"f","arguments":""}}`
	reArgs     = `{"type":"response.function_call_arguments.delta","item_id":"fc_1","output_index":2,"delta":"{\"n\":"}`
	reArgs2    = `{"type":"response.function_call_arguments.delta","item_id":"fc_1","output_index":2,"delta":"1}"}`
	reCalled   = `{"type":"response.output_item.done","output_index":2,"item":{"id":"fc_1","type":"function_call","call_id":"call_1","name":"f","arguments":"{\"n\":1}"}}`
	reEnd      = `{"type":"response.completed","response":{"status":"completed","error":null,"incomplete_details":null,"output":[{"type":"message","content":[{"type":"output_text","text":"once more"}]}],"usage":{"input_tokens":9,"input_tokens_details":{"cached_tokens":4},"output_tokens":5,"output_tokens_details":{"reasoning_tokens":2},"total_tokens":14}}}`
	reUsed     = `used {"input_tokens":9,"output_tokens":5,"cache_read_tokens":4,"reasoning_tokens":2}`
	reBareEnd  = `{"type":"response.completed","response":{"status":"completed"}}`
	reMessage0 = `{"type":"message","role":"assistant","content":[{"type":"output_text","text":"a"},{"type":"refusal","refusal":"b"}]}`
	reCall0    = `{"type":"function_call","call_id":"c","name":"f","arguments":"{}"}`
)

// TestResponsesStream reads answers in all ways of cutting them.
func TestResponsesStream(t *testing.T) {
	state := `state {"provider":"responses","model":"m","content":[` + string(memberOf([]byte(reThought), "item")) + `,` +
		string(memberOf([]byte(reSaid), "item")) + `,` + string(memberOf([]byte(reCalled), "item")) + `]}`
	for _, tt := range []struct {
		name   string
		stream string
		want   []string
		err    string
	}{
		{
			"all there is",
			eventsOf(reCreated, reThinks, reSummary, reSecond, reSummary, reText, reThought, reMessage, reDelta, reSaid, reCall, reArgs, reArgs2, reCalled, reEnd),
			[]string{"reasoning 0 hm\n\nhm", "text 0 Grüße", "tool 0 call_1 f", `args 0 {"n":1}`, reUsed, state, "finish stop"},
			"",
		},
		{"raw reasoning", eventsOf(reThinks, reText, reSummary, reBareEnd), []string{"reasoning 0 raw", "finish stop"}, ""},
		{"nothing in pieces", eventsOf(reThought, reSaid, reCalled, reEnd), []string{"reasoning 0 hm", "text 0 Grüße", "tool 0 call_1 f", `args 0 {"n":1}`, reUsed, state, "finish stop"}, ""},
		{"all at the end", eventsOf(`{"type":"response.completed","response":{"status":"completed","output":[` + reMessage0 + `,` + reCall0 + `]}}`), []string{"text 0 ab", "tool 0 c f", "args 0 {}", "finish stop"}, ""},
		{"text without its item", eventsOf(reDelta, reDelta, reBareEnd), []string{"text 0 GrüßeGrüße", "finish stop"}, ""},
		{
			"no places", eventsOf(`{"type":"response.output_item.added","item":`+reCall0+`}`, `{"type":"response.function_call_arguments.delta","delta":"{}"}`,
				`{"type":"response.output_item.done","item":`+reCall0+`}`, `{"type":"response.output_item.done","item":`+reCall0+`}`, reBareEnd),
			[]string{"tool 0 c f", "args 0 {}", "tool 1 c f", "args 1 {}", "finish stop"},
			"",
		},
		{"too long", eventsOf(reDelta, `{"type":"response.incomplete","response":{"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"}}}`), []string{"text 0 Grüße", "finish length"}, ""},
		{"filtered", eventsOf(reDelta, `{"type":"response.incomplete","response":{"status":"incomplete","incomplete_details":{"reason":"content_filter"}}}`), []string{"text 0 Grüße", "finish filter"}, ""},
		{"a refusal", eventsOf(`{"type":"response.refusal.delta","output_index":0,"delta":"No."}`, `{"type":"response.refusal.done","output_index":0,"refusal":"No."}`, reBareEnd), []string{"text 0 No.", "finish stop"}, ""},
		{"events of the future", eventsOf(reCreated, `{"type":"response.future","x":1}`, `{"type":"response.output_item.added","output_index":0,"item":{"type":"future","id":"f"}}`, `{"type":"response.output_item.done","output_index":0,"item":{"type":"future","id":"f"}}`, reMessage, reDelta, reEnd), []string{"text 0 Grüße", reUsed, "finish stop"}, ""},
		{"no event lines", strings.ReplaceAll(eventsOf(reMessage, reDelta, reEnd), "event: ", ": "), []string{"text 0 Grüße", reUsed, "finish stop"}, ""},

		{"cut", eventsOf(reCreated, reMessage, reDelta), []string{"text 0 Grüße"}, "ended before the answer was complete"},
		{"a mark of another wire", eventsOf(reMessage, reDelta) + "data: [DONE]\n\n", []string{"text 0 Grüße"}, "ended before the answer was complete"},
		{"another wire", "data: {\"choices\":[]}\n\ndata: [DONE]\n\n", nil, "nothing that is a model's answer"},
		{"failed", eventsOf(reDelta, `{"type":"response.failed","response":{"status":"failed","instructions":"x","error":{"code":"server_error","message":"It broke."}}}`), []string{"text 0 Grüße"}, "the provider reports: It broke."},
		{"failed for no reason", eventsOf(`{"type":"response.failed","response":{"status":"failed"}}`), nil, "no reason is given"},
		{"an error", eventsOf(reDelta, `{"type":"error","code":"rate_limit_exceeded","message":"Slow down.","param":null}`), []string{"text 0 Grüße"}, "the provider reports: Slow down."},
		{"a wrapped error", eventsOf(`{"type":"error","error":{"type":"server_error","message":"It broke."}}`), nil, "the provider reports: It broke."},
		{"not JSON", eventsOf(reDelta) + "data: <oops>\n\n", []string{"text 0 Grüße"}, "not JSON"},
	} {
		t.Run(tt.name, func(t *testing.T) { everyWay(t, Responses, ask(t, nil), tt.stream, tt.want, tt.err) })
	}
}

// responsesServer is a scripted server and an endpoint for it.
func responsesServer(t *testing.T, script ...fakellm.Turn) (*fakellm.Server, *Endpoint) {
	t.Helper()
	server := fakellm.New(script...)
	t.Cleanup(server.Close)
	return server, endpointAt(t, server.URL)
}

// TestResponsesWhole checks that an answer in one piece says what the same one
// says as a stream.
func TestResponsesWhole(t *testing.T) {
	usage := &fakellm.Usage{In: 9, Out: 5, CacheRead: 4, CacheWrite: 3, Reasoning: 2}
	for name, turn := range map[string]fakellm.Turn{
		"text":      {Text: "Grüße 🌍", Usage: usage},
		"cut":       {Text: "half", Finish: "length", Usage: usage},
		"calls":     {Text: "I look.", Calls: []fakellm.Call{{Name: "a", Args: `{"x":1}`}, {Name: "b", Args: "{}"}}, Usage: usage},
		"reasoning": {Reasoning: "hm", Text: "I look.", Calls: []fakellm.Call{{Name: "a", Args: `{"x":1}`}}, Usage: usage},
	} {
		t.Run(name, func(t *testing.T) {
			var answers [2]proto.Text
			var reasoning [2]string
			for i, stream := range []bool{true, false} {
				server, ep := responsesServer(t, turn)
				var g gathered
				if err := Responses(t.Context(), ep, ask(t, func(r *Request) { r.Stream = stream }), &g); err != nil {
					t.Fatal(err)
				}
				got := server.Requests()[0]
				if streams := strings.Contains(string(got.Body), `"stream":true`); streams != stream || (got.Header.Get("Accept") == "text/event-stream") != stream {
					t.Errorf("asked for %s with %s", got.Header.Get("Accept"), got.Body)
				}
				answers[i], reasoning[i] = g.Finished(), g.words[0]
			}
			if !reflect.DeepEqual(answers[0], answers[1]) || reasoning[0] != reasoning[1] {
				t.Errorf("streamed %+v\nwhole    %+v", answers[0], answers[1])
			}
		})
	}
	for body, want := range map[string]string{
		`{"error":{"message":"too busy"}}`:                                                  "too busy",
		`{"object":"response","status":"failed","error":{"code":"x","message":"It broke"}}`: "It broke",
		`{"object":"response","status":"in_progress","output":[]}`:                          "nothing that is a model's answer",
		`{"object":"response","status":`:                                                    "broken or cut off",
		`{"object":"list","data":[]}`:                                                       "nothing that is a model's answer",
	} {
		_, ep := responsesServer(t, fakellm.Turn{Status: 200, Text: body})
		err := Responses(t.Context(), ep, ask(t, func(r *Request) { r.Stream = false }), &gathered{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", body, err, want)
		}
	}
}

// TestResponsesMissing checks that an endpoint without this wire is an error with
// a remedy.
func TestResponsesMissing(t *testing.T) {
	_, ep := responsesServer(t, fakellm.Failure(404, "404 page not found"))
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

// readResponses reads an answer without HTTP around it, whose goroutines make
// fuzzing slow.
func readResponses(t *testing.T, stream io.Reader, streamed bool) ([]string, error) {
	t.Helper()
	var g gathered
	ep, _ := endpointFor(t)
	x := ep.begin(t.Context(), ask(t, nil), nil, streamed, &g)
	defer x.detach()
	defer x.close()
	x.resp = &http.Response{Body: io.NopCloser(stream)}
	events, err := x.open()
	if err != nil {
		return nil, err
	}
	answer := responsesAnswer{x: x, events: events}
	err = answer.read()
	return g.words, err
}

// FuzzResponses checks that no stream makes the reader fail, that how its bytes
// are cut into reads makes no difference, that only a finished answer ends with
// a finish, and that what is to be handed back is JSON of one line.
func FuzzResponses(f *testing.F) {
	for n, events := range [][]string{
		{reCreated, reThinks, reSummary, reSecond, reThought, reMessage, reDelta, reSaid, reCall, reArgs, reArgs2, reCalled, reEnd},
		{reThought, reCalled, reBareEnd},
		{reDelta, `{"type":"error","message":"x"}`},
		{reMessage, reDelta, reText},
	} {
		f.Add(eventsOf(events...), n*100)
	}
	f.Add(string(memberOf([]byte(reEnd), "response")), 20)
	f.Fuzz(func(t *testing.T, stream string, cut int) {
		streamed := !strings.HasPrefix(stream, "{")
		cut = max(0, min(cut, len(stream)))
		want, wantErr := readResponses(t, strings.NewReader(stream), streamed)
		for how, body := range map[string]io.Reader{
			"byte by byte": iotest.OneByteReader(strings.NewReader(stream)),
			"in two parts": io.MultiReader(strings.NewReader(stream[:cut]), strings.NewReader(stream[cut:])),
			"at the end":   iotest.DataErrReader(strings.NewReader(stream)),
		} {
			got, err := readResponses(t, body, streamed)
			if !slices.Equal(got, want) || fmt.Sprint(err) != fmt.Sprint(wantErr) {
				t.Fatalf("%s: got\n%q, %v\nand whole\n%q, %v", how, got, err, want, wantErr)
			}
		}
		finished := len(want) > 0 && strings.HasPrefix(want[len(want)-1], "finish ")
		if finished != (wantErr == nil) {
			t.Fatalf("got %q and the error %v", want, wantErr)
		}
		for _, word := range want {
			if state, ok := strings.CutPrefix(word, "state "); ok && (!wire.Valid([]byte(state)) || strings.Contains(state, "\n")) {
				t.Fatalf("the state is not one line of JSON: %q", state)
			}
		}
	})
}

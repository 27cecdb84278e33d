package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"zino/pkg/fakellm"
	"zino/pkg/wire"
	"zino/pkg/zinotest"
	"zino/proto"
)

// TestAnthropicTooMuch checks that the stored part of an answer is limited, also
// if nothing of it is passed on.
func TestAnthropicTooMuch(t *testing.T) {
	kib := strings.Repeat("x", 1<<10)
	for name, data := range map[string]string{
		"text":       `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"` + kib + `"}}`,
		"signatures": `{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"` + kib + `"}}`,
		"blocks":     `{"type":"content_block_start","index":0,"content_block":{"type":"future"}}`,
	} {
		ep, _ := endpointFor(t)
		var a anthropicAnswer
		x := &exchange{Endpoint: ep, sink: &gathered{}, size: MaxAnswer - 9<<10}
		err := a.event(x, "", []byte(anText))
		for n := 0; err == nil && n < 10; n++ {
			err = a.event(x, "", []byte(data))
		}
		if err == nil || !strings.Contains(err.Error(), "longer than 16 MiB") {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// TestAnthropicLong checks that a long line is read, and that an answer does not
// fail because of the state to be sent back.
func TestAnthropicLong(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	stream := "data: " + strings.Replace(anText, `"text":""`, `"text":"`+long+`"`, 1) + "\n\ndata: {\"type\":\"message_stop\"}\n\n"
	ep, _ := endpointFor(t, strings.NewReader(stream))
	var g gathered
	if err := Anthropic(t.Context(), ep, ask(t, nil), &g); err != nil || g.Text() != long {
		t.Errorf("%d bytes of text, %v", len(g.Text()), err)
	}
	for room, want := range map[int]int{4 << 10: 1, 1 << 10: 0} {
		var g gathered
		var a anthropicAnswer
		x := &exchange{Endpoint: ep, sink: &g}
		for _, data := range []string{
			`{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"hm","signature":"s"}}`,
			`{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"t1","name":"f","input":{}}}`,
		} {
			zinotest.Must(t, a.event(x, "", []byte(data)))
		}
		x.size = MaxAnswer - room
		if err := a.end(x, nil); err != nil || strings.Count(strings.Join(g.words, "\n"), "state ") != want {
			t.Errorf("with %d bytes left: got %q, %v", room, g.words, err)
		}
	}
}

// TestConversationIsFreeDuringAnswer: 200 open streams need not hold their prompts. The
// transport keeps its request until an answer has ended.
func TestConversationIsFreeDuringAnswer(t *testing.T) {
	begun, more := make(chan bool), make(chan bool)
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		io.WriteString(w, ": begun\n\n")
		w.(http.Flusher).Flush()
		close(begun)
		<-more
		io.WriteString(w, "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"yes\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n")
	}))
	defer provider.Close()
	finish := sync.OnceFunc(func() { close(more) })
	defer finish() // Close waits for the answer
	ep, _ := endpointFor(t)
	ep.Base, ep.Client = provider.URL, NewClient()
	defer ep.Client.CloseIdleConnections()
	var body, messages weak.Pointer[byte]
	var g gathered
	ended := make(chan error, 1)
	go func() {
		req := &Request{Model: "m", Stream: true, Messages: []Message{{Role: "user", Raw: make([]byte, 1<<20)}}}
		c := call{path: "/chat/completions", body: make([]byte, 1<<20), stream: true, answer: &completion{name: "openai"}, header: func(http.Header) {}}
		body, messages = weak.Make(&c.body[0]), weak.Make(&req.Messages[0].Raw[0])
		ended <- ep.do(context.Background(), req, &g, c)
	}()
	<-begun
	zinotest.Eventually(t, "the memory of the conversation is free", func() bool {
		runtime.GC()
		return body.Value() == nil && messages.Value() == nil
	})
	finish()
	if err := <-ended; err != nil || g.Text() != "yes" {
		t.Errorf("got %q, %v", g.Text(), err)
	}
}

// TestWhole checks that an answer gives the same events in one piece and as a
// stream.
func TestWhole(t *testing.T) {
	usage := &fakellm.Usage{In: 9, Out: 5, CacheRead: 4}
	for name, turn := range map[string]fakellm.Turn{
		"text":      {Text: "Grüße 🌍", Usage: usage},
		"cut":       {Text: "half", Finish: "length", Usage: usage},
		"calls":     {Text: "I look.", Calls: []fakellm.Call{{Name: "a", Args: `{"x":1}`}, {Name: "b", Args: "{}"}}, Usage: usage},
		"reasoning": {Reasoning: "hm", Text: "I look.", Calls: []fakellm.Call{{Name: "a", Args: `{"x":1}`}}, Usage: usage},
	} {
		for _, tt := range wires {
			if tt.name == "gemini" || tt.name == "ollama" {
				continue // always streamed
			}
			t.Run(tt.name+"/"+name, func(t *testing.T) {
				var answers [2]proto.Text
				for i, whole := range []bool{false, true} {
					server := fakellm.New(turn)
					defer server.Close()
					var g gathered
					if err := tt.infer(t.Context(), endpointAt(t, server.Host+tt.path), ask(t, func(r *Request) { r.Stream, r.Whole = !whole, whole }), &g); err != nil {
						t.Fatal(err)
					}
					got := server.Requests()[0]
					if streams := strings.Contains(string(got.Body), `"stream":true`); streams == whole || got.Header.Get("Accept") == "text/event-stream" == whole {
						t.Errorf("asked for %s with %s", got.Header.Get("Accept"), got.Body)
					}
					answers[i] = g.Finished()
					if said := "reasoning 0 " + turn.Reasoning; turn.Reasoning != "" && !slices.Contains(g.words, said) {
						t.Errorf("got %q, want %q in it", g.words, said)
					}
				}
				if !reflect.DeepEqual(answers[0], answers[1]) {
					t.Errorf("streamed %+v\nwhole    %+v", answers[0], answers[1])
				}
			})
		}
	}
}

// sseData makes a stream of events, each with its blank line, and the end mark.
func sseData(list ...string) string {
	return "data: " + strings.Join(append(list, "[DONE]"), "\n\ndata: ") + "\n\n"
}

// delta is an event with one delta of the first choice.
func delta(members string) string {
	return `{"choices":[{"index":0,"delta":{` + members + `},"finish_reason":null}]}`
}

// finish is an event that says why the model stopped.
func finish(reason string) string {
	return `{"choices":[{"index":0,"delta":{},"finish_reason":"` + reason + `"}]}`
}

// toolDelta is an event with fragments of tool calls.
func toolDelta(fragments ...string) string {
	return delta(`"tool_calls":[` + strings.Join(fragments, ",") + `]`)
}

// TestTooManyCalls checks that a stream which begins calls without end is ended.
func TestTooManyCalls(t *testing.T) {
	var events []string
	for i := range 2 * maxCalls {
		events = append(events, toolDelta(fmt.Sprintf(`{"index":%d,"id":"%d","function":{"name":"f","arguments":"{}"}}`, i, i)))
	}
	got, err := eventsOf(t, OpenAI, ask(t, nil), strings.NewReader(sseData(append(events, finish("tool_calls"))...)))
	if err == nil || !strings.Contains(err.Error(), "calls more than 4096 tools at once") || len(got) > 2*maxCalls+10 {
		t.Errorf("got %d events, %v", len(got), err)
	}
}

// answered asks an endpoint and returns the text and the fault.
func answered(t *testing.T, ep *Endpoint, stream bool) (string, *Fault) {
	t.Helper()
	var g gathered
	err := OpenAI(t.Context(), ep, ask(t, func(r *Request) { r.Stream = stream }), &g)
	f, ok := errors.AsType[*Fault](err)
	if err != nil && !ok {
		t.Fatalf("got %v", err)
	}
	return g.Text(), f
}

func TestTooLarge(t *testing.T) {
	event := "data: " + delta(`"content":"`+strings.Repeat("x", 1<<20)+`"`) + "\n\n"
	for _, tt := range []struct {
		name string
		body io.Reader
	}{
		{"many events", strings.NewReader(strings.Repeat(event, 17))},
		{"one event", strings.NewReader("data: " + strings.Repeat("x", 17<<20))},
		{"one event in many lines", strings.NewReader(strings.Repeat("data: "+strings.Repeat("x", 1<<20)+"\n", 17))},
		{"a whole answer", io.MultiReader(strings.NewReader(`{"choices":[`), strings.NewReader(strings.Repeat(" ", 17<<20)))},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ep, _ := endpointFor(t, tt.body)
			if text, f := answered(t, ep, false); f == nil || f.Code != proto.CodeTooLarge || f.Class != Stop || len(text) > MaxAnswer {
				t.Errorf("got %d bytes, %v", len(text), f)
			}
		})
	}
}

// TestLongLine checks that a line of 10 MiB is read, and all forms of sending
// a character.
func TestLongLine(t *testing.T) {
	for _, tt := range []struct {
		name string
		turn fakellm.Turn
		size int
	}{
		{"a long line", fakellm.Turn{Text: "x", Faults: []fakellm.Fault{fakellm.LongLine}}, 10<<20 + 1},
		{"characters cut between reads", fakellm.Turn{Text: "Grüße 🌍", Faults: []fakellm.Fault{fakellm.CutChar}}, len("Grüße 🌍")},
		{"byte by byte", fakellm.Turn{Text: "Grüße 🌍", Bytes: 1}, len("Grüße 🌍")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			llm := fakellm.New(tt.turn)
			defer llm.Close()
			text, f := answered(t, endpointAt(t, llm.URL), true)
			if f != nil || len(text) != tt.size || strings.ToValidUTF8(text, "") != text {
				t.Errorf("got %d bytes, %v", len(text), f)
			}
		})
	}
}

// endless is an endless text.
type endless string

// Read fills the buffer.
func (e endless) Read(p []byte) (n int, err error) {
	for n < len(p) {
		n += copy(p[n:], e)
	}
	return n, nil
}

// TestFlood checks that a stream without events ends, at any rate of its bytes.
func TestFlood(t *testing.T) {
	for _, noise := range []string{": " + strings.Repeat("ping ", 1000) + "\n\n", "event: " + strings.Repeat("x", 5000) + "\n\n", strings.Repeat(" ", 4096)} {
		ep, _ := endpointFor(t, io.MultiReader(strings.NewReader("data: "+delta(`"content":"x"`)+"\n\n"), endless(noise)))
		text, f := answered(t, ep, true)
		if text != "x" || f == nil || f.Kind != kindParse || f.Class != Stop {
			t.Errorf("%.9q: got %q, %v", noise, text, f)
		}
	}
}

// TestRedirectElsewhere checks that another server gets neither the key nor a
// request.
func TestRedirectElsewhere(t *testing.T) {
	var asked atomic.Int64
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	defer other.Close()
	llm := fakellm.New(fakellm.Turn{Redirect: other.URL + "/v1/chat/completions", Times: fakellm.Forever})
	defer llm.Close()
	for _, stream := range []bool{true, false} {
		_, f := answered(t, endpointAt(t, llm.URL), stream)
		if f == nil || f.Status != 307 || !strings.Contains(f.Message, "redirects to "+other.URL+"/v1,") || f.Class != Stop {
			t.Errorf("got %v", f)
		}
	}
	if n := asked.Load(); n != 0 {
		t.Errorf("the other server got %d requests", n)
	}
}

// TestRedirectFollowed checks that a redirect on the same server is followed
// with the whole request, a limited number of times.
func TestRedirectFollowed(t *testing.T) {
	llm := fakellm.New(fakellm.Turn{Status: 308, Header: []string{"Location: /v1/chat/completions"}}, fakellm.Reply("x"))
	defer llm.Close()
	if text, f := answered(t, endpointAt(t, llm.URL), true); f != nil || text != "x" {
		t.Errorf("got %q, %v", text, f)
	}
	first, second := llm.Requests()[0], llm.Requests()[1]
	if string(first.Body) != string(second.Body) || second.Header.Get("Authorization") != "Bearer "+testKey {
		t.Errorf("followed with %s and %v", second.Body, second.Header)
	}
	llm.Add(fakellm.Turn{Redirect: "/v1/chat/completions", Times: fakellm.Forever})
	if _, f := answered(t, endpointAt(t, llm.URL), true); f == nil || f.Status != 307 {
		t.Errorf("in a circle: got %v", f)
	}
	if n := len(llm.Requests()); n > 10 {
		t.Errorf("%d requests in a circle", n)
	}
}

// TestCertificate checks that a server whose certificate is not trusted, and one
// that speaks no TLS at all, are one error that says what to do.
func TestCertificate(t *testing.T) {
	asked := false
	handler := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked = true })
	unknown := httptest.NewUnstartedServer(handler)
	unknown.Config.ErrorLog = log.New(io.Discard, "", 0)
	unknown.StartTLS()
	defer unknown.Close()
	plain := httptest.NewServer(handler)
	defer plain.Close()
	for _, base := range []string{unknown.URL, strings.Replace(plain.URL, "http:", "https:", 1)} {
		_, f := answered(t, endpointAt(t, base+"/v1"), true)
		if f == nil || !strings.HasPrefix(f.Message, "no safe connection to "+base+"/v1: ") || !strings.Contains(f.Message, "the_base_url") {
			t.Fatalf("got %v", f)
		}
		if f.Class != Stop || !f.Unsent || f.Kind != kindAPI {
			t.Errorf("got %+v", *f)
		}
	}
	if asked {
		t.Error("the request was sent")
	}
}

// TestUnreachable checks that the error for a server that does not listen hides
// the password in its URL.
func TestUnreachable(t *testing.T) {
	ep := endpointAt(t, "http://someone:s3cret-pass@127.0.0.1:1/v1")
	_, f := answered(t, ep, true)
	if f == nil || !strings.HasPrefix(f.Message, "cannot reach the model at http://127.0.0.1:1/v1: ") || strings.Contains(f.Message+ep.Name, "s3cret") {
		t.Fatalf("got %v", f)
	}
	if !f.Unsent || f.Class != Retry || f.Code != proto.CodeUnavailable {
		t.Errorf("got %+v", *f)
	}
}

// TestHeaders checks the headers of a request, and that the answer's status
// and header are passed to the observer of the limits.
func TestHeaders(t *testing.T) {
	llm := fakellm.New(
		fakellm.Turn{Text: "x", Header: []string{"X-RateLimit-Remaining-Requests: 7"}},
		fakellm.Turn{Status: 429, Text: "{}", Header: []string{"Retry-After: 9"}})
	defer llm.Close()
	ep := endpointAt(t, strings.Replace(llm.URL, "//", "//u:p%20w@", 1))
	var seen []string
	ep.Observe = func(status int, h http.Header) {
		seen = append(seen, http.StatusText(status)+h.Get("X-RateLimit-Remaining-Requests")+h.Get("Retry-After"))
	}
	if text, f := answered(t, ep, true); text != "x" || f != nil {
		t.Errorf("got %q, %v", text, f)
	}
	h := llm.Requests()[0].Header
	if h.Get("Content-Type") != "application/json" || h.Get("Accept") != "text/event-stream" || h.Get("Authorization") != "Bearer "+testKey ||
		!strings.HasPrefix(h.Get("User-Agent"), "zino/") || h.Get("Connection") != "" || h.Get("Accept-Encoding") != "" {
		t.Errorf("asked with %v", h)
	}
	_, f := answered(t, ep, false)
	if f == nil || f.Wait != 9*time.Second || f.Header.Get("Retry-After") != "9" {
		t.Errorf("got %+v", f)
	}
	if strings.Join(seen, " ") != "OK7 Too Many Requests9" {
		t.Errorf("shown %q", seen)
	}
	if accept := llm.Requests()[1].Header.Get("Accept"); accept != "application/json" {
		t.Errorf("a whole answer is asked for with %s", accept)
	}
}

// geminiEvents writes responses as Gemini streams them.
func geminiEvents(list ...string) string {
	return "data: " + strings.Join(list, "\r\n\r\ndata: ") + "\r\n\r\n"
}

// geParts is a response with parts, and geStop the last one, without any.
func geParts(parts string) string {
	return `{"candidates":[{"content":{"parts":[` + parts + `]}}],"usageMetadata":{"promptTokenCount":10}}`
}

const (
	geStop = `{"candidates":[{"content":{"parts":[{"text":""}],"role":"model"},"finishReason":"STOP","index":0}],"modelVersion":"gemini-3-flash",` +
		`"usageMetadata":{"promptTokenCount":100,"cachedContentTokenCount":60,"candidatesTokenCount":12,"toolUsePromptTokenCount":5,"thoughtsTokenCount":30,"totalTokenCount":147}}`
	geUsed   = `used {"input_tokens":105,"output_tokens":42,"cache_read_tokens":60,"reasoning_tokens":30}`
	geUsed10 = `used {"input_tokens":10,"output_tokens":0}`
)

// TestGeminiTooLarge checks that the state to be sent back is limited.
func TestGeminiTooLarge(t *testing.T) {
	t.Parallel()
	part := geminiEvents(geParts(`{"inlineData":{"data":"`+strings.Repeat("A", 6<<20)+`"}}`), geParts(`{"text":"a"}`))
	got, err := eventsOf(t, Gemini, ask(t, nil), strings.NewReader(strings.Repeat(part, 3)))
	if e, ok := errors.AsType[*proto.Error](err); !ok || e.Code != proto.CodeTooLarge || got[0] != "text 0 aa" {
		t.Errorf("got %q, %v", got, err)
	}
}

// fillerStream is a stream that begins with text, followed by endless filler.
type fillerStream struct{ text, filler string }

func (e *fillerStream) Read(p []byte) (int, error) {
	if e.text == "" {
		e.text = e.filler
	}
	n := copy(p, e.text)
	e.text = e.text[n:]
	return n, nil
}

// TestEndlessFiller checks that reading a stream without events ends.
func TestEndlessFiller(t *testing.T) {
	t.Parallel()
	blanks := strings.Repeat(" ", 1000) // so that it does not take long
	for _, tt := range []struct {
		infer        Func
		text, filler string
	}{
		{Gemini, geminiEvents(geParts(`{"text":"a"}`)), ": ping" + blanks + "\n\n"},
		{Gemini, geminiEvents(geParts(`{"text":"a"}`)), "data: {}" + blanks + "\n\n"},
		{Ollama, olLine(`"content":"a"`), blanks + "\n"},
		{Ollama, olLine(`"content":"a"`), "{}" + blanks + "\n"},
	} {
		got, err := eventsOf(t, tt.infer, ask(t, nil), &fillerStream{tt.text, tt.filler})
		if err == nil || !strings.Contains(err.Error(), "no part of an answer") || got[0] != "text 0 a" {
			t.Errorf("%q: got %q, %v", strings.TrimSpace(tt.filler), got, err)
		}
	}
}

// endpointAt is an endpoint of a real server.
func endpointAt(t testing.TB, base string) *Endpoint {
	t.Helper()
	u, err := url.Parse(base)
	zinotest.Must(t, err)
	client := NewClient()
	t.Cleanup(client.CloseIdleConnections)
	ep := NewEndpoint(client, u, testKey, time.Minute)
	ep.KeyHint, ep.BaseHint = "THE_KEY", "the_base_url"
	return ep
}

// wires are wires of a fake provider, with the path of its base URL.
var wires = []struct {
	name  string
	infer Func
	path  string
}{{"anthropic", Anthropic, ""}, {"openai", OpenAI, "/v1"}, {"gemini", Gemini, ""}, {"ollama", Ollama, ""}, {"responses", Responses, "/v1"}}

// asMessage returns an answer as a message of the next request.
func asMessage(text proto.Text) string {
	message := wire.AppendString([]byte(`{"role":"assistant","content":`), text.Content)
	if len(text.ToolCalls) > 0 {
		message = append(append(message, `,"tool_calls":`...), text.ToolCalls...)
	}
	if len(text.State) > 0 {
		message = append(append(message, `,"reasoning_state":`...), text.State...)
	}
	return string(append(message, '}'))
}

// TestLive checks, over real connections, that an answer comes as it was
// scripted, and that connections are used again: at once where the end of the
// body was read, else as soon as it has been read in the background.
func TestLive(t *testing.T) {
	script := fakellm.Turn{
		Reasoning: "It needs the clock.", Deltas: []string{"Grü", "ße 🌍", "\n\"now\""}, Times: fakellm.Forever,
		Calls: []fakellm.Call{{Name: "bash", Args: `{"code":"date"}`}, {Name: "clock", Args: "{}"}},
		Usage: &fakellm.Usage{In: 120, Out: 30, CacheRead: 100, Reasoning: 12},
	}
	for _, tt := range wires {
		t.Run(tt.name, func(t *testing.T) {
			server := fakellm.New(script)
			defer server.Close()
			ep := endpointAt(t, server.Host+tt.path)
			for range 100 {
				if n := connections(server); n < len(server.Requests()) {
					break
				}
				var g gathered
				zinotest.Must(t, tt.infer(context.Background(), ep, ask(t, nil), &g))
				text := g.Finished()
				if text.Content != "Grüße 🌍\n\"now\"" || text.StopReason != "tool_calls" || text.Usage.InputTokens != 120 || text.Usage.OutputTokens != 30 {
					t.Errorf("got %+v", text)
				}
				if !strings.Contains(string(text.ToolCalls), `"name":"bash","arguments":"{\"code\":\"date\"}"`) || !slices.Contains(g.words, "reasoning 0 It needs the clock.") || text.State == nil {
					t.Errorf("got %s, %q", text.ToolCalls, g.words)
				}
			}
			requests := server.Requests()
			if n := connections(server); n == len(requests) || n > 1 && tt.name == "gemini" {
				t.Errorf("%d requests came on %d connections", len(requests), n)
			}
			if err := requests[0].Legal(); err != nil {
				t.Error(err)
			}
		})
	}
}

// connections is the number of connections on which requests came.
func connections(server *fakellm.Server) int {
	from := map[string]bool{}
	for _, r := range server.Requests() {
		from[r.From] = true
	}
	return len(from)
}

// TestLiveLoop goes through a turn with two rounds of calls, and checks that
// what each answer gave goes back in the requests after it.
func TestLiveLoop(t *testing.T) {
	for _, tt := range wires {
		t.Run(tt.name, func(t *testing.T) {
			server := fakellm.New(
				fakellm.Turn{Reasoning: "first", Calls: []fakellm.Call{{Name: "f", Args: `{"a":1}`}, {Name: "g", Args: `{}`, NoID: tt.name == "gemini" || tt.name == "ollama"}}}, // the others demand one
				fakellm.Turn{Reasoning: "second", Text: "More.", Calls: []fakellm.Call{{Name: "f", Args: `{"a":2}`}}},
				fakellm.Reply("Done."))
			defer server.Close()
			ep, conversation := endpointAt(t, server.Host+tt.path), `{"role":"user","content":"go"}`
			for range 3 {
				var g gathered
				req := ask(t, func(r *Request) { r.Raw = []byte("[" + conversation + "]") })
				zinotest.Must(t, tt.infer(context.Background(), ep, req, &g))
				text := g.Finished()
				conversation += "," + asMessage(text)
				for _, c := range readCalls(text.ToolCalls) {
					conversation += `,{"role":"tool","tool_call_id":"` + c.ID + `","content":"{\"ok\":true}"}`
				}
			}
			requests := server.Requests()
			for i, r := range requests {
				if err := r.Legal(); err != nil {
					t.Errorf("request %d: %s: %v", i, r.Body, err)
				}
			}
			kept := map[string][]string{"gemini": {`"c2lnLTE="`, `"c2lnLTI="`}, "ollama": {`"thinking":"first"`, `"thinking":"second"`}, "anthropic": {`"signature":"sig-1"`, `"signature":"sig-2"`}, "openai": {"first", "second"}, "responses": {`"encrypted_content":"sig-1"`, `"encrypted_content":"sig-2"`}}[tt.name]
			last := string(requests[2].Body)
			if !strings.Contains(string(requests[1].Body), kept[0]) || !strings.Contains(last, kept[0]) || !strings.Contains(last, kept[1]) {
				t.Errorf("the last request is %s", last)
			}
		})
	}
}

// TestLiveFaults checks all faults of the fake provider.
func TestLiveFaults(t *testing.T) {
	want := map[fakellm.Fault]string{
		fakellm.HTML: "with a web page", fakellm.JSON: "JSON where a stream", fakellm.ErrorEvent: "reports: fakellm: the model failed",
		fakellm.ErrorBody: "reports: fakellm: the model failed", fakellm.OpenArgs: "(MALFORMED_FUNCTION_CALL)",
		fakellm.BadJSON: "not JSON", fakellm.BadUTF8: "not JSON", fakellm.NoFinish: "ended before", fakellm.EmptyFinish: "ended before",
	}
	others := map[fakellm.Fault]string{
		fakellm.JSON: "", fakellm.EmptyFinish: "", fakellm.OpenArgs: "reports: error parsing tool call",
	}
	faults := slices.DeleteFunc(fakellm.Faults(), func(f fakellm.Fault) bool {
		return f == fakellm.LongLine || f == fakellm.Comments // take long, and both readers have tests of their own for them
	})
	for _, tt := range wires {
		for _, fault := range faults {
			wanted := want[fault]
			if other, ok := others[fault]; ok && tt.name == "ollama" {
				wanted = other
			}
			if fault == fakellm.OpenArgs && tt.name != "gemini" && tt.name != "ollama" {
				wanted = "" // a text there
			}
			if fault == fakellm.EmptyFinish && (tt.name == "anthropic" || tt.name == "openai") {
				wanted = "" // the end mark comes
			}
			t.Run(tt.name+"/"+string(fault), func(t *testing.T) {
				server := fakellm.New(fakellm.Turn{Text: "Grüße 🌍", Size: 3, Faults: []fakellm.Fault{fault}})
				defer server.Close()
				var g gathered
				err := tt.infer(context.Background(), endpointAt(t, server.Host+tt.path), ask(t, nil), &g)
				if (err == nil) != (wanted == "") || err != nil && !strings.Contains(err.Error(), wanted) {
					t.Errorf("got %v, want %q", err, wanted)
				}
				if text := g.Text(); err == nil && !strings.HasPrefix(text, "Grüße 🌍") || !strings.HasPrefix("Grüße 🌍", text[:min(len(text), 5)]) {
					t.Errorf("got %.100q", text)
				}
			})
		}
	}
}

// TestLiveStatus checks that a refusal is reported in the provider's words, and is
// classified.
func TestLiveStatus(t *testing.T) {
	for _, tt := range wires {
		for status, code := range map[int]proto.Code{400: proto.CodeInvalid, 401: proto.CodeDenied, 404: proto.CodeNotFound, 429: proto.CodeBusy, 503: proto.CodeUnavailable} {
			server := fakellm.New(fakellm.Failure(status, `{"error":{"message":"No. `+quotedKey+`"}}`))
			err := tt.infer(context.Background(), endpointAt(t, server.Host+tt.path), ask(t, nil), &gathered{})
			e, ok := errors.AsType[*proto.Error](err)
			if !ok || e.Code != code || !strings.HasSuffix(e.Message, ": No. [hidden]") || strings.Contains(e.Details, testKey) {
				t.Errorf("%s, %d: got %#v", tt.name, status, e)
			}
			server.Close()
		}
	}
}

// TestLiveGone checks that a caller's hang-up cancels the request, before the
// first byte and in the middle.
func TestLiveGone(t *testing.T) {
	for _, tt := range wires {
		for name, turn := range map[string]fakellm.Turn{"before": {Silent: true, End: fakellm.Stall}, "within": {Text: "a", End: fakellm.Stall}} {
			t.Run(tt.name+"/"+name, func(t *testing.T) {
				server := fakellm.New(turn)
				defer server.Close()
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				go func() {
					if _, err := server.Wait(ctx, 1); err == nil {
						cancel()
					}
				}()
				if err := tt.infer(ctx, endpointAt(t, server.Host+tt.path), ask(t, nil), &gathered{}); err != context.Canceled {
					t.Errorf("got %v", err)
				}
				<-server.Requests()[0].Gone
			})
		}
	}
}

// TestLiveStall checks that a provider that stops sending is an error after the
// timeout, and that the text before it is kept.
func TestLiveStall(t *testing.T) {
	for _, tt := range wires {
		server := fakellm.New(fakellm.Turn{Text: "a", End: fakellm.Stall, Times: fakellm.Forever})
		ep, text := endpointAt(t, server.Host+tt.path), ""
		for ep.Stall = 40 * time.Millisecond; text == "" && ep.Stall < time.Minute; ep.Stall *= 4 { // on a busy machine even "a" can take long
			var g gathered
			err := tt.infer(context.Background(), ep, ask(t, nil), &g)
			if e, ok := errors.AsType[*proto.Error](err); !ok || e.Code != proto.CodeTimeout {
				t.Errorf("%s: got %v", tt.name, err)
			}
			text = g.Text()
		}
		if text != "a" {
			t.Errorf("%s: got %q", tt.name, text)
		}
		server.Close()
	}
}

// olLine is a line with a message, and olDone the last one.
func olLine(message string) string {
	return `{"model":"qwen3:8b","created_at":"2026-11-21T10:00:00.123456789Z","message":{"role":"assistant",` + message + `},"done":false}` + "\n"
}

const (
	olDone = `{"model":"qwen3:8b","created_at":"2026-11-21T10:00:01Z","message":{"role":"assistant","content":""},"done":true,"done_reason":"stop",` +
		`"total_duration":4883583458,"load_duration":1334875,"prompt_eval_count":26,"prompt_eval_duration":342546000,"eval_count":282,"eval_duration":4535599000}` + "\n"
	olUsed = `used {"input_tokens":26,"output_tokens":282}`
)

// TestOllamaVeryLongLine checks that a line may be longer than any buffer.
func TestOllamaVeryLongLine(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("grün ", 1<<17)
	got, err := eventsOf(t, Ollama, ask(t, nil), strings.NewReader(olLine(`"content":"`+long+`"`)+olDone))
	if err != nil || len(got) != 3 || got[0] != "text 0 "+long {
		t.Errorf("got %d words, %v", len(got), err)
	}
	endless := strings.Repeat(" ", 17<<20)
	for _, stream := range []string{olLine(`"content":"a"`) + "{" + endless, "{\n" + endless} {
		_, err = eventsOf(t, Ollama, ask(t, nil), strings.NewReader(stream))
		if e, ok := errors.AsType[*proto.Error](err); !ok || e.Code != proto.CodeTooLarge {
			t.Errorf("got %v", err)
		}
	}
}

// anText begins a block of text.
const anText = `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`

// watching is a sink that checks the exchange's timer at each event and flush.
type watching struct {
	x       *exchange
	running bool // the clock ran while the caller had the turn
	fail    error
	n       int // bytes of text
}

// Event looks at the clock.
func (w *watching) Event(e Event) error { w.n += len(e.Delta); return w.Flush() }

// Flush looks at the clock.
func (w *watching) Flush() error {
	if w.x.timer.Stop() {
		w.running = true
	}
	return w.fail
}

// watch asks with a sink that watches the exchange's clock.
func watch(t *testing.T, base string, fail error) (*watching, error) {
	t.Helper()
	ep := endpointAt(t, base)
	req := ask(t, nil)
	body, err := completionBody(req, "openai")
	zinotest.Must(t, err)
	sink := &watching{fail: fail}
	sink.x = ep.begin(t.Context(), req, sink, call{path: "/chat/completions", body: body, header: ep.bearer, stream: true, answer: &completion{name: "openai"}})
	defer sink.x.close()
	if err := sink.x.post(); err != nil {
		return sink, err
	}
	return sink, sink.x.read()
}

// TestClockStands checks that the provider's timer is stopped during writes to the
// caller.
func TestClockStands(t *testing.T) {
	llm := fakellm.New(fakellm.Turn{Text: strings.Repeat("x", 2000), Size: 10})
	defer llm.Close()
	sink, err := watch(t, llm.URL, nil)
	if err != nil || sink.n != 2000 || sink.running {
		t.Errorf("got %d bytes, %v; the clock ran while the caller was written to: %v", sink.n, err, sink.running)
	}
}

// TestCallerGone checks that an error of writing to the caller ends the exchange
// and is returned.
func TestCallerGone(t *testing.T) {
	llm := fakellm.New(fakellm.Turn{Text: "x", End: fakellm.Stall})
	defer llm.Close()
	broken := errors.New("broken pipe")
	if _, err := watch(t, llm.URL, broken); err != broken {
		t.Errorf("got %v", err)
	}
	<-llm.Requests()[0].Gone
}

// paced is a transport that sends answers in pieces, each after a pause.
type paced struct {
	pause  time.Duration
	pieces []string
	more   string // follows for ever, if it is not empty
}

// RoundTrip answers with status 200.
func (p *paced) RoundTrip(req *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(&pacedBody{*p, req.Context()}), Request: req}, nil
}

type pacedBody struct {
	paced
	ctx context.Context
}

// Read waits, and gives the next piece.
func (b *pacedBody) Read(p []byte) (int, error) {
	select {
	case <-time.After(b.pause):
	case <-b.ctx.Done():
		return 0, b.ctx.Err()
	}
	if len(b.pieces) == 0 {
		if b.more == "" {
			return 0, io.EOF
		}
		return copy(p, b.more), nil
	}
	n := copy(p, b.pieces[0])
	b.pieces = b.pieces[1:]
	return n, nil
}

// slow is a sink that sleeps.
type slow struct {
	gathered
	event, flush time.Duration
}

// Event takes long.
func (s *slow) Event(e Event) error { <-time.After(s.event); return s.gathered.Event(e) }

// Flush takes long.
func (s *slow) Flush() error { <-time.After(s.flush); return nil }

// TestTime checks the timeouts in a synctest bubble, whose time passes only while
// all goroutines wait.
func TestTime(t *testing.T) {
	const event = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n"
	done := strings.Split(strings.Repeat(event, 20)+"data: [DONE]\n\n", "\n\n")
	for i := range done {
		done[i] += "\n\n"
	}
	for _, tt := range []struct {
		name   string
		body   paced
		sink   slow
		stall  time.Duration
		whole  bool
		text   int
		err    string
		passed time.Duration // until the end
	}{
		{"as slow as allowed", paced{59 * time.Second, done, ""}, slow{}, time.Minute, false, 20, "", 21 * 59 * time.Second},
		{"no limit", paced{time.Hour, done, ""}, slow{}, 0, false, 20, "", 21 * time.Hour},
		{"silence", paced{time.Hour, []string{event}, ""}, slow{}, time.Minute, false, 0, "sent nothing for 60s", time.Minute},
		{"a slow caller", paced{time.Second, done, ""}, slow{event: 10 * time.Minute}, time.Minute, false, 20, "", 21*time.Second + 21*10*time.Minute},
		{"a caller slow to be flushed", paced{time.Second, done, ""}, slow{flush: 10 * time.Minute}, time.Minute, false, 20, "", 0},
		{"comments only", paced{10 * time.Millisecond, []string{event}, ": ping\n\n"}, slow{}, 50 * time.Millisecond, false, 1, "sent no part of an answer for 0.25s, only comments", 0},
		{"comments before anything", paced{10 * time.Millisecond, nil, ": ping\n\n"}, slow{}, 50 * time.Millisecond, false, 0, "sent no part of an answer for 0.25s, only comments", 250 * time.Millisecond},
		{"a whole answer", paced{599 * time.Second, []string{`{"choices":[{"message":{"content":"a"}}]}`}, ""}, slow{}, time.Minute, true, 1, "", 2 * 599 * time.Second},
		{"no whole answer", paced{601 * time.Second, []string{`{"choices":[{"message":{"content":"a"}}]}`}, ""}, slow{}, time.Minute, true, 0, "sent nothing for 600s", 600 * time.Second},
		{"no mark after the reason", paced{time.Second, []string{"data: {\"choices\":[{\"delta\":{\"content\":\"a\"},\"finish_reason\":\"stop\"}]}\n\n"}, ": ping\n\n"}, slow{}, time.Minute, false, 1, "", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ep, _ := endpointFor(t)
				ep.Client.Transport, ep.Stall = &tt.body, tt.stall
				before := time.Now()
				err := OpenAI(t.Context(), ep, ask(t, func(r *Request) { r.Stream = !tt.whole }), &tt.sink)
				if took := time.Since(before); tt.passed != 0 && took != tt.passed {
					t.Errorf("took %v, want %v", took, tt.passed)
				}
				<-time.After(2 * drainTime) // until the rest of the body is given up
				if n := len(tt.sink.Text()); n != tt.text || (err == nil) != (tt.err == "") {
					t.Errorf("got %d deltas, %v", n, err)
				}
				if tt.err == "" {
					return
				}
				f, ok := errors.AsType[*Fault](err)
				if !ok || !strings.Contains(f.Message, tt.err) || f.Kind != kindTimeout || f.Code != proto.CodeTimeout || f.Class != Stop {
					t.Errorf("got %#v", err)
				}
			})
		})
	}
}

// TestAddresses goes through base URLs and models as people write them, and the
// headers with the key, on all wires.
func TestAddresses(t *testing.T) {
	const gemini = "/models/m:streamGenerateContent?alt=sse"
	for _, tt := range []struct{ wire, base, model, want string }{
		{"anthropic", "http://h", "m", "/v1/messages"},
		{"anthropic", "http://h/", "m", "/v1/messages"},
		{"anthropic", "http://h/v1", "m", "/v1/messages"},
		{"anthropic", "http://h/v1/", "m", "/v1/messages"},
		{"anthropic", "http://h/api/anthropic", "m", "/api/anthropic/v1/messages"},
		{"anthropic", "http://h/api/v1", "m", "/api/v1/messages"},
		{"openai", "http://h/v1", "m", "/v1/chat/completions"},
		{"openrouter", "http://h/api/v1", "m", "/api/v1/chat/completions"},
		{"responses", "http://h/v1", "m", "/v1/responses"},
		{"gemini", "http://h", "m", "/v1beta" + gemini},
		{"gemini", "http://h/", "models/m", "/v1beta" + gemini},
		{"gemini", "http://h/v1beta", "m", "/v1beta" + gemini},
		{"gemini", "http://h/v1beta/", "m", "/v1beta" + gemini},
		{"gemini", "http://h/gate/v1alpha", "m", "/gate/v1alpha" + gemini},
		{"gemini", "http://v1.test", "m", "/v1beta" + gemini},
		{"gemini", "http://h/gate", "../a b?c#d%", "/gate/v1beta/models/..%2Fa%20b%3Fc%23d%25:streamGenerateContent?alt=sse"},
		{"ollama", "http://h", "m", "/api/chat"},
		{"ollama", "http://h/", "m", "/api/chat"},
		{"ollama", "http://h/v1", "m", "/api/chat"},
		{"ollama", "http://h/v1/", "m", "/api/chat"},
		{"ollama", "http://h/api", "m", "/api/chat"},
		{"ollama", "http://h/gate/v1", "m", "/gate/api/chat"},
		{"ollama", "http://v1", "m", "/api/chat"},
	} {
		key, value := "Authorization", "Bearer "+testKey
		switch tt.wire {
		case "anthropic":
			key, value = "X-Api-Key", testKey
		case "gemini":
			key, value = "X-Goog-Api-Key", testKey
		}
		for _, has := range []bool{true, false} {
			ep, s := endpointFor(t, strings.NewReader(""))
			if ep.Base = tt.base; !has {
				ep.Key, value = "", ""
			}
			err := infers[tt.wire](t.Context(), ep, ask(t, func(r *Request) { r.Model = tt.model }), &gathered{})
			if err == nil || len(s.paths) != 1 || s.paths[0] != tt.want || ep.Base != tt.base {
				t.Fatalf("%s, %s: asked %q, %v", tt.wire, tt.base, s.paths, err)
			}
			for _, name := range []string{"Authorization", "X-Api-Key", "X-Goog-Api-Key"} {
				want := map[bool]string{true: value}[name == key]
				if got := s.header.Get(name); got != want || want == "" && len(s.header.Values(name)) > 0 {
					t.Errorf("%s: %s is %q, want %q", tt.wire, name, got, want)
				}
			}
			if version := s.header.Get("Anthropic-Version"); (version == "2023-06-01") != (tt.wire == "anthropic") || s.header.Get("Content-Type") != "application/json" {
				t.Errorf("%s: asked with %v", tt.wire, s.header)
			}
		}
	}
	for name, infer := range infers {
		ep, _ := endpointFor(t)
		ep.Base = "http://h\x00"
		if err := infer(t.Context(), ep, ask(t, nil), &gathered{}); err == nil || !strings.Contains(err.Error(), "is not a usable base URL: check the_base_url") {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

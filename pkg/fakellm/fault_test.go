package fakellm

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"zino/pkg/zinotest"
)

// TestHarmless checks that a robust client gets the same answer with faults of the
// framing, alone and together.
func TestHarmless(t *testing.T) {
	framing := []Fault{CutChar, Unknown, CRLF, NoSpace, BOM, NoEvent, SplitData}
	sets := [][]Fault{framing}
	for _, f := range framing {
		sets = append(sets, []Fault{f})
	}
	each(t, func(t *testing.T, c client, stream bool) {
		for _, faults := range sets {
			turn := rich
			turn.Faults = faults
			got := c.ask(t, start(t, turn), stream, "hi")
			compare(t, got, richAs(c.name), stream)
		}
	})
}

// TestFraming checks that the faults of the framing are in the stream.
func TestFraming(t *testing.T) {
	lines := []string{"Ollama"}
	unnamed := []string{"OpenAI", "OpenRouter", "Gemini", "Ollama"}
	for _, tt := range []struct {
		fault    Fault
		contains string
		lacks    string
		except   []string // wires without this fault
	}{
		{fault: CRLF, contains: "\r\n"},
		{NoSpace, "data:{", "data: ", lines},
		{NoEvent, "data: ", "event:", unnamed},
		{SplitData, "data: {\ndata:  \"", "", lines},
		{fault: SplitData, contains: "\n\n"},
		{fault: Unknown, contains: `"future":`},
		{Unknown, "retry: 1\n", "", lines},
		{fault: BadUTF8, contains: "bad \xff"},
		{fault: BadJSON, contains: brokenJSON + "\n"},
	} {
		for _, c := range clients {
			if slices.Contains(tt.except, c.name) {
				continue
			}
			raw, err := read(c.post(t, start(t, Turn{Text: "x", Faults: []Fault{tt.fault}}), true, "hi"))
			if err != nil || !strings.Contains(raw, tt.contains) || tt.lacks != "" && strings.Contains(raw, tt.lacks) {
				t.Errorf("%s: %s: %v\n%q", c.name, tt.fault, err, raw)
			}
			if strings.Contains(strings.ReplaceAll(raw, "\r\n", ""), "\n") && tt.fault == CRLF {
				t.Errorf("%s: a line without CR in\n%q", c.name, raw)
			}
		}
	}
	each(t, func(t *testing.T, c client, stream bool) {
		raw, err := read(c.post(t, start(t, Turn{Text: "x", Faults: []Fault{BOM}}), stream, "hi"))
		if err != nil || !strings.HasPrefix(raw, bom) || strings.Count(raw, bom) != 1 {
			t.Errorf("no mark: %v\n%q", err, raw)
		}
	})
}

// TestUnknownTypes checks the unknown types in each wire's stream.
func TestUnknownTypes(t *testing.T) {
	for name, want := range map[string][]string{
		"OpenAI":    {"event: future\n", `"delta":{"future"`},
		"Anthropic": {"event: future_event\n", `"type":"future_block"`, `"type":"future_delta"},"index":2`},
		"Responses": {"event: response.future\n", `"type":"future_item"`},
		"Gemini":    {"event: future\n", `"futurePart"`},
		"Ollama":    {"{\"future\":", `"future":{"a":1}`},
	} {
		i := slices.IndexFunc(clients, func(c client) bool { return c.name == name })
		turn := rich
		turn.Faults = []Fault{Unknown}
		raw, err := read(clients[i].post(t, start(t, turn), true, "hi"))
		for _, text := range want {
			if err != nil || !strings.Contains(raw, text) {
				t.Errorf("%s: no %q, %v in\n%s", name, text, err, raw)
			}
		}
	}
}

// TestBroken checks what a client reads from broken answers.
func TestBroken(t *testing.T) {
	for _, tt := range []struct {
		fault       Fault
		want, whole heard // reason is replaced by the wire's name for it
	}{
		{
			fault: ErrorEvent,
			want:  heard{text: "Grüße", failure: errorText}, whole: heard{failure: errorText},
		},
		{
			fault: ErrorBody,
			want:  heard{failure: errorText}, whole: heard{failure: errorText},
		},
		{
			fault: BadJSON,
			want:  heard{text: "Grüße", reason: "stop", end: true, junk: 1}, whole: heard{junk: 1},
		},
		{
			fault: BadUTF8, // decoders replace it by U+FFFD
			want:  heard{text: "Grüßebad \ufffd", reason: "stop", end: true}, whole: heard{text: "Grüßebad \ufffd", reason: "stop"},
		},
		{
			fault: JSON,
			want:  heard{text: "Grüße", reason: "stop"}, whole: heard{text: "Grüße", reason: "stop"},
		},
		{
			fault: NoFinish,
			want:  heard{text: "Grüße"}, whole: heard{text: "Grüße", reason: "stop"},
		},
		{
			fault: EmptyFinish,
			want:  heard{text: "Grüße", end: true}, whole: heard{text: "Grüße", reason: "stop"},
		},
	} {
		t.Run(string(tt.fault), func(t *testing.T) {
			each(t, func(t *testing.T, c client, stream bool) {
				got := c.ask(t, start(t, Turn{Text: "Grüße", Size: 2, Faults: []Fault{tt.fault}, NoUsage: true}), stream, "hi")
				want := tt.whole
				if stream {
					want = tt.want
				}
				compare(t, got, want.on(c, got), stream && tt.fault != JSON)
			})
		})
	}
}

// TestLongLine checks that the long text is in one event, and that the stream is
// complete after it.
func TestLongLine(t *testing.T) {
	long := strings.Repeat("x", longText) + `"`
	for _, c := range clients {
		raw, err := read(c.post(t, start(t, Turn{Text: "Grüße", Faults: []Fault{LongLine}}), true, "hi"))
		before, after, ok := strings.Cut(raw, long)
		if err != nil || !ok || strings.Contains(before+after, "xxx") || !strings.Contains(before, "Grüße") || strings.Count(after, "\n") < 2 {
			t.Errorf("%s: %d bytes, %v", c.name, len(raw), err)
		}
	}
	raw, err := read(clients[0].post(t, start(t, Turn{Text: "Grüße", Faults: []Fault{LongLine}}), false, "hi"))
	if before, after, ok := strings.Cut(raw, "Grüße"+long); err != nil || !ok || !json.Valid([]byte(before+`"`+after)) {
		t.Errorf("whole: %d bytes, %v", len(raw), err)
	}
}

// on returns the expected answer with the names and limits of a wire.
func (h heard) on(c client, got heard) heard {
	if h.reason == "stop" {
		h.reason = map[string]string{"Anthropic": "end_turn", "Gemini": "STOP", "Responses": "completed"}[c.name]
		if h.reason == "" {
			h.reason = "stop"
		}
	}
	if c.name == "Gemini" && h.reason == "" {
		h.end = false // the end mark is the reason
	}
	if c.name == "OpenRouter" && h.failure != "" && h.text != "" {
		h.reason = "error" // sent with the error
	}
	return h
}

func TestOpenArgs(t *testing.T) {
	each(t, func(t *testing.T, c client, stream bool) {
		for _, turn := range []Turn{
			{Text: "x", Faults: []Fault{OpenArgs}, Times: 2},
			{Text: "x", Faults: []Fault{OpenArgs}, Times: 2, Calls: []Call{{Name: "f", Args: "{}"}, {Name: "execute_bash", Args: `{"code":"ls"} `}}},
			{Text: "x", Faults: []Fault{OpenArgs}, Times: 2, Calls: []Call{{Name: "execute_bash"}}},
		} {
			s := start(t, turn)
			c.ask(t, s, stream, "hi")
			got := c.ask(t, s, stream, "hi")
			last := "none"
			if len(got.calls) > 0 {
				last = got.calls[len(got.calls)-1].Args
			}
			switch opens := last == `{"code":"ls"` || last == `{`; {
			case c.name == "Gemini":
				if opens || got.reason != "MALFORMED_FUNCTION_CALL" {
					t.Errorf("got %+v", got)
				}
			case c.name == "Ollama":
				if opens || got.end || !strings.Contains(got.failure, "error parsing tool call: raw='{") {
					t.Errorf("got %+v", got)
				}
			case c.name == "Anthropic" && !stream: // the input there must be JSON
				if !strings.HasPrefix(last, `"{`) || got.reason != "tool_use" {
					t.Errorf("got %+v", got)
				}
			case !opens || got.reason != "tool_use" && got.reason != "tool_calls" && got.reason != "completed" || stream && !got.end:
				t.Errorf("got %+v", got)
			}
		}
	})
}

func TestPageAndRedirect(t *testing.T) {
	each(t, func(t *testing.T, c client, stream bool) {
		s := start(t, Turn{Text: "x", Faults: []Fault{HTML}}, Turn{Text: "x", Redirect: "http://localhost:9/x", Header: []string{"A: b"}})
		page := c.post(t, s, stream, "hi")
		if got, err := read(page); err != nil || page.StatusCode != 200 || !strings.HasPrefix(page.Header.Get("Content-Type"), "text/html") || got != webPage {
			t.Errorf("got %s %v\n%s, %v", page.Status, page.Header, got, err)
		}
		moved := c.post(t, s, stream, "hi")
		if got, err := read(moved); err != nil || moved.StatusCode != 307 || moved.Header.Get("Location") != "http://localhost:9/x" || moved.Header.Get("A") != "b" || got != "" {
			t.Errorf("got %s %v\n%s, %v", moved.Status, moved.Header, got, err)
		}
	})
}

// TestComments checks that comments are sent until the client hangs up or the server
// is closed.
func TestComments(t *testing.T) {
	each(t, func(t *testing.T, c client, stream bool) {
		s := start(t, Turn{Text: "x", Faults: []Fault{Comments}, Times: 2})
		ends := c.post(t, s, stream, "hi")
		if _, err := io.CopyN(io.Discard, ends.Body, 1000); err != nil {
			t.Fatal(err)
		}
		ends.Body.Close()
		<-s.Requests()[0].Gone
		rest := c.post(t, s, stream, "hi")
		s.Close()
		if got, err := read(rest); err == nil {
			t.Errorf("a whole answer: %q", got)
		}
		if s.Requests()[1].IsGone() {
			t.Error("the second request counts as hung up")
		}
	})
}

// TestGatesEverywhere checks that gates, stalls and hang-ups are the same on
// every wire.
func TestGatesEverywhere(t *testing.T) {
	each(t, func(t *testing.T, c client, stream bool) {
		s := start(t, Turn{Text: "x", Wait: "one"}, Turn{Text: "x", End: Stall}, Turn{Text: "x", End: Hangup}, Turn{Text: "x", Event: `{"error":{"message":"e"}}`})
		s.Open("one")
		if got := c.ask(t, s, stream, "hi"); got.text != "x" {
			t.Errorf("got %+v", got)
		}
		if stream { // a whole answer does not even send its header
			c.post(t, s, stream, "hi").Body.Close()
			<-s.Requests()[1].Gone
		} else {
			s.hurry(t, c)
		}
		if err := broken(t, s, c, stream); err == nil {
			t.Error("a whole answer to a request with the end hangup")
		}
		if got := c.ask(t, s, true, "hi"); got.failure != "e" {
			t.Errorf("got %+v", got)
		}
	})
}

// hurry requests a whole answer that never arrives, and hangs up when the request
// has arrived.
func (s *Server) hurry(t *testing.T, c client) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.Host+c.whole, strings.NewReader(strings.ReplaceAll(c.body, "STREAM", "false")))
		if err == nil {
			_, err = http.DefaultTransport.RoundTrip(req)
		}
		ended <- err
	}()
	req, err := s.Wait(t.Context(), 2)
	zinotest.Must(t, err)
	cancel()
	if <-ended == nil {
		t.Error("an answer to a request that stalls")
	}
	<-req.Gone
}

// broken sends a request and returns the connection's error.
func broken(t *testing.T, s *Server, c client, stream bool) error {
	path := c.whole
	if stream {
		path = c.path
	}
	flag := map[bool]string{true: "true", false: "false"}[stream]
	resp, err := http.Post(s.Host+path, "", strings.NewReader(strings.ReplaceAll(c.body, "STREAM", flag)))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, err = read(resp)
	return err
}

// written is a ResponseWriter that records the writes.
type written struct {
	http.ResponseWriter
	list []string
}

func (w *written) Write(b []byte) (int, error) {
	w.list = append(w.list, string(b))
	return len(b), nil
}

func (w *written) Flush() {}

// TestWrites checks the sizes of writes, without a network, which may join them.
func TestWrites(t *testing.T) {
	for _, tt := range []struct {
		turn Turn
		want []string
	}{
		{Turn{}, []string{"aü🌍b"}},
		{Turn{Bytes: 3}, []string{"a\xc3\xbc", "🌍"[:3], "\x8db"}},
		{Turn{Bytes: 100}, []string{"aü🌍b"}},
		{Turn{Faults: []Fault{CutChar}}, []string{"a\xc3", "\xbc\xf0", "\x9f\x8c\x8db"}},
		{Turn{Faults: []Fault{CutChar}, Bytes: 7}, []string{"aü🌍", "b"}},
	} {
		var w written
		c := chat{reply: reply{Turn: tt.turn}, wire: &openai, w: &w}
		if c.write("aü🌍b"); !slices.Equal(w.list, tt.want) {
			t.Errorf("%+v: got %q, want %q", tt.turn, w.list, tt.want)
		}
	}
}

// TestFaultsAreAll checks that a script can name every fault, and that the package
// comment documents each.
func TestFaultsAreAll(t *testing.T) {
	for _, f := range Faults() {
		turns, err := Parse("=== reply fault=" + string(f))
		if err != nil || !slices.Equal(turns[0].Faults, []Fault{f}) {
			t.Errorf("%s: got %+v, %v", f, turns, err)
		}
	}
}

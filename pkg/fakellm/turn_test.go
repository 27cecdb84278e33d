package fakellm

import (
	"reflect"
	"slices"
	"strings"
	"testing"
)

func TestCut(t *testing.T) {
	for _, tt := range []struct {
		size int
		text string
		want []string
	}{
		{0, "", nil},
		{3, "", nil},
		{0, "grüße", []string{"grüße"}},
		{-1, "grüße", []string{"grüße"}},
		{1, "aü🌍", []string{"a", "ü", "🌍"}},
		{2, "aü🌍", []string{"aü", "🌍"}},
		{3, "aü🌍", []string{"aü🌍"}},
		{9, "aü🌍", []string{"aü🌍"}},
	} {
		if got := (Turn{Size: tt.size}).cut(tt.text); !slices.Equal(got, tt.want) {
			t.Errorf("%d of %q: got %q, want %q", tt.size, tt.text, got, tt.want)
		}
	}
}

// TestSettled checks which faults are replaced by other settings.
func TestSettled(t *testing.T) {
	f := func(list ...Fault) []Fault { return list }
	for _, tt := range []struct{ in, want Turn }{
		{Turn{Text: "x"}, Turn{Text: "x"}},
		{Turn{Text: "x", Faults: f(JSON)}, Turn{Text: "x", Faults: f(JSON), Whole: true}},
		{Turn{Faults: f(NoFinish)}, Turn{Faults: f(NoFinish), End: Cut}},
		{Turn{Faults: f(EmptyFinish)}, Turn{Faults: f(EmptyFinish), End: Mark}},
		{Turn{Faults: f(ErrorEvent)}, Turn{Faults: f(ErrorEvent), End: Cut}},
		{Turn{Faults: f(ErrorEvent), End: Stall}, Turn{Faults: f(ErrorEvent), End: Stall}},
		{Turn{Faults: f(NoFinish), End: Hangup}, Turn{Faults: f(NoFinish), End: Hangup}},
		{
			Turn{Text: "x", Redirect: "http://h/", Header: []string{"A: b"}},
			Turn{Redirect: "http://h/", Header: []string{"A: b", "Location: http://h/"}, Status: 307},
		},
		{
			Turn{Text: "x", Faults: f(HTML)},
			Turn{Faults: f(HTML), Status: 200, Type: "text/html; charset=utf-8", Text: webPage},
		},
		{
			Turn{Faults: f(OpenArgs), Calls: []Call{{Args: "{}"}, {Args: ` {"a":{}} `}}},
			Turn{Faults: f(OpenArgs), Calls: []Call{{Args: "{}"}, {Args: `{"a":{}`}}},
		},
	} {
		if got := tt.in.settled(); !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%+v: got %+v, want %+v", tt.in, got, tt.want)
		}
	}
}

// TestSettledAlone checks that settled does not change the script.
func TestSettledAlone(t *testing.T) {
	s := start(t, Turn{
		Times: Forever, Calls: []Call{{Name: "f", Args: "{}"}}, Faults: []Fault{OpenArgs}, Header: make([]string, 0, 9), Redirect: "http://h/",
	})
	for range 3 {
		clients[0].post(t, s, true, "hi")
	}
	turn := s.turns[0]
	if turn.Calls[0] != (Call{Name: "f", Args: "{}"}) || len(turn.Header) != 0 || turn.Status != 0 {
		t.Errorf("the script has become %+v", turn)
	}
}

func TestEnds(t *testing.T) {
	const mark, reason, usage, whole = 1, 2, 4, 7
	for _, tt := range []struct {
		end  End
		want int // parts of the answer besides the text
	}{
		{Done, whole}, {Finish, reason}, {Mark, mark}, {Cut, 0},
	} {
		for _, c := range clients {
			got := c.ask(t, start(t, Turn{Text: "x", Size: 1, End: tt.end, Usage: &Usage{In: 9, Out: 5}}), true, "hi")
			heard := 0
			if got.end {
				heard += mark
			}
			if got.reason != "" {
				heard += reason
			}
			if got.usage.Out > 1 { // Anthropic's first event says 1
				heard += usage
			}
			want := tt.want
			switch {
			case c.name == "Anthropic" && tt.end == Finish:
				want += usage // in the same event
			case c.name == "Gemini" && tt.end == Finish, c.name == "Responses" && tt.end == Finish, c.name == "Ollama" && tt.end == Finish:
				want = whole // all in one
			case c.name == "Gemini" && tt.end == Mark:
				want = usage // no mark but the reason
			case c.name == "Ollama" && tt.end == Mark:
				want += usage
			}
			if heard != want || got.text != "x" {
				t.Errorf("%s, end %q: got %+v", c.name, tt.end, got)
			}
		}
	}
}

// TestPause checks that the gate is after the text and the calls, and before the
// finish reason.
func TestPause(t *testing.T) {
	for _, c := range clients {
		s := start(t, Turn{Text: "x", Calls: []Call{{Name: "f", Args: `{"a":1}`}}, Pause: "gate"})
		resp := c.post(t, s, true, "hi")
		var got strings.Builder
		for buf := make([]byte, 1); !strings.Contains(got.String(), `:1}`); {
			n, err := resp.Body.Read(buf)
			if err != nil {
				t.Fatalf("%s: %v after %s", c.name, err, got.String())
			}
			got.Write(buf[:n])
		}
		for _, early := range []string{`"tool_calls","index"`, `"stop_reason":"tool_use"`, `"STOP"`, `"response.completed"`, `"done":true`} {
			if strings.Contains(got.String(), early) {
				t.Errorf("%s: %s before the gate was open:\n%s", c.name, early, got.String())
			}
		}
		s.Open("gate")
		if rest, err := read(resp); err != nil || rest == "" {
			t.Errorf("%s: got %q, %v", c.name, rest, err)
		}
	}
}

func TestRecordsQuery(t *testing.T) {
	s := start(t, Turn{Text: "x", Times: Forever})
	for _, c := range clients {
		c.ask(t, s, true, "hi")
	}
	for i, req := range s.Requests() {
		path, query, _ := strings.Cut(clients[i].path, "?")
		if req.Path != path || req.Query != query || req.Method != "POST" {
			t.Errorf("%s: got %s %s?%s", clients[i].name, req.Method, req.Path, req.Query)
		}
	}
	if shown := call(t, s, "GET", "/requests"); strings.Count(shown, `"query":"alt=sse"`) != 1 {
		t.Errorf("got %s", shown)
	}
}

// FuzzReply checks that a client gets every reply unchanged on every wire, streamed
// and whole, with deltas of any size.
func FuzzReply(f *testing.F) {
	f.Add("Grüße 🌍", "hm\n", "ä\"", uint8(1), uint16(7), false)
	f.Add("\u2028<tool_call>\r\n", "", "", uint8(0), uint16(0), true)
	f.Add("data: [DONE]\n\n", "\x00", "{", uint8(3), uint16(1), false)
	f.Fuzz(func(t *testing.T, text, reasoning, arg string, size uint8, bytes uint16, whole bool) {
		for _, s := range []*string{&text, &reasoning, &arg} {
			*s = strings.ToValidUTF8(*s, "?") // as JSON requires
		}
		args := encode(object{"a": arg})
		turn := Turn{
			Text: text, Reasoning: reasoning, Size: int(size), Bytes: int(bytes), Times: Forever,
			Calls: []Call{{ID: "x", Name: "f", Args: args, Whole: whole}},
		}
		s := New(turn)
		defer s.Close()
		for _, c := range clients {
			for _, stream := range []bool{true, false} {
				got := c.ask(t, s, stream, "hi")
				if got.text != text || got.reasoning != reasoning || got.junk > 0 || !slices.Equal(got.calls, []Call{{ID: "x", Name: "f", Args: args}}) {
					t.Fatalf("%s: got %+v of %+v", c.name, got, turn)
				}
			}
		}
	})
}

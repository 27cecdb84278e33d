package rtr

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"zino/pkg/config"
	"zino/pkg/fakellm"
	"zino/proto"
)

func TestStreamed(t *testing.T) {
	r, _ := openaiRouter(t, fakellm.Turn{Text: "Grüße an die 🌍, <tool_call> & \"so\"", Size: 1})
	var got chunks
	text, err := r.infer(t.Context(), ask("hi", true), &got)
	if want := "Grüße an die 🌍, <tool_call> & \"so\""; err != nil || text != want || got.text() != want {
		t.Errorf("got %q, streamed %q, %v", text, got.text(), err)
	}
	for _, c := range got.list {
		if c == "" {
			t.Error("an empty chunk")
		}
	}
}

func TestCollected(t *testing.T) {
	r, llm := openaiRouter(t, fakellm.Reply("whole"))
	var got chunks
	text, err := r.infer(t.Context(), ask("hi", false), &got)
	if err != nil || text != "whole" || len(got.list) != 0 {
		t.Errorf("got %q, chunks %q, %v", text, got.list, err)
	}
	if body := string(llm.Requests()[0].Body); !strings.Contains(body, `"stream":false`) || strings.Contains(body, "stream_options") {
		t.Errorf("asked with %s", body)
	}
}

// TestStreamingOff holds that stream: true is then answered whole, and that
// the provider is asked for the whole as well.
func TestStreamingOff(t *testing.T) {
	llm := fakellm.New(fakellm.Reply("whole"))
	defer llm.Close()
	r := start(t, func(cfg *config.Config) { cfg.API.BaseURL, cfg.Rtr.Streaming = llm.URL, false })
	var got chunks
	text, err := r.infer(t.Context(), ask("hi", true), &got)
	if err != nil || text != "whole" || got.text() != "whole" || len(got.list) != 1 {
		t.Errorf("got %q in %q, %v", text, got.list, err)
	}
	if body := string(llm.Requests()[0].Body); !strings.Contains(body, `"stream":false`) {
		t.Errorf("asked with %s", body)
	}
	if r.caps(t).Streaming {
		t.Error("capabilities promise streaming")
	}
}

// TestFlushes holds that text reaches the caller before the provider's stream
// goes on: the gate opens only when the caller has the first part.
func TestFlushes(t *testing.T) {
	r, llm := openaiRouter(t, fakellm.Turn{Text: "first", Pause: "seen"})
	var got chunks
	got.onChunk = func() { llm.Open("seen") }
	if text, err := r.infer(t.Context(), ask("hi", true), &got); err != nil || text != "first" {
		t.Errorf("got %q, %v", text, err)
	}
}

// TestCancel holds that the provider sees at once that the caller has gone.
func TestCancel(t *testing.T) {
	for _, tt := range []struct {
		name   string
		turn   fakellm.Turn
		stream bool
	}{
		{"before the answer", fakellm.Turn{Silent: true, End: fakellm.Stall}, true},
		{"in the answer", fakellm.Turn{Text: "x", End: fakellm.Stall}, true},
		{"collected", fakellm.Turn{Silent: true, End: fakellm.Stall}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, llm := openaiRouter(t, tt.turn)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			failed := make(chan error, 1)
			go func() {
				_, err := r.infer(ctx, ask("hi", tt.stream), &chunks{})
				failed <- err
			}()
			req, err := llm.Wait(t.Context(), 1)
			if err != nil {
				t.Fatal(err)
			}
			cancel()
			<-req.Gone
			if err := <-failed; !errors.Is(err, context.Canceled) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// TestConnectionKept holds that the connection of a complete answer serves a
// later request. Its last bytes are read behind the caller's back, so the very
// next request may come too early.
func TestConnectionKept(t *testing.T) {
	r, llm := openaiRouter(t, fakellm.Turn{Text: "x", Times: fakellm.Forever})
	seen := map[string]bool{}
	for range 100 {
		if _, err := r.infer(t.Context(), ask("hi", true), &chunks{}); err != nil {
			t.Fatal(err)
		}
		requests := llm.Requests()
		from := requests[len(requests)-1].From
		if seen[from] {
			return
		}
		seen[from] = true
	}
	t.Error("100 answers took 100 connections")
}

// TestRedirectFollowed holds that a redirect on the same server is followed
// with the whole request.
func TestRedirectFollowed(t *testing.T) {
	r, llm := openaiRouter(t, fakellm.Turn{Status: 308, Header: []string{"Location: /v1/chat/completions"}}, fakellm.Reply("x"))
	if text, err := r.infer(t.Context(), ask("hi", true), &chunks{}); err != nil || text != "x" {
		t.Errorf("got %q, %v", text, err)
	}
	first, second := llm.Requests()[0], llm.Requests()[1]
	if string(first.Body) != string(second.Body) || second.Header.Get("Authorization") != "Bearer "+testKey {
		t.Errorf("followed with %s and %v", second.Body, second.Header)
	}
}

func TestRequest(t *testing.T) {
	messages := `[{"role":"system","content":"é <b> \u00fc \ud83c\udf0d"}, {"role":"assistant","content":null,"tool_calls":[{"id":"1","x":[1.50]}]},{"role":"tool","tool_call_id":"1","content":"r","extra":{"a":null}}]`
	tests := []struct {
		name, base, model string
		maxTokens         int
		in                proto.Infer
		want              string // the body
	}{
		{
			"as it came", "http://h/v1", "m", 0,
			proto.Infer{Messages: proto.Raw(messages), Temperature: 0, TopP: 0.5, Stream: true},
			`{"messages":` + messages + `,"model":"m","stream":true,"stream_options":{"include_usage":true},"temperature":0,"top_p":0.5}`,
		},
		{
			"collected, limited", "http://h/v1", "m", 100,
			proto.Infer{Messages: proto.Raw(`[]`), Temperature: 0.7, TopP: 1},
			`{"max_tokens":100,"messages":[],"model":"m","stream":false,"temperature":0.7,"top_p":1}`,
		},
		{
			"openai", openAI, "gpt-4.1", 100,
			proto.Infer{Messages: proto.Raw(`[]`), Temperature: 0.7, TopP: 1},
			`{"max_completion_tokens":100,"messages":[],"model":"gpt-4.1","stream":false,"temperature":0.7,"top_p":1}`,
		},
		{
			"openai, reasoning", openAI, defaultModel, 0,
			proto.Infer{Messages: proto.Raw(`[]`), Temperature: 0.7, TopP: 1},
			`{"messages":[],"model":"gpt-6-luna","stream":false}`,
		},
		{
			"claude continues", "https://gateway/v1", "anthropic/claude-x", 0,
			proto.Infer{Messages: proto.Raw(`[{"role":"assistant","content":"a"}  ] `), TopP: 1},
			`{"messages":[{"role":"assistant","content":"a"},{"role":"user","content":"Continue."}],"model":"anthropic/claude-x","stream":false,"temperature":0}`,
		},
		{
			"claude after a user", "https://gateway/v1", "claude-x", 0,
			proto.Infer{Messages: proto.Raw(`[{"role":"user","content":"a"}]`), TopP: 0.9},
			`{"messages":[{"role":"user","content":"a"}],"model":"claude-x","stream":false,"temperature":0,"top_p":0.9}`,
		},
		{
			"mistral", "https://api.mistral.ai/v1", "m", 0,
			proto.Infer{Messages: proto.Raw(`[{"role":"assistant","content":"","tool_calls":null}]`), TopP: 1, Stream: true},
			`{"messages":[{"role":"assistant","content":"","tool_calls":null},{"role":"user","content":"Continue."}],"model":"m","stream":true,"temperature":0,"top_p":1}`,
		},
		{
			"surrogates", "http://h/v1", "m", 0,
			proto.Infer{Messages: proto.Raw(`[{"role":"user","content":"\ud83c\udf0d \ud800 \udc00\\ud800\uD83Cx\ud800\ud83c\udf0d"}]`)},
			`{"messages":[{"role":"user","content":"\ud83c\udf0d \ufffd \ufffd\\ud800\ufffdx\ufffd\ud83c\udf0d"}],"model":"m","stream":false,"temperature":0,"top_p":0}`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			u, err := parseBase(tt.base)
			if err != nil {
				t.Fatal(err)
			}
			e := newEndpoint(nil, settings{base: u, model: tt.model, maxTokens: tt.maxTokens})
			got, err := e.request(tt.in)
			if err != nil || compact(string(got)) != compact(tt.want) {
				t.Errorf("got  %s, %v\nwant %s", got, err, tt.want)
			}
		})
	}
}

// compact takes the blanks out that the tests have between tokens.
func compact(s string) string {
	return strings.NewReplacer("}, {", "},{", "}  ,{", "},{", "\n", "").Replace(s)
}

// TestMessagesVerbatim holds that messages cross socket and router unchanged.
func TestMessagesVerbatim(t *testing.T) {
	r, llm := openaiRouter(t, fakellm.Reply("x"))
	messages := `[{"role":"user","content":[{"type":"text","text":"<a> é"}],"name":"n","n":1.0}]`
	if _, err := r.infer(t.Context(), proto.Infer{Messages: proto.Raw(messages), Temperature: 0.25, TopP: 1}, &chunks{}); err != nil {
		t.Fatal(err)
	}
	var body map[string]json.RawMessage
	if err := json.Unmarshal(llm.Requests()[0].Body, &body); err != nil {
		t.Fatal(err)
	}
	if string(body["messages"]) != messages || string(body["temperature"]) != "0.25" || string(body["top_p"]) != "1" {
		t.Errorf("asked with %s", body)
	}
}

// TestMessageErrors holds which words a list is refused with, and that keys
// have one case.
func TestMessageErrors(t *testing.T) {
	const noList = "Invalid request: messages must be a list of objects, each with a string role"
	for messages, want := range map[string]string{
		`null`: noList, `{}`: noList, `[7]`: noList, `[[]]`: noList, `[{"role":7}]`: noList, `[{}`: noList,
		`[null]`:                                     "Invalid request: messages[0] has no string role",
		`[{"role":"user"},{"Role":"user"}]`:          "Invalid request: messages[1] has no string role",
		`[{"role":"user","role":null}]`:              "Invalid request: messages[0] has no string role",
		"[{\"role\":\"user\",\"content\":\"\xff\"}]": "Invalid request: messages are not UTF-8",
	} {
		if _, err := readMessages(proto.Raw(messages)); err == nil || err.Error() != want {
			t.Errorf("%s: got %v, want %s", messages, err, want)
		}
	}
}

func TestInvalidMessages(t *testing.T) {
	r, llm := openaiRouter(t)
	for _, messages := range []string{`{}`, `"x"`, `7`, `[7]`, `["a"]`, `[[]]`, `[null]`, `[{}]`, `[{"role":null}]`, `[{"role":7}]`, `[{"role":"user",}]`, `[{"role":"user"} {"role":"user"}]`} {
		_, err := r.infer(t.Context(), proto.Infer{Messages: proto.Raw(messages), TopP: 1}, &chunks{})
		if e := failure(t, err); e.Code != proto.CodeInvalid {
			t.Errorf("%s: got %+v", messages, *e)
		}
	}
	if n := len(llm.Requests()); n != 0 {
		t.Errorf("the provider got %d requests", n)
	}
	if _, err := readMessages(proto.Raw("[{\"role\":\"user\",\"content\":\"\xff\"}]")); !errors.Is(err, proto.ErrInvalid) {
		t.Errorf("bad UTF-8: got %v", err)
	}
}

// anyCuts is a stream with all that can stand at a cut: characters of several
// bytes, CRLF, comments, data in several lines.
const anyCuts = "\xef\xbb\xbf: c\r\n\r\ndata: {\"choices\":[{\"delta\":{\"content\":\"Grü\"}}]}\r\n\r\ndata:{\"choices\":\ndata: [{\"delta\":{\"content\":\"ße 🌍\"}}]}\n\n" +
	"data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\r\rdata: [DONE]\n\n"

func TestCuts(t *testing.T) {
	in := ask("hi", true)
	check := func(name string, body io.Reader) {
		var got chunks
		text, err := answering(func() io.Reader { return body }).infer(t.Context(), in, &got)
		if err != nil || text != "Grüße 🌍" || got.text() != text || len(got.list) != 2 {
			t.Errorf("%s: got %q in %q, %v", name, text, got.list, err)
		}
	}
	check("whole", strings.NewReader(anyCuts))
	check("byte by byte", iotest.OneByteReader(strings.NewReader(anyCuts)))
	for i := range anyCuts {
		check("cut", io.MultiReader(strings.NewReader(anyCuts[:i]), strings.NewReader(anyCuts[i:])))
	}
	r, _ := openaiRouter(t, fakellm.Turn{Status: 200, Type: "text/event-stream", Text: anyCuts, Size: 1})
	if text, err := r.infer(t.Context(), in, &chunks{}); err != nil || text != "Grüße 🌍" {
		t.Errorf("byte by byte over the network: got %q, %v", text, err)
	}
}

// TestTruncated holds that no beginning of a stream is taken for an answer
// until its finish reason or end mark is there.
func TestTruncated(t *testing.T) {
	complete := strings.Index(anyCuts, `]}`+"\r\r")
	for i := range complete {
		var got chunks
		text, err := answering(func() io.Reader { return strings.NewReader(anyCuts[:i]) }).infer(t.Context(), ask("hi", true), &got)
		if !errors.Is(err, proto.ErrUnavailable) || text != got.text() || !strings.HasPrefix("Grüße 🌍", text) {
			t.Errorf("cut off at %d: got %q, streamed %q, %v", i, text, got.text(), err)
		}
	}
}

func TestTooLarge(t *testing.T) {
	event := `data: {"choices":[{"delta":{"content":"` + strings.Repeat("x", 1<<20) + `"}}]}` + "\n\n"
	many := io.MultiReader(strings.NewReader(strings.Repeat(event, 17)))
	_, err := answering(func() io.Reader { return many }).infer(t.Context(), ask("hi", false), &chunks{})
	if !errors.Is(err, proto.ErrTooLarge) {
		t.Errorf("many events: got %v", err)
	}
	one := strings.NewReader("data: " + strings.Repeat("x", 17<<20))
	_, err = answering(func() io.Reader { return one }).infer(t.Context(), ask("hi", false), &chunks{})
	if !errors.Is(err, proto.ErrTooLarge) {
		t.Errorf("one event: got %v", err)
	}
}

// FuzzAnswer holds that no provider can break the router, make it call half an
// answer whole, or have it repeat the key.
func FuzzAnswer(f *testing.F) {
	f.Add([]byte(anyCuts))
	for _, tt := range faults {
		if tt.turn.Status == 200 {
			f.Add([]byte(tt.turn.Text))
		}
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		run := func(r io.Reader) (string, error) {
			var got chunks
			text, err := answering(func() io.Reader { return r }).infer(t.Context(), ask("hi", true), &got)
			if got.text() != text {
				t.Fatalf("streamed %q, returned %q", got.text(), text)
			}
			return text, err
		}
		text, err := run(strings.NewReader(string(body)))
		again, err2 := run(iotest.OneByteReader(strings.NewReader(string(body))))
		if text != again || (err == nil) != (err2 == nil) || err != nil && err.Error() != err2.Error() {
			t.Fatalf("whole: %q, %v; byte by byte: %q, %v", text, err, again, err2)
		}
		if err != nil {
			e := failure(t, err)
			noSecret(t, "the error", e.Message+e.Details)
			if strings.ContainsAny(e.Message+e.Details, "\n\r\x1b\x00") {
				t.Fatalf("control characters in %+v", *e)
			}
		}
	})
}

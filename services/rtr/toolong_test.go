package rtr

import (
	"strings"
	"testing"

	"zino/pkg/config"
	"zino/pkg/fakellm"
	"zino/proto"
)

const wayOut = `. Go on in a new session: zino handoff --from-session s-1 --goal "…"`

// TestFits holds that a session which cannot fit is not sent, where it is known
// what the model holds, and that the error says how to go on.
func TestFits(t *testing.T) {
	long := strings.Repeat("word ", 8000) // 10000 tokens
	for _, tt := range []struct {
		name    string
		content string
		context int
		session string
		events  bool
		tools   proto.Raw
		refused string
	}{
		{"it fits", long, 10010, "s-1", true, nil, ""},
		{"it does not", long, 9999, "s-1", true, nil, "about 10000 tokens, more than the 9999 that m holds"},
		{"nothing is known", long, 0, "s-1", true, nil, ""},
		{"tools count", "hi", 30, "s-1", false, oneTool, ""},
		{"too many tools", "hi", 13, "s-1", false, oneTool, "more than the 13 that m holds"},
		{"no session", long, 9999, "", true, nil, "more than the 9999 that m holds"},
		{"no name that a session has", long, 9999, "../x; rm", true, nil, "more than the 9999 that m holds"},
		{"a plain request", long, 9999, "", false, nil, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, llm := toolRouter(t, func(c *config.Config) { c.Rtr.Model = []config.Model{{Name: "m", Context: tt.context}} }, fakellm.Reply("x"))
			in := ask(tt.content, true)
			in.SessionID, in.Events, in.Tools = tt.session, tt.events, tt.tools
			text, err := r.infer(t.Context(), in, &chunks{})
			if tt.refused == "" {
				if err != nil || text != "x" {
					t.Errorf("got %q, %v", text, err)
				}
				return
			}
			e := failure(t, err)
			if e.Code != proto.CodeTooLarge || e.Kind != "session" || !strings.Contains(e.Message, tt.refused) || !strings.Contains(e.Message, "set context of [[rtr.model]]") || strings.HasSuffix(e.Message, wayOut) != (tt.session == "s-1") {
				t.Errorf("got %+v", *e)
			}
			if n := len(llm.Requests()); n != 0 {
				t.Errorf("asked %d times", n)
			}
		})
	}
}

// TestFitsOllama: what Ollama says of its model counts, too.
func TestFitsOllama(t *testing.T) {
	alone(t)
	llm := fakellm.New(fakellm.Reply("x"))
	defer llm.Close()
	t.Setenv("OLLAMA_HOST", llm.Host)
	r := start(t, func(c *config.Config) { c.Provider = "ollama" })
	in := ask(strings.Repeat("word ", 30000), true)
	in.SessionID = "s-1"
	_, err := r.infer(t.Context(), in, &chunks{})
	if e := failure(t, err); e.Code != proto.CodeTooLarge || !strings.Contains(e.Message, "more than the 32768 that m holds") {
		t.Errorf("got %+v", *e)
	}
	if requests := llm.Requests(); len(requests) != 1 || requests[0].Path != "/api/show" {
		t.Errorf("%d requests", len(requests))
	}
}

// TestTooLong holds that a provider's own complaint is told with the same way
// out, on every wire and for a stream that begins well.
func TestTooLong(t *testing.T) {
	const body = `{"error":{"message":"prompt is too long: 9 tokens > 8 maximum.","type":"invalid_request_error"}}`
	for _, wire := range wireNames {
		for _, session := range []string{"s-1", "", "unsaved"} {
			llm := fakellm.New(fakellm.Failure(400, body))
			r := onWire(t, wire, llm.Host, nil)
			in := ask("hi", true)
			in.SessionID, in.NoSave = session, session == "unsaved"
			_, err := r.infer(t.Context(), in, &chunks{})
			want := "HTTP 400: prompt is too long: 9 tokens > 8 maximum."
			switch session {
			case "s-1":
				want = strings.TrimSuffix(want, ".") + wayOut
			case "unsaved":
				want += " This session is not stored: begin a new one with what is needed of it"
			}
			if e := failure(t, err); e.Code != proto.CodeTooLarge || e.Kind != "http_status" || e.Status != 400 || e.Message != want {
				t.Errorf("%s: got %+v", wire, *e)
			}
			llm.Close()
		}
	}
	r, _ := openaiRouter(t, stream(hello+`data: {"error":{"message":"no","code":"context_length_exceeded"}}`+"\n\n"))
	in := ask("hi", true)
	in.SessionID = "s-1"
	var got chunks
	_, err := r.infer(t.Context(), in, &got)
	if e := failure(t, err); e.Code != proto.CodeTooLarge || e.Message != "the provider reports: no"+wayOut || got.text() != "hello" {
		t.Errorf("in the stream: got %+v behind %q", *e, got.text())
	}
}

// TestTooLongHasNoFallback: the conversation is as long for the next model.
func TestTooLongHasNoFallback(t *testing.T) {
	for _, turn := range []fakellm.Turn{
		fakellm.Failure(400, `{"error":{"code":"context_length_exceeded"}}`),
		fakellm.Failure(500, `{"error":"prompt too long"}`),
		stream(`data: {"error":{"code":"context_length_exceeded"}}` + "\n\n"),
	} {
		all := startThree(t, nil, turn, fakellm.Reply("2"), fakellm.Reply("3"))
		_, err := all.infer(t.Context(), ask("hi", true), &chunks{})
		if e := failure(t, err); e.Code != proto.CodeTooLarge || all.asked() != [3]int{1, 0, 0} {
			t.Errorf("got %+v, asked %v", *e, all.asked())
		}
	}
}

package wire

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"testing"
	"time"

	"zino/pkg/zinotest"
	"zino/proto"
)

// testKey holds characters that JSON and URLs write in other ways.
const testKey = `sk-te"st/0123+45\6789`

// script is an HTTP transport that answers each request with the next body,
// and records the requests.
type script struct {
	bodies []io.Reader
	asked  []string
	paths  []string
	header http.Header // of the last request
}

// RoundTrip answers with status 200.
func (s *script) RoundTrip(req *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	s.asked, s.paths, s.header = append(s.asked, string(body)), append(s.paths, req.URL.RequestURI()), req.Header
	next := s.bodies[0]
	s.bodies = s.bodies[1:]
	return &http.Response{StatusCode: 200, Status: "200 OK", Header: http.Header{}, Body: io.NopCloser(next), Request: req}, nil
}

// endpointFor returns an endpoint that answers with bodies.
func endpointFor(t testing.TB, bodies ...io.Reader) (*Endpoint, *script) {
	t.Helper()
	base, err := url.Parse("http://provider.test/v1")
	zinotest.Must(t, err)
	s := &script{bodies: bodies}
	ep := NewEndpoint(&http.Client{Transport: s}, base, testKey, time.Minute)
	ep.KeyHint, ep.BaseHint = "THE_KEY", "the_base_url"
	return ep, s
}

// gathered is a sink that formats events and joins pieces of text.
type gathered struct {
	Answer
	words []string
	last  Event
}

// Event takes an event.
func (g *gathered) Event(e Event) error {
	g.Answer.Event(e)
	same := len(g.words) > 0 && e.Kind == g.last.Kind && e.Index == g.last.Index
	switch e.Kind {
	case Text, Reasoning, ToolArgs:
		if !same {
			g.words = append(g.words, fmt.Sprintf("%s %d ", []string{Text: "text", Reasoning: "reasoning", ToolArgs: "args"}[e.Kind], e.Index))
		}
		g.words[len(g.words)-1] += string(e.Delta)
	case ToolStart:
		g.words = append(g.words, fmt.Sprintf("tool %d %s %s", e.Index, e.ID, e.Name))
	case State:
		g.words = append(g.words, "state "+string(e.Delta))
	case Used:
		b, err := json.Marshal(e.Usage)
		if err != nil {
			return err
		}
		g.words = append(g.words, "used "+string(b))
	case Finish:
		g.words = append(g.words, "finish "+e.Reason)
	}
	g.last = e
	g.last.Delta = nil
	return nil
}

// Flush does nothing.
func (g *gathered) Flush() error { return nil }

// ask is a request with one message and the given changes.
func ask(t testing.TB, change func(*Request)) *Request {
	t.Helper()
	req := &Request{
		Model: "m", Raw: json.RawMessage(`[{"role":"user","content":"hi"}]`), Temperature: 0.5, TopP: 1,
		MaxTokens: 100, Stream: true, Traits: Traits{MaxTokensField: "max_tokens"},
	}
	if change != nil {
		change(req)
	}
	var err error
	if req.Messages, err = ReadMessages(proto.Raw(req.Raw)); err != nil {
		t.Fatal(err)
	}
	return req
}

// eventsOf returns the events of an answer and the error.
func eventsOf(t *testing.T, infer Func, req *Request, body io.Reader) ([]string, error) {
	t.Helper()
	ep, _ := endpointFor(t, body)
	var g gathered
	err := infer(context.Background(), ep, req, &g)
	return g.words, err
}

// quotedKey is testKey inside a JSON string.
const quotedKey = `sk-te\"st/0123+45\\6789`

package wire

import (
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"zino/pkg/fakellm"
	"zino/proto"
	"zino/services/rtr/retry"
)

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
			if text, f := answered(t, ep, false); f == nil || f.Code != proto.CodeTooLarge || f.Verdict.Class != retry.Stop || len(text) > MaxAnswer {
				t.Errorf("got %d bytes, %v", len(text), f)
			}
		})
	}
}

// TestLongLine holds that a line of 10 MiB is an answer like any other, and that
// no way of sending a character breaks it.
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
			text, f := answered(t, realEndpoint(t, llm.URL), true)
			if f != nil || len(text) != tt.size || strings.ToValidUTF8(text, "") != text {
				t.Errorf("got %d bytes, %v", len(text), f)
			}
		})
	}
}

// endless is a text for ever.
type endless string

// Read fills the buffer.
func (e endless) Read(p []byte) (n int, err error) {
	for n < len(p) {
		n += copy(p[n:], e)
	}
	return n, nil
}

// TestFlood holds that a stream which says nothing does not go on for ever,
// however fast its bytes come.
func TestFlood(t *testing.T) {
	for _, noise := range []string{": " + strings.Repeat("ping ", 1000) + "\n\n", "event: " + strings.Repeat("x", 5000) + "\n\n", strings.Repeat(" ", 4096)} {
		ep, _ := endpointFor(t, io.MultiReader(strings.NewReader("data: "+delta(`"content":"x"`)+"\n\n"), endless(noise)))
		text, f := answered(t, ep, true)
		if text != "x" || f == nil || f.Kind != kindParse || f.Verdict.Class != retry.Stop {
			t.Errorf("%.9q: got %q, %v", noise, text, f)
		}
	}
}

// TestRedirectElsewhere holds that no other server gets the key, or anything at
// all.
func TestRedirectElsewhere(t *testing.T) {
	var asked atomic.Int64
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	defer other.Close()
	llm := fakellm.New(fakellm.Turn{Redirect: other.URL + "/v1/chat/completions", Times: fakellm.Forever})
	defer llm.Close()
	for _, stream := range []bool{true, false} {
		_, f := answered(t, realEndpoint(t, llm.URL), stream)
		if f == nil || f.Status != 307 || !strings.Contains(f.Message, "redirects to "+other.URL+"/v1,") || f.Verdict.Class != retry.Stop {
			t.Errorf("got %v", f)
		}
	}
	if n := asked.Load(); n != 0 {
		t.Errorf("the other server got %d requests", n)
	}
}

// TestRedirectFollowed holds that a redirect on the same server is followed
// with the whole request, but not for ever.
func TestRedirectFollowed(t *testing.T) {
	llm := fakellm.New(fakellm.Turn{Status: 308, Header: []string{"Location: /v1/chat/completions"}}, fakellm.Reply("x"))
	defer llm.Close()
	if text, f := answered(t, realEndpoint(t, llm.URL), true); f != nil || text != "x" {
		t.Errorf("got %q, %v", text, f)
	}
	first, second := llm.Requests()[0], llm.Requests()[1]
	if string(first.Body) != string(second.Body) || second.Header.Get("Authorization") != "Bearer "+testKey {
		t.Errorf("followed with %s and %v", second.Body, second.Header)
	}
	llm.Add(fakellm.Turn{Redirect: "/v1/chat/completions", Times: fakellm.Forever})
	if _, f := answered(t, realEndpoint(t, llm.URL), true); f == nil || f.Status != 307 {
		t.Errorf("in a circle: got %v", f)
	}
	if n := len(llm.Requests()); n > 10 {
		t.Errorf("%d requests in a circle", n)
	}
}

// TestCertificate holds that a server whose certificate is not trusted, and one
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
		_, f := answered(t, realEndpoint(t, base+"/v1"), true)
		if f == nil || !strings.HasPrefix(f.Message, "no safe connection to "+base+"/v1: ") || !strings.Contains(f.Message, "the_base_url") {
			t.Fatalf("got %v", f)
		}
		if f.Verdict.Class != retry.Stop || !f.Unsent || f.Kind != kindAPI {
			t.Errorf("got %+v", *f)
		}
	}
	if asked {
		t.Error("the request was sent")
	}
}

// TestUnreachable holds what is said of a server that is not there, and that
// the password in its URL is not.
func TestUnreachable(t *testing.T) {
	ep := realEndpoint(t, "http://someone:s3cret-pass@127.0.0.1:1/v1")
	_, f := answered(t, ep, true)
	if f == nil || !strings.HasPrefix(f.Message, "cannot reach the model at http://127.0.0.1:1/v1: ") || strings.Contains(f.Message+ep.Name, "s3cret") {
		t.Fatalf("got %v", f)
	}
	if !f.Unsent || f.Verdict.Class != retry.Retry || f.Code != proto.CodeUnavailable {
		t.Errorf("got %+v", *f)
	}
}

// TestHeaders holds what goes out besides the body, and that the answer's status
// and header are shown to whoever watches the limits.
func TestHeaders(t *testing.T) {
	llm := fakellm.New(
		fakellm.Turn{Text: "x", Header: []string{"X-RateLimit-Remaining-Requests: 7"}},
		fakellm.Turn{Status: 429, Text: "{}", Header: []string{"Retry-After: 9"}})
	defer llm.Close()
	ep := realEndpoint(t, strings.Replace(llm.URL, "//", "//u:p%20w@", 1))
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
	if f == nil || f.Verdict.Wait != 9*time.Second || f.Header.Get("Retry-After") != "9" {
		t.Errorf("got %+v", f)
	}
	if strings.Join(seen, " ") != "OK7 Too Many Requests9" {
		t.Errorf("shown %q", seen)
	}
	if accept := llm.Requests()[1].Header.Get("Accept"); accept != "application/json" {
		t.Errorf("a whole answer is asked for with %s", accept)
	}
}

package wire

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"zino/pkg/zinotest"
	"zino/services/rtr/retry"

	"zino/proto"
)

func TestMask(t *testing.T) {
	m := newMask(testKey, url.UserPassword("someone", "pa ss"))
	for _, tt := range []struct{ in, want string }{
		{"key " + testKey + "!", "key [hidden]!"},
		{`{"k":"` + quotedKey + `"}`, `{"k":"[hidden]"}`},
		{"?k=" + url.QueryEscape(testKey), "?k=[hidden]"},
		{"/" + url.PathEscape(testKey), "/[hidden]"},
		{"upper " + strings.ToUpper(testKey), "upper [hidden]"},
		{"base64 " + base64.RawStdEncoding.EncodeToString([]byte(testKey)), "base64 [hidden]"},
		{"pa ss, pa+ss, pa%20ss", "[hidden], [hidden], [hidden]"},
		{"Authorization: Basic c29tZW9uZTpwYSBzcw==", "Authorization: [hidden] [hidden]"},
		{"got Bearer abcdefghijklmnop_1234.x", "got Bearer [hidden]"},
		{`{"x-api-key": "abcd1234"}`, `{"x-api-key": "[hidden]"}`},
		{"a bearer token is missing", "a bearer token is missing"},
		{"a\r\n\tb\x00c\u2028d", "a b c d"},
		{"\u202eevil\u2066", "evil"},
		{"bad \xff\xfe", "bad \uFFFD"},
	} {
		if got := m.text(tt.in, 200); got != tt.want {
			t.Errorf("%q: got %q, want %q", tt.in, got, tt.want)
		}
	}
	if got := m.text("ääää", 3); got != "ä…" {
		t.Errorf("cut in a character: %q", got)
	}
	if got := newMask("x", nil).text("next", 10); got != "next" {
		t.Errorf("a placeholder garbles text: %q", got)
	}
}

// FuzzMask checks that masked text has no secret and is one clean line.
func FuzzMask(f *testing.F) {
	f.Add("key "+testKey, uint(20))
	f.Add(testKey[:5]+testKey, uint(9))
	f.Add("Bearer "+testKey+"\r\n\u202e", uint(100))
	m := newMask(testKey, url.UserPassword("u", "pass word"))
	f.Fuzz(func(t *testing.T, text string, limit uint) {
		got := m.text(text, int(limit%3000))
		if strings.Contains(got, testKey) || !utf8.ValidString(got) || strings.ContainsAny(got, "\n\r\t\x00\x1b\u2028\u202e") {
			t.Fatalf("%q came out as %q", text, got)
		}
	})
}

// TestSize checks that each part of the prompt is counted once.
func TestSize(t *testing.T) {
	list, err := ReadMessages(proto.Raw(`[{"role":"user","content":"123456","other":"not read"},{"role":"assistant","content":null,"reasoning_state":{"a":1},
	 "tool_calls":[{"id":"12","function":{"name":"ab","arguments":"{\"a\":1}"}}]},{"role":"tool","tool_call_id":"12","content":"x"}]`))
	zinotest.Must(t, err)
	req := &Request{Messages: append(list, Message{Role: "user", Text: "made"}), Tools: []Tool{{"n", "de", []byte("{}")}}}
	if got, want := req.Size(), len(`"123456"`)+len("null")+len(`ab{"a":1}`)+len(`"x"`)+len("made")+len("nde{}"); got != want {
		t.Errorf("got %d, want %d", got, want)
	}
}

func TestContent(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{`null`, ""},
		{`""`, ""},
		{`"a\u00fc\n"`, "aü\n"},
		{`7`, ""},
		{`{"text":"a"}`, ""},
		{`[]`, ""},
		{`true`, ""},
		{`[{"type":"text","text":"a"},{"type":"image_url","image_url":{}},{"type":"text","text":"b"}]`, "ab"},
		{`[{"text":null},{"text":7}]`, ""},
		{`["a"]`, ""},
		{`"\ud800"`, "\uFFFD"},
	} {
		if got := contentOf([]byte(tt.in)); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.in, got, tt.want)
		}
	}
}

// FuzzOverflows checks that nothing but a provider's messages makes a conversation
// too long.
func FuzzOverflows(f *testing.F) {
	addRefusals(f, func(status int, _ string, body []byte) { f.Add(status, body) })
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		got := refusedWith(status, "", body)
		if status == 401 && got.TooLong || status == 413 && !got.TooLong || got.TooLong != (got.Code == proto.CodeTooLarge) || got.TooLong && got.Class != Stop {
			t.Fatalf("%d %q: got %+v", status, body, got)
		}
	})
}

// FuzzJudge checks the invariants of all refusals.
func FuzzJudge(f *testing.F) {
	addRefusals(f, func(status int, lines string, body []byte) { f.Add(status, lines, body) })
	f.Fuzz(func(t *testing.T, status int, lines string, body []byte) {
		got := refusedWith(status, lines, body)
		if got.Class != Stop && got.Class != Retry && got.Class != WaitLong || got.Code == "" || got.Message == "" {
			t.Errorf("got %+v, %+v", got, *got.reported)
		}
		if got.Wait < 0 || got.Wait > retry.Longest || got.Class == Stop && got.Wait > 0 {
			t.Errorf("waits %v, class %s", got.Wait, got.Class)
		}
		if got.Class == Retry && slices.Contains([]int{400, 401, 402, 403, 404, 413}, status) {
			t.Errorf("%d is retried", status)
		}
		if strings.ContainsAny(got.Message+got.Details, "\n\r\x1b\x00") {
			t.Errorf("control characters in %+v", *got.reported)
		}
		noSecret(t, "the error", got.Message+got.Details)
	})
}

// refusedWith is the error of an answer with a status, header lines and a body.
func refusedWith(status int, lines string, body []byte) *Fault {
	ep := NewEndpoint(nil, &url.URL{Host: "h"}, testKey, 0)
	h := http.Header{}
	for line := range strings.Lines(lines) {
		name, value, _ := strings.Cut(line, ":")
		h.Add(name, strings.TrimSpace(value))
	}
	return ep.refused(status, h, body, &Request{Model: "m"}, "+model")
}

// addRefusals adds the refusals of testdata/streams as seeds.
func addRefusals(f *testing.F, add func(status int, lines string, body []byte)) {
	f.Helper()
	for _, c := range readStreams(f, "testdata/streams/refusals.txtar") {
		var lines strings.Builder
		for name, values := range c.header {
			lines.WriteString(name + ": " + values[0] + "\n")
		}
		add(c.status, lines.String(), []byte(c.bytes))
	}
}

// TestCutRefusal checks that a body cut off at any byte is classified at least by its
// status.
func TestCutRefusal(t *testing.T) {
	for _, c := range readStreams(t, "testdata/streams/refusals.txtar") {
		for i := 0; c.status == 429 && i < len(c.bytes)-1; i++ {
			if got := refusedWith(429, "", []byte(c.bytes[:i])); got.Class == Stop && !got.TooLong || got.Wait > 0 && got.Class == WaitLong {
				t.Fatalf("%s, cut at %d: %+v", c.name, i, got)
			}
		}
	}
}

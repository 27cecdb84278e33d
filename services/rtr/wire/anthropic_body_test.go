package wire

import (
	"bytes"
	"encoding/json"
	"flag"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"zino/pkg/fakellm"
	"zino/proto"
)

var updateAnthropic = flag.Bool("update.anthropic", false, "write the bodies in testdata/anthropic anew")

// legalForAnthropic is the first thing that Anthropic would refuse in a body.
func legalForAnthropic(body []byte) error {
	req := fakellm.Request{Path: "/v1/messages", Header: http.Header{"Anthropic-Version": {anthropicVersion}}, Body: body}
	return req.Legal()
}

// TestAnthropicBodies writes the bodies of all conversations in testdata.
func TestAnthropicBodies(t *testing.T) {
	files, err := filepath.Glob("testdata/anthropic/*.in.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no conversations: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".in.json"), func(t *testing.T) {
			body, err := anthropicBody(readConversation(t, file))
			if err != nil {
				t.Fatal(err)
			}
			if err := legalForAnthropic(body); err != nil {
				t.Errorf("not legal: %v", err)
			}
			var shown bytes.Buffer
			if err := json.Indent(&shown, body, "", " "); err != nil {
				t.Fatal(err)
			}
			shown.WriteByte('\n')
			golden := strings.Replace(file, ".in.", ".out.", 1)
			if *updateAnthropic {
				if err := os.WriteFile(golden, shown.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil || !bytes.Equal(shown.Bytes(), want) {
				t.Errorf("%v, got\n%s\nwant\n%s", err, shown.Bytes(), want)
			}
		})
	}
}

// readConversation reads a request from a file.
func readConversation(t *testing.T, file string) *Request {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var in struct {
		Messages proto.Raw
		Tools    proto.Raw
		Tokens   int `json:"max_tokens"`
	}
	if err := json.Unmarshal(raw, &in); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	req := &Request{Model: "claude-x", MaxTokens: in.Tokens, Temperature: 0.7, TopP: 1, Traits: Traits{OneSampling: true}}
	if req.Messages, err = ReadMessages(in.Messages); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	if req.Tools, err = ReadTools(in.Tools); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return req
}

func TestAnthropicSampling(t *testing.T) {
	for _, tt := range []struct {
		temperature, topP float64
		traits            Traits
		want              string
	}{
		{0, 1, Traits{OneSampling: true}, `"temperature":0,`},
		{2, 0.5, Traits{OneSampling: true}, `"temperature":1,`},
		{-1, 1.5, Traits{}, `"temperature":0,"top_p":1,`},
		{0.3, 0.5, Traits{NoTemperature: true, OneSampling: true}, `"top_p":0.5,`},
		{0.3, 0.5, Traits{NoTemperature: true, NoTopP: true}, ""},
	} {
		req := ask(t, func(r *Request) { r.Temperature, r.TopP, r.Traits, r.MaxTokens = tt.temperature, tt.topP, tt.traits, 0 })
		body, err := anthropicBody(req)
		want := `{"model":"m","max_tokens":4096,"stream":true,` + tt.want + `"messages":[{"role":"user","content":[{"type":"text","text":"hi","cache_control":{"type":"ephemeral"}}]}]}`
		if err != nil || string(body) != want {
			t.Errorf("got %s, %v, want %s", body, err, want)
		}
	}
	if _, err := anthropicBody(ask(t, func(r *Request) { r.Temperature = math.NaN() })); err == nil {
		t.Error("no number passed as a temperature")
	}
}

// utterances are messages of all sorts, of which conversations are made.
func utterances() []Message {
	call := func(ids ...string) Message {
		m := Message{Role: "assistant"}
		for _, id := range ids {
			m.Calls = append(m.Calls, Call{id, "f", "{}"})
		}
		return m
	}
	signed := call("1")
	signed.State = newState("anthropic", "m", []byte(`[{"type":"thinking","thinking":"t","signature":"s"},{"type":"tool_use","id":"1","name":"f","input":{}}]`))
	return []Message{
		{Role: "system", Text: "s"},
		{Role: "user", Text: "u"},
		{Role: "user", Text: " \n"},
		{Role: "assistant", Text: "a"},
		{Role: "assistant", Text: "\n"},
		call("1"), call("1", "."), call("", ""), signed,
		{Role: "tool", CallID: "1"},
		{Role: "tool", CallID: ".", Text: "r", Failed: true},
	}
}

// TestAnthropicLegal holds that every conversation of a few messages becomes a
// legal one.
func TestAnthropicLegal(t *testing.T) {
	conversations := [][]Message{nil}
	for n := 0; n < len(conversations); n++ {
		list := conversations[n]
		body, err := anthropicBody(&Request{Model: "m", Messages: list})
		if err == nil {
			err = legalForAnthropic(body)
		}
		if err != nil {
			t.Fatalf("%s: %v in %s", sketch(list), err, body)
		}
		for _, m := range utterances() {
			if next := append(slices.Clip(list), m); len(next) <= 3 {
				conversations = append(conversations, next)
			}
		}
	}
}

// TestAnthropicPrefix holds that a conversation that goes on begins as it did
// before, for that is what the provider's cache and the signatures of reasoning
// live from.
func TestAnthropicPrefix(t *testing.T) {
	say := utterances()
	user, blank, answer, system := say[1], say[2], say[3], say[0]
	one, two, none, signed := say[5], say[6], say[7], say[8]
	result := func(id string) Message { return Message{Role: "tool", CallID: id, Text: "r"} }
	var all []Message
	before := "["
	for n, step := range [][]Message{
		{user},
		{one, result("1")},
		{signed, result("1")},
		{user},
		{answer, user},
		{two, result("1"), result(".")},
		{blank},
		{none, result(""), result("")},
		{system},
		{one, result("1"), user},
		{answer, signed, result("1")},
		{two, result("1"), result(".")},
	} {
		all = append(all, step...)
		if !isLegal(all) {
			t.Fatalf("step %d: %s", n, sketch(all))
		}
		raw, _ := anthropicMessages(all, "m")
		now := strings.ReplaceAll(string(raw), cacheMark, "}")
		if !strings.HasPrefix(now, before) {
			t.Errorf("step %d: got\n%s\nwhich does not begin with\n%s", n, now, before)
		}
		before = strings.TrimSuffix(now, "]}]")
	}
}

// FuzzAnthropicBody holds that whatever passes for a conversation becomes a
// body that the provider takes.
func FuzzAnthropicBody(f *testing.F) {
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
		body, err := anthropicBody(&Request{Model: "m", Messages: list})
		if err != nil {
			t.Fatal(err)
		}
		if err := legalForAnthropic(body); err != nil {
			t.Fatalf("%v in %s", err, body)
		}
	})
}

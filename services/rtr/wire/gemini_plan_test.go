package wire

import (
	"bytes"
	"fmt"
	"testing"

	"zino/pkg/fakellm"
	"zino/pkg/wire"
)

// planned makes a conversation of a plan: a byte is a message, with text in it.
func planned(plan []byte, text string) []byte {
	said := wire.AppendString(nil, text)
	b := []byte("[")
	for i, p := range plan[:min(len(plan), 40)] {
		if i > 0 {
			b = append(b, ',')
		}
		id := string('a' + p>>3&3)
		switch p & 7 {
		case 0, 1, 2:
			b = fmt.Appendf(b, `{"role":%q,"content":%s}`, []string{"user", "assistant", "system"}[p&7], said)
		case 3:
			b = fmt.Appendf(b, `{"role":"tool","tool_call_id":%q,"content":%s}`, id, said)
		case 4:
			b = append(b, `{"role":"user","content":""}`...)
		case 5, 6:
			b = fmt.Appendf(b, `{"role":"assistant","content":null,"tool_calls":[{"id":%q,"function":{"name":"f","arguments":"{\"x\":1}"}},{"id":"b","function":{"name":%s,"arguments":%s}}]`, id, said, said)
			if p&7 == 6 {
				b = fmt.Appendf(b, `,"reasoning_state":{"provider":%q,"model":"m","content":%s}`, []string{"gemini", "ollama"}[p>>5&1], kept(p, said))
			}
			b = append(b, '}')
		case 7:
			b = fmt.Appendf(b, `{"role":"assistant","content":%s,"tool_calls":[{"id":%q,"function":{"name":"g","arguments":{}}}]}`, said, id)
		}
	}
	return append(b, ']')
}

// kept is what a wire may have kept of the calls in planned.
func kept(p byte, said []byte) []byte {
	if p>>5&1 == 1 {
		return fmt.Appendf(nil, `{"thinking":%s}`, said)
	}
	return fmt.Appendf(nil, `[{"text":"x"},{"functionCall":{"name":"f","args":{"x":1}},"thoughtSignature":"c2ln"},{"functionCall":{"id":"b","name":%s,"args":{}}}]`, said)
}

// bodyHolds holds that a conversation gives a body that the provider takes, the
// same in every request, in which no text of the user's is lost.
func bodyHolds(t *testing.T, raw []byte, path string, body func(*Request) ([]byte, error)) {
	t.Helper()
	list, err := ReadMessages(raw)
	if err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	req := &Request{Model: "m", Raw: raw, Messages: list, Temperature: 1, TopP: 1}
	got, err := body(req)
	if err != nil {
		t.Fatal(err)
	}
	if err := (&fakellm.Request{Path: path, Body: got}).Legal(); err != nil {
		t.Fatalf("%s\nbecame %s: %v", raw, got, err)
	}
	if again, err := body(req); err != nil || !bytes.Equal(again, got) {
		t.Fatalf("again: %s, %v", again, err)
	}
	for _, m := range list {
		if said := wire.AppendString(nil, m.Said()); m.Role == "user" && !bytes.Contains(got, said) && m.Said() != "" {
			t.Fatalf("%s is not in %s", said, got)
		}
	}
}

// fuzzBodies holds bodyHolds for every conversation.
func fuzzBodies(f *testing.F, path string, body func(*Request) ([]byte, error)) {
	f.Add([]byte{2, 0, 1, 0}, "hi")
	f.Add([]byte{0, 5, 3, 3 + 8, 1, 0}, `{"ok":true}`)
	f.Add([]byte{0, 6, 3, 3 + 8}, "{}")
	f.Add([]byte{0, 6 + 32, 3, 7, 3}, "\u2028 \xff")
	f.Add([]byte{3, 1, 2, 13, 3 + 8, 3 + 8, 4, 6}, "")
	f.Fuzz(func(t *testing.T, plan []byte, text string) { bodyHolds(t, planned(plan, text), path, body) })
}

func FuzzGeminiBody(f *testing.F) { fuzzBodies(f, geminiPath, geminiBody) }

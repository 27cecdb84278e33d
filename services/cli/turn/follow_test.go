package turn

import (
	"strings"
	"testing"

	"zino/pkg/wire"
	"zino/pkg/zinotest"
	"zino/proto"
)

// TestAnswerText checks what is shown of a text that begins again after a lost
// connection, for every place where it was cut.
func TestAnswerText(t *testing.T) {
	const text = "Größe: 日本, done."
	for _, again := range []string{text, "Großes Glück", "", text + " And more."} {
		for cut := range len(text) {
			for size := 1; size < len(again)+2; size += 3 {
				var a answerText
				shown, _ := a.delta(text[:cut])
				a.reconnect()
				retracted := false
				show := func(fresh string, void bool) {
					if void {
						shown, retracted = "", true
					}
					shown += fresh
				}
				for rest := again; rest != ""; {
					n := min(size, len(rest))
					show(a.delta(rest[:n]))
					rest = rest[n:]
				}
				show(a.final(again))
				if shown != again || retracted && strings.HasPrefix(again, text[:cut]) {
					t.Fatalf("cut %d, pieces of %d of %q: shown %q, retracted %v", cut, size, again, shown, retracted)
				}
			}
		}
	}
}

// TestChatEvent checks that stored events are rendered as they were when they happened.
func TestChatEvent(t *testing.T) {
	for _, test := range []struct{ typ, packet, want string }{
		{"assistant_delta", `{"type":"assistant_delta","turn":"t-1","text":"a\"b"}`, `{"type":"assistant_delta","text":"a\"b"}`},
		{"assistant_final", `{"type":"assistant_final","turn":"t-1","text":"a","partial":true,"step":1,"ts":"2026-11-22T23:46:06Z","next":9,"replay":true}`, `{"type":"assistant_final","text":"a"}`},
		{
			"tool_finished", `{"type":"tool_finished","turn":"t-1","id":"c1","result":{"ok":true},"ok":true,"duration_ms":5,"name":"bash","step":1,"ts":"x","next":9}`,
			`{"type":"tool_finished","id":"c1","name":"bash","ok":true,"result":{"ok":true},"duration_ms":5}`,
		},
		{"later", `{"type":"later","turn":"t-1","next":9}`, `{"type":"later","turn":"t-1","next":9}`},
	} {
		got, err := chatEvent(test.typ, []byte(test.packet))
		zinotest.Must(t, err)
		zinotest.Equal(t, test.typ, string(got), test.want)
	}
}

// FuzzChatEvent checks that a packet becomes one of the same type, or an error.
func FuzzChatEvent(f *testing.F) {
	for _, e := range proto.Events() {
		f.Add(e.Type, []byte(`{"type":"`+e.Type+`","turn":"t-1","text":"a","id":"c","name":"n","input":{},"ok":true,"result":{"a":[1]},"duration_ms":3,"kind":"x","items":[],"input_tokens":1,"output_tokens":2,"next":9}`))
	}
	f.Add("usage", []byte(`{"type":"usage","input_tokens":"x"}`))
	f.Fuzz(func(t *testing.T, typ string, packet []byte) {
		if !wire.Valid(packet) {
			return // CallEvents refuses it
		}
		got, err := chatEvent(typ, packet)
		if err == nil && !wire.Valid(got) {
			t.Errorf("%s %s: got %s", typ, packet, got)
		}
	})
}

// FuzzParseInput checks that a line is a known command or an error.
func FuzzParseInput(f *testing.F) {
	for _, seed := range []string{`{"type":"say","text":"a","mode":"queue"}`, `{"type":"cancel"}`, `{"type":"approve"}`, `{"type":"say","text":3}`, `nothing`, `[]`, `{"type":"say"`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		in, err := parseInput(line)
		if err == nil && in.Type != "say" && in.Type != "cancel" && in.Type != "approve" {
			t.Errorf("%q: %+v", line, in)
		}
	})
}

// TestParseInput checks that a line without text is left to the daemon to refuse.
func TestParseInput(t *testing.T) {
	in, err := parseInput([]byte(`{"type":"say","say":"s-abcdefgh","text":"","later":1}`))
	if err != nil || in.Say != "s-abcdefgh" {
		t.Errorf("got %+v, %v", in, err)
	}
	_, err = parseInput([]byte(`{"type":"later"}`))
	zinotest.Error(t, err, nil, `unknown type "later"`)
}

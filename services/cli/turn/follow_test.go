package turn

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"zino/pkg/wire"
	"zino/pkg/zinotest"
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

// FuzzChatEvent checks that only the fields of turn_follow are removed, and that the
// result is JSON.
func FuzzChatEvent(f *testing.F) {
	for _, seed := range []string{
		`{"type":"assistant_delta","turn":"t-k3v9q2m7xd4a","text":"a\"b"}`, `{"turn":1,"next":2,"replay":true}`, `{}`, ` { "a" : [1,{"turn":2}] } `, `{"tu\u0072n":1,"\u0000":"\ud800"}`, `[1]`, ``,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, packet []byte) {
		if !wire.Valid(packet) {
			return // CallEvents refuses it
		}
		var want, got map[string]any
		if json.Unmarshal(packet, &want) != nil {
			return // not an object
		}
		for _, field := range []string{"turn", "next", "replay"} {
			delete(want, field)
		}
		if err := json.Unmarshal(chatEvent(packet), &got); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %s, %v", packet, chatEvent(packet), err)
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
		if err == nil && in.Type != "say" && in.Type != "cancel" {
			t.Errorf("%q: %+v", line, in)
		}
	})
}

// TestParseInput checks that a line without text is left to the daemon to refuse.
func TestPollInput(t *testing.T) {
	in, err := parseInput([]byte(`{"type":"say","say":"s-abcdefgh","text":"","later":1}`))
	if err != nil || in.Say != "s-abcdefgh" {
		t.Errorf("got %+v, %v", in, err)
	}
	_, err = parseInput([]byte(`{"type":"approve"}`))
	zinotest.Error(t, err, nil, `unknown type "approve"`)
}

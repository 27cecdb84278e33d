package wire

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

// marshal is what encoding/json writes with SetEscapeHTML(false).
func marshal(t testing.TB, v any) string {
	t.Helper()
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		t.Fatal(err)
	}
	return strings.TrimSuffix(buf.String(), "\n")
}

// texts are strings with something in them that needs care.
var texts = []string{
	"", "plain", `"quoted"`, `back\slash`, "\b\f\n\r\t", "\x00\x01\x1f\x7f", "<tool_call> & </tool_call>",
	"päß 你好 \U0001f600", "\u2028\u2029", "\ufffd", "bad \xff\xfe utf-8", "cut \xe2\x82", "surrogate in bytes \xed\xa0\x80",
	strings.Repeat("long ", 1000) + "\n",
}

func TestAppendString(t *testing.T) {
	for _, s := range texts {
		want := marshal(t, s)
		if got := string(AppendString([]byte("kept"), s)); got != "kept"+want {
			t.Errorf("AppendString(%q) = %s, want %s", s, got, want)
		}
		if got := string(AppendString(nil, []byte(s))); got != want {
			t.Errorf("AppendString([]byte(%q)) = %s, want %s", s, got, want)
		}
	}
}

// TestPlainWord tries every byte in every place, with neighbours that could lend
// it a bit.
func TestPlainWord(t *testing.T) {
	for c := range 256 {
		for i := range 8 {
			for _, neighbour := range []byte{' ', '!', '#', '[', ']', 0x7f} {
				word := bytes.Repeat([]byte{neighbour}, 8)
				word[i] = byte(c)
				if got, want := plainWord(binary.LittleEndian.Uint64(word)), c < utf8.RuneSelf && plain[c]; got != want {
					t.Errorf("plainWord(%q) = %v", word, got)
				}
			}
		}
	}
}

// TestRun puts every byte in every place of a text that is longer than a word.
func TestRun(t *testing.T) {
	for c := range 256 {
		for i := range 20 {
			text := []byte("twenty bytes of ümläu")[:20]
			text[i] = byte(c)
			want := i
			if c >= ' ' && c != '"' && c != '\\' {
				want = len(text)
			}
			if got := run(text); got != want {
				t.Errorf("run(%q) = %d, want %d", text, got, want)
			}
		}
	}
}

func TestUnquote(t *testing.T) {
	for raw, want := range map[string]string{
		`""`:                        "",
		`"a"`:                       "a",
		`"\"\\\/\b\f\n\r\t"`:        "\"\\/\b\f\n\r\t",
		`"\u0041\u00e9\u20AC"`:      "Aé€",
		`"\ud83d\ude00"`:            "\U0001f600",
		`"\uD83D\uDE00"`:            "\U0001f600",
		`"\ud83d"`:                  "\ufffd",
		`"\ude00"`:                  "\ufffd",
		`"\ud83dx"`:                 "\ufffdx",
		`"\ud83d\ud83d\ude00"`:      "\ufffd\U0001f600",
		`"\ud83d\n"`:                "\ufffd\n",
		"\"\u2028 \x7f\"":           "\u2028 \x7f",
		`"<\u003c` + "\U0001f600\"": "<<\U0001f600",
	} {
		got, ok := Unquote([]byte("kept "), []byte(raw))
		if !ok || string(got) != "kept "+want {
			t.Errorf("Unquote(%s) = %q, %v, want %q", raw, got, ok, want)
		}
	}
}

func TestUnquoteRefuses(t *testing.T) {
	for _, raw := range []string{
		``, `"`, `a`, `a"`, `"a`, `"a"b"`, `"\"`, `"\x"`, `"\u"`, `"\u12"`, `"\u123"`, `"\u123g"`, `"\u+123"`, `"\U0041"`,
		"\"\n\"", "\"\x00\"", "\"\xff\"", "\"\xe2\x82\"", "\"\xed\xa0\x80\"", `'a'`, `1`, `null`,
	} {
		if got, ok := Unquote(nil, []byte(raw)); ok {
			t.Errorf("Unquote(%q) = %q", raw, got)
		}
	}
}

// FuzzAppendString holds that our encoder writes the bytes of encoding/json.
func FuzzAppendString(f *testing.F) {
	for _, s := range texts {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, want := string(AppendString(nil, s)), marshal(t, s)
		if got != want {
			t.Fatalf("AppendString(%q) = %s, want %s", s, got, want)
		}
		back, ok := Unquote(nil, []byte(got))
		if !ok || utf8.ValidString(s) && string(back) != s {
			t.Fatalf("%q came back as %q, %v", s, back, ok)
		}
	})
}

// FuzzUnquote holds that our decoder reads what encoding/json reads, and
// refuses bad UTF-8 besides.
func FuzzUnquote(f *testing.F) {
	for _, s := range texts {
		f.Add(marshal(f, s))
	}
	f.Add(`"\ud83d\ude00\ud83d"`)
	f.Add("\"\\u00\xff00\"")
	f.Add(` "space around" `)
	f.Fuzz(func(t *testing.T, raw string) {
		var want string
		good := strings.HasPrefix(raw, `"`) && strings.HasSuffix(raw, `"`) && utf8.ValidString(raw) && json.Unmarshal([]byte(raw), &want) == nil
		got, ok := Unquote(nil, []byte(raw))
		if ok != good || ok && string(got) != want {
			t.Fatalf("Unquote(%q) = %q, %v; encoding/json: %q, %v", raw, got, ok, want, good)
		}
	})
}

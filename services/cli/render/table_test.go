package render

import (
	"strings"
	"testing"

	"zino/pkg/wire"
	"zino/proto"
)

func TestColumns(t *testing.T) {
	for _, test := range []struct {
		rows  [][]string
		limit int
		want  string
	}{
		{[][]string{{"A", "B"}, {"long", "x y"}}, 0, "A     B\nlong  x y\n"},
		{[][]string{{"A", "B"}, {"long", "x y"}}, 8, "A     B\nlong  x…\n"},
		{[][]string{{"語", "a\nb\tc"}, {"e\u0301", ""}}, 0, "語  a b c\ne\u0301\n"},
		{[][]string{{strings.Repeat("x", 30), "y"}}, 40, strings.Repeat("x", 23) + "…  y\n"},
		{[][]string{{"a", "😀😀"}}, 6, "a  😀…\n"},
		{[][]string{{"a", "b\x1b"}}, 6, "a  b^[\n"},
	} {
		if got := Columns(test.rows, test.limit); got != test.want {
			t.Errorf("limit %d: %q, want %q", test.limit, got, test.want)
		}
	}
}

func TestMessageTexts(t *testing.T) {
	for raw, want := range map[string]string{
		`[]`: "", ` [ {"role":"a","content":"b\n"} , {"content":"c","role":"d","x":[{}]} ] `: "b\n c",
		`[{"role":"a"}]`:              `(cannot be read: messages[0]: missing field "content")`,
		`[{"role":1,"content":""}]`:   `(cannot be read: messages[0]: field "role": expected a string, found a number)`,
		`{}`:                          "(cannot be read: messages: expected a list, found an object)",
		`[{"role":"","content":null}`: "(cannot be read: messages: malformed JSON)",
	} {
		if got := MessageTexts(proto.Raw(raw)); got != want {
			t.Errorf("%s: %q, want %q", raw, got, want)
		}
	}
}

// TestWriteJSON checks that the value is unchanged, on one line without control
// characters.
func TestWriteJSON(t *testing.T) {
	for text, want := range map[string]string{
		"{\"a\":\r\n[ 1,\t2 ]}":              `{"a":[1,2]}`,
		`{"a":"<é\n\u001b>"}`:                `{"a":"<é\n\u001b>"}`,
		"\"\u009b\u2028\u202e\u061c\u007f\"": `"\u009b\u2028\u202e\u061c\u007f"`,
	} {
		var out strings.Builder
		if err := writeJSON(&out, []byte(text), true); err != nil || out.String() != want+"\n" || !wire.Valid([]byte(out.String())) {
			t.Errorf("%q: %q, %v; want %q", text, out.String(), err, want)
		}
	}
	var out strings.Builder
	if err := writeJSON(&out, []byte("{\n"), true); err == nil || out.Len() > 0 {
		t.Errorf("incomplete object: %q, %v", out.String(), err)
	}
}

func TestLocalTime(t *testing.T) {
	for text, want := range map[string]string{"": "-", "2026-11-21": "2026-11-21", "then\x1b": "then\x1b"} {
		if got := LocalTime(text); got != want {
			t.Errorf("%q is shown as %q, want %q", text, got, want)
		}
	}
}

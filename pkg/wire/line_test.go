package wire

import "testing"

func TestLine(t *testing.T) {
	for text, want := range map[string]string{
		"{ \"a\" :\r\n\t[1, 2] }":      `{"a":[1,2]}`,
		`{"a":"b c \n d"}`:             `{"a":"b c \n d"}`,
		"{\"a\":\"x\u2028y\u2029z–\"}": `{"a":"x\u2028y\u2029z–"}`,
		`{"a":"<&>"}`:                  `{"a":"<&>"}`,
	} {
		got, err := Line([]byte(text))
		if err != nil || string(got) != want {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "{", `{"a":1}{`} {
		if line, err := Line([]byte(text)); err == nil {
			t.Errorf("%q: %q", text, line)
		}
	}
}

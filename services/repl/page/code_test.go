package page

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestHandedOut(t *testing.T) {
	for code, want := range map[string]string{
		"":                   "",
		"1":                  "1",
		"1\n":                "1",
		"1\n\n":              "1\n",
		"1\r\n":              "1",
		"1\r":                "1",
		"1\r\n2\r3\n\r\n":    "1\n2\n3\n",
		"\n1":                "\n1",
		"\"\xff\xfe\xfd\"\n": "\"\ufffd\ufffd\ufffd\"",
	} {
		if got := handedOut(code); got != want {
			t.Errorf("%q is handed out as %q, want %q", code, got, want)
		}
	}
}

// TestDecode has the examples of Unicode 16, section 3.9, and those of the contract. A
// "?" stands for U+FFFD.
func TestDecode(t *testing.T) {
	for text, want := range map[string]string{
		"\xff\xfe\xfd":                             "???",
		"\xe2\x82":                                 "?",
		"\xe2\x82(":                                "?(",
		"\xe2\x82\xac":                             "€",
		"\xf0\x9f\x98":                             "?",
		"\xf0\x9f\x98\x80":                         "😀",
		"\xc0\xaf\xe0\x80\xbf\xf0\x81\x82A":        "????????A", // table 3-8
		"\xed\xa0\x80\xed\xbf\xbf\xed\xafA":        "????????A", // table 3-9
		"\xf4\x91\x92\x93\xffA\x80\xbfB":           "?????A??B", // table 3-10
		"\xe1\x80\xe2\xf0\x91\x92\xf1\xbfA":        "????A",     // table 3-11
		"a\xf1\x80\x80\xe1\x80\xc2b\x80c\x80\xbfd": "a???b?c??d",
		"\xc2":             "?",
		"\xc2\xc2\x80":     "?\u0080",
		"\x80":             "?",
		"\xc1\x80":         "??",
		"\xf5\x80\x80\x80": "????",
		"\xf0\x90\x80":     "?",
		"\xf0\x8f\x80":     "???",
		"\xe0\xa0":         "?",
		"\xed\x9f":         "?",
		"\xf4\x8f\xbf":     "?",
		"\ufffd\xff":       "??",
	} {
		if got := strings.ReplaceAll(decode(text), "\ufffd", "?"); got != want {
			t.Errorf("%x is decoded as %q, want %q", text, got, want)
		}
	}
}

// FuzzDecode: the text is UTF-8, what is well-formed stays, and a cut in front of a byte
// that can only begin a sequence makes no difference.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{"", "abc", "\xff\xfe\xfd", "\xe2\x82\xac\xe2\x82", "\xf4\x91\x92\x93\xffA\x80\xbfB", "\xed\xa0\x80"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := decode(s)
		if !utf8.ValidString(got) || utf8.ValidString(s) && got != s || utf8.RuneCountInString(got) > len(s) {
			t.Fatalf("%x is decoded as %q", s, got)
		}
		for i := range min(len(s), 100) {
			if utf8.RuneStart(s[i]) && decode(s[:i])+decode(s[i:]) != got {
				t.Fatalf("%x is decoded as %q, and as %q + %q", s, got, decode(s[:i]), decode(s[i:]))
			}
		}
	})
}

package mem

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestWords(t *testing.T) {
	for text, want := range map[string]string{
		"":                           "",
		" \t.,;!?-_/\n":              "",
		"The cat, the CAT's 2 mats.": "the|cat|the|cat|s|2|mats",
		"snake_case kebab-case a.b":  "snake|case|kebab|case|a|b",
		"x86 4K 3.14":                "x86|4k|3|14",
		"Straße STRASSE ẞ":           "strasse|strasse|ss",
		"ΣΊΣΥΦΟΣ σίσυφος":            "σίσυφοσ|σίσυφοσ",
		"Привет, МИР":                "привет|мир",
		"東京タワーに行く":                   "東京|京タ|タワ|ワー|ーに|に行|行く",
		"猫 犬":                        "猫|犬",
		"iPhone用ケース2個":               "iphone|用ケ|ケー|ース|2|個",
		"हिन्दी भाषा":                "हिन्दी|भाषा",
		"한국어 단어":                     "한국어|단어",
		"co\u00adoperate ☎\ufe0f x":  "cooperate|x",
		"\u0301 lone mark":           "lone|mark",
		"a\xffb":                     "a|b",
		"emoji 😀 between":            "emoji|between",
		"Kelvin \u212a, long \u017f": "kelvin|k|long|s",
		"ａｂｃ":                        "ａｂｃ",
		"don\u2019t":                 "don|t",
		"<tool_call>{\"a\": \"b\"}":  "tool|call|a|b",
		strings.Repeat("a", 10_000):  strings.Repeat("a", 10_000),
		"ひらがな、カタカナ。":                 "ひら|らが|がな|カタ|タカ|カナ",
	} {
		if got := strings.Join(words(text), "|"); got != want {
			t.Errorf("%.40q: %.100q, want %.100q", text, got, want)
		}
	}
}

// FuzzWords holds for any text: words are not empty and not parted again, and
// case makes no difference.
func FuzzWords(f *testing.F) {
	for _, s := range []string{"The cat's 2 mats", "東京タワーに行く", "ΣΊΣΥΦΟΣ", "हिन्दी", "co\u00adop", "a\xff\u0301", "ﾊﾞｰ", "ǅ İ ı ſ ß", "\u0345a"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		list := words(text)
		for _, w := range list {
			if w == "" || !utf8.ValidString(w) {
				t.Fatalf("the word %q", w)
			}
			if again := words(w); !slices.Equal(again, []string{w}) {
				t.Fatalf("%q falls into %q", w, again)
			}
		}
		if upper := words(asciiUpper(text)); !slices.Equal(upper, list) {
			t.Fatalf("%q, in capitals %q", list, upper)
		}
	})
}

func asciiUpper(s string) string {
	b := []byte(s)
	for i, c := range b {
		if c >= 'a' && c <= 'z' {
			b[i] = c - 'a' + 'A'
		}
	}
	return string(b)
}

package index

import (
	"hash/crc32"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestWords(t *testing.T) {
	for text, want := range map[string]string{
		"":                          "",
		" \t.,;!?-_/\n":             "",
		"The cat, the CAT 2 mats.":  "the|cat|the|cat|2|mat",
		"snake_case kebab-case a.b": "snake|case|kebab|case|a|b",
		"x86 4K 3.14 routers2":      "x86|4k|3|14|routers2",
		"prefers preferred preferring preferences":              "prefer|prefer|prefer|prefer",
		"memory memories, running runs":                         "memori|memori|run|run",
		"the cat's mice, the cats' mice":                        "the|cat|mice|the|cat|mice",
		"don't we've I\u2019m o'clock 'tis":                     "don|we|i|o|clock|tis",
		"rock'n'roll L'Aquila s t":                              "rock|n|roll|l|aquila|s|t",
		"Straße STRASSE ẞ":                                      "strass|strass|ss",
		"ΣΊΣΥΦΟΣ σίσυφος":                                       "σισυφοσ|σισυφοσ",
		"Привет, МИР":                                           "привет|мир",
		"café cafe\u0301 CAFÉ c\u0327a":                         "cafe|cafe|cafe|ca",
		"Zürich Malmö Łódź Ærø":                                 "zurich|malmo|lodz|aero",
		"\ufb01le o\ufb03ce":                                    "file|offic",
		"東京タワーに行く":                                              "東京|京タ|タワ|ワー|ーに|に行|行く",
		"猫 犬":                                                   "猫|犬",
		"iPhone用ケース2個":                                          "iphon|用ケ|ケー|ース|2|個",
		"ｶﾞｽ ガス カ\u3099ス":                                       "ガス|ガス|ガス",
		"ﾊﾟﾘ ヷ ｳﾞ う\u3099 ん\u3099":                              "パリ|ヷ|ヴ|ゔ|ん",
		"ＡＢＣ ａｂｃ １２":                                            "abc|abc|12",
		"हिन्दी भाषा":                                           "हिन्दी|भाषा",
		"한국어 단어":                                                "한국어|단어",
		"שָׁלוֹם שלום":                                          "שלום|שלום",
		"مُحَمَّد محمد أحمد احمد":                               "محمد|محمد|احمد|احمد",
		"co\u00adoperate no\u200bspace می\u200cخواهم ☎\ufe0f x": "cooper|no|space|میخواهم|x",
		"\u0301 lone mark":                                      "lone|mark",
		"a\xffb":                                                "a|b",
		"emoji 😀 between":                                       "emoji|between",
		"Kelvin \u212a, long \u017f":                            "kelvin|k|long|s",
		"<tool_call>{\"a\": \"b\"}":                             "tool|call|a|b",
		strings.Repeat("a", 10_000):                             strings.Repeat("a", 10_000),
		"ひらがな、カタカナ。":                                            "ひら|らが|がな|カタ|タカ|カナ",
	} {
		got := Words(text)
		if strings.Join(got, "|") != want {
			t.Errorf("%.40q: %.100q, want %.100q", text, got, want)
		}
	}
}

// TestPlaces checks that every word is at the place that split reports.
func TestPlaces(t *testing.T) {
	text := "The Cafe\u0301 (it's L\u00adarge), 東京に ｶﾞｽ at '5 o’clock"
	var got []string
	Split(text, func(w Word) { got = append(got, text[w.From:w.To]) })
	if want := "The|Cafe\u0301|it|L\u00adarge|東京|京に|ｶﾞｽ|at|5|o|clock"; strings.Join(got, "|") != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestVersion fails if Words returns other terms than before: then the version must
// change, so that older snapshots are not read.
func TestVersion(t *testing.T) {
	const sample = "The user's preferences: dark roasts, generously brewed; she isn't travelling on 14 March. " +
		"Die Straße führt nach Süden; Łódź, façade, naïveté. Ο Σίσυφος και η Ιθάκη. Ещё чай, йога. " +
		"東京タワーに行く。ﾊﾞｽで5分。 हिन्दी भाषा 한국어 단어 שָׁלוֹם مُحَمَّد ＡＢＣ１２ o\u00adne x86 snake_case"
	terms := Words(sample)
	for _, text := range newCorpus(1).texts(200, 20) {
		terms = append(terms, Words(text)...)
	}
	got := crc32.ChecksumIEEE([]byte(strings.Join(terms, " ")))
	if want := uint32(0x339c0c4d); version != 2 || got != want {
		t.Errorf("version %d: the checksum of the terms is %#x, want %#x; raise the version and set both here", version, got, want)
	}
}

// FuzzWords checks for any text that folding and splitting are idempotent, and that
// the case of ASCII letters does not matter.
func FuzzWords(f *testing.F) {
	for _, s := range []string{"The cat's 2 mats", "東京タワーに行く", "ΣΊΣΥΦΟΣ", "हिन्दी", "co\u00adop", "a\xff\u0301", "ﾊﾞｰ", "ǅ İ ı ſ ß", "\u0345a", "Ａ’ｓ"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		list, before := folded(text), -1
		for _, w := range list {
			if w == "" || !utf8.ValidString(w) {
				t.Fatalf("the word %q", w)
			}
			if again := folded(w); !slices.Equal(again, []string{w}) {
				t.Fatalf("%q is split into %q", w, again)
			}
		}
		if upper := folded(asciiUpper(text)); !slices.Equal(upper, list) {
			t.Fatalf("words %q, in upper case %q", list, upper)
		}
		Split(text, func(w Word) {
			if w.From <= before || w.To <= w.From || w.To > len(text) || !utf8.ValidString(text[w.From:w.To]) {
				t.Fatalf("the word %q is at %d to %d", w.Folded, w.From, w.To)
			}
			before = w.From
		})
		terms := Words(text)
		if len(terms) != len(list) || slices.Contains(terms, "") {
			t.Fatalf("%q gives the terms %q", list, terms)
		}
	})
}

// folded returns the words of a text without stemming.
func folded(text string) (list []string) {
	Split(text, func(w Word) { list = append(list, string(w.Folded)) })
	return list
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

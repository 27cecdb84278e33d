package run

import (
	"strings"
	"testing"
	"unicode/utf8"

	"zino/pkg/zinotest"
)

// FuzzText cuts a text in two parts at each place: the pieces are whole characters, and
// together what the whole decodes to.
func FuzzText(f *testing.F) {
	for _, text := range []string{"", "a", "aäß€𝄞", "\xf0\x9d\x84", "\xc3\xf0\x9f", "\xff\xfe€\xe2\x82", "\xed\xa0\x80", "€€€€€€€€€€€\xe2"} {
		f.Add([]byte(text), 13)
	}
	f.Fuzz(func(t *testing.T, text []byte, limit int) {
		if limit = max(limit, 12); len(text) > 1000 {
			return
		}
		want := decode(text)
		for cut := range len(text) + 1 {
			var got strings.Builder
			emit := func(piece string) {
				if piece == "" || len(piece) > limit || !utf8.ValidString(piece) {
					t.Errorf("a piece %q with the limit %d", piece, limit)
				}
				got.WriteString(piece)
			}
			var s Text
			s.Add(text[:cut], limit, emit)
			s.Add(text[cut:], limit, emit)
			s.End(emit)
			zinotest.Equal(t, "the text", got.String(), want)
		}
	})
}

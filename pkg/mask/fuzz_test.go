package mask_test

import (
	"bytes"
	"strings"
	"testing"

	"zino/pkg/mask"
	"zino/pkg/zinotest"
)

const known = "known-value-0123456789"

// FuzzText checks that a stream equals the whole text wherever it is cut, that known
// values do not survive, and that masked text stays as it is.
func FuzzText(f *testing.F) {
	for i, c := range zinotest.Canaries() {
		f.Add([]byte(c.Text), uint16(i), uint16(3*i), i%3 == 0)
	}
	f.Add([]byte(ordinary), uint16(50), uint16(51), true)
	f.Add([]byte("A_KEY="+known+known+" x"+known), uint16(10), uint16(20), false)
	m := newMasker(f, mask.Config{Values: []string{known, "short-pw"}})
	f.Fuzz(func(t *testing.T, text []byte, a, b uint16, long bool) {
		if long {
			text = append(bytes.Repeat([]byte("filler "), 1000), text...)
		}
		masked, n := m.Text(text)
		if bytes.Contains(masked, []byte(known)) {
			t.Errorf("%q became %q", text, masked)
		}
		if n == 0 && !bytes.Equal(masked, text) || n > 0 && !mask.HasPlaceholder(string(masked)) {
			t.Errorf("%d masks: %q became %q", n, text, masked)
		}
		cuts := []int{min(int(a), len(text)), min(int(a)+int(b), len(text))}
		if got := stream(m, string(text), cuts...); got != string(masked) {
			t.Errorf("cut at %d: %q instead of %q", cuts, got, masked)
		}
		if longest(text) > 4000 || longest(masked) > 4000 {
			return // parts of long lines may be cut elsewhere
		}
		if again, n := m.Text(masked); n > 0 {
			t.Errorf("%q became %q and then %q", text, masked, again)
		}
	})
}

func longest(text []byte) (n int) {
	for line := range bytes.Lines(text) {
		n = max(n, len(line))
	}
	return n
}

// FuzzValues checks that each value of a file of secrets is masked in that file.
func FuzzValues(f *testing.F) {
	f.Add("A=0123456789\n\"b\": \"abcdefghij\",\n'c'\nbase64line==\n")
	f.Add(`{"a":["0123456789",{"b":"x\ny-and-more-of-it"}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		for _, value := range mask.FileValues(text) {
			if len(value) > 8<<10 || strings.ContainsAny(value, "\n\r") || strings.TrimSpace(value) != value || strings.HasPrefix(value, "-----") {
				continue
			}
			m := newMasker(t, mask.Config{Values: []string{value}, NoShapes: true})
			if masked, n := m.Text([]byte(value)); n == 0 && !mask.HasPlaceholder(value) {
				t.Errorf("value %q became %q", value, masked)
			}
		}
	})
}

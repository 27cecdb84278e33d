package cli

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"zino/pkg/visible"
)

// TestPrinter holds where newlines go: one ends a turn that said something.
func TestPrinter(t *testing.T) {
	for _, test := range []struct {
		name     string
		terminal bool
		deltas   []string
		want     string
	}{
		{"nothing", false, nil, ""},
		{"empty pieces", false, []string{"", ""}, ""},
		{"newlines only", false, []string{"\n", "\n\n"}, ""},
		{"no newline", false, []string{"one"}, "one\n"},
		{"one newline", false, []string{"one\n"}, "one\n"},
		{"many newlines", false, []string{"one\n", "\n", "\n\n"}, "one\n"},
		{"newlines between", false, []string{"one\n\n", "\ntwo"}, "one\n\n\ntwo\n"},
		{"newlines before", false, []string{"\n\n", "one"}, "\n\none\n"},
		{"blanks at the end", false, []string{"one \t\n"}, "one \t\n"},
		{"a pipe gets what was said", false, []string{"a\x1b[31mb\r\n\x00\u202ec\u009b"}, "a\x1b[31mb\r\n\x00\u202ec\u009b\n"},
		{"a terminal does not", true, []string{"a\x1b[31mb\r\n\x00\x7f\u202ec\u009b\u2028"}, "a^[[31mb^M\n^@\\u007f\\u202ec\\u009b\\u2028\n"},
		{"a terminal gets text", true, []string{"naïve\t日本 👩‍👩‍👧 ünï\n"}, "naïve\t日本 👩‍👩‍👧 ünï\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var out strings.Builder
			p := &printer{w: &out, terminal: test.terminal}
			for range 2 { // a second turn begins anew
				out.Reset()
				for _, delta := range test.deltas {
					if err := p.Text([]byte(delta)); err != nil {
						t.Fatal(err)
					}
				}
				if err := errors.Join(p.Flush(), p.end()); err != nil {
					t.Fatal(err)
				}
				if out.String() != test.want {
					t.Errorf("printed %q, want %q", &out, test.want)
				}
			}
		})
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

// TestPrinterFails tells of output that cannot be written.
func TestPrinterFails(t *testing.T) {
	p := &printer{w: full{}}
	if err := p.Text([]byte("one")); err == nil {
		t.Error("no error")
	}
	if err := p.end(); err == nil {
		t.Error("no error at the end")
	}
}

// FuzzVisible holds that nothing a terminal acts on comes through, and that
// text stays as it is.
func FuzzVisible(f *testing.F) {
	for _, seed := range []string{"plain\n\ttext", "\x1b]0;title\a", "\u0085\u009b31m", "\u2066\u200f\u061c", "\xff\xfe", "\u2028\u2029\x7f\r"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := visible.Text(s)
		if strings.ContainsFunc(got, visible.Harmful) {
			t.Errorf("%q shows %q", s, got)
		}
		if utf8.ValidString(s) && !strings.ContainsFunc(s, visible.Harmful) && got != s {
			t.Errorf("%q was changed to %q", s, got)
		}
		if again := visible.Text(got); again != got {
			t.Errorf("%q shows %q, and that %q", s, got, again)
		}
	})
}

package render

import (
	"errors"
	"strings"
	"testing"

	"zino/pkg/zinotest"
)

// TestPrinter checks that a turn with text ends with one newline.
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
		{"a pipe gets raw text", false, []string{"a\x1b[31mb\r\n\x00\u202ec\u009b"}, "a\x1b[31mb\r\n\x00\u202ec\u009b\n"},
		{"a terminal gets escapes", true, []string{"a\x1b[31mb\r\n\x00\x7f\u202ec\u009b\u2028"}, "a^[[31mb^M\n^@\\u007f\\u202ec\\u009b\\u2028\n"},
		{"a terminal gets text", true, []string{"naïve\t日本 👩‍👩‍👧 ünï\n"}, "naïve\t日本 👩‍👩‍👧 ünï\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var out strings.Builder
			p := &Printer{w: &out, terminal: test.terminal}
			for range 2 { // a second turn begins anew
				out.Reset()
				for _, delta := range test.deltas {
					zinotest.Must(t, p.Text([]byte(delta)))
				}
				zinotest.Must(t, errors.Join(p.Flush(), p.End()))
				if out.String() != test.want {
					t.Errorf("stdout %q, want %q", &out, test.want)
				}
			}
		})
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

// TestPrinterFails returns write errors.
func TestPrinterFails(t *testing.T) {
	p := &Printer{w: full{}}
	if err := p.Text([]byte("one")); err == nil {
		t.Error("no error")
	}
	if err := p.End(); err == nil {
		t.Error("no error at the end")
	}
}

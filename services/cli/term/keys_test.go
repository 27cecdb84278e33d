package term

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	xterm "golang.org/x/term"

	"zino/pkg/history"
)

// edit runs an editor over keys and returns the messages and the error at the end.
func edit(r io.Reader) (messages []string, end error) {
	e := &Editor{keys: keys{r: r}, history: &recalled{History: &history.History{}}}
	e.t = xterm.NewTerminal(struct {
		io.Reader
		io.Writer
	}{&e.keys, io.Discard}, "> ")
	e.t.History = e.history
	for {
		message, err := e.message()
		e.history.History.Add(message) // has no file: it cannot fail
		if err != nil {
			if message != "" {
				messages = append(messages, message)
			}
			return messages, err
		}
		messages = append(messages, message)
	}
}

func TestKeys(t *testing.T) {
	const on, off = "\x1b[200~", "\x1b[201~"
	for _, test := range []struct {
		name, keys string
		want       []string
	}{
		{"lines", "one\rtwo\r", []string{"one", "two"}},
		{"no final return", "one\rtw", []string{"one"}},
		{"editing", "on\x7fne\x01X\x05Y\r", []string{"XoneY"}},
		{"arrow keys", "ac\x1b[Db\r", []string{"abc"}},
		{"history", "one\r\x1b[A\r", []string{"one", "one"}},
		{"history of several lines", "a\\\rb\r\x1b[A\x7fc\r", []string{"a\nb", "a\nc"}},
		{"typed line mark", "a⏎b\r\x1b[A\r", []string{"a⏎b", "a⏎b"}},
		{"Ctrl-D", "one\r\x04two\r", []string{"one"}},
		{"Ctrl-D in a line", "ab\x02\x04\r", []string{"a"}},
		{"Ctrl-C clears", "wrong\x03right\r", []string{"right"}},
		{"Ctrl-C in the middle", "wrong\x1b[D\x1b[D\x03right\r", []string{"right"}},
		{"Ctrl-C twice", "wrong\x03\x03right\r", nil},
		{"Ctrl-C and again later", "\x03a\x03b\r", []string{"b"}},
		{"Ctrl-C after a line", "one\r\x03two\r\x03\x03", []string{"one", "two"}},
		{"continued", "one\\\rtwo\\\rthree\r", []string{"one\ntwo\nthree"}},
		{"Ctrl-C drops continued lines", "one\\\rtwo\x03three\r", []string{"three"}},
		{"Ctrl-D after continued lines", "one\\\r\x04", []string{"one\n"}},
		{"pasted lines", on + "one\rtwo\rthree" + off + "\r", []string{"one\ntwo\nthree"}},
		{"pasted final newline", on + "one\rtwo\r" + off + "\r", []string{"one\ntwo\n"}},
		{"pasted behind typed", "see: " + on + "one\rtwo" + off + " and more\r", []string{"see: one\ntwo and more"}},
		{"pasted twice", on + "a\rb" + off + on + "c\rd" + off + "\r", []string{"a\nbc\nd"}},
		{"pasted line feeds", on + "one\ntwo\r\nthree\n\nfour" + off + "\r", []string{"one\ntwo\nthree\n\nfour"}},
		{"pasted backslash", on + "one\\\rtwo" + off + "\r", []string{"one\\\ntwo"}},
		{"pasted control characters", on + "a\x03\x04\x07b\x1b[31mred\x1b[0m\x7f\tc" + off + "\r", []string{"ab[31mred[0m\tc"}},
		{"pasted half a mark", on + "a\x1b[201\x1b[20" + off + "\r", []string{"a[201[20"}},
		{"pasted, then Ctrl-C", on + "one\rtwo" + off + "\x03three\r", []string{"three"}},
		{"pasted, then two turns", on + "one\rtwo" + off + "\rthree\r", []string{"one\ntwo", "three"}},
		{"many letters", strings.Repeat("é", 3000) + "\r", []string{strings.Repeat("é", 3000)}},
		{
			"a long paste", on + strings.Repeat("0123456789\r", 2000) + strings.Repeat("x", 9000) + off + "\r",
			[]string{strings.Repeat("0123456789\n", 2000) + strings.Repeat("x", 9000)},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			for name, r := range map[string]io.Reader{
				"at once": strings.NewReader(test.keys), "byte by byte": iotest.OneByteReader(strings.NewReader(test.keys)),
			} {
				messages, end := edit(r)
				if !slices.Equal(messages, test.want) {
					t.Errorf("%s: %q\nwant %q", name, messages, test.want)
				}
				if !errors.Is(end, io.EOF) {
					t.Errorf("%s: ended with %v", name, end)
				}
			}
		})
	}
}

// TestKeysError checks that a read error of the terminal is returned.
func TestKeysError(t *testing.T) {
	gone := errors.New("input/output error")
	messages, end := edit(io.MultiReader(strings.NewReader("one\rtw"), iotest.ErrReader(gone)))
	if len(messages) != 1 || !errors.Is(end, gone) {
		t.Errorf("%q, %v", messages, end)
	}
}

// filter returns all output of keys.
func filter(r io.Reader) []byte {
	var out bytes.Buffer
	io.Copy(&out, &keys{r: r}) // neither side fails
	return out.Bytes()
}

// FuzzKeys checks that the result does not depend on read sizes, and that a paste
// contains no control characters.
func FuzzKeys(f *testing.F) {
	for _, seed := range []string{"one\rtwo\r", "\x03a\x03\x03b", "\x1b[200~a\rb\x1b[31m\x03\x1b[201~c\x03", "\x1b[20\x1b[200~\x1b[201\x1b[201~", "\x1b[200~\r\n\n\x1b[200~\x03"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, typed []byte) {
		whole, single := filter(bytes.NewReader(typed)), filter(iotest.OneByteReader(bytes.NewReader(typed)))
		if !bytes.Equal(whole, single) {
			t.Errorf("%q gives %q at once and %q byte by byte", typed, whole, single)
		}
		_, pasted, found := bytes.Cut(whole, []byte(pasteStart))
		if !found {
			return
		}
		pasted, _, _ = bytes.Cut(pasted, []byte(pasteEnd))
		for _, c := range pasted {
			if c < ' ' && c != '\t' && c != '\r' && c != '\n' || c == rubout {
				t.Errorf("%q: the paste %q has %q", typed, pasted, c)
			}
		}
	})
}

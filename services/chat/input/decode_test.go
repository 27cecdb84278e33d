package input

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// show formats events: keys by name, text in quotes.
func show(list []Event) string {
	var parts []string
	for _, e := range list {
		switch e := e.(type) {
		case Key:
			if e.Text != "" {
				parts = append(parts, fmt.Sprintf("%q", e.Text))
			} else {
				parts = append(parts, e.Name)
			}
		case Paste:
			parts = append(parts, fmt.Sprintf("paste %q", string(e)))
		default:
			parts = append(parts, fmt.Sprintf("%T%v", e, e))
		}
	}
	return strings.ReplaceAll(strings.Join(parts, " "), "input.", "")
}

// decoded returns the events of pieces of bytes, after each of which the terminal is not
// quiet.
func decoded(d *decoder, pieces ...string) (list []Event) {
	for _, piece := range pieces {
		list = append(list, d.feed([]byte(piece))...)
	}
	for d.wait >= 0 {
		list = append(list, d.quiet()...)
	}
	return list
}

func TestDecode(t *testing.T) {
	for _, c := range []struct{ name, bytes, want string }{
		{"text", "a你é", `"a" "你" "é"`},
		{"control characters", "\x01\x02\x05\x0b\x1f\x00", "ctrl+a ctrl+b ctrl+e ctrl+k ctrl+_ ctrl+space"},
		{"Backspace, and with Ctrl", "\x7f\b", "backspace ctrl+backspace"},
		{"Enter", "a\r", `"a" enter`},
		{"Ctrl-J", "\n", "ctrl+j"},
		{"Esc", "\x1b", "esc"},
		{"Esc Esc", "\x1b\x1b", "esc esc"},
		{"Esc and a word at once", "\x1brm", `esc "r" "m"`},
		{
			"Esc and words that look like sequences", "\x1bPlease \x1bXyz \x1bOK \x1b]x \x1b^y \x1b_z",
			`esc "P" "l" "e" "a" "s" "e" " " esc "X" "y" "z" " " esc "O" "K" " " esc "]" "x" " " esc "^" "y" " " esc "_" "z"`,
		},
		{"Esc and an introducer", "\x1b[", `esc "["`},
		{"Esc and a wide character", "\x1b你", `esc "你"`},
		{"Esc and a control character", "\x1b\x03", "esc ctrl+c"},
		{"Alt keys", "\x1bb\x1bF\x1bd\x1by\x1b\r\x1b\x7f\x1b\n", "alt+b alt+f alt+d alt+y alt+enter alt+backspace alt+enter"},
		{"arrows", "\x1b[A\x1bOB\x1b[1;5C\x1b[1;3D\x1b\x1b[D\x1bOc\x1b[5D", "up down ctrl+right alt+left alt+left ctrl+right"},
		{"Home and End", "\x1b[H\x1bOH\x1b[1~\x1b[7~\x1b[F\x1bOF\x1b[4~\x1b[8~", "home home home home end end end end"},
		{"Delete, Shift-Tab", "\x1b[3~\x1b[Z", "delete shift+tab"},
		{"kitty", "\x1b[97;5u\x1b[13;2u\x1b[13;3u\x1b[27u\x1b[127;5u\x1b[127;3u\x1b[98;3u\x1b[45;6u\x1b[106;5u\x1b[9;2u", "ctrl+a shift+enter alt+enter esc ctrl+backspace alt+backspace alt+b ctrl+_ ctrl+j shift+tab"},
		{"kitty with Num Lock", "\x1b[97;133u\x1b[13;129u\x1b[57404;129u", `ctrl+a enter "5"`},
		{"kitty, a release", "\x1b[97;5:3u", ""},
		{"modifyOtherKeys", "\x1b[27;5;97~\x1b[27;2;13~\x1b[27;3;13~\x1b[27;5;127~\x1b[27;4;66~\x1b[27;2;32~", `ctrl+a shift+enter alt+enter ctrl+backspace alt+b " "`},
		{"answers of the terminal", "\x1b[I\x1b[O\x1b[24;3R\x1b[1;1R\x1bP>|tmux 3.3a\x1b\\\x1b]11;rgb:0/0/0\a", "Focustrue Focusfalse Position{24 3} Position{1 1} TerminalNametmux 3.3a"},
		{"Esc and an answer of the terminal at once", "\x1b\x1b[24;3R\x1b\x1b[I\x1b\x1bP>|x\x1b\\", "esc Position{24 3} esc Focustrue esc TerminalNamex"},
		{"Esc and an answer that stays incomplete", "\x1b\x1b[24;", "esc"},
		{"a function key of the Linux console", "\x1b[[Ax", `"x"`},
		{"an answer that stays incomplete", "\x1b[24;", ""},
		{"a paste", "a\x1b[200~b\rc\x1b[201~d", `"a" paste "b\rc" "d"`},
		{"Enter behind a paste", "\x1b[200~b\x1b[201~\r", `paste "b" enter`},
		{"a paste in which there is an end mark", "\x1b[200~x\x1b[201~\x03\x04rm\r\x1b[201~", `paste "x\x03\x04rm\r"`},
		{"a paste in which there are both marks", "\x1b[200~x\x1b[201~\x04\r\x1b[200~y\x1b[201~", `paste "x\x04\ry"`},
		{"a paste that is erased before the next one", "\x1b[200~x\x1b[201~\x15\x1b[200~y\x1b[201~z", `paste "x" ctrl+u paste "y" "z"`},
		{"a paste that is erased word by word", "\x1b[200~x y\x1b[201~\x17\x7f\x1b[200~z\x1b[201~", `paste "x y" ctrl+w backspace paste "z"`},
		{"control characters in a paste", "\x1b[200~\x03\x1b[A\x1b\x1b]52;c;x\a\x1b[201~", `paste "\x03\x1b[A\x1b\x1b]52;c;x\a"`},
		{"a paste without marks", "one\rtwo\r", `paste "one\rtwo" enter`},
		{"a paste without marks, with controls and tabs", "a\tb\x03\rc\x1b[Ad\x1b[200~", `paste "a\tb\x03\rc\x1b[Ad"`},
		{"a paste without marks and with LF", "one\ntwo\nthree", `paste "one\ntwo\nthree"`},
		{"keys for new lines at once", "a\nb\x1b\rc\x1b[13;2ud", `"a" ctrl+j "b" alt+enter "c" shift+enter "d"`},
		{"Ctrl-J at the end", "abc\n", `"a" "b" "c" ctrl+j`},
		{"Enter with an answer behind it", "abc\r\x1b[I", `Focustrue "a" "b" "c" enter`},
		{"text and keys at once", "0123456789abcdefgh\x01x\r", `"0123456789abcdefgh" ctrl+a "x" enter`},
		{"many Tabs at once", "/mcp__foreign__rev" + strings.Repeat("\t", 17), `"/mcp__foreign__rev"` + strings.Repeat(" tab", 17)},
		{"a word, Tab, and a text at once", "@services/chat/inp\tand what else there is", `"@services/chat/inp" tab "and what else there is"`},
		{"only Tabs at once", strings.Repeat("\t", 16), strings.TrimSpace(strings.Repeat(" tab", 16))},
		{"an indented line at once", "\tindented by a tab", `"\tindented by a tab"`},
		{"a word and Tab at once", "@services/chat/inp\t", `"@services/chat/inp" tab`},
		{"invalid UTF-8", "a\xffb", `"a" "�" "b"`},
	} {
		if got := show(decoded(&decoder{}, c.bytes)); got != c.want {
			t.Errorf("%s: %q gives\n     %s\nwant %s", c.name, c.bytes, got, c.want)
		}
	}
}

// TestDecodeAhead checks that lines that were typed before raw mode are sent.
func TestDecodeAhead(t *testing.T) {
	for bytes, want := range map[string]string{
		"hello\n":               `"h" "e" "l" "l" "o" enter`,
		"one\ntwo\n":            `paste "one\rtwo" enter`,
		"half":                  `"h" "a" "l" "f"`,
		"x\n\x1bP>|xterm\x1b\\": `TerminalNamexterm "x" enter`,
	} {
		if got := show(decoded(&decoder{ahead: true}, bytes)); got != want {
			t.Errorf("%q gives %s, want %s", bytes, got, want)
		}
	}
	d := &decoder{ahead: true}
	decoded(d, "x\n")
	if got := show(decoded(d, "\n")); got != "ctrl+j" {
		t.Errorf("later: %s", got)
	}
}

// TestDecodeBackspace checks the terminals whose Backspace key sends Ctrl-H.
func TestDecodeBackspace(t *testing.T) {
	if got := show(decoded(&decoder{backspace: '\b'}, "\b")); got != "backspace" {
		t.Errorf("got %s", got)
	}
}

// message returns what events type, with Enter as a mark.
func message(list []Event) string {
	var b strings.Builder
	for _, e := range list {
		switch e := e.(type) {
		case Key:
			if b.WriteString(e.Text); e.Text == "" {
				b.WriteString("<" + e.Name + ">")
			}
		case Paste:
			b.WriteString(clean(string(e)))
		}
	}
	return strings.ReplaceAll(strings.ReplaceAll(b.String(), "<ctrl+j>", "\n"), "<tab>", "\t")
}

// FuzzDecode feeds bytes in two splits. Nothing stays pending; a paste and plain text are
// the same in both.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{"hello\r", "one\rtwo\nthree\r", "\x1b[200~a\rb\x1b[201~\r", "你好\x1b[A\x1b[1;5D", "\x1b\x1b[D\x1b[200~\x1b[201~x\x1b[201~", "a\tb\rc", "\x1bP>|x\x1b\\\x1b[I"} {
		f.Add(s, uint8(3), uint8(7))
	}
	f.Fuzz(func(t *testing.T, s string, first, second uint8) {
		cuts := []int{min(int(first), len(s)), min(int(second), len(s))}
		slices.Sort(cuts)
		whole, d := &decoder{}, &decoder{}
		want := decoded(whole, s)
		got := decoded(d, s[:cuts[0]], s[cuts[0]:cuts[1]], s[cuts[1]:])
		if len(d.buf) > 0 && !d.pasting || len(whole.buf) > 0 && !whole.pasting {
			t.Fatalf("pending: %q, %q", d.buf, whole.buf)
		}
		for _, e := range slices.Concat(want, got) {
			if key, ok := e.(Key); ok && !utf8.ValidString(key.Text) {
				t.Fatalf("invalid text %q", key.Text)
			}
		}
		inside, marked := strings.CutPrefix(s, "\x1b[200~")
		plain := utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' && r != '\n' && r != '\r' && r != '\t' || r == 0x7f })
		if (plain || marked && strings.HasSuffix(inside, "\x1b[201~")) && message(got) != message(want) {
			t.Fatalf("%q in pieces gives %q, want %q", s, message(got), message(want))
		}
	})
}

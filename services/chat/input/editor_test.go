package input

import (
	"slices"
	"strings"
	"testing"

	"zino/services/chat/screen"
)

var graphemes = screen.NewWidths(false)

// typed returns an editor in which keys were pressed, named and separated by blanks;
// words that name no key are typed.
func typed(keys string) *Editor {
	e := NewEditor(graphemes)
	for key := range strings.FieldsSeq(keys) {
		press(e, key)
	}
	return e
}

func press(e *Editor, key string) {
	if strings.ContainsAny(key, "+") && len(key) > 1 || slices.Contains([]string{"left", "right", "up", "down", "home", "end", "backspace", "delete"}, key) {
		e.Apply(Key{Name: key}, 20)
		return
	}
	for _, r := range strings.ReplaceAll(key, "_", " ") {
		e.Apply(Key{Name: string(r), Text: string(r)}, 20)
	}
}

func TestEditorKeys(t *testing.T) {
	for _, c := range []struct{ name, keys, want string }{
		{"typing", "hello", "hello|"},
		{"movement by clusters", "ae\u0301👨‍👩‍👧 left left x", "ax|e\u0301👨‍👩‍👧"},
		{"a combining mark joins the letter before it", "ae left \u0301", "a\u0301|e"},
		{"backspace removes a cluster", "a🇩🇪🇫🇷 backspace", "a🇩🇪|"},
		{"flags stay whole when what stood between them goes", "🇩🇪x🇫🇷 left backspace", "🇩🇪|🇫🇷"},
		{"delete", "abc home delete", "|bc"},
		{"ctrl+d with text", "abc home ctrl+d", "|bc"},
		{"word back and on", "one_two_three alt+b alt+b x", "one x|two three"},
		{"ctrl+left", "one_two ctrl+left", "one |two"},
		{"alt+f", "one_two home alt+f", "one| two"},
		{"delete word back", "one_two ctrl+w", "one |"},
		{"delete word on", "one_two home alt+d", "| two"},
		{"kill to end and yank", "one_two alt+b ctrl+k home ctrl+y", "two|one "},
		{"kill to start", "one_two alt+b ctrl+u", "|two"},
		{"kills in a row are one", "one_two_three ctrl+w ctrl+w ctrl+y", "one two three|"},
		{"yank older", "one ctrl+u two ctrl+u ctrl+y alt+y", "one|"},
		{"newlines", "a ctrl+j b alt+enter c", "a\nb\nc|"},
		{"up and down keep the column", "abc ctrl+j d ctrl+j efg up up x", "abcx|\nd\nefg"},
		{"home and end of a row", "abc ctrl+j def home x end y", "abc\nxdefy|"},
		{"end of a broken row", "01234567890123456789abc up end x", "01234567890123456789x|abc"},
		{"up from behind a broken row", "01234567890123456789abc up end left x", "0123456789012345678x|9abc"},
		{"up to a full row", "01234567890123456789abc home up end up x", "01234567890123456789x|abc"},
		{"kill joins lines", "a ctrl+j b up end ctrl+k", "a|b"},
		{"undo joins typing", "abc ctrl+_", "|"},
		{"undo of a kill", "abc ctrl+u ctrl+_", "abc|"},
	} {
		e := typed(c.keys)
		if got := e.BeforeCursor() + "|" + e.Text()[len(e.BeforeCursor()):]; got != c.want {
			t.Errorf("%s: %s gives %q, want %q", c.name, c.keys, got, c.want)
		}
	}
}

func TestEditorShowsLongPastesAsLabels(t *testing.T) {
	e := typed("see_")
	long := strings.Repeat("line\r\n", 2000)
	e.Paste(long)
	if rows, _, _ := e.Layout(78, 10); !slices.Equal(rows, []string{"see [pasted 2,000 lines]"}) {
		t.Errorf("rows: %q", rows)
	}
	if want := "see " + strings.Repeat("line\n", 2000); e.Text() != want {
		t.Errorf("the text has %d bytes, want %d", len(e.Text()), len(want))
	}
	press(e, "backspace")
	if got := e.Text(); got != "see " {
		t.Errorf("after one Backspace: %q", got)
	}
	press(e, "ctrl+_")
	if want := "see " + strings.Repeat("line\n", 2000); e.Text() != want {
		t.Errorf("undone: %d bytes, want %d", len(e.Text()), len(want))
	}
	e.Paste(strings.Repeat("x", 1001))
	if rows, _, _ := e.Layout(78, 10); rows[0] != "see [pasted 2,000 lines][pasted 1 line]" {
		t.Errorf("rows: %q", rows)
	}
	e = typed("a")
	e.Paste("b\rc\r\nd")
	if got := e.Text(); got != "ab\nc\nd" {
		t.Errorf("a short paste gives %q", got)
	}
}

// TestEditorRevise checks that a long paste stays one element in an editor program, unless
// it is changed there.
func TestEditorRevise(t *testing.T) {
	long := strings.Repeat("line\n", 10)
	e := typed("see_")
	e.Paste(long)
	e.Revise("Look: " + e.Text() + "end\n")
	if got := e.Draft().Shown(); got != "Look: see [pasted 10 lines]end" || e.Text() != "Look: see "+long+"end" {
		t.Errorf("shows %q for %q", got, e.Text())
	}
	e.Revise(strings.Replace(e.Text(), "line", "LINE", 1))
	if got := e.Draft().Shown(); got != e.Text() || !strings.Contains(got, "LINE\nline\n") {
		t.Errorf("a changed paste shows %q", got)
	}
	e.Revise(strings.Repeat("x\n", plainMax))
	if got := e.Draft().Shown(); got != "[pasted 65,536 lines]" {
		t.Errorf("a long text shows %q", got)
	}
	e.SetDraft(JoinDrafts([]Draft{typed("one").Draft(), e.Draft()}))
	if got := e.Draft().Shown(); got != "one\n\n[pasted 65,536 lines]" {
		t.Errorf("joined: %q", got)
	}
}

func TestEditorLayout(t *testing.T) {
	e := typed("")
	e.Paste("0123456789你好世界\nx\ty")
	rows, r, column := e.Layout(12, 5)
	if want := []string{"0123456789你", "好世界", "x   y"}; !slices.Equal(rows, want) || r != 2 || column != 5 {
		t.Errorf("rows %q, cursor %d,%d", rows, r, column)
	}
	rows, r, _ = e.Layout(12, 2)
	if want := []string{"好世界", "x   y"}; !slices.Equal(rows, want) || r != 1 {
		t.Errorf("two rows: %q, cursor in %d", rows, r)
	}
	e = typed("0123456789")
	if rows, r, column = e.Layout(10, 5); len(rows) != 2 || r != 1 || column != 0 {
		t.Errorf("behind a full row: %q, cursor %d,%d", rows, r, column)
	}
}

// FuzzEditor applies keys: the elements are always whole clusters, the cursor stands
// between two of them, and Undo returns to the empty message.
func FuzzEditor(f *testing.F) {
	f.Add("hello\x01\x17\x19world", uint8(10))
	f.Add("ae\u0301👨‍👩‍👧\x02\x02🇩🇪\x08\x08\x1f", uint8(3))
	f.Add("你好\x10世界\x0b\x19\x0e", uint8(4))
	names := map[rune]string{
		1: "ctrl+a", 2: "ctrl+b", 4: "ctrl+d", 5: "ctrl+e", 6: "ctrl+f", 8: "backspace", 10: "ctrl+j", 11: "ctrl+k", 14: "down", 15: "alt+y",
		16: "up", 20: "alt+b", 21: "ctrl+u", 22: "alt+f", 23: "ctrl+w", 24: "alt+d", 25: "ctrl+y", 26: "delete", 31: "ctrl+_",
	}
	f.Fuzz(func(t *testing.T, keys string, width uint8) {
		w := int(width%80) + 1
		e := NewEditor(graphemes)
		for i, r := range []rune(keys) {
			switch name := names[r]; {
			case name != "":
				e.Apply(Key{Name: name}, w)
			case r == 27:
				e.Paste(strings.Repeat("p\n", i%9))
			default:
				e.Apply(Key{Name: string(r), Text: string(r)}, w)
			}
			if e.cursor < 0 || e.cursor > len(e.elements) {
				t.Fatalf("the cursor is at %d of %d", e.cursor, len(e.elements))
			}
			if whole := e.regroup(e.elements); !slices.Equal(whole, e.elements) {
				t.Fatalf("clusters %q, want %q", e.elements, whole)
			}
			rows, row, column := e.Layout(w, 5)
			if row < 0 || row >= len(rows) || column < 0 || column > w {
				t.Fatalf("the cursor is at %d,%d of %q", row, column, rows)
			}
		}
		if len(e.edits) < undoMax {
			for len(e.edits) > 0 {
				e.Undo()
			}
			if !e.Empty() || e.cursor != 0 {
				t.Fatalf("undone: %q, cursor %d", e.Text(), e.cursor)
			}
		}
	})
}

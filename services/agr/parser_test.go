package agr

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// found is a copied event.
type found struct {
	kind Kind
	body string
}

func (f found) String() string { return fmt.Sprintf("%d:%q", f.kind, f.body) }

// gather feeds pieces and returns the events with adjacent text joined.
func gather(pieces ...string) []found {
	var p Parser
	var all []found
	take := func(events []Event) {
		for _, e := range events {
			if last := len(all) - 1; e.Kind == Text && last >= 0 && all[last].kind == Text {
				all[last].body += string(e.Body)
				continue
			}
			all = append(all, found{e.Kind, string(e.Body)})
		}
	}
	for _, piece := range pieces {
		buffer := []byte(piece)
		take(p.Feed(buffer))
		clear(buffer) // the parser must not refer to its input
	}
	take(p.End())
	return all
}

// reference finds the blocks of a whole text in a slow and obvious way.
func reference(text string) []found {
	var all []found
	say := func(s string) {
		if last := len(all) - 1; last >= 0 && all[last].kind == Text {
			all[last].body += s
		} else if s != "" {
			all = append(all, found{Text, s})
		}
	}
	for text != "" {
		kind, at, open, end := Text, -1, "", ""
		for k, name := range map[Kind]string{ToolCall: "tool_call", Task: "task"} {
			if i := strings.Index(text, "<"+name+">"); i >= 0 && (at < 0 || i < at) {
				kind, at, open, end = k, i, "<"+name+">", "</"+name+">"
			}
		}
		body, rest, closed := strings.Cut(text[max(0, at)+len(open):], end)
		if at < 0 || !closed {
			say(text)
			return all
		}
		say(text[:at])
		all = append(all, found{kind, body})
		text = rest
	}
	return all
}

// rebuilt returns the text of events.
func rebuilt(events []found) string {
	var b strings.Builder
	for _, e := range events {
		switch e.kind {
		case Text:
			b.WriteString(e.body)
		case ToolCall:
			b.WriteString("<tool_call>" + e.body + "</tool_call>")
		case Task:
			b.WriteString("<task>" + e.body + "</task>")
		}
	}
	return b.String()
}

func aText(s string) found { return found{Text, s} }
func aCall(s string) found { return found{ToolCall, s} }
func aTask(s string) found { return found{Task, s} }

var parserTable = []struct {
	name, text string
	want       []found
}{
	{"nothing", "", nil},
	{"plain text", "a < b, a<<2, </p>", []found{aText("a < b, a<<2, </p>")}},
	{"a call", "<tool_call>{}</tool_call>", []found{aCall("{}")}},
	{"a task", "<task>{}</task>", []found{aTask("{}")}},
	{"empty blocks", "<task></task><tool_call></tool_call>", []found{aTask(""), aCall("")}},
	{
		"text all around", "a<tool_call>b</tool_call>c<task>d</task>e",
		[]found{aText("a"), aCall("b"), aText("c"), aTask("d"), aText("e")},
	},
	{"white space is kept", " \n<task>\n{}\n</task>\n ", []found{aText(" \n"), aTask("\n{}\n"), aText("\n ")}},
	{
		"a prefix that breaks", "<tool_x> <tas k> <t <to <tool <tool_ <tool_c <tool_call",
		[]found{aText("<tool_x> <tas k> <t <to <tool <tool_ <tool_c <tool_call")},
	},
	{"a prefix broken by a tag", "<<<task>x</task>", []found{aText("<<"), aTask("x")}},
	{"a long prefix broken by the other tag", "<tool_call<task>x</task>", []found{aText("<tool_call"), aTask("x")}},
	{"a short prefix broken by the other tag", "<tas<tool_call>x</tool_call>", []found{aText("<tas"), aCall("x")}},
	{"a prefix broken by itself", "<tool_<tool_call>x</tool_call>", []found{aText("<tool_"), aCall("x")}},
	{
		"no other spelling", "<Task>x</Task><task >y</task ><TOOL_CALL>z</TOOL_CALL><toolcall><tasks>",
		[]found{aText("<Task>x</Task><task >y</task ><TOOL_CALL>z</TOOL_CALL><toolcall><tasks>")},
	},
	{"a call inside a task", "<task>a<tool_call>b</tool_call>c</task>", []found{aTask("a<tool_call>b</tool_call>c")}},
	{"a task inside a call", "<tool_call>a<task>b</task>c</tool_call>", []found{aCall("a<task>b</task>c")}},
	{
		"a block inside its own kind ends at the first end", "<task>a<task>b</task>c</task>",
		[]found{aTask("a<task>b"), aText("c</task>")},
	},
	{"closing tags alone", "</task>x</tool_call>", []found{aText("</task>x</tool_call>")}},
	{"a broken closing tag", "<task>a</tas</task>", []found{aTask("a</tas")}},
	{"a closing tag broken by itself", "<task>a<</task>", []found{aTask("a<")}},
	{"the other closing tag", "<task>a</tool_call>b</task>", []found{aTask("a</tool_call>b")}},
	{"a closing tag in another case", "<task>a</TASK>b</task>", []found{aTask("a</TASK>b")}},
	{"an unclosed block", "a<task>b", []found{aText("a<task>b")}},
	{
		"an unclosed block around a whole one", "<task>a<tool_call>b</tool_call>",
		[]found{aText("<task>a<tool_call>b</tool_call>")},
	},
	{"an unclosed block with half an end", "<tool_call>a</tool_cal", []found{aText("<tool_call>a</tool_cal")}},
	{"held back at the end", "a<tool_cal", []found{aText("a<tool_cal")}},
	{"one bracket", "<", []found{aText("<")}},
	{"results are text", "<tool_response>x</tool_response>", []found{aText("<tool_response>x</tool_response>")}},
	{"any characters", "é<task>\x00☃𝄞</task>…", []found{aText("é"), aTask("\x00☃𝄞"), aText("…")}},
	{"blocks in a row", strings.Repeat("<task>x</task>", 3), []found{aTask("x"), aTask("x"), aTask("x")}},
}

func TestParser(t *testing.T) {
	for _, c := range parserTable {
		t.Run(c.name, func(t *testing.T) {
			if got := gather(c.text); !slices.Equal(got, c.want) {
				t.Errorf("%q\n got %v\nwant %v", c.text, got, c.want)
			}
			if got := reference(c.text); !slices.Equal(got, c.want) {
				t.Errorf("the reference gives %v", got)
			}
		})
	}
}

// TestParserSplits checks every split of a text into two pieces, and into bytes.
func TestParserSplits(t *testing.T) {
	for _, c := range parserTable {
		t.Run(c.name, func(t *testing.T) {
			if got := gather(singles(c.text)...); !slices.Equal(got, c.want) {
				t.Errorf("byte by byte: %v", got)
			}
			for i := range len(c.text) + 1 {
				if got := gather(c.text[:i], c.text[i:]); !slices.Equal(got, c.want) {
					t.Errorf("cut at %d: %v", i, got)
				}
			}
		})
	}
}

// TestParserRandom checks random texts made of parts of tags, split at random.
func TestParserRandom(t *testing.T) {
	words := []string{"<", "t", "ta", "<ta", "sk>", "<task>", "</task>", "<tool_", "call>", "<tool_call>", "</tool_call>", "</", ">", "x", "é", "\n"}
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 1))
	for range 3000 {
		var b strings.Builder
		for range r.IntN(14) {
			b.WriteString(words[r.IntN(len(words))])
		}
		if err := agree(b.String(), r); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

// agree compares parser and reference for one text, split in three ways.
func agree(text string, r *rand.Rand) error {
	want := reference(text)
	if got := rebuilt(want); got != text {
		return fmt.Errorf("the reference loses text: %q becomes %q", text, got)
	}
	for _, pieces := range [][]string{{text}, singles(text), cut(text, r)} {
		if got := gather(pieces...); !slices.Equal(got, want) {
			return fmt.Errorf("%q\n got %v\nwant %v", pieces, got, want)
		}
	}
	return nil
}

// singles splits text into bytes.
func singles(text string) []string {
	pieces := make([]string, len(text))
	for i := range pieces {
		pieces[i] = text[i : i+1]
	}
	return pieces
}

// cut splits text into random pieces, some of them empty.
func cut(text string, r *rand.Rand) []string {
	var pieces []string
	for text != "" {
		n := r.IntN(min(len(text), 9) + 1)
		pieces, text = append(pieces, text[:n]), text[n:]
	}
	return pieces
}

// TestParserReuse checks that a parser can be used again after End.
func TestParserReuse(t *testing.T) {
	var p Parser
	for _, rest := range []string{"<tool_ca", "<task>half", "plain"} {
		p.Feed([]byte(rest))
		p.End()
		events := p.Feed([]byte("<task>x</task>"))
		if len(events) != 1 || events[0].Kind != Task || string(events[0].Body) != "x" {
			t.Errorf("after %q: %d events", rest, len(events))
		}
	}
}

// TestParserLongBlock checks a block that is far larger than the pieces of text.
func TestParserLongBlock(t *testing.T) {
	body := strings.Repeat("</tool_cal <task> ", 1<<16)
	text := "a<tool_call>" + body + "</tool_call>b"
	var pieces []string
	for chunk := range slices.Chunk([]byte(text), 1000) {
		pieces = append(pieces, string(chunk))
	}
	got := gather(pieces...)
	if len(got) != 3 || got[1].body != body || rebuilt(got) != text {
		t.Errorf("%d events with %d bytes, want %d", len(got), len(rebuilt(got)), len(text))
	}
}

// TestParserForwards checks that text is held back only as long as it may begin
// a tag.
func TestParserForwards(t *testing.T) {
	var p Parser
	for _, c := range []struct{ piece, want string }{
		{"abc", "abc"}, {"d<", "d"}, {"x", "<x"}, {"<ta", ""}, {"b<", "<tab"}, {"<", "<"}, {"tool_call", ""}, {" >", "<tool_call >"},
	} {
		var got bytes.Buffer
		for _, e := range p.Feed([]byte(c.piece)) {
			got.Write(e.Body)
		}
		if got.String() != c.want {
			t.Errorf("after %q: got %q, want %q", c.piece, got.String(), c.want)
		}
	}
}

func FuzzParser(f *testing.F) {
	for i, c := range parserTable {
		f.Add(c.text, uint64(i))
	}
	f.Fuzz(func(t *testing.T, text string, seed uint64) {
		if err := agree(text, rand.New(rand.NewPCG(seed, 2))); err != nil {
			t.Fatal(err)
		}
	})
}

package fakellm

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"zino/pkg/zinotest"
)

func TestParse(t *testing.T) {
	tests := []struct {
		name, in string
		want     []Turn
	}{
		{"nothing", "", nil},
		{"comments only", "# a\n\n# b\n", nil},
		{"plain", "# c\n=== reply\nhello\nworld\n", []Turn{{Text: "hello\nworld"}}},
		{"newlines stay but the last", "=== reply\n\na\n\n=== reply\nb", []Turn{{Text: "\na\n"}, {Text: "b"}}},
		{"empty text", "=== reply\n=== reply\n", []Turn{{}, {}}},
		{"headings in the text", "=== reply\n\\=== a\n\\\\=== b\n\\c", []Turn{{Text: "=== a\n\\=== b\n\\c"}}},
		{"tags", "=== reply\n<tool_call>\n{\"name\": \"execute_bash\"}\n</tool_call>\n", []Turn{{Text: "<tool_call>\n{\"name\": \"execute_bash\"}\n</tool_call>"}}},
		{
			"settings", `=== reply size=4 match="a \"b\"" times=3 wait=w pause=p whole end=mark event=` + "`{\"error\": 1}`\nx",
			[]Turn{{Text: "x", Size: 4, Match: `a "b"`, Times: 3, Wait: "w", Pause: "p", Whole: true, End: Mark, Event: `{"error": 1}`}},
		},
		{
			"status", "=== status 503 type=text/html header=\"Retry-After: 1\" header=A:b times=forever\n<h1>",
			[]Turn{{Status: 503, Type: "text/html", Header: []string{"Retry-After: 1", "A:b"}, Times: Forever, Text: "<h1>"}},
		},
		{
			"reply of a model", "=== reply reasoning=\"a b\" reasoning_key=reasoning finish=length usage=9,8,7,1,6 cost=0.01 bytes=3\nx",
			[]Turn{{
				Text: "x", Reasoning: "a b", ReasoningKey: "reasoning", Finish: "length", Cost: "0.01", Bytes: 3,
				Usage: &Usage{In: 9, Out: 8, CacheRead: 7, CacheWrite: 1, Reasoning: 6},
			}},
		},
		{"no usage", "=== reply nousage usage=0,0\nx", []Turn{{Text: "x", NoUsage: true, Usage: &Usage{}}}},
		{"faults", "=== reply fault=crlf,bom fault=unknown redirect=http://h/", []Turn{{Faults: []Fault{CRLF, BOM, Unknown}, Redirect: "http://h/"}}},
		{
			"calls", "=== reply\nLet me\n@call read {\"a\": \"b  c\"} \nlook.\n@call\t f noid whole noindex id=x=y {\"broken\n@call g\r\n@call h id text whole",
			[]Turn{{Text: "Let me\nlook.", Calls: []Call{
				{Name: "read", Args: `{"a": "b  c"}`},
				{Name: "f", ID: "x=y", NoID: true, Whole: true, NoIndex: true, Args: `{"broken`},
				{Name: "g"},
				{Name: "h", Args: "text whole"},
			}}},
		},
		{"calls in the text", "=== reply\n\\@call f {}\n\\\\@call\n @call f", []Turn{{Text: "@call f {}\n\\@call\n @call f"}}},
		{"refused parameters", "=== reply refuses=temperature,top_p\nx", []Turn{{Text: "x", Refuses: []string{"temperature", "top_p"}}}},
		{"silent", "=== stall\n=== hangup end=done", []Turn{{Silent: true, End: Stall}, {Silent: true}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Parse(tt.in)
			if err != nil || !reflect.DeepEqual(got, tt.want) {
				t.Errorf("got %+v, %v; want %+v", got, err, tt.want)
			}
		})
	}
}

func TestParseErrors(t *testing.T) {
	tests := []struct{ in, want string }{
		{"hello", "1: text before the first turn"},
		{"=== reply\nx\n===", "3: no kind"},
		{"=== replay", "1: unknown kind of turn \"replay\""},
		{"=== status", "status needs a code"},
		{"=== status abc", "status needs a code"},
		{"=== status 99", "status needs a code"},
		{"=== reply size=x", "invalid syntax"},
		{"=== reply times=0", "times=0"},
		{"=== reply end=never", "end=never"},
		{"=== reply colour=red", `unknown setting "colour"`},
		{`=== reply match="a`, "without its end"},
		{"=== reply bytes=0", "bytes=0"},
		{"=== reply fault=crlf,none", "fault=none"},
		{"=== reply reasoning_key=x", "reasoning_key=x"},
		{"=== reply usage=1", "usage=1: not"},
		{"=== reply usage=1,2,3,4,5,6", "not IN,OUT"},
		{"=== reply usage=1,-2", "not IN,OUT"},
		{"=== reply usage=1,x", "not IN,OUT"},
		{"=== reply usage=3,1,2,2", "IN counts the cached"},
		{"=== reply usage=3,1,0,0,2", "OUT those of the reasoning"},
		{"=== reply cost=cheap", "cost=cheap"},
		{"=== reply cost=", "cost="},
		{"=== reply\nx\n@call", "3: a call is @call NAME"},
		{"=== reply\n@call {}", "2: a call is @call NAME"},
		{"=== reply\n@call id=x f {}", "2: a call is @call NAME"},
		{"=== reply\n@callback f", "2: a call is @call NAME"},
		{"=== status 200\n@call f {}", "2: a call in a turn that is not a reply"},
		{"=== stall\n@call f {}", "2: a call in a turn that is not a reply"},
	}
	for _, tt := range tests {
		if _, err := Parse(tt.in); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q: got %v, want %q", tt.in, err, tt.want)
		}
	}
}

func TestLoad(t *testing.T) {
	path := filepath.Join(t.TempDir(), "script")
	zinotest.Must(t, os.WriteFile(path, []byte("=== reply\nhi\n"), 0o600))
	turns, err := Load(path)
	if err != nil || len(turns) != 1 || turns[0].Text != "hi" {
		t.Errorf("got %+v, %v", turns, err)
	}
	zinotest.Must(t, os.WriteFile(path, []byte("# x\n=== what\n"), 0o600))
	if _, err := Load(path); err == nil || !strings.Contains(err.Error(), path+":2: ") {
		t.Errorf("got %v, want the file and line", err)
	}
	if _, err := Load(path + ".not"); !os.IsNotExist(err) {
		t.Errorf("a missing file: got %v", err)
	}
}

// FuzzParse checks that the parser accepts arbitrary text, and that a reply's text
// can be written into a script and parsed back.
func FuzzParse(f *testing.F) {
	f.Add("=== reply size=4 match=\"a b\"\nhello\n=== status 500\n{}\n")
	f.Add("\\=== x\n\\\\\n===")
	f.Add("=== reply event=`{}` end=cut")
	f.Add("=== reply usage=1,2 fault=bom\n@call f id=x noid {\"a\n\\@call")
	f.Fuzz(func(t *testing.T, text string) {
		if turns, err := Parse(text); err == nil {
			for _, turn := range turns {
				if got := strings.Join(turn.deltas(), ""); turn.Size > 0 && strings.ToValidUTF8(turn.Text, "\uFFFD") == turn.Text && got != turn.Text {
					t.Fatalf("deltas join to %q, want %q", got, turn.Text)
				}
			}
		}
		var script strings.Builder
		for line := range strings.SplitSeq(text, "\n") {
			if rest := strings.TrimLeft(line, `\`); strings.HasPrefix(rest, heading) || strings.HasPrefix(rest, calling) {
				line = `\` + line
			}
			script.WriteString(line + "\n")
		}
		turns, err := Parse("=== reply\n" + script.String())
		if err != nil || len(turns) != 1 || turns[0].Text != text {
			t.Fatalf("%q came back as %+v, %v", text, turns, err)
		}
	})
}

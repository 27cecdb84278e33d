package toolbox

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"zino/pkg/catalog"
	"zino/proto"
)

// TestOfferPages: with a REPL two tools stand behind the four, in few words, and
// no file can take their names. Without one a file can.
func TestOfferPages(t *testing.T) {
	snapshot := &catalog.Snapshot{Tools: []catalog.Tool{{Name: "page_eval", Builtin: "recall"}, {Name: "recall", Builtin: "recall"}}}
	for pages, want := range map[bool]string{false: "read write edit bash page_eval recall", true: "read write edit bash page_list page_eval recall"} {
		if got := strings.Join(Names(snapshot, pages), " "); got != want {
			t.Errorf("pages %v: %s", pages, got)
		}
	}
	without, with := Offer(&catalog.Snapshot{}, false), Offer(&catalog.Snapshot{}, true)
	if tokens := (len(with) - len(without)) / 4; tokens > 250 {
		t.Errorf("%d tokens", tokens)
	}
	var list []struct {
		Function struct {
			Name, Description string
			Parameters        struct {
				Type       string
				Properties map[string]struct{ Type, Description string }
				Required   []string
			}
		}
	}
	if err := json.Unmarshal(with, &list); err != nil || len(list) != 6 {
		t.Fatalf("%s: %v", with, err)
	}
	for i, required := range []string{"", "page code"} {
		f := list[4+i].Function
		if !OfPages(f.Name) || f.Description == "" || f.Parameters.Type != "object" || f.Parameters.Required == nil || strings.Join(f.Parameters.Required, " ") != required {
			t.Errorf("%+v", f)
		}
		for name, p := range f.Parameters.Properties {
			if p.Description == "" || slices.Contains(f.Parameters.Required, name) != (p.Type == "string") {
				t.Errorf("%s of %s: %+v", name, f.Name, p)
			}
		}
	}
}

func TestEvaluated(t *testing.T) {
	console := proto.RealmEvent{Type: "console", Level: "log", Source: "console.log", Message: "<hi>"}
	for _, c := range []struct {
		name string
		in   proto.Evaluated
		want string
	}{
		{
			"a value",
			proto.Evaluated{OK: true, Kind: "json", Value: `{"a":1}`, DurationMS: 17, File: "debug/a-1.md"},
			`{"ok":true,"data":{"kind":"json","value":"{\"a\":1}","duration_ms":17,"file":"debug/a-1.md"}}`,
		},
		{
			"with background",
			proto.Evaluated{OK: true, Kind: "text", Value: "", Background: []proto.RealmEvent{console}, Omitted: 3},
			`{"ok":true,"data":{"kind":"text","background":[{"type":"console","level":"log","source":"console.log","message":"<hi>"}],"background_omitted":3,"duration_ms":0}}`,
		},
		{
			"an error",
			proto.Evaluated{Error: "TypeError: x\n  at y", Background: []proto.RealmEvent{console}, DurationMS: 16, File: "f"},
			`{"ok":false,"error":{"code":"page_error","message":"TypeError: x\n  at y"},"data":{"background":[{"type":"console","level":"log","source":"console.log","message":"<hi>"}],"duration_ms":16,"file":"f"}}`,
		},
	} {
		if got := Evaluated(c.in, 1000, "off"); string(got) != c.want || !IsResult(got) {
			t.Errorf("%s: got %s, want %s", c.name, got, c.want)
		}
	}
	if got := string(Pages(proto.Pages{Pages: []proto.Page{}})); got != `{"ok":true,"data":{"pages":[]}}` {
		t.Errorf("no pages: %s", got)
	}
}

// TestLongEvaluated: what is long reaches the model with its beginning and end.
func TestLongEvaluated(t *testing.T) {
	const limit = 4096
	long := "begin " + strings.Repeat("語", 100_000) + " end"
	event := proto.RealmEvent{Message: long, Stack: long}
	for _, ok := range []bool{true, false} {
		in := proto.Evaluated{OK: ok, Value: long, Background: slices.Repeat([]proto.RealmEvent{event}, 10)}
		if !ok {
			in.Value, in.Error = "", long
		}
		got := Evaluated(in, limit, "off")
		if len(got) > 3*limit || !IsResult(got) {
			t.Errorf("%d bytes: %s", len(got), got)
		}
		if n := strings.Count(string(got), "begin 語"); n != 21 || strings.Count(string(got), "語 end") != n || strings.Count(string(got), "bytes are left out here") != n {
			t.Errorf("%d texts: %s", n, got)
		}
		if event.Message != long || in.Background[0].Message != long {
			t.Error("what was given is changed")
		}
	}
}

// FuzzEvaluated: whatever a page answers is a result, and what is short is whole.
func FuzzEvaluated(f *testing.F) {
	for _, seed := range []string{"", "25", "\xff\u2028\x00", strings.Repeat("é", 600), strings.Repeat("\x80", 2000)} {
		f.Add(seed, true)
		f.Add(seed, false)
	}
	f.Fuzz(func(t *testing.T, text string, ok bool) {
		const limit = 1024
		var got struct {
			OK    bool
			Error struct{ Code, Message string }
			Data  struct {
				Value      string
				Background []struct{ Message string }
			}
		}
		raw := Evaluated(proto.Evaluated{OK: ok, Value: text, Error: text, Background: []proto.RealmEvent{{Message: text}}}, limit, "read-only")
		if err := json.Unmarshal(raw, &got); err != nil || !IsResult(raw) || got.OK != ok || len(got.Data.Background) != 1 || !ok && got.Error.Code != PageError {
			t.Fatalf("%q: %s, %v", text, raw, err)
		}
		if utf8.ValidString(text) && len(text) <= limit && (got.Data.Value != text || !ok && got.Error.Message != text) {
			t.Errorf("%q became %q", text, got.Data.Value)
		}
		if utf8.ValidString(text) && strings.ContainsRune(got.Data.Value, utf8.RuneError) && !strings.ContainsRune(text, utf8.RuneError) {
			t.Errorf("a character of %q was cut", text)
		}
	})
}

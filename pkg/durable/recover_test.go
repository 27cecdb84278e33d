package durable

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestTornWrites cuts the write of an append at every byte, with what a crash
// may leave behind the cut: nothing, zeros, the old bytes. What was stored
// before must be there, and the file must be whole and usable again.
func TestTornWrites(t *testing.T) {
	batches := [][][]byte{elems(10, 11), elems(10, 13), {[]byte(`{"s":"a ] } , \" {\"n\":1},"}`)}}
	for stored := range 3 {
		old := layOut(elems(0, stored))
		if stored == 0 {
			old = nil
		}
		for _, batch := range batches {
			whole := layOut(slices.Concat(elems(0, stored), batch))
			end := max(0, len(old)-len(closing))
			for cut := end; cut <= len(whole); cut++ {
				zeros := bytes.Clone(whole)
				clear(zeros[cut:])
				behind := append(bytes.Clone(whole[:cut]), old[min(cut, len(old)):]...)
				for what, torn := range map[string][]byte{"nothing": whole[:cut], "zeros": zeros, "old bytes": behind} {
					checkTorn(t, fmt.Sprintf("%d stored, cut at %d of %d, %s behind", stored, cut, len(whole), what), torn, stored, batch)
				}
			}
		}
	}
}

func checkTorn(t *testing.T, what string, torn []byte, stored int, batch [][]byte) {
	t.Helper()
	a, seen, path := newArray(t, string(torn))
	defer a.Close()
	list, err := a.Last(0, 0)
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	want := slices.Concat(elems(0, stored), batch)
	if len(list) < stored || len(list) > len(want) || !slices.EqualFunc(list, want[:len(list)], bytes.Equal) {
		t.Fatalf("%s: got %s (%v)\n%q", what, bytes.Join(list, []byte(" ")), *seen, torn)
	}
	mustAppend(t, a, elem(99))
	if got := all(t, a); !strings.HasSuffix(got, string(elem(99))) || len(strings.Fields(got)) < stored+1 {
		t.Fatalf("%s: after an append: %s", what, got)
	}
	checkFile(t, path)
}

// TestTornByAnother has a second process die while this one has the file open.
func TestTornByAnother(t *testing.T) {
	a, seen, path := newArray(t, "")
	mustAppend(t, a, elems(0, 3)...)
	whole := readFile(t, path)
	writeFile(t, path, strings.TrimSuffix(whole, closing)+",\n")
	if got := all(t, a); got != `{"n":0} {"n":1} {"n":2}` || seen.kinds() != "mended" {
		t.Errorf("got %s, events %v", got, *seen)
	}
	if got := readFile(t, path); got != whole {
		t.Errorf("file %q", got)
	}
}

func TestForeignLayouts(t *testing.T) {
	const two = `{"a":[1,{"b":"]"}]} {"c":"<\n>"}`
	for what, c := range map[string]struct{ text, want, events string }{
		"one line":         {`[{"a":[1,{"b":"]"}]}, {"c":"<\n>"}]`, two, "converted"},
		"indented":         {"[\n  {\n    \"a\": [\n      1,\n      {\n        \"b\": \"]\"\n      }\n    ]\n  },\n  {\n    \"c\": \"<\\n>\"\n  }\n]\n", two, "converted"},
		"ours":             {"[\n{\"a\":[1,{\"b\":\"]\"}]},\n{\"c\":\"<\\n>\"}\n]", two, ""},
		"ours, newline":    {"[\n{\"a\":[1,{\"b\":\"]\"}]},\n{\"c\":\"<\\n>\"}\n]\n", two, ""},
		"ours, much space": {"[\n{\"a\":1},\n{\"b\":2}\n\n\n            \n]\n\n\n\n\n\n\n", `{"a":1} {"b":2}`, ""},
		"DOS":              {"[\r\n{\"a\":1},\r\n{\"b\":2}\r\n]\r\n", `{"a":1} {"b":2}`, ""},
		"head in line":     {"[{\"a\":1},\n{\"b\":2}]", `{"a":1} {"b":2}`, "converted"},
		"byte order mark":  {"\ufeff[{\"a\":1}]", `{"a":1}`, "converted"},
		"blank lines":      {"[\n\n{\"a\":1}\n,\n{\"b\":2}\n]", `{"a":1} {"b":2}`, "converted"},
		"empty":            {"[]", "", ""},
		"empty, spaced":    {" [ \n ] \n", "", ""},
		"nested last":      {"[\n[\n{\"a\":1},\n{\"b\":2}\n]\n]", `[{"a":1},{"b":2}]`, "converted"},
		"other values":     {`[1,"x",null,true,[]]`, `1 "x" null true []`, "converted"},
		"duplicate keys":   {"[{\"a\":1,\n\"a\":2}]", `{"a":1,"a":2}`, "converted"},
	} {
		t.Run(what, func(t *testing.T) {
			a, seen, path := newArray(t, c.text)
			if got := all(t, a); got != c.want || seen.kinds() != c.events {
				t.Errorf("got %s, events %v", got, *seen)
			}
			mustAppend(t, a, elem(7))
			if got, want := all(t, a), strings.TrimSpace(c.want+" "+string(elem(7))); got != want {
				t.Errorf("after an append: %s", got)
			}
			if !json.Valid([]byte(readFile(t, path))) {
				t.Errorf("file %q", readFile(t, path))
			}
			if kept, err := filepath.Glob(path + ".damaged-*"); err != nil || len(kept) > 0 {
				t.Errorf("kept aside: %v, %v", kept, err)
			}
		})
	}
}

func TestDamaged(t *testing.T) {
	for what, c := range map[string]struct{ text, want string }{
		"garbage":           {"no array at all", ""},
		"cut in an element": {"[\n{\"a\":1},\n{\"b\":\"xxxx", `{"a":1}`},
		"indented, cut":     {"[\n  {\n    \"a\": 1\n  },\n  {\n    \"b\": ", `{"a":1}`},
		"zeros within":      {"[\n{\"a\":1},\n\x00\x00\x00\x00:2},\n{\"c\":3},\n{\"d\":4}\n]", `{"a":1} {"c":3} {"d":4}`},
		"head lost":         {"\x00\x00\x00a\":1},\n{\"b\":2}\n]", `{"b":2}`},
		"JSON lines":        {"{\"a\":1}\n{\"b\":2}\n", `{"a":1} {"b":2}`},
		"an object":         {`{"a":1}`, `{"a":1}`},
		"no commas":         {"[\n{\"a\":1}\n{\"b\":2}\n]", `{"a":1} {"b":2}`},
		"two arrays":        {"[\n{\"a\":1}\n][\n{\"b\":2}\n]", `{"a":1} {"b":2}`},
		"one line, broken":  {`[{"a":1},{"b":oops},{"c":3}]`, `{"a":1} {"c":3}`},
		"text behind":       {"[\n{\"a\":1}\n] and more", `{"a":1}`},
		"a number":          {"42", ""},
		"bad UTF-8":         {"[\n{\"a\":\"x\xffy\"},\n{\"b\":\"\xe2\x82\"},\n{\"c\":3}\n]", "{\"a\":\"x\ufffdy\"} {\"b\":\"\ufffd\"} {\"c\":3}"},
		"and cut":           {"[\n{\"a\":\"\xff\"},\n", "{\"a\":\"\ufffd\"}"},
		"and broken":        {"[{\"a\":oops},{\"b\":\"\xff\"}]", "{\"b\":\"\ufffd\"}"},
	} {
		t.Run(what, func(t *testing.T) {
			a, seen, path := newArray(t, c.text)
			if got := all(t, a); got != c.want || seen.kinds() != "damaged" {
				t.Fatalf("got %s, events %v", got, *seen)
			}
			ev := (*seen)[0]
			if ev.Name != name || ev.Kept != name+".damaged-1" || !strings.Contains(ev.String(), ev.Kept) {
				t.Errorf("event %v", ev)
			}
			if got := readFile(t, path+".damaged-1"); got != c.text {
				t.Errorf("kept aside: %q", got)
			}
			if !utf8.ValidString(readFile(t, path)) {
				t.Errorf("the file is no UTF-8: %q", readFile(t, path))
			}
			mustAppend(t, a, elem(7))
			if got, want := all(t, a), strings.TrimSpace(c.want+" "+string(elem(7))); got != want {
				t.Errorf("after an append: %s", got)
			}
			checkFile(t, path)
		})
	}
}

// TestDamagedParts does not take parts of a lost element for elements.
func TestDamagedParts(t *testing.T) {
	a, _, _ := newArray(t, "[\n{\"e\":[{\"p\":1}]},\n{\"e\":[{\"p\":2},{\"p\":3}],\n{\"e\":[{\"p\":4}]}\n]")
	a.opt.IsElement = func(b []byte) bool { return bytes.HasPrefix(b, []byte(`{"e"`)) }
	if got, want := all(t, a), `{"e":[{"p":1}]} {"e":[{"p":4}]}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestDamageBehindTheWindow has damage that the end of the file does not show.
func TestDamageBehindTheWindow(t *testing.T) {
	text := string(layOut(elems(0, 5000)))
	text = strings.Replace(text, `{"n":20}`, `{"n"=20}`, 1)
	a, seen, path := newArray(t, text)
	mustAppend(t, a, elem(5000))
	if list, err := a.Last(3, 0); err != nil || len(list) != 3 || len(*seen) != 0 {
		t.Fatalf("the end: %s, %v, %v", list, err, *seen)
	}
	list, err := a.Last(0, 0)
	if err != nil || len(list) != 5000 || seen.kinds() != "damaged" {
		t.Errorf("%d elements, %v, %v", len(list), err, *seen)
	}
	checkFile(t, path)
}

// TestDamagedAndFull has a damaged file on a disk that takes no new one: what
// can be read is served, and nothing is lost by an attempt to append.
func TestDamagedAndFull(t *testing.T) {
	if alone(t) {
		return
	}
	const text = "[\n{\"a\":1},\n{\"b\":\"xx"
	a, seen, path := newArray(t, text)
	lift := limitFileSize(t, 4)
	defer lift()
	if got := all(t, a); got != `{"a":1}` {
		t.Errorf("got %s", got)
	}
	if err := a.Append(elems(0, 1)); err == nil || !strings.Contains(err.Error(), "damaged and could not be mended") {
		t.Errorf("append: %v", err)
	}
	if got := readFile(t, path); got != text {
		t.Errorf("the file became %q", got)
	}
	lift()
	mustAppend(t, a, elem(0))
	if got := all(t, a); got != `{"a":1} {"n":0}` {
		t.Errorf("afterwards: %s", got)
	}
	kept, err := filepath.Glob(path + ".damaged-*")
	if err != nil || len(kept) != 1 {
		t.Errorf("kept aside: %v, %v; events %v", kept, err, *seen)
	}
	if _, err := os.Stat(kept[0]); err != nil || (*seen)[0].Err == nil {
		t.Errorf("%v; events %v", err, *seen)
	}
}

// FuzzArray reads any file at all: what is a valid array keeps its elements,
// anything else is made one, and an append then works.
func FuzzArray(f *testing.F) {
	for _, s := range []string{
		"", "[]", "[1,2]", "[\n{\"a\":1}\n]", "[\n{\"a\":1},\n{\"b", "{\"a\":1}\n{\"b\":2}", "[\n{},\n\n]", "[{}\v\n]",
		"[\n{\"a\":\n1},\n{\"b\":2}\n]", "\x00\x00]", "\ufeff[{}]", "[\n[\n{}\n]\n]", "[\n{}\n]\n{}\n]", "[{\"a\":\"\xff\"}]", "[\n{},\n\x00{}\n]", "[\n]\n]", "[\n1,\n]",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		a, seen, path := newArray(t, string(data))
		list, err := a.Last(0, 0)
		if err != nil {
			t.Fatal(err)
		}
		var want []json.RawMessage
		if json.Unmarshal(data, &want) == nil && bytes.HasPrefix(trim(data), []byte("[")) {
			checkElements(t, list, want)
			if utf8.Valid(data) && strings.Contains(seen.kinds(), "damaged") {
				t.Fatalf("a valid array was taken for damaged: %v", *seen)
			}
		}
		mustAppend(t, a, elem(1))
		again, err := a.Last(0, 0)
		if err != nil || len(again) != len(list)+1 || !slices.EqualFunc(again, append(list, elem(1)), bytes.Equal) {
			t.Fatalf("after an append: %q, %v; before: %q", again, err, list)
		}
		if text := readFile(t, path); !json.Valid([]byte(text)) || !utf8.ValidString(text) {
			t.Fatalf("no valid file: %q", text)
		}
		one, err := a.Last(2, 0)
		if err != nil || !slices.EqualFunc(one, again[max(0, len(again)-2):], bytes.Equal) {
			t.Fatalf("the last two: %q, %v", one, err)
		}
	})
}

func checkElements(t *testing.T, got [][]byte, want []json.RawMessage) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d elements of %d: %q", len(got), len(want), got)
	}
	for i := range got {
		var a, b bytes.Buffer
		if json.Compact(&a, got[i]) != nil || json.Compact(&b, bytes.ToValidUTF8(want[i], []byte("\ufffd"))) != nil || a.String() != b.String() {
			t.Fatalf("element %d is %q, was %q", i, got[i], want[i])
		}
	}
}

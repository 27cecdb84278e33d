package page

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestCutJSON(t *testing.T) {
	numbers := func(n int) string {
		var list []string
		for i := range n {
			list = append(list, strconv.Itoa(i))
		}
		return "[" + strings.Join(list, ",") + "]"
	}
	x := func(n int) string { return strings.Repeat("x", n) }
	for _, c := range []struct {
		text  string
		limit int
		want  string
	}{
		{" [1, 2]\n", 64, "[1, 2]"},
		{numbers(100), 64, `[0,1,2,3,4,5,6,7,8,9,10,"… 89 more items"]`},
		{`"` + x(2000) + `"`, 64, `"` + x(32) + `… 1,968 more characters"`},
		{`"` + strings.Repeat(`\ud83d\ude00`, 50) + `"`, 64, `"\ud83d\ude00\ud83d\ude00… 48 more characters"`},
		{`"` + strings.Repeat(`\ud83d`, 50) + `"`, 64, `"\ud83d\ud83d\ud83d\ud83d\ud83d… 45 more characters"`},
		{`"` + strings.Repeat(`\n\"`, 50) + `é"`, 64, `"\n\"\n\"\n\"\n\"\n\"\n\"\n\"\n\"… 85 more characters"`},
		{strings.Repeat("9", 100), 64, `"` + strings.Repeat("9", 32) + `… 68 more characters"`},
		// An object shows all keys before it shows the whole of a value.
		{`{"a":` + numbers(1000) + `,"b":1,"c":"` + x(500) + `"}`, 300, `{"a":[0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,"… 969 more items"],"b":1,"c":"` + x(90) + `… 410 more characters"}`},
		// What the page has cut before is counted too.
		{`[` + x0(100) + `"… 79,980 more items"]`, 64, `[0,0,0,0,0,0,0,0,0,0,0,0,"… 80,068 more items"]`},
		{`{` + x1(30) + `"…":"… 1 more item"}`, 64, `{"k":0,"k":0,"k":0,"k":0,"…":"… 27 more items"}`},
		{`{` + x1(30) + `"z":"… 1 more item"}`, 64, `{"k":0,"k":0,"k":0,"k":0,"…":"… 27 more items"}`},
	} {
		got := cutJSON(c.text, c.limit)
		if got != c.want || len(got) > c.limit {
			t.Errorf("up to %d: %d bytes\n%s\nwant\n%s", c.limit, len(got), got, c.want)
		}
	}
	// White space before the items and the bracket stays where there is room.
	spaced := "[\n  " + strings.ReplaceAll(strings.Trim(numbers(1000), "[]"), ",", ",\n  ") + "\n]"
	if got := cutJSON(spaced, 1024); !strings.HasPrefix(got, spaced[:700]) || !strings.HasSuffix(got, " more items\"\n]") || !strings.Contains(got, ",\n  \"… ") {
		t.Errorf("%s", got)
	}
	var list []string
	if err := json.Unmarshal([]byte(cutJSON(`["`+strings.Repeat(x(100)+`","`, 100_000)+`"]`, 8<<10)), &list); err != nil || len(list) < 40 {
		t.Errorf("%d items, %v", len(list), err)
	}
}

func x0(n int) string { return strings.Repeat("0,", n) }
func x1(n int) string { return strings.Repeat(`"k":0,`, n) }

// tree is a JSON value whose keys keep their order and may be there twice.
type tree struct {
	leaf  any // string, json.Number, bool or nil
	delim json.Delim
	keys  []string
	items []tree
}

func parseTree(t *testing.T, text string) tree {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var value func() tree
	value = func() (v tree) {
		token, err := d.Token()
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		delim, ok := token.(json.Delim)
		if !ok {
			return tree{leaf: token}
		}
		v.delim = delim
		for d.More() {
			if delim == '{' {
				key, err := d.Token()
				if err != nil {
					t.Fatalf("%q: %v", text, err)
				}
				v.keys = append(v.keys, key.(string))
			}
			v.items = append(v.items, value())
		}
		if _, err := d.Token(); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		return v
	}
	return value()
}

var (
	moreItems      = regexp.MustCompile(`^… ([0-9,]+) more items?$`)
	moreCharacters = regexp.MustCompile(`(?s)^(.*)… ([0-9,]+) more characters?$`)
)

func number(t *testing.T, digits string) int {
	t.Helper()
	n, err := strconv.Atoi(strings.ReplaceAll(digits, ",", ""))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// isCut checks that one value is the other, or what is left of it with right counts.
func isCut(t *testing.T, got, whole tree) {
	t.Helper()
	if got.delim != whole.delim {
		t.Fatalf("%v is %v", whole, got)
	}
	if whole.delim == 0 {
		isCutText(t, fmt.Sprint(got.leaf), fmt.Sprint(whole.leaf))
		return
	}
	total := len(got.items)
	if n := total - 1; n >= 0 {
		text, _ := got.items[n].leaf.(string)
		if m := moreItems.FindStringSubmatch(text); m != nil && (got.delim == '[' || got.keys[n] == "…") {
			got.items, total = got.items[:n], n+number(t, m[1])
		}
	}
	if total != len(whole.items) {
		t.Fatalf("%d items, want %d", total, len(whole.items))
	}
	for i, item := range got.items {
		if got.delim == '{' {
			isCutText(t, got.keys[i], whole.keys[i])
		}
		isCut(t, item, whole.items[i])
	}
}

func isCutText(t *testing.T, got, whole string) {
	t.Helper()
	if got == whole {
		return
	}
	m := moreCharacters.FindStringSubmatch(got)
	if m == nil || !strings.HasPrefix(whole, m[1]) || utf8.RuneCountInString(whole) != utf8.RuneCountInString(m[1])+number(t, m[2]) {
		t.Fatalf("%q is cut to %q", whole, got)
	}
}

// FuzzCutJSON: what is cut is valid JSON of at most limit bytes, and its counts are right.
func FuzzCutJSON(f *testing.F) {
	for _, s := range []string{
		`{"a":[1,2,3,{"b":"` + strings.Repeat("é", 100) + `"}],"c":null,"d":[]}`, " [ 1 ,\n\t2 , [ ] , { } ] ", `"\ud83d\ude00\ud800\u0041\\\""`,
		strings.Repeat("[", 100) + strings.Repeat("]", 100), strings.Repeat(`{"a":`, 60) + `"x"` + strings.Repeat("}", 60),
		"[" + strings.Repeat(strings.Repeat("1", 90)+",", 9) + "-1e5]", `{"` + strings.Repeat("k", 300) + `":true,"a":false}`, "[" + strings.Repeat("\n", 200) + "1]",
		"[" + strings.Repeat(`{"id":1,"name":"a name","list":[1,2,3]},`, 200) + "0]",
	} {
		for _, limit := range []uint16{0, 200, 2000} {
			f.Add(s, limit)
		}
	}
	f.Fuzz(func(t *testing.T, text string, limit uint16) {
		if !json.Valid([]byte(text)) || !utf8.ValidString(text) || strings.Contains(text, "…") || strings.Contains(text, `\u`) && strings.Contains(text, "2026") {
			return
		}
		most := cutMin + int(limit)%4096
		got := cutJSON(text, most)
		if len(got) > most || !json.Valid([]byte(got)) {
			t.Fatalf("%q becomes %d bytes of at most %d: %q", text, len(got), most, got)
		}
		isCut(t, parseTree(t, got), parseTree(t, text))
	})
}

// TestCutJSONCost: a large value is cut in time that its length bounds, however deep.
func TestCutJSONCost(t *testing.T) {
	const size = 8 << 20
	for name, text := range map[string]string{
		"flat":   "[" + strings.Repeat("1,", size/2) + "1]",
		"deep":   strings.Repeat("[1,", 9000) + `"` + strings.Repeat("x", size) + `"` + strings.Repeat("]", 9000),
		"string": `"` + strings.Repeat(`\n`, size/2) + `"`,
		"wide":   "[" + strings.Repeat(`{"a":[{"b":[1,2,3,4,5,6,7,8]}]},`, size/32) + "1]",
	} {
		for _, limit := range []int{cutMin, 8 << 10, 1 << 20} {
			got := cutJSON(text, limit)
			if len(got) > limit || !json.Valid([]byte(got)) {
				t.Errorf("%s: %d bytes of %d", name, len(got), limit)
			}
		}
	}
}

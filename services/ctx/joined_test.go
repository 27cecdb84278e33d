package assemble

import (
	"encoding/json"
	"testing"
)

func TestJoined(t *testing.T) {
	for _, c := range []struct {
		name   string
		lists  []string
		want   string
		refuse int
	}{
		{"nothing", nil, `[]`, 0},
		{"empty lists", []string{`[]`, ` [ ] `}, `[]`, 0},
		{"one", []string{`[{"a":1},{"b":2}]`}, `[{"a":1},{"b":2}]`, 0},
		{"empty ones between", []string{`[]`, `[{"a":1}]`, `[]`, ` [ {"b":2} ] `}, `[{"a":1},{"b":2}]`, 0},
		{"no lists", []string{`{"a":1}`, `null`, `"[]"`, ``, `[`, `5`}, `[]`, 6},
		{"no messages", []string{`[1]`, `["{}"]`, `[null]`, `[{"a":1}]`}, `[{"a":1}]`, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			var j joined
			refused := 0
			for _, list := range c.lists {
				if add(&j, list) != nil {
					refused++
				}
			}
			if got := string(j.array()); got != c.want || refused != c.refuse {
				t.Errorf("got %s with %d refused, want %s with %d", got, refused, c.want, c.refuse)
			}
		})
	}
}

// add adds the elements of a list.
func add(j *joined, list string) error {
	inner, err := elements([]byte(list))
	j.add(inner)
	return err
}

// FuzzJoined: lists of objects give the list of all their elements.
func FuzzJoined(f *testing.F) {
	f.Add(`[{"role":"user","content":"]["}]`, ` [ ] `)
	f.Add("[\n{}\n]", `[{"a":[1,{}]},{"b":null}]`)
	f.Add(`[{}x{}]`, `null`)
	f.Fuzz(func(t *testing.T, a, b string) {
		var j joined
		var want []json.RawMessage
		for _, list := range []string{a, b} {
			var elements []json.RawMessage
			err := json.Unmarshal([]byte(list), &elements)
			if add(&j, list) == nil {
				if err != nil {
					return // no JSON: nothing that rpc would have let through
				}
				want = append(want, elements...)
			}
		}
		var got []json.RawMessage
		if err := json.Unmarshal(j.array(), &got); err != nil || len(got) != len(want) {
			t.Fatalf("%s and %s give %s (%v)", a, b, j.array(), err)
		}
		for i := range got {
			if string(got[i]) != string(want[i]) {
				t.Errorf("element %d is %s, want %s", i, got[i], want[i])
			}
		}
	})
}

package message_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"testing"

	"zino/pkg/message"
	"zino/pkg/wire"
	"zino/pkg/zinotest"
)

func TestListsAreBuilt(t *testing.T) {
	for name, test := range map[string]struct {
		list []byte
		want string
	}{
		"nothing":       {message.Close(nil), `[]`},
		"one":           {message.Close(message.Append(nil, "user", "a <b> \"c\"\n")), `[{"role":"user","content":"a <b> \"c\"\n"}]`},
		"two":           {message.Close(message.Append(message.Append(nil, "user", "a"), "assistant", []byte("b"))), `[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]`},
		"more members":  {message.Close(append(message.Begin(nil, "tool", "x"), `,"tool_call_id":"1"}`...)), `[{"role":"tool","content":"x","tool_call_id":"1"}]`},
		"joined":        {message.Close(message.Join(message.Append(nil, "user", "a"), []byte(` [ {"role":"user"} ] `), []byte(`[]`), nil, []byte(`{}`))), `[{"role":"user","content":"a"},{"role":"user"}]`},
		"joined to nil": {message.Close(message.Append(message.Join(nil, []byte(`[{"n":1.0}]`)), "user", "")), `[{"n":1.0},{"role":"user","content":""}]`},
	} {
		if string(test.list) != test.want {
			t.Errorf("%s: %s, want %s", name, test.list, test.want)
		}
	}
}

func TestReopenCopies(t *testing.T) {
	for whole, want := range map[string]string{
		`[]`:                     `[{"role":"user","content":"x"}]`,
		"[ \n]":                  `[{"role":"user","content":"x"}]`,
		`[{"role":"a"} ]` + "\n": `[{"role":"a"},{"role":"user","content":"x"}]`,
	} {
		before := []byte(whole)
		list, err := message.Reopen(before, 40)
		zinotest.Must(t, err)
		if got := message.Close(message.Append(list, "user", "x")); string(got) != want || string(before) != whole {
			t.Errorf("Reopen(%q): %s, want %s (source now %q)", whole, got, want, before)
		}
	}
}

func TestWhatIsNotAListIsRefused(t *testing.T) {
	for _, text := range []string{"", "null", "{}", `"[]"`, "[", "]", "[1]", `["{"]`, `[{}`, `{}]`} {
		if _, err := message.Inner([]byte(text)); !errors.Is(err, message.ErrNotList) {
			t.Errorf("Inner(%q): %v", text, err)
		}
		if _, err := message.Reopen([]byte(text), 0); !errors.Is(err, message.ErrNotList) {
			t.Errorf("Reopen(%q): %v", text, err)
		}
	}
}

// isList reports whether text is a list of objects.
func isList(text []byte) bool {
	list, err := wire.Elements(text)
	return err == nil && !slices.ContainsFunc(list, func(element json.RawMessage) bool { return element[0] != '{' })
}

// FuzzReopen checks that an extended list keeps its elements, and that the original is
// not modified.
func FuzzReopen(f *testing.F) {
	for _, seed := range []string{`[]`, "[ \n]", `[{"role":"user","content":"]"} ]`, `[1,[2]]`, `{}`, `[`, ``, `[1}`} {
		f.Add([]byte(seed), "a\"\n<\xff")
	}
	f.Fuzz(func(t *testing.T, whole []byte, content string) {
		before := string(whole)
		list, err := message.Reopen(whole, len(content))
		if err == nil {
			list = message.Close(message.Append(list, "assistant", content))
		}
		if string(whole) != before {
			t.Fatalf("%q was modified to %q", before, whole)
		}
		if !isList(whole) {
			return // Reopen checks the edges only
		}
		var old, extended []json.RawMessage
		if err := errors.Join(err, json.Unmarshal(whole, &old), json.Unmarshal(list, &extended)); err != nil || len(extended) != len(old)+1 {
			t.Fatalf("%q becomes %q: %v", before, list, err)
		}
		for i := range old {
			if string(old[i]) != string(extended[i]) {
				t.Errorf("element %d of %q is %q", i, before, extended[i])
			}
		}
	})
}

// FuzzJoin compares a joined list with the lists decoded one by one.
func FuzzJoin(f *testing.F) {
	f.Add(`[{"role":"user","content":"]["}]`, " [ ] ")
	f.Add(`[]`, `[{"a":[{}]},{}]`)
	f.Fuzz(func(t *testing.T, a, b string) {
		if !isList([]byte(a)) || !isList([]byte(b)) {
			return
		}
		var want, got []any
		for _, whole := range []string{a, b} {
			var part []any
			if err := json.Unmarshal([]byte(whole), &part); err != nil {
				t.Fatalf("isList accepts %q: %v", whole, err)
			}
			want = append(want, part...)
		}
		list := message.Close(message.Append(message.Join(nil, []byte(a), []byte(b)), "user", a))
		if err := json.Unmarshal(list, &got); err != nil {
			t.Fatalf("%s: %v", list, err)
		}
		if len(got) != len(want)+1 || len(want) > 0 && !reflect.DeepEqual(got[:len(want)], want) {
			t.Errorf("%q and %q give %s", a, b, list)
		}
	})
}

package repl

import (
	"strings"
	"testing"

	"zino/proto"
)

// TestExchange: what is written below the footer is run once, and the reply
// stands below it; the same for what a program asks.
func TestExchange(t *testing.T) {
	t.Parallel()
	b := newEnv(t, "")
	f := b.page(proto.Attach{Name: "Index - 7 Zen", URL: "http://localhost:8302/?a=b"})
	file := f.Attached().File
	b.add(file, js("12+13"))
	text := b.settled(file, 1)
	for _, want := range []string{"```js\n12+13\n```\n> **index-7-zen-", "```JSON\n6\n```\n\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	r, err := b.Eval(t.Context(), proto.Eval{Page: "index-7-zen", Code: "1+1", Agent: "me"})
	if err != nil || !r.OK || r.Kind != "json" || r.Value != "3" || r.File != file || len(r.Background) != 0 {
		t.Errorf("%+v, %v", r, err)
	}
	text = b.settled(file, 2)
	if !strings.Contains(text, "> **me** to index-7-zen-") {
		t.Errorf("the request is not in\n%s", text)
	}
	if got := f.code(); strings.Join(got, "|") != "12+13\n|1+1" && strings.Join(got, "|") != "12+13\n|1+1\n" {
		t.Errorf("it ran %q", got)
	}
	if b.out.String() != "" {
		t.Errorf("the log says %s", b.out)
	}
}

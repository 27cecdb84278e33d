package endtoend_test

import (
	"regexp"
	"strings"
	"testing"

	"zino/pkg/zinotest"
)

// examples are the file of a page, in the documentation.
var (
	examples = regexp.MustCompile("(?ms)^````markdown\n(.*?)^````$")
	requests = regexp.MustCompile("(?ms)^> \\*\\*agent\\*\\* to cart-1a2b at 22:52:48\n```js[^\n]*\n(.*?)^```\n")
	measures = regexp.MustCompile(`\[-?\d+,-?\d+ \d+x\d+\]|\b\d+x\d+ scrolled \d+ of \d+|\b\d+ms\b`)
)

// TestDocs runs the requests of the examples in docs/live-pages.md, in their order, in
// one page, and compares the answers.
func TestDocs(t *testing.T) {
	t.Parallel()
	const name = "../../../docs/live-pages.md"
	doc := zinotest.Read(t, name)
	w := newWorld(t, "")
	w.show(w.url + "/cart.html")
	p := w.connected("cart", 1)[0]
	ran := 0
	normal := func(text string) string { return measures.ReplaceAllString(text, "N") } // fonts and windows differ
	updated := examples.ReplaceAllStringFunc(doc, func(example string) string {
		want := examples.FindStringSubmatch(example)[1]
		history := w.history(p.File)
		for _, request := range requests.FindAllString(want, -1) {
			_, block, _ := strings.Cut(request, "\n")
			before := w.history(p.File)
			w.add(p.File, block)
			w.since(p.File, before)
			ran++
		}
		got := w.fixed(p, strings.TrimPrefix(w.history(p.File), history))
		got = strings.TrimRight(got, "\n") + "\n"
		if normal(got) == normal(want) {
			return example
		}
		if !*update {
			t.Errorf("the answers in %s have changed (go test -run '^TestDocs$' -update writes it):\n%s\nwant:\n%s", name, got, want)
		}
		return "````markdown\n" + got + "````"
	})
	if ran < 6 {
		t.Errorf("only %d examples were run", ran)
	}
	if *update {
		zinotest.Write(t, name, updated)
	}
}

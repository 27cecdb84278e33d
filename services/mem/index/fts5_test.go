package index

import (
	"bytes"
	"encoding/json"
	"math"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"zino/pkg/zinotest"
)

// fts5 prints the scores of FTS5 for each query, by document.
const fts5 = `
import json, sqlite3, sys
texts, queries = json.load(sys.stdin)
db = sqlite3.connect(":memory:")
db.execute("create virtual table t using fts5(text)")
db.executemany("insert into t(rowid, text) values (?, ?)", enumerate(texts))
print(json.dumps([dict(db.execute("select rowid, -bm25(t) from t where t match ?", [q])) for q in queries]))
`

// TestFTS5 compares the index, under the constants and the idf of SQLite's FTS5 and
// without the additions to BM25, with the scores of FTS5.
func TestFTS5(t *testing.T) {
	c := newCorpus(11)
	texts := c.texts(2000, 30)
	x := newIndex(formula{k1: 1.2, b: 0.75, literal: true, idf: func(n, df int) float64 {
		return max(1e-6, math.Log((float64(n-df)+0.5)/(float64(df)+0.5)))
	}})
	for id, text := range texts {
		x.Put(id+7, "something else")
		x.Put(id, text)
	}
	for id := len(texts); id < len(texts)+7; id++ {
		x.Delete(id)
	}
	var queries, matches []string
	for range 60 {
		words := folded(c.text(1 + c.rng.IntN(9)))
		slices.Sort(words)
		words = slices.Compact(words)
		queries = append(queries, strings.Join(words, " "))
		matches = append(matches, `"`+strings.Join(words, `" OR "`)+`"`)
	}

	in, err := json.Marshal([2][]string{texts, matches})
	zinotest.Must(t, err)
	cmd := exec.CommandContext(t.Context(), "python3", "-c", fts5)
	cmd.Stdin = bytes.NewReader(in)
	out, err := cmd.Output()
	zinotest.Must(t, err)
	var foreign []map[int]float64
	zinotest.Must(t, json.Unmarshal(out, &foreign))

	compared := 0
	for i, query := range queries {
		full := 0.0
		for _, w := range ParseQuery(query) {
			n, known := x.numbers[w.folded]
			full += x.idf(n, known)
		}
		hits := x.Search(Query{Text: query, K: len(texts)})
		if len(hits) != len(foreign[i]) {
			t.Errorf("%q: %d hits, FTS5 has %d", query, len(hits), len(foreign[i]))
		}
		for _, h := range hits {
			compared++
			if got, want := h.Score*full*(1.2+1), foreign[i][h.ID]; math.Abs(got-want) > 1e-9 {
				t.Errorf("%q: document %d has the score %v, FTS5 %v", query, h.ID, got, want)
			}
		}
	}
	if compared < 10_000 {
		t.Errorf("only %d scores compared", compared)
	}
}

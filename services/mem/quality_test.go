package mem

import (
	"bytes"
	"encoding/json"
	"flag"
	"maps"
	"math"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"zino/pkg/rpc"
	"zino/pkg/zinotest"
	"zino/proto"
	"zino/services/mem/index"
)

var qualitySet = flag.String("quality", "index/testdata/relevance.json", "the `FILE` with memories and queries for TestQualitySocket")

// fts5 prints the documents that SQLite's FTS5 finds for each query, best first.
const fts5 = `
import json, sqlite3, sys
texts, queries = json.load(sys.stdin)
db = sqlite3.connect(":memory:")
db.execute("create virtual table t using fts5(text)")
db.executemany("insert into t(rowid, text) values (?, ?)", enumerate(texts))
find = "select rowid from t where t match ? order by bm25(t), rowid desc limit 10"
print(json.dumps([[row[0] for row in db.execute(find, [q])] for q in queries]))
`

// TestQualitySocket stores the memories of a set, searches them over a socket, and
// prints the quality beside that of FTS5. Other sets than that of the repository:
//
//	go test ./services/mem -run TestQualitySocket -v -args -quality=FILE
func TestQualitySocket(t *testing.T) {
	var set struct {
		Memories []struct{ ID, Text string }
		Queries  []struct {
			Lang, Text string
			Relevant   map[string]int // grades by memory: 3 for the answer, 1 for the same subject
		}
	}
	zinotest.Must(t, json.Unmarshal([]byte(zinotest.Read(t, *qualitySet)), &set))
	m := start(t, "")
	c := &rpc.Client{Service: "mem", Path: m.path}
	defer c.Close()
	var texts, matches []string
	for id, memory := range set.Memories {
		stored, err := rpc.Call(t.Context(), c, proto.MemStoreHard, proto.StoreHard{Messages: proto.Raw("[" + msg(memory.Text) + "]")})
		if err != nil || stored.ID != id {
			t.Fatalf("memory %q has the id %d, want %d (are two the same?): %v", memory.ID, stored.ID, id, err)
		}
		texts = append(texts, memory.Text)
	}
	for _, q := range set.Queries {
		var words []string
		index.Split(q.Text, func(w index.Word) { words = append(words, `"`+string(w.Folded)+`"`) })
		matches = append(matches, strings.Join(words, " OR "))
	}
	in, err := json.Marshal([2][]string{texts, matches})
	zinotest.Must(t, err)
	cmd := exec.CommandContext(t.Context(), "python3", "-c", fts5)
	cmd.Stdin, cmd.Stderr = bytes.NewReader(in), os.Stderr
	out, err := cmd.Output()
	zinotest.Must(t, err)
	var foreign [][]int
	zinotest.Must(t, json.Unmarshal(out, &foreign))

	figures := map[string][2]quality{} // by language
	for i, q := range set.Queries {
		found, err := rpc.Call(t.Context(), c, proto.MemSearchHard, proto.SearchHard{Query: q.Text, TopK: new(10)})
		zinotest.Must(t, err)
		var ours []int
		for _, r := range found.Results {
			ours = append(ours, *r.ID)
		}
		for side, list := range [][]int{ours, foreign[i]} {
			var grades []int
			for _, id := range list {
				grades = append(grades, q.Relevant[set.Memories[id].ID])
			}
			for _, lang := range []string{"all", q.Lang} {
				f := figures[lang]
				f[side].add(grades, q.Relevant)
				figures[lang] = f
			}
		}
	}
	for _, lang := range slices.Sorted(maps.Keys(figures)) {
		ours, theirs := figures[lang][0], figures[lang][1]
		t.Logf("%s, %.0f queries: nDCG@10 %.3f, recall@10 %.3f; FTS5 %.3f, %.3f", lang, ours.n, ours.ndcg/ours.n, ours.recall/ours.n, theirs.ndcg/theirs.n, theirs.recall/theirs.n)
		if ours.ndcg < theirs.ndcg {
			t.Errorf("%s: FTS5 finds more", lang)
		}
	}
}

// quality sums up figures of rankings.
type quality struct{ n, ndcg, recall float64 }

// add adds the ranking of one query.
func (s *quality) add(grades []int, relevant map[string]int) {
	best := slices.SortedFunc(maps.Values(relevant), func(a, b int) int { return b - a })
	found := 0.0
	for _, g := range grades {
		found += float64(min(g, 1))
	}
	s.n++
	s.ndcg += gain(grades) / gain(best)
	s.recall += found / float64(min(10, len(best)))
}

func gain(grades []int) (sum float64) {
	for i, g := range grades[:min(10, len(grades))] {
		sum += (math.Exp2(float64(g)) - 1) / math.Log2(float64(i+2))
	}
	return sum
}

package recall

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"zino/pkg/zinotest"
	"zino/proto"
	"zino/services/mem/index"
)

// naiveDoc is a document, or a session with the terms of its documents.
type naiveDoc struct {
	session, role, text string
	from                int64
	ts                  string
	terms               map[string]int
	words               int
	score, own          float64
}

func newNaive(text string) naiveDoc {
	d := naiveDoc{text: text, terms: map[string]int{}}
	index.Split(text, func(w index.Word) {
		d.words++
		d.terms[w.Stem()] = min(d.terms[w.Stem()]+1, 255)
		if w.Plain {
			form := "=" + string(w.Folded)
			d.terms[form] = min(d.terms[form]+1, 255)
		}
	})
	return d
}

// naive computes the scores of all documents in the logs of dir as the contract says.
func naive(t testing.TB, dir, query string) (hits []naiveDoc) {
	files, err := filepath.Glob(filepath.Join(dir, "*.jsonl"))
	zinotest.Must(t, err)
	var docs, sessions []naiveDoc
	var groups [][]int
	created := map[string]string{}
	for _, file := range files {
		id := strings.TrimSuffix(filepath.Base(file), ".jsonl")
		data, err := os.ReadFile(file)
		zinotest.Must(t, err)
		whole, group, first, at, out := naiveDoc{terms: map[string]int{}}, []int(nil), true, 0, false
		for line := range bytes.SplitAfterSeq(data, []byte("\n")) {
			from := at
			at += len(line)
			var e struct {
				Type, Role, Text, TS, ID, Name string
				Input                          struct{ Command string }
				Recall                         *bool
			}
			if json.Unmarshal(line, &e) != nil {
				continue
			}
			if first && e.Type == "meta" {
				created[id], out = e.TS, e.Recall != nil && !*e.Recall
			}
			first = false
			var d naiveDoc
			switch e.Type {
			case "message":
				d = newNaive(e.Text)
				d.role = e.Role
			case "tool_use":
				text := e.Input.Command + "\n"
				d = newNaive(e.Name + " " + text[:min(len(text), 1000)])
				d.role = "tool"
			default:
				continue
			}
			if out {
				continue
			}
			d.session, d.from, d.ts = id, int64(from), e.TS
			for term, n := range d.terms {
				whole.terms[term] += n
			}
			whole.words += d.words
			group = append(group, len(docs))
			docs = append(docs, d)
		}
		if !out {
			sessions, groups = append(sessions, whole), append(groups, group)
		}
	}
	words := index.ParseQuery(query)
	naiveScores(docs, words)
	naiveScores(sessions, words)
	for i, group := range groups {
		var said []float64
		for _, j := range group {
			if docs[j].role != "tool" {
				said = append(said, docs[j].own)
			}
		}
		own := func(i int) float64 {
			if i < 0 || i >= len(said) {
				return 0
			}
			return said[i]
		}
		next := 0
		for _, j := range group {
			d := docs[j]
			part := d.own + 0.3*(own(next-1)+own(next))
			if d.role != "tool" {
				part = d.own + 0.3*(own(next-1)+own(next+1)) + 0.1*(own(next-2)+own(next+2))
				next++
			}
			if d.score = (part + 0.5*sessions[i].own) / 2.3; part > 0 {
				hits = append(hits, d)
			}
		}
	}
	slices.SortFunc(hits, func(a, b naiveDoc) int { // the oldest first
		return cmp.Or(cmp.Compare(a.ts, b.ts), cmp.Compare(created[a.session], created[b.session]), cmp.Compare(a.session, b.session), cmp.Compare(a.from, b.from))
	})
	seen := map[string]bool{}
	hits = slices.DeleteFunc(hits, func(d naiveDoc) bool {
		key := d.role + "\x00" + d.text
		defer func() { seen[key] = true }()
		return seen[key]
	})
	return hits
}

// naiveScores computes own of all documents.
func naiveScores(docs []naiveDoc, words []index.QueryWord) {
	df, sum := map[string]int{}, 0
	for _, d := range docs {
		for term := range d.terms {
			df[term]++
		}
		sum += d.words
	}
	avg := float64(sum) / float64(len(docs))
	idf := func(term string) float64 {
		return math.Log(1 + (float64(len(docs))-float64(df[term])+0.5)/(float64(df[term])+0.5))
	}
	for i := range docs {
		d := &docs[i]
		sat := func(term string) float64 {
			tf := float64(d.terms[term])
			return tf / (tf + 0.9*(1-0.4+0.4*float64(d.words)/avg))
		}
		part, full := 0.0, 0.0
		for _, w := range words {
			if w.Form == "" {
				full += w.Weight * idf(w.Stem)
				part += w.Weight * idf(w.Stem) * sat(w.Stem)
				continue
			}
			full += w.Weight * (0.8*idf(w.Stem) + 0.2*idf(w.Form))
			stem, p := w.Stem, 1.0
			for n := len(stem) - 1; n >= 4 && df[w.Stem] == 0; n-- {
				if df[stem[:n]] > 0 {
					stem, p = stem[:n], 0.8
					break
				}
			}
			part += w.Weight * (0.8*p*idf(stem)*sat(stem) + 0.2*idf(w.Form)*sat(w.Form))
		}
		if d.own = 0; part > 0 {
			d.own = part / full
		}
	}
}

// compare compares the hits for a query with those of the naive implementation.
func (e *env) compare(query string) {
	e.t.Helper()
	want := map[string]naiveDoc{}
	for _, d := range naive(e.t, e.dir, query) {
		want[fmt.Sprint(d.session, " ", d.from)] = d
	}
	found := e.search(Query{Text: query, Explain: true})
	last := math.Inf(1)
	for _, h := range found.Hits {
		key := fmt.Sprint(h.Session, " ", h.From)
		d, ok := want[key]
		if delete(want, key); !ok {
			e.t.Fatalf("%q finds %+v, which is not a hit", query, h)
		}
		if math.Abs(d.score-h.Score) > 1e-9 || math.Abs(d.own-h.Own) > 1e-9 || d.role != h.Role || strings.TrimSpace(d.text) != strings.TrimSpace(h.Text) || h.Score > last {
			e.t.Fatalf("%q: got  %+v\nwant %+v", query, h, d)
		}
		last = h.Score
		sum := 0.0
		for _, w := range h.Words {
			sum += w.Weight
		}
		if math.Abs(sum-h.Own) > 1e-9 {
			e.t.Fatalf("%q: the shares of %+v sum up to %v", query, h, sum)
		}
	}
	for _, d := range want {
		e.t.Fatalf("%q does not find %+v", query, d)
	}
}

// randomText returns words with a distribution as in natural language.
func randomText(rnd *rand.Rand, n int) string {
	list := make([]string, n)
	for i := range list {
		word := vocabulary[int(float64(len(vocabulary))*math.Pow(rnd.Float64(), 3))]
		list[i] = word + []string{"", "", "", "s", "ing", "er"}[rnd.IntN(6)]
	}
	return strings.Join(list, " ")
}

var vocabulary = func() (list []string) {
	for _, a := range []string{"the", "print", "queue", "mask", "was", "cups", "kernel", "日本語", "straße", "v2"} {
		for _, b := range []string{"", "out", "er", "list", "net"} {
			list = append(list, a+b)
		}
	}
	return list
}()

func randomEvent(rnd *rand.Rand) string {
	ts := time.Date(2026, 11, 21, 12, rnd.IntN(60), 0, 0, time.UTC).Format(time.RFC3339)
	switch rnd.IntN(8) {
	case 0:
		return called("bash", fmt.Sprintf(`{"command":%q,"n":1}`, randomText(rnd, 3)), ts)
	case 1:
		return fmt.Sprintf(`{"type":"tool_result","tool_use_id":"1","output":%q,"ts":%q}`, randomText(rnd, 5), ts)
	case 2, 3:
		return said("user", randomText(rnd, rnd.IntN(4)), ts)
	case 4:
		return said("user", randomText(rnd, rnd.IntN(500)), ts)
	}
	return said("assistant", randomText(rnd, rnd.IntN(30)), ts)
}

// TestRandomChanges changes sessions at random, and compares the scores with those of the
// naive implementation. Several batches, and changes of the logs that other programs
// make, are among them.
func TestRandomChanges(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	e := newEnv(t, "")
	for range 150 {
		id := string(rune('a' + rnd.IntN(8)))
		path := e.path(id)
		switch n := rnd.IntN(20); {
		case n < 12:
			header := ""
			if rnd.IntN(8) == 0 {
				header = `{"recall":false}`
			}
			for range 1 + rnd.IntN(6) {
				e.put(id, header, randomEvent(rnd))
			}
		case n == 12: // another file
			lines := []string{`{"type":"meta","ts":"` + noon + `"}`, "rubbish", ""}
			for range rnd.IntN(10) {
				lines = append(lines, randomEvent(rnd))
			}
			inPlace := rnd.IntN(2) == 0
			for fi, err := os.Stat(path); err == nil && inPlace && int64(len(strings.Join(lines, "\n"))) <= fi.Size(); { // it seems to have grown
				lines = append(lines, randomEvent(rnd))
			}
			target := path
			if !inPlace {
				target += ".new"
			}
			zinotest.Must(t, os.WriteFile(target, []byte(strings.Join(lines, "\n")), 0o600))
			zinotest.Must(t, os.Rename(target, path))
		case n == 13: // the same file with as many bytes
			if data, err := os.ReadFile(path); err == nil {
				zinotest.Must(t, os.WriteFile(path, bytes.ReplaceAll(data, []byte("print"), []byte("kernl")), 0o600))
			}
		case n == 14:
			if fi, err := os.Stat(path); err == nil {
				zinotest.Must(t, os.Truncate(path, rnd.Int64N(fi.Size()+1)))
			}
		case n == 15:
			os.Remove(path)
		case n == 16:
			if _, err := e.store.Remove(t.Context(), proto.RemoveSession{SessionID: id}); err == nil {
				if _, err := os.Stat(e.index(id)); !os.IsNotExist(err) {
					t.Fatalf("the index of a removed session: %v", err)
				}
			}
		case n == 17:
			if _, err := os.Stat(path); err == nil {
				_, err := e.store.Fork(t.Context(), proto.ForkSession{SessionID: id, NewID: fmt.Sprint("f", rnd.IntN(1e6))})
				zinotest.Must(t, err)
			}
		case n == 18:
			zinotest.Must(t, os.RemoveAll(filepath.Join(e.dir, dirName)))
		case n == 19: // a new mem
			e = newEnv(t, e.dir)
		}
		e.compare(randomText(rnd, 1+rnd.IntN(6)))
	}
	if len(e.problems) > 0 {
		t.Errorf("problems: %q", e.problems)
	}
}

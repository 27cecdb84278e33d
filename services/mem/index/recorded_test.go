package index

import (
	"encoding/json"
	"math"
	"os"
	"testing"

	"zino/pkg/zinotest"
)

// TestRecordedScores checks the scores in testdata/nlp.json. They were recorded
// with a version of this package whose scores agreed to 1e-12 with the TF-IDF
// pipeline of github.com/james-bowman/nlp (oracle/ has that comparison now).
func TestRecordedScores(t *testing.T) {
	var recorded struct {
		Documents []string
		Queries   []struct {
			Text   string
			Scores map[int]float64
		}
	}
	b, err := os.ReadFile("testdata/nlp.json")
	zinotest.Must(t, err)
	zinotest.Must(t, json.Unmarshal(b, &recorded))
	x := New()
	for id, text := range recorded.Documents {
		x.Put(id, text)
	}
	compared := 0
	for _, q := range recorded.Queries {
		hits := x.Search(Query{Text: q.Text, K: len(recorded.Documents)})
		if len(hits) != len(q.Scores) {
			t.Errorf("%q: %d hits, want %d", q.Text, len(hits), len(q.Scores))
		}
		for _, h := range hits {
			compared++
			if math.Abs(h.Score-q.Scores[h.ID]) > 1e-12 {
				t.Errorf("%q: document %d has the score %v, want %v", q.Text, h.ID, h.Score, q.Scores[h.ID])
			}
		}
	}
	if compared < 100 {
		t.Errorf("only %d scores compared", compared)
	}
}

package index

import (
	"bytes"
	"math"
	"runtime"
	"slices"
	"testing"
	"time"
)

var sizes = []struct {
	name string
	n    int
}{{"1k", 1000}, {"10k", 10_000}, {"100k", 100_000}}

// BenchmarkSearch finds the ten best documents for queries of five words with the
// frequencies of the corpus, with the index and with a scan.
func BenchmarkSearch(b *testing.B) {
	for _, size := range sizes {
		b.Run(size.name, func(b *testing.B) {
			c := newCorpus(1)
			texts := c.texts(size.n, 40)
			x, queries := indexOf(texts...), c.texts(500, 5)
			var took, floor []time.Duration
			for i := 0; b.Loop(); i++ {
				took = append(took, duration(func() { x.Search(Query{Text: queries[i%len(queries)], K: 10}) }))
			}
			s := newScan(texts)
			for i := range 5 + 100_000/size.n {
				floor = append(floor, duration(func() { s.search(queries[i], 10) }))
			}
			b.ReportMetric(percentile(took, 50), "p50-us")
			b.ReportMetric(percentile(took, 99), "p99-us")
			b.ReportMetric(percentile(floor, 50), "scan-us")
			b.ReportMetric(percentile(floor, 50)/percentile(took, 50), "x-scan")
		})
	}
}

func duration(f func()) time.Duration {
	start := time.Now()
	f()
	return time.Since(start)
}

// percentile returns a percentile in microseconds.
func percentile(list []time.Duration, p int) float64 {
	slices.Sort(list)
	return float64(list[len(list)*p/100].Nanoseconds()) / 1e3
}

func BenchmarkPut(b *testing.B) {
	for _, size := range sizes {
		b.Run(size.name, func(b *testing.B) {
			c := newCorpus(1)
			x, texts := indexOf(c.texts(size.n, 40)...), c.texts(5000, 40)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				x.Put(size.n+i, texts[i%len(texts)])
			}
		})
	}
}

// BenchmarkReplace replaces documents.
func BenchmarkReplace(b *testing.B) {
	for _, size := range sizes {
		b.Run(size.name, func(b *testing.B) {
			c := newCorpus(1)
			x, texts := indexOf(c.texts(size.n, 40)...), c.texts(5000, 40)
			for i := 0; b.Loop(); i++ {
				x.Put(i*7919%size.n, texts[i%len(texts)])
			}
		})
	}
}

// BenchmarkRebuild builds an index and reports its heap size.
func BenchmarkRebuild(b *testing.B) {
	for _, size := range sizes {
		b.Run(size.name, func(b *testing.B) {
			texts := newCorpus(1).texts(size.n, 40)
			before := heapBytes()
			var x *Index
			for b.Loop() {
				x = indexOf(texts...)
			}
			b.ReportMetric((heapBytes()-before)/(1<<20), "heap-MB")
			b.ReportMetric(float64(len(x.terms)), "terms")
			runtime.KeepAlive(texts)
		})
	}
}

func BenchmarkRestore(b *testing.B) {
	for _, size := range sizes {
		b.Run(size.name, func(b *testing.B) {
			in := snapshot(b, indexOf(newCorpus(1).texts(size.n, 40)...), "")
			before := heapBytes()
			var x *Index
			for b.Loop() {
				var err error
				if x, err = Restore(bytes.NewReader(in), nil); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric((heapBytes()-before)/(1<<20), "heap-MB")
			b.ReportMetric(float64(len(in))/(1<<20), "file-MB")
			runtime.KeepAlive(x)
		})
	}
}

func BenchmarkSnapshot(b *testing.B) {
	x := indexOf(newCorpus(1).texts(100_000, 40)...)
	for b.Loop() {
		snapshot(b, x, "")
	}
}

func BenchmarkWords(b *testing.B) {
	texts := newCorpus(1).texts(100, 40)
	for i := 0; b.Loop(); i++ {
		Words(texts[i%len(texts)])
	}
}

func heapBytes() float64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

// scan is the baseline for the index: a search that looks into every document. The
// weights and lengths are computed before the measurement, although in a real
// program every added document would change all of them.
type scan struct {
	docs    []map[string]float64 // weights
	lengths []float64
	idf     map[string]float64
}

func newScan(texts []string) *scan {
	s := &scan{idf: map[string]float64{}}
	for _, text := range texts {
		doc := counts(text)
		for w := range doc {
			s.idf[w]++
		}
		s.docs = append(s.docs, doc)
	}
	for w, df := range s.idf {
		s.idf[w] = math.Log(float64(1+len(s.docs))/(1+df)) + 1
	}
	for _, doc := range s.docs {
		square := 0.0
		for w, tf := range doc {
			doc[w] = (1 + math.Log(tf)) * s.idf[w]
			square += doc[w] * doc[w]
		}
		s.lengths = append(s.lengths, math.Sqrt(square))
	}
	return s
}

func (s *scan) search(query string, k int) []Hit {
	var hits []Hit
	q := counts(query)
	for w, tf := range q {
		q[w] = (1 + math.Log(tf)) * s.idf[w]
	}
	for id, doc := range s.docs {
		dot := 0.0
		for w, weight := range q {
			dot += weight * doc[w]
		}
		if dot > 0 {
			hits = append(hits, Hit{id, dot / s.lengths[id]})
		}
	}
	slices.SortFunc(hits, compareHits)
	return hits[:min(k, len(hits))]
}

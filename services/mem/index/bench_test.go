package index

import (
	"bytes"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"
)

var sizes = []struct {
	name string
	n    int
}{{"1k", 1000}, {"10k", 10_000}, {"100k", 100_000}}

// BenchmarkSearch finds the ten best documents for queries of five and twelve words with
// the frequencies of the corpus.
func BenchmarkSearch(b *testing.B) {
	for _, size := range sizes {
		c := newCorpus(1)
		x := indexOf(c.texts(size.n, 40)...)
		for _, words := range []int{5, 12} {
			b.Run(fmt.Sprintf("%s/%d", size.name, words), func(b *testing.B) {
				queries := c.texts(500, words)
				var took []time.Duration
				for i := 0; b.Loop(); i++ {
					took = append(took, duration(func() { x.Search(Query{Text: queries[i%len(queries)], K: 10}) }))
				}
				b.ReportMetric(percentile(took, 50), "p50-us")
				b.ReportMetric(percentile(took, 99), "p99-us")
			})
		}
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

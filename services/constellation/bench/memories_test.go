package bench_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"zino/pkg/rpc"
	"zino/proto"
)

// words generates texts whose words have a Zipf distribution, as in natural language.
type words struct{ zipf *rand.Zipf }

func newWords() words {
	return words{rand.NewZipf(rand.New(rand.NewPCG(1, 2)), 1.1, 10, 50_000)}
}

func (w words) text(n int) string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf("w%x", w.zipf.Uint64())
	}
	return strings.Join(list, " ")
}

func (w words) texts(count, n int) []string {
	list := make([]string, count)
	for i := range list {
		list[i] = w.text(n)
	}
	return list
}

// scanner searches texts without an index: it computes every score.
type scanner struct {
	docs []map[string]float64
	df   map[string]float64
}

func newScanner(texts []string) *scanner {
	s := &scanner{df: map[string]float64{}}
	for _, text := range texts {
		doc := counts(text)
		for w := range doc {
			s.df[w]++
		}
		s.docs = append(s.docs, doc)
	}
	return s
}

func counts(text string) map[string]float64 {
	c := map[string]float64{}
	for w := range strings.FieldsSeq(text) {
		c[w]++
	}
	return c
}

// best returns the score of the best text.
func (s *scanner) best(query string) float64 {
	q, best := counts(query), 0.0
	idf := func(w string) float64 { return math.Log((1+float64(len(s.docs)))/(1+s.df[w])) + 1 }
	for _, doc := range s.docs {
		dot, norm := 0.0, 0.0
		for w, n := range doc {
			x := (1 + math.Log(n)) * idf(w)
			norm += x * x
			if m := q[w]; m > 0 {
				dot += x * (1 + math.Log(m)) * idf(w)
			}
		}
		best = max(best, dot/math.Sqrt(norm))
	}
	norm := 0.0
	for w, n := range q {
		x := (1 + math.Log(n)) * idf(w)
		norm += x * x
	}
	return best / math.Sqrt(norm)
}

// memoryOf returns a memory as stored in the file.
func memoryOf(text string) string {
	return `{"messages":[{"role":"user","content":"` + text + `"}],"tag":"","time":"2026-01-01T00:00:00Z"}`
}

func writeMemories(dir string, texts []string) error {
	lines := make([]string, len(texts))
	for i, text := range texts {
		lines[i] = memoryOf(text)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "hard_memories.json"), []byte("[\n"+strings.Join(lines, ",\n")+"\n]"), 0o600)
}

// benchMemories searches and stores among many memories, and starts with them.
func benchMemories(b *bench) (lines []line, err error) {
	for _, size := range []struct {
		name string
		n    int
		goal float64
	}{{"1k", 1000, 10}, {"10k", 10_000, 25}, {"100k", 100_000, 100}} {
		more, err := b.amongMemories(size.name, size.n, size.goal)
		if err != nil {
			return lines, err
		}
		lines = append(lines, more...)
	}
	return lines, nil
}

func (b *bench) amongMemories(name string, n int, times float64) ([]line, error) {
	w := newWords()
	texts, queries := w.texts(n, 40), w.texts(100, 4)
	c, err := b.memory(false, "os")
	defer c.stop()
	if err != nil {
		return nil, err
	}
	if err := writeMemories(c.cfg.Mem.DataDir, texts); err != nil {
		return nil, err
	}
	client := &rpc.Client{Service: "mem", Path: c.cfg.Mem.Socket}
	defer client.Close()
	search := func(i int) error {
		found, err := rpc.Call(context.Background(), client, proto.MemSearchHard, proto.SearchHard{Query: queries[i]})
		if err == nil && len(found.Results) == 0 {
			err = fmt.Errorf("%q finds nothing", queries[i])
		}
		return err
	}
	if err := search(0); err != nil { // loads all memories
		return nil, err
	}
	took, err := medianTime(len(queries), search)
	if err != nil {
		return nil, err
	}
	plain := newScanner(texts)
	scan, err := medianTime(7, func(i int) error {
		if plain.best(queries[i]) == 0 {
			return fmt.Errorf("%q finds nothing", queries[i])
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	more := w.texts(100, 40)
	add, err := medianTime(len(more), func(i int) error {
		_, err := rpc.Call(context.Background(), client, proto.MemStoreHard, proto.StoreHard{Messages: proto.Raw(`[{"role":"user","content":"` + more[i] + `"}]`)})
		return err
	})
	if err != nil {
		return nil, err
	}
	lines := []line{
		{name: "search_hard among " + name, measured: took, floor: scan, ratio: scan / took, goals: []goal{ratioAtLeast(times)}, note: "wall time, the socket included; floor: a scan that computes every score; ratio: how much faster"},
		{name: "store_hard among " + name + ", not synced", measured: add, note: "wall time, the socket included"},
	}
	if n < 100_000 {
		return lines, nil
	}
	last, err := b.startWithMemories(c, queries[0])
	return append(lines, last...), err
}

// startWithMemories stops mem, which writes a snapshot of the memories, and starts
// another one on them.
func (b *bench) startWithMemories(c *constellation, query string) ([]line, error) {
	c.stop()
	began := time.Now()
	p, nc, err := b.launch(c, "mem", "")
	if err != nil {
		return nil, err
	}
	defer p.stop()
	defer nc.Close()
	client := &rpc.Client{Service: "mem", Path: p.path}
	defer client.Close()
	if _, err := rpc.Call(context.Background(), client, proto.MemSearchHard, proto.SearchHard{Query: query}); err != nil {
		return nil, err
	}
	took := float64(time.Since(began))
	st, err := rpc.Call(context.Background(), client, proto.GetStats, proto.StatsRequest{})
	return []line{
		{name: "mem with 100k memories, exec to first result", measured: took, goals: []goal{atMost(1e9)}, note: "wall time, with a snapshot"},
		{name: "mem with 100k memories, heap", unit: megabytes, measured: float64(st.HeapBytes), goals: []goal{atMost(100e6)}},
	}, err
}

// medianTime calls fn n times and returns its median duration.
func medianTime(n int, fn func(i int) error) (float64, error) {
	var times []float64
	for i := range n {
		began := time.Now()
		if err := fn(i); err != nil {
			return 0, err
		}
		times = append(times, float64(time.Since(began)))
	}
	return median(times), nil
}

// benchLastMessages reads the end of a long history.
func benchLastMessages(b *bench) ([]line, error) {
	c, err := b.memory(true, "os")
	defer c.stop()
	if err != nil {
		return nil, err
	}
	for channel, n := range map[string]int{"short": 1000, "long": 100_000} {
		if err := writeHistory(c.cfg.Mem.DataDir, channel, n); err != nil {
			return nil, err
		}
	}
	of := func(channel string) side {
		return side{Kind: "raw", Path: c.cfg.Mem.Socket, PIDs: c.pids("mem"), Request: `{"type":"get_history","channel_id":"` + channel + `","limit":50}`}
	}
	r, err := ask[pairResult](b, true, "pair", pairTask{20, 100, of("short"), of("long")})
	return []line{{name: "get_history, the last 50 of 100k over 1k", measured: r.B.Server, floor: r.A.Server, ratio: r.B.Server / r.A.Server, goals: []goal{ratioAtMost(1.2)}, note: "CPU of mem, the socket included"}}, err
}

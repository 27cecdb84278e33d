package bench_test

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"zino/pkg/rpc"
	"zino/proto"
	"zino/services/constellation/measure"
	"zino/services/mem/index"
)

// benchMemories searches and stores among many memories, and starts with them.
func benchMemories(b *bench) (lines []line, err error) {
	for _, size := range []struct {
		name   string
		n      int
		faster float64 // than a scan
	}{{"1k", 1000, 10}, {"10k", 10_000, 25}, {"100k", 100_000, 100}} {
		more, err := b.amongMemories(size.name, size.n, size.faster)
		if err != nil {
			return lines, err
		}
		lines = append(lines, more...)
	}
	add, err := indexing(100_000)
	return append(lines, add), err
}

// scan counts the texts that contain a word of want: the least that a search without an
// index does.
func scan(texts []string, want map[string]bool) (found int) {
	for _, text := range texts {
		hit := false
		for word := range strings.FieldsSeq(text) {
			hit = hit || want[word]
		}
		if hit {
			found++
		}
	}
	return found
}

func (b *bench) amongMemories(name string, n int, faster float64) (lines []line, err error) {
	w := measure.NewWords()
	texts := w.Texts(n, 40)
	c, err := b.memory(true, "os")
	defer c.stop()
	if err != nil {
		return nil, err
	}
	if err := measure.WriteMemories(c.cfg.Mem.DataDir, texts); err != nil {
		return nil, err
	}
	client := &rpc.Client{Service: "mem", Path: c.cfg.Mem.Socket}
	defer client.Close()
	search := func(query string) error {
		found, err := rpc.Call(context.Background(), client, proto.MemSearchHard, proto.SearchHard{Query: query})
		if err == nil && len(found.Results) == 0 {
			err = fmt.Errorf("%q finds nothing", query)
		}
		return err
	}
	if err := search(texts[0]); err != nil { // loads all memories
		return nil, err
	}
	err = onLastCore(func() error {
		for words, limit := range map[int]float64{5: 0.3e6, 12: 1e6} {
			var times, scans []float64
			scanned := make([]map[string]bool, 9) // the same in all rounds: a scan takes longer for rare words
			for i, query := range w.Texts(len(scanned), words) {
				scanned[i] = map[string]bool{}
				for word := range strings.FieldsSeq(query) {
					scanned[i][word] = true
				}
			}
			for range 5 {
				queries := w.Texts(40, words)
				floor, err := medianTime(len(scanned), func(i int) error { scan(texts, scanned[i]); return nil })
				if err != nil {
					return err
				}
				took, err := medianTime(len(queries), func(i int) error { return search(queries[i]) })
				if err != nil {
					return err
				}
				times, scans = append(times, took), append(scans, floor)
			}
			l := line{
				name: fmt.Sprintf("search_hard, %d words, among %s", words, name),
				note: "wall time, p50, the socket included; floor: a scan of the texts in memory; ratio: how much faster",
			}.over(times, scans)
			l.ratio = 1 / l.ratio
			if words == 5 {
				l.goals = []goal{ratioAtLeast(faster)}
			}
			if n == 100_000 {
				l.goals = append(l.goals, atMost(limit))
			}
			lines = append(lines, l)
		}
		slices.SortFunc(lines, func(a, b line) int { return cmp.Compare(a.measured, b.measured) })
		more := w.Texts(100, 40)
		add, err := medianTime(len(more), func(i int) error {
			_, err := rpc.Call(context.Background(), client, proto.MemStoreHard, proto.StoreHard{Messages: proto.Raw(`[{"role":"user","content":"` + more[i] + `"}]`)})
			return err
		})
		if err != nil {
			return err
		}
		lines = append(lines, line{name: "store_hard among " + name + ", not synced", measured: add, note: "wall time, the socket included"})
		return nil
	})
	if err != nil {
		return nil, err
	}
	if n < 100_000 {
		return lines, nil
	}
	last, err := b.startWithMemories(c, texts[0])
	return append(lines, last...), err
}

// indexing measures what a new memory costs the index of n others.
func indexing(n int) (line, error) {
	w := measure.NewWords()
	x := index.New()
	for id, text := range w.Texts(n, 40) {
		x.Put(id, text)
	}
	more := w.Texts(5000, 40)
	took, err := medianTime(len(more), func(i int) error {
		x.Put(n+i, more[i])
		return nil
	})
	return line{name: fmt.Sprintf("a memory of 40 words into the index of %dk", n/1000), measured: took, goals: []goal{atMost(20e3)}, note: "wall time, p50"}, err
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
	heap := math.Inf(1)
	for range 20 { // mem frees what reading the memories needed in the background
		st, err := rpc.Call(context.Background(), client, proto.GetStats, proto.StatsRequest{})
		if err != nil {
			return nil, err
		}
		heap = min(heap, float64(st.HeapBytes))
		time.Sleep(100 * time.Millisecond)
	}
	return []line{
		{name: "mem with 100k memories, exec to first result", measured: took, goals: []goal{atMost(1e9)}, note: "wall time, with a snapshot"},
		{name: "mem with 100k memories, heap", unit: megabytes, measured: heap, goals: []goal{atMost(100e6)}, note: "the least of two seconds"},
	}, nil
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
	return []line{line{
		name: "get_history, the last 50 of 100k over 1k", goals: []goal{ratioAtMost(1.2)}, note: "CPU of mem, the socket included",
	}.over(each(r.Bs, ofServer), each(r.As, ofServer))}, err
}

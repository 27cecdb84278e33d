package peers_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"zino/pkg/config"
	"zino/pkg/rpc"
	"zino/proto"
	"zino/services/constellation/measure"
	"zino/services/constellation/peers/search"
	"zino/services/mem/index"
)

// lengths are the numbers of words of the queries.
var lengths = []int{1, 5, 12}

// compareSearches searches the same memories with the same queries.
func compareSearches(dir string) (string, error) {
	var b strings.Builder
	program, why := build(dir, "fts")
	if why != "" {
		return fmt.Sprintf("Not measured: SQLite FTS5: %s.\n", why), nil
	}
	b.WriteString("| p50, top 10 |")
	for _, n := range lengths {
		fmt.Fprintf(&b, " %s |", plural(n, "word"))
	}
	b.WriteString(" one more stored | all stored | anonymous |\n|---|" + strings.Repeat("---|", len(lengths)+3) + "\n")
	var agreement []string
	for _, n := range []int{10_000, 100_000} {
		w := measure.NewWords()
		task := search.Task{Texts: w.Texts(n, 40), More: w.Texts(100, 40)}
		for _, words := range lengths {
			task.Queries = append(task.Queries, w.Texts(50, words))
		}
		theirs, err := fts(program, task)
		if err != nil {
			return "", err
		}
		own, err := memory(dir, task)
		if err != nil {
			return "", err
		}
		alone := inProcess(task)
		row := func(name string, r search.Result) {
			fmt.Fprintf(&b, "| %s, %dk memories |", name, n/1000)
			for i, t := range r.Times {
				fmt.Fprintf(&b, " %s |", against(t, own.Times[i]))
			}
			fmt.Fprintf(&b, " %s | %.1f s | %.0f MB |\n", against(r.Add, own.Add), r.Built/1e9, r.Memory)
		}
		row("search_hard over the socket", own)
		row("its index alone, in the process", alone)
		row("SQLite FTS5, in the process", theirs)
		var shares []string
		for i, words := range lengths {
			shares = append(shares, fmt.Sprintf("%.0f %% with %s", 100*overlap(own.Hits[i], theirs.Hits[i]), plural(words, "word")))
		}
		agreement = append(agreement, fmt.Sprintf("%dk: %s", n/1000, strings.Join(shares, ", ")))
	}
	fmt.Fprintf(&b, "\nThe results of both that are the same: %s.\n\n", strings.Join(agreement, "; "))
	quality, err := relevance(program)
	return b.String() + quality, err
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func against(t, own float64) string {
	text := fmt.Sprintf("%.0f us", t/1e3)
	if t >= 1e7 {
		text = fmt.Sprintf("%.0f ms", t/1e6)
	}
	if ratio := t / own; ratio < 10 {
		return fmt.Sprintf("%s, %.1fx", text, ratio)
	}
	return fmt.Sprintf("%s, %.0fx", text, t/own)
}

// fts runs the program of SQLite in a directory of its own.
func fts(program string, task search.Task) (result search.Result, err error) {
	dir, err := os.MkdirTemp(filepath.Dir(program), "d")
	if err != nil {
		return result, err
	}
	defer os.RemoveAll(dir)
	text, err := json.Marshal(task)
	if err != nil {
		return result, err
	}
	cmd := exec.Command(program, dir)
	cmd.Stdin, cmd.Stderr = bytes.NewReader(text), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return result, fmt.Errorf("fts: %w", err)
	}
	return result, json.Unmarshal(out, &result)
}

// inProcess searches in the index of zino-mem.
func inProcess(task search.Task) (result search.Result) {
	x := index.New()
	began := time.Now()
	for id, text := range task.Texts {
		x.Put(id, text)
	}
	result.Built = float64(time.Since(began))
	for _, queries := range task.Queries {
		var times []float64
		for _, q := range queries {
			began := time.Now()
			x.Search(index.Query{Text: q, K: 10})
			times = append(times, float64(time.Since(began)))
		}
		result.Times = append(result.Times, measure.Percentile(times, 50))
	}
	var times []float64
	for i, text := range task.More {
		began := time.Now()
		x.Put(len(task.Texts)+i, text)
		times = append(times, float64(time.Since(began)))
	}
	result.Add = measure.Percentile(times, 50)
	result.Memory, _ = measure.Anonymous(os.Getpid()) // this process has the texts, too
	return result
}

// memory searches in zino-mem, as a client.
func memory(dir string, task search.Task) (result search.Result, err error) {
	dir, err = os.MkdirTemp(dir, "m")
	if err != nil {
		return result, err
	}
	defer os.RemoveAll(dir)
	program, err := filepath.Abs("../../../bin/zino-mem")
	if err != nil {
		return result, err
	}
	c := config.Default()
	c.File, c.Mem.Socket = filepath.Join(dir, config.FileName), filepath.Join(dir, "mem.sock")
	c.Mem.DataDir, c.Mem.SessionsDir, c.Mem.Durability = filepath.Join(dir, "data"), filepath.Join(dir, "sessions"), "os"
	if err := c.Write(c.File); err != nil {
		return result, err
	}
	if err := measure.WriteMemories(c.Mem.DataDir, task.Texts); err != nil {
		return result, err
	}
	cmd := exec.Command(program, "--config", c.File)
	cmd.Env, cmd.Stderr = append(os.Environ(), "ZINO_HOME="+dir, "ZINO_LOG_LEVEL=WARN"), os.Stderr
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return result, fmt.Errorf("%w: run make build", err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	client := &rpc.Client{Service: "mem", Path: c.Mem.Socket}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for { // until its socket exists
		if _, err := rpc.Call(ctx, client, proto.Ping, proto.PingRequest{}); err == nil {
			break
		} else if ctx.Err() != nil {
			return result, err
		}
		time.Sleep(time.Millisecond)
	}
	ids := map[string]int{}
	for id, text := range task.Texts {
		ids[text] = id
	}
	find := func(query string) ([]int, error) {
		found, err := rpc.Call(ctx, client, proto.MemSearchHard, proto.SearchHard{Query: query, TopK: new(10)})
		var list []int
		for _, r := range found.Results {
			var messages []struct{ Content string }
			if err := json.Unmarshal(r.Messages, &messages); err != nil {
				return nil, err
			}
			list = append(list, ids[messages[0].Content])
		}
		return list, err
	}
	if _, err := find(task.Texts[0]); err != nil { // it has loaded all memories
		return result, err
	}
	result.Built = float64(time.Since(began))
	for _, queries := range task.Queries {
		var times []float64
		var hits [][]int
		for _, q := range queries {
			began := time.Now()
			ids, err := find(q)
			if err != nil {
				return result, err
			}
			times, hits = append(times, float64(time.Since(began))), append(hits, ids)
		}
		result.Times, result.Hits = append(result.Times, measure.Percentile(times, 50)), append(result.Hits, hits)
	}
	var times []float64
	for _, text := range task.More {
		began := time.Now()
		if _, err := rpc.Call(ctx, client, proto.MemStoreHard, proto.StoreHard{Messages: proto.Raw(`[{"role":"user","content":"` + text + `"}]`)}); err != nil {
			return result, err
		}
		times = append(times, float64(time.Since(began)))
	}
	result.Add = measure.Percentile(times, 50)
	result.Memory, err = measure.Anonymous(cmd.Process.Pid)
	return result, err
}

// overlap returns which share of the first's hits the second has, over all queries.
func overlap(a, b [][]int) float64 {
	same, all := 0, 0
	for i := range a {
		all += len(a[i])
		for _, id := range a[i] {
			if slices.Contains(b[i], id) {
				same++
			}
		}
	}
	return float64(same) / float64(max(all, 1))
}

// relevance compares the rankings of the index's quality test.
func relevance(program string) (string, error) {
	var set struct {
		Memories []struct{ ID, Text string }
		Queries  []struct {
			Lang, Text string
			Relevant   map[string]int // grades by memory
		}
	}
	text, err := os.ReadFile("../../mem/index/testdata/relevance.json")
	if err != nil {
		return "", err
	}
	if err := json.Unmarshal(text, &set); err != nil {
		return "", err
	}
	x, task := index.New(), search.Task{Queries: [][]string{nil}}
	for id, m := range set.Memories {
		x.Put(id, m.Text)
		task.Texts = append(task.Texts, m.Text)
	}
	for _, q := range set.Queries {
		task.Queries[0] = append(task.Queries[0], q.Text)
	}
	theirs, err := fts(program, task)
	if err != nil {
		return "", err
	}
	sums, counts := map[string][2]float64{}, map[string]int{}
	for i, q := range set.Queries {
		var own []int
		for _, h := range x.Search(index.Query{Text: q.Text, K: 10}) {
			own = append(own, h.ID)
		}
		best := gain(slices.SortedFunc(maps.Values(q.Relevant), func(a, b int) int { return b - a }))
		for side, ids := range [][]int{own, theirs.Hits[0][i]} {
			var grades []int
			for _, id := range ids {
				grades = append(grades, q.Relevant[set.Memories[id].ID])
			}
			for _, lang := range []string{"all", q.Lang} {
				s := sums[lang]
				s[side] += gain(grades) / best
				sums[lang] = s
			}
		}
		counts["all"]++
		counts[q.Lang]++
	}
	var b strings.Builder
	b.WriteString("| nDCG@10 of the quality test | queries | zino-mem | SQLite FTS5, porter |\n|---|---|---|---|\n")
	for _, lang := range slices.SortedFunc(maps.Keys(counts), func(a, b string) int { return counts[b] - counts[a] }) {
		s, n := sums[lang], float64(counts[lang])
		fmt.Fprintf(&b, "| %s | %.0f | %.3f | %.3f |\n", lang, n, s[0]/n, s[1]/n)
	}
	return b.String(), nil
}

// gain is the discounted gain of the first ten grades.
func gain(grades []int) (sum float64) {
	for i, g := range grades[:min(10, len(grades))] {
		sum += (math.Exp2(float64(g)) - 1) / math.Log2(float64(i+2))
	}
	return sum
}

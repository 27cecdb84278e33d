package bench_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"zino/pkg/rpc"
	"zino/proto"
	"zino/services/constellation/measure"
)

// letters returns n words of letters, which have a form besides their stem.
func letters(w measure.Words, n int) string {
	list := make([]string, n)
	for i := range list {
		list[i] = strings.Map(func(r rune) rune { return 'a' + (r-'0')%26 }, fmt.Sprintf("%04o", w.Next()))
	}
	return strings.Join(list, " ")
}

const (
	recallSessions = 1000
	recallMessages = 100 // of a session
)

// writeLogs writes sessions with messages of 10 to 110 words.
func writeLogs(dir string, w measure.Words) error {
	rnd := rand.New(rand.NewPCG(3, 4))
	for i := range recallSessions {
		log := bytes.NewBufferString(`{"type":"meta","schema_version":1,"ts":"2026-11-21T14:03:07Z"}` + "\n")
		for n := range recallMessages {
			role := []string{proto.RoleUser, proto.RoleAssistant}[n%2]
			fmt.Fprintf(log, `{"type":"message","role":%q,"text":%q,"ts":"2026-11-21T14:03:07Z"}`+"\n", role, letters(w, 10+rnd.IntN(100)))
		}
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("s%d.jsonl", i)), log.Bytes(), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// benchRecall searches many sessions, whose index it builds first.
func benchRecall(b *bench) ([]line, error) {
	w := measure.NewWords()
	queries := make([]string, 100)
	for i := range queries {
		queries[i] = "how did we fix the " + letters(w, 4)
	}
	c, err := b.memory(false, "os")
	defer c.stop()
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(c.cfg.Mem.DataDir, "sessions")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if err := writeLogs(dir, w); err != nil {
		return nil, err
	}
	client := &rpc.Client{Service: "mem", Path: c.cfg.Mem.Socket}
	defer client.Close()
	recall := func(i int) (int, error) {
		found, err := rpc.Call(context.Background(), client, proto.MemRecallSessions, proto.RecallSessions{Query: queries[i]})
		if err == nil && found.Pending == 0 && len(found.Results) == 0 {
			err = fmt.Errorf("%q finds nothing", queries[i])
		}
		return found.Pending, err
	}
	began := time.Now()
	for pending := 1; pending > 0; {
		if pending, err = recall(0); err != nil {
			return nil, err
		}
	}
	built := float64(time.Since(began))
	time.Sleep(startEnds) // mem unmaps pages of its binary
	before, err := rss(c.pids("mem")[0])
	if err != nil {
		return nil, err
	}
	took, err := medianTime(len(queries), func(i int) error {
		_, err := recall(i)
		return err
	})
	if err != nil {
		return nil, err
	}
	after, err := rss(c.pids("mem")[0])
	return []line{
		{name: "recall_sessions among 100k messages", measured: took, goals: []goal{atMost(100e6)}, note: "wall time, 1,000 sessions, the index files in the page cache"},
		{name: "recall_sessions, the index built", measured: built, note: "wall time until no session is pending"},
		{name: "recall_sessions, RSS of mem after 100 more", unit: megabytes, measured: max(after-before, 1), goals: []goal{atMost(3e6)}, note: fmt.Sprintf("more than the %s before", megabytes.text(before))},
	}, err
}

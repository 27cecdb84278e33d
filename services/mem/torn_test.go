package mem

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"zino/pkg/zinotest"
	"zino/services/mem/store"
)

func said(text string) []byte { return []byte("[" + msg(text) + "]") }

// states returns the ids, messages and tags of the memories.
func states(t *testing.T, dir string) string {
	t.Helper()
	m := openStore(t, dir)
	var list []string
	for v, err := range m.Scan(t.Context(), store.Filter{}) {
		zinotest.Must(t, err)
		list = append(list, fmt.Sprintf("%d %s %s", v.ID, v.Messages, v.Tag))
	}
	return strings.Join(list, "\n")
}

// TestTornChanges cuts the write of a change at every byte, followed by nothing, the
// old bytes, or zeros. The change must be stored completely or not at all, and all
// other memories must be unchanged.
func TestTornChanges(t *testing.T) {
	changes := map[string]func(m *memories) error{
		"update": func(m *memories) error {
			return m.Update(t.Context(), 1, store.Change{Messages: said("new ] } words"), Tag: new(string)})
		},
		"delete": func(m *memories) error { return m.Delete(t.Context(), 1) },
		"store": func(m *memories) error {
			_, err := m.Put(t.Context(), store.Memory{Messages: said("more")})
			return err
		},
	}
	for what, change := range changes {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			tearChange(t, change)
		})
	}
}

func tearChange(t *testing.T, change func(m *memories) error) {
	before, after := writtenBy(t, change)
	old, done := statesOf(t, before), statesOf(t, after)
	if old == done {
		t.Fatal("nothing changed")
	}
	cases, whole := 0, 0
	for cut := len(before) - len("\n]"); cut <= len(after); cut++ {
		tails := map[string]bool{"": true, before[min(cut, len(before)):]: true, strings.Repeat("\x00", len(after)-cut): true}
		for tail := range tails {
			got := statesOf(t, after[:cut]+tail)
			if cases++; got == done {
				whole++
			}
			if got != old && got != done {
				t.Fatalf("cut at %d of %d, then %q: the memories are\n%s\nwant\n%s\nor\n%s", cut, len(after), tail, got, old, done)
			}
		}
	}
	t.Logf("%d torn writes: %d with the change, %d without it", cases, whole, cases-whole)
}

// writtenBy returns the file before and after a change.
func writtenBy(t *testing.T, change func(m *memories) error) (before, after string) {
	t.Helper()
	dir := zinotest.Dir(t)
	m := openStore(t, dir)
	for _, text := range []string{"zero", "one [ {", "two"} {
		if _, err := m.Put(t.Context(), store.Memory{Messages: said(text), Tag: "tag"}); err != nil {
			t.Fatal(err)
		}
	}
	before = fileIn(t, dir)
	zinotest.Must(t, change(m))
	return before, fileIn(t, dir)
}

func fileIn(t *testing.T, dir string) string {
	t.Helper()
	return zinotest.Read(t, filepath.Join(dir, hardFile))
}

// statesOf returns the states of a file with this text.
func statesOf(t *testing.T, text string) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "z")
	zinotest.Must(t, err)
	defer os.RemoveAll(dir)
	zinotest.Must(t, os.WriteFile(filepath.Join(dir, hardFile), []byte(text), 0o600))
	return states(t, dir)
}

// changeForever makes random changes until it is killed. It prints each change before
// it starts and when it is acknowledged.
func changeForever(args []string) error {
	root, err := os.OpenRoot(args[0])
	if err != nil {
		return err
	}
	m := openMemories(root, quiet(), true)
	m.turn.Lock()
	m.least = 50 // so that writes of snapshots are also interrupted
	m.turn.Unlock()
	var ours []int
	for i := 0; ; i++ {
		text := fmt.Sprintf("memory %d of %d %s", i, os.Getpid(), strings.Repeat("x", rand.IntN(400)))
		id, what := -1, "store"
		if n := rand.IntN(4); len(ours) > 0 && n > 1 {
			at := rand.IntN(len(ours))
			id, what = ours[at], []string{"update", "delete"}[n-2]
			if what == "delete" {
				ours = append(ours[:at], ours[at+1:]...)
			}
		}
		fmt.Println("begin", what, id, text)
		switch what {
		case "store":
			id, err = m.Put(context.Background(), store.Memory{Messages: said(text)})
			ours = append(ours, id)
		case "update":
			err = m.Update(context.Background(), id, store.Change{Messages: said(text)})
		case "delete":
			err = m.Delete(context.Background(), id)
		}
		if err != nil {
			return err
		}
		fmt.Println("done", what, id, text)
	}
}

// killRounds is the number of processes that TestKilledChanges kills.
const killRounds = 200

// ledger collects what the processes printed before they were killed.
type ledger struct {
	mu           sync.Mutex
	known        map[int]string // id to text, "" if it was deleted
	doubtful     map[int]string // changes that were started and not acknowledged
	acknowledged int
}

// note reads the lines that one process printed.
func (l *ledger) note(t *testing.T, lines []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, line := range lines {
		state, rest, _ := strings.Cut(line, " ")
		what, rest, _ := strings.Cut(rest, " ")
		number, text, _ := strings.Cut(rest, " ")
		id, err := strconv.Atoi(number)
		if err != nil {
			t.Error(err)
		}
		if what == "delete" {
			text = ""
		}
		switch {
		case state == "done":
			l.known[id] = text
			l.acknowledged++
		case i == len(lines)-1 && what != "store":
			l.doubtful[id] = text
		}
	}
}

// TestKilledChanges repeatedly kills processes that change one file. It must contain
// every acknowledged change.
func TestKilledChanges(t *testing.T) {
	t.Parallel()
	dir := zinotest.Dir(t)
	l := ledger{known: map[int]string{}, doubtful: map[int]string{}}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range killRounds / 4 {
				l.note(t, killChanger(t, dir, 1+rand.IntN(12)))
			}
		})
	}
	wg.Wait()
	m := openStore(t, dir)
	fresh := zinotest.Dir(t)
	zinotest.Must(t, os.WriteFile(filepath.Join(fresh, hardFile), []byte(fileIn(t, dir)), 0o600))
	if got, want := answers(t, m), answers(t, openStore(t, fresh)); got != want {
		t.Errorf("the scores are not those of a new index\n%.2000s\nwant\n%.2000s", got, want)
	}
	found, lost := 0, 0
	for id, text := range l.known {
		got, err := m.Get(t.Context(), id)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			t.Fatal(err)
		}
		maybe, isDoubtful := l.doubtful[id]
		if says(got) == text || isDoubtful && says(got) == maybe {
			found++
			continue
		}
		lost++
		t.Errorf("memory %d is %.60q, want %.60q", id, says(got), text)
	}
	t.Logf("%d kills, %d changes acknowledged, %d memories correct, %d lost", killRounds, l.acknowledged, found, lost)
	if l.acknowledged < killRounds {
		t.Errorf("only %d changes were acknowledged", l.acknowledged)
	}
}

// says returns the text of a memory with one message.
func says(v store.Memory) string {
	texts, parsed, err := parseMessages(v.Messages)
	if err != nil || len(texts) == 0 {
		return ""
	}
	return parsed[0].Content
}

// killChanger runs a process, kills it after n acknowledged changes and returns the
// lines that it printed.
func killChanger(t *testing.T, dir string, n int) (lines []string) {
	t.Helper()
	cmd := zinotest.Command(t, "changer", dir)
	cmd.Env = append(cmd.Env, "GOMAXPROCS=1")
	return zinotest.KillAfter(t, cmd, 2*n)
}

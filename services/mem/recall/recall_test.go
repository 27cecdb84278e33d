package recall

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"zino/pkg/zinotest"
	"zino/proto"
)

func (e *env) wants(q Query, want ...string) {
	e.t.Helper()
	var got []string
	for _, h := range e.search(q).Hits {
		got = append(got, fmt.Sprintf("%s:%s:%s", h.Session, h.Role, strings.TrimSpace(h.Text)))
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		e.t.Errorf("%+v finds\n%s\nwant\n%s", q, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestFilters(t *testing.T) {
	e := newEnv(t, "")
	e.put("a", "", said("user", "the printer is broken", "2026-11-20T10:00:00Z"), called("bash", `{"command":"lpstat printer"}`, "2026-11-20T10:01:00Z"))
	e.put("b", "", said("user", "what about that", "2026-11-22T10:00:00Z"), said("assistant", "cups was masked", "2026-11-22T10:00:00Z"), said("user", "a printer, again", ""))
	const first, call, second, other = "a:user:the printer is broken", "a:tool:bash lpstat printer", "b:user:a printer, again", "b:assistant:cups was masked"
	day := func(n int) time.Time { return time.Date(2026, 11, n, 0, 0, 0, 0, time.UTC) }
	e.wants(Query{Text: "printer"}, call, first, second, other, "b:user:what about that")
	e.wants(Query{Text: "printer", K: 2}, call, first)
	e.wants(Query{Text: "printer", Role: "user"}, first, second, "b:user:what about that")
	e.wants(Query{Text: "printer", Role: "tool"}, call)
	e.wants(Query{Text: "printer", Session: "a"}, call, first)
	e.wants(Query{Text: "printer", NotSession: "a"}, second, other, "b:user:what about that")
	e.wants(Query{Text: "printer", Since: day(21)}, other, "b:user:what about that")
	e.wants(Query{Text: "printer", Until: day(21)}, call, first)
	e.wants(Query{Text: "printer", Session: "missing"})
	e.wants(Query{Text: "printer", MinScore: 0.9})
	e.wants(Query{Text: "unknown"})
	e.wants(Query{Text: " ?! "})
	if found := e.search(Query{Text: "maskingtape", K: 1, Explain: true}); len(found.Hits) != 1 || found.Hits[0].Words[0].As != "mask" {
		t.Errorf("by a prefix: %+v", found)
	}
	if found := e.search(Query{Text: "cups", K: 1, Explain: true}); found.Searched != 2 || len(found.Hits) != 1 || found.Hits[0].Words[0].Word != "cups" || math.Abs(found.Hits[0].Words[0].Weight-found.Hits[0].Own) > 1e-9 {
		t.Errorf("found %+v", found)
	}
}

// TestOwner checks that the user of one session never gets a line of another one's.
func TestOwner(t *testing.T) {
	e := newEnv(t, "")
	e.put("a", `{"uid":1000}`, said("user", "my printer", noon))
	e.put("b", `{"uid":1001}`, said("user", "her printer", noon))
	e.put("c", "", said("user", "a printer of unknown owner", noon))
	owner := func(uid int) *int { return &uid }
	e.wants(Query{Text: "printer", Owner: owner(1000)}, "a:user:my printer")
	e.wants(Query{Text: "printer", Owner: owner(1000), Session: "b"})
	e.wants(Query{Text: "printer", Owner: owner(1002)})
	if found := e.search(Query{Text: "printer", Owner: owner(1001)}); found.Searched != 1 {
		t.Errorf("%d sessions are searched", found.Searched)
	}
	// A copy by another user contains lines of both.
	for copied, uid := range map[string]int{"mine": 1000, "hers": 1001} {
		_, err := e.store.Fork(t.Context(), proto.ForkSession{SessionID: "a", NewID: copied, Owner: owner(uid)})
		zinotest.Must(t, err)
		e.put(copied, "", said("user", "the printer of "+copied, noon))
	}
	e.wants(Query{Text: "printer", Owner: owner(1000)}, "mine:user:the printer of mine", "a:user:my printer")
	e.wants(Query{Text: "printer", Owner: owner(1001)}, "b:user:her printer")
}

// TestSecrets checks that neither results of tools nor hidden sessions are indexed.
func TestSecrets(t *testing.T) {
	e := newEnv(t, "")
	e.put("a", "", said("user", "printer", noon), fmt.Sprintf(`{"type":"tool_result","tool_use_id":"1","output":"hunter2 printer","ts":%q}`, noon), said("assistant", "done", noon))
	e.put("b", `{"recall":false}`, said("user", "printer hunter2", noon))
	e.put("c", "", said("user", "toner", noon), `{"type":"tool_result","tool_use_id":"1","output":"hunter2"}`) // at the end of the log
	e.wants(Query{Text: "hunter2"})
	e.put("b", "", said("user", "hunter2", noon)) // appended
	e.wants(Query{Text: "hunter2"})
	if found := e.search(Query{Text: "printer"}); len(found.Hits) != 2 || found.Searched != 2 {
		t.Errorf("found %+v", found)
	}
	for _, id := range []string{"a", "b", "c"} {
		data := zinotest.Read(t, e.index(id))
		if strings.Contains(data, "hunter2") || strings.Contains(data, string(hashBytes("hunter2"))) {
			t.Errorf("the index of %s contains the secret", id)
		}
		if fi, err := os.Stat(e.index(id)); err != nil || fi.Mode().Perm() != 0o600 {
			t.Errorf("the mode of %s: %v, %v", id, fi.Mode(), err)
		}
	}
	if !strings.Contains(zinotest.Read(t, e.index("a")), string(hashBytes("printer"))) {
		t.Error("the index does not contain a word of a message")
	}
}

func hashBytes(word string) []byte {
	r := new(encoder).document(documentOf(word))
	return r.terms[:termSize-1]
}

// TestCopies checks that of equal documents the oldest is found, and another one when
// its line is gone.
func TestCopies(t *testing.T) {
	e := newEnv(t, "")
	e.put("a", "", said("user", "the printer", "2026-11-20T10:00:00Z"), said("assistant", "the printer", "2026-11-20T10:00:00Z"))
	_, err := e.store.Fork(t.Context(), proto.ForkSession{SessionID: "a", NewID: "z"})
	zinotest.Must(t, err)
	e.put("z", "", said("user", "the printer", "2026-11-20T11:00:00Z"))
	e.wants(Query{Text: "printer"}, "a:assistant:the printer", "a:user:the printer")
	e.wants(Query{Text: "printer", NotSession: "a"}, "z:assistant:the printer", "z:user:the printer")
	_, err = e.store.Remove(t.Context(), proto.RemoveSession{SessionID: "a"})
	zinotest.Must(t, err)
	zinotest.Untouched(t, e.index("a"))
	e.wants(Query{Text: "printer"}, "z:assistant:the printer", "z:user:the printer")
}

func TestExcerpt(t *testing.T) {
	e := newEnv(t, "")
	filler := strings.Repeat("ünd so\nwéiter ", 200)
	e.put("a", "", said("user", filler+"first the printer "+filler+"then the Printing\tof cups, masked by cups "+filler, noon), said("assistant", filler, noon))
	found := e.search(Query{Text: "how is cups masked by the printers"})
	if len(found.Hits) != 2 {
		t.Fatalf("found %+v", found)
	}
	got := found.Hits[0].Excerpt
	if n := utf8.RuneCountInString(got); n > excerptMax || n < excerptMax-20 || !strings.Contains(got, " then the Printing of cups, masked by cups ünd") || !strings.HasPrefix(got, "…") || !strings.HasSuffix(got, "…") {
		t.Errorf("%d characters: %s", n, got)
	}
	if got := found.Hits[1].Excerpt; !strings.HasPrefix(got, "ünd so wéiter ünd") || utf8.RuneCountInString(got) > excerptMax {
		t.Errorf("without a word of the query: %s", got)
	}
	// A term counts for each word of the query that it gives a part of.
	e.put("b", "", said("user", "toner and fuser "+filler+"repair it", noon))
	if found := e.search(Query{Text: "repaired repairing repairs toner fuser", Session: "b"}); len(found.Hits) != 1 || !strings.HasSuffix(found.Hits[0].Excerpt, "repair it") {
		t.Errorf("three words with one stem: %+v", found.Hits)
	}
	for _, query := range []string{strings.Repeat("printer ", 10_000), randomText(rand.New(rand.NewPCG(1, 1)), 10_000), "x", "日本語のプリンタ", "the of and"} {
		e.compare(query)
	}
}

// TestPending checks that a search builds for a limited time, and that the rest is built in
// the background.
func TestPending(t *testing.T) {
	e := newEnv(t, "")
	for i := range 5 {
		e.put(fmt.Sprint("s", i), "", said("user", fmt.Sprint("printer ", i), noon))
	}
	e.buildTime = 0
	found, err := e.Search(t.Context(), Query{Text: "printer", K: 9})
	zinotest.Must(t, err)
	if found.Pending != 5 || found.Searched != 0 || len(found.Hits) != 0 {
		t.Errorf("found %+v", found)
	}
	zinotest.Eventually(t, "the rest is built", func() bool {
		found, err = e.Search(t.Context(), Query{Text: "printer", K: 9})
		zinotest.Must(t, err)
		return found.Pending == 0
	})
	if found.Searched != 5 || len(found.Hits) != 5 {
		t.Errorf("found %+v", found)
	}
	e.bytesMax = 400
	if found = e.search(Query{Text: "printer"}); found.LeftOut == 0 || found.Searched+found.LeftOut != 5 {
		t.Errorf("over the limit: %+v", found)
	}
}

// TestUnwritable checks that searches work where the index cannot be kept.
func TestUnwritable(t *testing.T) {
	e := newEnv(t, "")
	e.put("a", "", said("user", "printer", noon))
	e.put("b", "", said("user", "cups", noon))
	zinotest.Must(t, os.MkdirAll(filepath.Join(e.index("a"), "sub"), 0o700)) // in place of a file
	e.compare("printer cups")
	zinotest.Must(t, os.RemoveAll(filepath.Join(e.dir, dirName)))
	zinotest.Write(t, filepath.Join(e.dir, dirName), "") // in place of the directory
	e.compare("printer cups")
	if len(e.problems) < 2 || !strings.HasPrefix(e.problems[0], "the index for recall cannot be kept") {
		t.Errorf("problems: %q", e.problems)
	}
}

// recordsOf returns the records in an index file.
func recordsOf(t *testing.T, path string) (all []byte) {
	t.Helper()
	img := parse([]byte(zinotest.Read(t, path)))
	for rest := img.data[len(magic):]; len(rest) > 0; {
		var payload []byte
		payload, rest, _ = cutBatch(rest)
		all = append(all, payload[:len(payload)-stateSize]...)
	}
	return all
}

// TestIncremental checks that the records of a file that grew and of one that was built
// at once are equal, and that many batches are.
func TestIncremental(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	e := newEnv(t, "")
	for range 20 {
		for range rnd.IntN(200) {
			e.put("a", `{"uid":7}`, randomEvent(rnd))
		}
		e.search(Query{Text: "printer"})
	}
	grown, before := recordsOf(t, e.index("a")), zinotest.Read(t, e.index("a"))
	zinotest.Must(t, os.RemoveAll(filepath.Join(e.dir, dirName)))
	e.compare("printer")
	if rebuilt := recordsOf(t, e.index("a")); !bytes.Equal(rebuilt, grown) || len(grown) < batchSize {
		t.Errorf("%d bytes of records when rebuilt, %d grown", len(rebuilt), len(grown))
	}
	if len(zinotest.Read(t, e.index("a"))) >= len(before) {
		t.Error("the file did not grow in batches")
	}
}

// TestDamage checks every prefix of an index file, and damage of each byte.
func TestDamage(t *testing.T) {
	e := newEnv(t, "")
	for i, text := range []string{"printer", "cups masked", "", "the printer again"} {
		e.put("a", "", said("user", text, noon))
		settled := time.Now().Add(time.Duration(i-10) * time.Minute)
		zinotest.Must(t, os.Chtimes(e.path("a"), settled, settled))
		e.search(Query{Text: "printer"})
	}
	path := e.index("a")
	whole, records := zinotest.Read(t, path), recordsOf(t, path)
	check := func(what, data string) {
		t.Helper()
		zinotest.Must(t, os.WriteFile(path, []byte(data), 0o600))
		e.wants(Query{Text: "printer", K: 2}, "a:user:printer", "a:user:the printer again")
		if got := recordsOf(t, path); !bytes.Equal(got, records) {
			t.Fatalf("%s: the records are %x, want %x", what, got, records)
		}
	}
	for i := range len(whole) {
		check(fmt.Sprint("the first ", i), whole[:i])
		damaged := []byte(whole)
		damaged[i] ^= byte(1 << (i % 8))
		check(fmt.Sprint("damage at ", i), string(damaged))
	}
}

// TestRewrittenEnd rewrites a log such that it seems to have grown.
func TestRewrittenEnd(t *testing.T) {
	e := newEnv(t, "")
	zinotest.Must(t, os.WriteFile(e.path("a"), []byte(said("user", "the printer", noon)+"\n"), 0o600))
	e.compare("printer kernels")
	zinotest.Must(t, os.WriteFile(e.path("a"), []byte(said("user", "the kernels", noon)+"\n"+said("user", "more", noon)+"\n"), 0o600))
	e.compare("printer kernels")
}

// TestRewrittenWhileIndexed rewrites a log in place while it is indexed.
func TestRewrittenWhileIndexed(t *testing.T) {
	e := newEnv(t, "")
	rnd := rand.New(rand.NewPCG(rand.Uint64(), 1))
	var contents [][]byte
	for range 4 {
		log := []byte(`{"type":"meta","ts":"` + noon + `"}` + "\n")
		for range 100 {
			log = append(append(log, randomEvent(rnd)...), '\n')
		}
		contents = append(contents, log)
	}
	zinotest.Must(t, os.WriteFile(e.path("a"), contents[0], 0o600))
	for range 20 {
		done := make(chan struct{})
		var group sync.WaitGroup
		group.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-done:
					return
				default:
				}
				if err := os.WriteFile(e.path("a"), contents[i%len(contents)], 0o600); err != nil {
					t.Error(err)
					return
				}
			}
		})
		for range 5 {
			if _, err := e.Search(t.Context(), Query{Text: "printer cups", K: 10}); err != nil {
				t.Error(err)
			}
		}
		close(done)
		group.Wait()
		e.compare("printer cups mask")
	}
}

// TestKilledBuilders kills two processes that build one index. What they leave is
// continued.
func TestKilledBuilders(t *testing.T) {
	e := newEnv(t, "")
	rnd := rand.New(rand.NewPCG(rand.Uint64(), 1))
	for round := range 6 {
		for i := range 10 {
			for range 20 {
				e.put(fmt.Sprint("s", i), "", randomEvent(rnd))
			}
		}
		if round%2 == 1 {
			zinotest.Must(t, os.RemoveAll(filepath.Join(e.dir, dirName)))
		}
		var group sync.WaitGroup
		for range 2 {
			n := 1 + rnd.IntN(10)
			group.Go(func() { zinotest.KillAfter(t, zinotest.Command(t, "builder", e.dir), n) })
		}
		group.Wait()
		e.compare("printer cups mask")
	}
}

// TestTwoProcesses searches while another process builds and sessions grow.
func TestTwoProcesses(t *testing.T) {
	e := newEnv(t, "")
	rnd := rand.New(rand.NewPCG(rand.Uint64(), 1))
	e.put("s", "", randomEvent(rnd))
	other := zinotest.Start(t, zinotest.Command(t, "builder", e.dir))
	for range 30 {
		for range 10 {
			e.put(fmt.Sprint("s", rnd.IntN(5)), "", randomEvent(rnd))
		}
		e.compare("printer cups mask")
	}
	other.Kill()
	if len(e.problems) > 0 {
		t.Errorf("problems: %q", e.problems)
	}
}

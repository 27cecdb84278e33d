// Package storetest tests an engine against what store.Store promises.
package storetest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"zino/services/mem/store"
)

// Run tests an engine. open opens a store: a fresh one the first time it is
// called in a test, and after that the same memories once more, as another
// process would that shares them, or the same one after a restart.
func Run(t *testing.T, open func(t *testing.T) store.Store) {
	t.Helper()
	for _, c := range checks {
		t.Run(strings.ReplaceAll(c.name, " ", "_"), func(t *testing.T) {
			s := &subject{T: t, open: func() store.Store { return open(t) }}
			s.Store = s.open()
			c.run(s)
		})
	}
}

// check is one promise.
type check struct {
	name string
	run  func(*subject)
}

// Checks is the number of promises that Run checks.
func Checks() int { return len(checks) }

var checks = slices.Concat(storing, finding, changing, replacing, filtering, sharing)

// subject is the store that is tested.
type subject struct {
	*testing.T
	store.Store
	open func() store.Store
}

// said is a list with one message.
func said(text string) []byte { return fmt.Appendf(nil, `[{"role":"user","content":%q}]`, text) }

// put stores a memory that says text.
func (s *subject) put(text string) int { s.Helper(); return s.keep(store.Memory{Messages: said(text)}) }

func (s *subject) keep(m store.Memory) int {
	s.Helper()
	id, err := s.Put(s.Context(), m)
	if err != nil {
		s.Fatal(err)
	}
	return id
}

func (s *subject) puts(texts ...string) {
	s.Helper()
	for i, text := range texts {
		s.same(fmt.Sprintf("id of %q", text), s.put(text), i)
	}
}

func (s *subject) same(what string, got, want any) {
	s.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		s.Errorf("%s: %v, want %v", what, got, want)
	}
}

func (s *subject) fails(what string, err, want error) {
	s.Helper()
	if !errors.Is(err, want) {
		s.Errorf("%s: %v, want %v", what, err, want)
	}
}

func (s *subject) ok(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// search asks for the most results that are allowed, 10.
func (s *subject) search(q store.Query) []store.Result {
	s.Helper()
	if q.K == 0 {
		q.K = 10
	}
	list, err := s.Search(s.Context(), q)
	s.ok(err)
	return list
}

// found are the ids that a query finds.
func (s *subject) found(q store.Query) []int {
	s.Helper()
	ids := []int{}
	for _, r := range s.search(q) {
		ids = append(ids, r.ID)
	}
	return ids
}

// finds checks what a text finds.
func (s *subject) finds(text string, ids ...int) {
	s.Helper()
	s.same(fmt.Sprintf("%q finds", text), s.found(store.Query{Text: text}), append([]int{}, ids...))
}

// scanned are the ids that pass a filter.
func (s *subject) scanned(f store.Filter) []int {
	s.Helper()
	ids := []int{}
	for m, err := range s.Scan(s.Context(), f) {
		s.ok(err)
		ids = append(ids, m.ID)
	}
	return ids
}

func at(text string) time.Time {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		panic(err)
	}
	return t
}

var storing = []check{
	{"ids are positions", func(s *subject) { s.puts("a", "b", "c") }},
	{"nothing is there at first", func(s *subject) {
		n, err := s.Len(s.Context())
		s.same("memories", n, 0)
		s.ok(err)
		s.same("scan", s.scanned(store.Filter{}), []int{})
		s.finds("anything")
		_, err = s.Get(s.Context(), 0)
		s.fails("get", err, store.ErrNotFound)
	}},
	{"what is stored is read as it was", func(s *subject) {
		m := store.Memory{Messages: []byte(`[{"role":"user","content":"<a> & \u0000 ü","n":1.0,"x":{"y":[]}},{"role":"assistant","content":""}]`), Tag: `t"<`, Channel: "#k", Session: "s-1", Created: at("2026-03-04T05:06:07Z")}
		id := s.keep(m)
		got, err := s.Get(s.Context(), id)
		s.ok(err)
		s.same("memory", fmt.Sprintf("%d %s %s %s %s %s", got.ID, got.Messages, got.Tag, got.Channel, got.Session, got.Created.UTC()), fmt.Sprintf("0 %s %s %s %s %s", m.Messages, m.Tag, m.Channel, m.Session, m.Created))
	}},
	{"a memory without a time is of now", func(s *subject) {
		before := time.Now().Truncate(time.Second)
		got, err := s.Get(s.Context(), s.put("now"))
		s.ok(err)
		if got.Created.Before(before) || got.Created.After(time.Now()) {
			s.Errorf("created %v", got.Created)
		}
	}},
	{"an exact duplicate is the first one", func(s *subject) {
		s.puts("a", "b")
		s.same("id", s.put("a"), 0)
		s.same("id", s.keep(store.Memory{Messages: said("b"), Channel: "elsewhere", Created: at("2020-01-01T00:00:00Z")}), 1)
		s.same("id of the next", s.put("c"), 2)
	}},
	{"the order of keys makes no other memory", func(s *subject) {
		a := s.keep(store.Memory{Messages: []byte(`[{"role":"user","content":"x"}]`)})
		s.same("id", s.keep(store.Memory{Messages: []byte(`[ {"content":"\u0078", "role":"user"} ]`)}), a)
	}},
	{"another tag makes another memory", func(s *subject) {
		s.same("id", s.keep(store.Memory{Messages: said("a")}), 0)
		s.same("id", s.keep(store.Memory{Messages: said("a"), Tag: "t"}), 1)
		s.same("id", s.keep(store.Memory{Messages: said("a"), Tag: "t"}), 1)
	}},
	{"a memory may say nothing", func(s *subject) {
		s.same("id", s.keep(store.Memory{Messages: []byte("[]"), Tag: "empty"}), 0)
		s.finds("empty", 0)
	}},
	{"a refused memory leaves no trace", func(s *subject) {
		if _, err := s.Put(s.Context(), store.Memory{Messages: []byte(`[{"role":"user"}]`)}); err == nil {
			s.Error("a message without content was stored")
		}
		s.same("id of the next", s.put("a"), 0)
	}},
	{"a long memory", func(s *subject) {
		long := strings.Repeat("needle and thread ", 50_000)
		s.puts("short", long)
		s.finds("needle", 1)
		got, err := s.Get(s.Context(), 1)
		s.ok(err)
		s.same("its length", len(got.Messages), len(said(long)))
	}},
}

var finding = []check{
	{"one memory is found", func(s *subject) {
		s.puts("the cat sat on the mat")
		s.finds("cat", 0)
		s.finds("dog")
	}},
	{"rare words decide", func(s *subject) {
		s.puts("user likes tea", "user likes coffee", "user likes water")
		s.finds("what coffee does the user like", 1, 2, 0)
	}},
	{"ties are most recent first", func(s *subject) {
		s.puts("red fox one", "red fox two", "blue whale", "red fox three")
		s.finds("fox", 3, 1, 0)
		s.same("with k", s.found(store.Query{Text: "fox", K: 2}), []int{3, 1})
	}},
	{"words of every script", func(s *subject) {
		s.puts("Straße nach Zürich", "東京タワーに行く", "Привет, МИР", "naïve café", "हिन्दी भाषा")
		for id, text := range []string{"ZURICH strasse", "東京", "привет", "CAFE", "भाषा"} {
			s.finds(text, id)
		}
	}},
	{"queries without words", func(s *subject) {
		s.puts("a b c")
		for _, text := range []string{"", " \t\n", "?!…", "\x00"} {
			s.finds(text)
		}
	}},
	{"none wanted", func(s *subject) {
		s.puts("a")
		for _, k := range []int{0, -1} {
			list, err := s.Search(s.Context(), store.Query{Text: "a", K: k})
			s.ok(err)
			s.same("results", len(list), 0)
		}
	}},
	{"the tag is searched", func(s *subject) {
		s.keep(store.Memory{Messages: said("flour"), Tag: "kitchen cupboard"})
		s.finds("cupboard", 0)
	}},
	{"all messages are searched", func(s *subject) {
		s.keep(store.Memory{Messages: []byte(`[{"role":"user","content":"first"},{"role":"assistant","content":"second"}]`)})
		s.finds("second", 0)
		s.finds("assistant")
	}},
	{"scores", func(s *subject) {
		s.puts("likes green tea")
		for text, want := range map[string]float64{"likes green tea": 0.6897, "GREEN": 0.6897, "green apples": 0.1185} {
			s.same(text, s.search(store.Query{Text: text})[0].Score, want)
		}
	}},
	{"a result is the memory", func(s *subject) {
		s.keep(store.Memory{Messages: said("tea"), Tag: "t", Channel: "c", Session: "s", Created: at("2026-03-04T05:06:07Z")})
		r := s.search(store.Query{Text: "tea"})[0]
		s.same("result", fmt.Sprintf("%d %s %s %s %s %s", r.ID, r.Messages, r.Tag, r.Channel, r.Session, r.Created.UTC()), fmt.Sprintf("0 %s t c s %s", said("tea"), at("2026-03-04T05:06:07Z")))
		s.same("words that were not asked for", len(r.Words), 0)
	}},
	{"the words sum up to the score", func(s *subject) {
		s.puts("red fox jumps over the lazy dog", "the quick brown fox", "a dog and a fox")
		for _, r := range s.search(store.Query{Text: "The quick FOX and the lazy, lazy dog", Explain: true}) {
			sum := 0.0
			for i, w := range r.Words {
				sum += w.Share
				if w.Share < 0 || i > 0 && w.Share > r.Words[i-1].Share+1e-4 {
					s.Errorf("shares of %d: %v", r.ID, r.Words)
				}
			}
			if math.Abs(sum-r.Score) > 1e-9 || len(r.Words) == 0 {
				s.Errorf("the words of %d make %v of %v: %v", r.ID, sum, r.Score, r.Words)
			}
		}
	}},
	{"words stand as in the query", func(s *subject) {
		s.puts("she jumps")
		s.same("words", s.search(store.Query{Text: "JUMPING dogs", Explain: true})[0].Words[0].Word, "JUMPING")
	}},
	{"results have to fit", func(s *subject) {
		for i := range 3 {
			s.put(fmt.Sprint("needle ", i, strings.Repeat(" ", 8000)))
		}
		_, err := s.Search(s.Context(), store.Query{Text: "needle", K: 3, Room: 20_000})
		s.fails("three", err, store.ErrTooLarge)
		list, err := s.Search(s.Context(), store.Query{Text: "needle", K: 2, Room: 20_000})
		s.ok(err)
		s.same("two", len(list), 2)
	}},
}

var changing = []check{
	{"an update is found by its new words only", func(s *subject) {
		s.puts("old apple", "pear")
		s.ok(s.Update(s.Context(), 0, store.Change{Messages: said("new plum")}))
		s.finds("apple")
		s.finds("plum", 0)
		s.same("id of the next", s.put("cherry"), 2)
	}},
	{"an update keeps the rest", func(s *subject) {
		s.keep(store.Memory{Messages: said("a"), Tag: "t", Channel: "c", Session: "s", Created: at("2026-03-04T05:06:07Z")})
		s.ok(s.Update(s.Context(), 0, store.Change{Messages: said("b")}))
		s.ok(s.Update(s.Context(), 0, store.Change{Tag: new("u")}))
		got, err := s.Get(s.Context(), 0)
		s.ok(err)
		s.same("memory", fmt.Sprintf("%s %s %s %s %s", got.Messages, got.Tag, got.Channel, got.Session, got.Created.UTC()), fmt.Sprintf("%s u c s %s", said("b"), at("2026-03-04T05:06:07Z")))
		s.ok(s.Update(s.Context(), 0, store.Change{Tag: new("")}))
		got, err = s.Get(s.Context(), 0)
		s.ok(err)
		s.same("tag", got.Tag, "")
	}},
	{"an update to the same changes nothing", func(s *subject) {
		s.puts("a")
		s.ok(s.Update(s.Context(), 0, store.Change{Messages: said("a"), Tag: new("")}))
		s.ok(s.Update(s.Context(), 0, store.Change{}))
		s.finds("a", 0)
	}},
	{"an update to another memory is refused", func(s *subject) {
		s.puts("a", "b")
		var twin *store.DuplicateError
		if err := s.Update(s.Context(), 1, store.Change{Messages: said("a")}); !errors.As(err, &twin) || twin.ID != 0 {
			s.Errorf("error %v", err)
		}
		s.finds("b", 1)
	}},
	{"what an update replaced may be stored again", func(s *subject) {
		s.puts("a")
		s.ok(s.Update(s.Context(), 0, store.Change{Messages: said("b")}))
		s.same("id of the old words", s.put("a"), 1)
		s.same("id of the new words", s.put("b"), 0)
	}},
	{"a refused update leaves the memory", func(s *subject) {
		s.puts("apple")
		if err := s.Update(s.Context(), 0, store.Change{Messages: []byte(`{}`)}); err == nil {
			s.Error("it was accepted")
		}
		s.finds("apple", 0)
	}},
	{"a deleted memory is gone", func(s *subject) {
		s.puts("apple one", "apple two", "apple three")
		s.ok(s.Delete(s.Context(), 1))
		s.finds("apple", 2, 0)
		_, err := s.Get(s.Context(), 1)
		s.fails("get", err, store.ErrNotFound)
		s.same("scan", s.scanned(store.Filter{}), []int{2, 0})
		n, err := s.Len(s.Context())
		s.ok(err)
		s.same("memories", n, 2)
	}},
	{"no id is used twice", func(s *subject) {
		s.puts("a", "b", "c")
		s.ok(s.Delete(s.Context(), 2))
		s.same("id of the next", s.put("d"), 3)
		s.ok(s.Delete(s.Context(), 3))
		s.same("id of the next", s.put("d"), 4)
	}},
	{"what is not there cannot be changed", func(s *subject) {
		s.puts("a", "b")
		s.ok(s.Delete(s.Context(), 0))
		for _, id := range []int{-1, 0, 2, 1 << 40} {
			s.fails(fmt.Sprint("update ", id), s.Update(s.Context(), id, store.Change{Messages: said("x")}), store.ErrNotFound)
			s.fails(fmt.Sprint("delete ", id), s.Delete(s.Context(), id), store.ErrNotFound)
			_, err := s.Get(s.Context(), id)
			s.fails(fmt.Sprint("get ", id), err, store.ErrNotFound)
		}
	}},
	{"scores after a deletion are as without", func(s *subject) {
		s.puts("tea milk", "tea sugar", "coffee")
		s.ok(s.Delete(s.Context(), 1))
		s.same("score", s.search(store.Query{Text: "tea"})[0].Score, 0.6623)
	}},
}

// kept are memories for filters; their times are not in the order of storing.
func kept(s *subject) {
	for i, m := range []store.Memory{
		{Tag: "home", Channel: "kitchen", Created: at("2026-01-03T00:00:00Z")},
		{Tag: "work", Channel: "office", Created: at("2026-01-01T00:00:00Z")},
		{Tag: "home", Channel: "office", Created: at("2026-01-02T00:00:00Z")},
		{Created: at("2026-01-04T00:00:00Z")},
	} {
		m.Messages = said(fmt.Sprint("bread ", i))
		s.keep(m)
	}
}

// filtered checks what passes a filter, in a scan and in a search.
func filtered(f store.Filter, ids ...int) func(*subject) {
	return func(s *subject) {
		kept(s)
		want := append([]int{}, ids...)
		s.same("scan", s.scanned(f), want)
		got := s.found(store.Query{Text: "bread", Filter: f})
		slices.Sort(got)
		slices.Sort(want)
		s.same("search", got, want)
	}
}

var filtering = []check{
	{"no filter", filtered(store.Filter{}, 3, 2, 1, 0)},
	{"by tag", filtered(store.Filter{Tag: "home"}, 2, 0)},
	{"by a part of a tag", filtered(store.Filter{Tag: "hom"})},
	{"by channel", filtered(store.Filter{Channel: "office"}, 2, 1)},
	{"by tag and channel", filtered(store.Filter{Tag: "home", Channel: "office"}, 2)},
	{"by an unknown channel", filtered(store.Filter{Channel: "cellar"})},
	{"since", filtered(store.Filter{Since: at("2026-01-02T00:00:00Z")}, 3, 2, 0)},
	{"until", filtered(store.Filter{Until: at("2026-01-02T00:00:00Z")}, 1)},
	{"since and until", filtered(store.Filter{Since: at("2026-01-02T01:00:00+01:00"), Until: at("2026-01-03T00:00:01Z")}, 2, 0)},
	{"before an id", filtered(store.Filter{Before: new(2)}, 1, 0)},
	{"before the first id", filtered(store.Filter{Before: new(0)})},
	{"by a minimal score", func(s *subject) {
		s.puts("tea", "tea milk", "tea milk sugar honey")
		all := s.search(store.Query{Text: "tea"})
		s.same("results", len(all), 3)
		for i, r := range all {
			s.same(fmt.Sprint("with at least ", r.Score), len(s.found(store.Query{Text: "tea", MinScore: r.Score})), i+1)
			s.same(fmt.Sprint("with more than ", r.Score), len(s.found(store.Query{Text: "tea", MinScore: r.Score + 1e-4})), i)
		}
	}},
	{"a filter sees updates", func(s *subject) {
		kept(s)
		s.ok(s.Update(s.Context(), 0, store.Change{Tag: new("work")}))
		s.same("scan", s.scanned(store.Filter{Tag: "work"}), []int{1, 0})
		s.same("scan", s.scanned(store.Filter{Tag: "home"}), []int{2})
	}},
	{"the best that pass, not the best", func(s *subject) {
		for i := range 50 {
			s.keep(store.Memory{Messages: said(fmt.Sprint("tea ", i)), Tag: fmt.Sprint("t", i%10)})
		}
		s.same("results", s.found(store.Query{Text: "tea", K: 3, Filter: store.Filter{Tag: "t4"}}), []int{44, 34, 24})
	}},
	{"a long scan", func(s *subject) {
		var want []int
		for i := range 300 {
			s.put(fmt.Sprint("memory ", i))
			want = append(want, 299-i)
		}
		s.same("scan", s.scanned(store.Filter{}), want)
	}},
	{"a scan that is ended", func(s *subject) {
		kept(s)
		for m, err := range s.Scan(s.Context(), store.Filter{}) {
			s.ok(err)
			s.same("id", m.ID, 3)
			break
		}
		ctx, cancel := context.WithCancel(s.Context())
		cancel()
		for _, err := range s.Scan(ctx, store.Filter{}) {
			s.fails("a cancelled scan", err, context.Canceled)
		}
	}},
	{"a scan while memories change", func(s *subject) {
		for i := range 200 {
			s.put(fmt.Sprint("memory ", i))
		}
		n := 0
		for m, err := range s.Scan(s.Context(), store.Filter{}) {
			s.ok(err)
			if m.ID%2 == 1 {
				s.ok(s.Delete(s.Context(), m.ID))
			}
			n++
		}
		s.same("memories seen", n, 200)
		s.same("memories left", len(s.scanned(store.Filter{})), 100)
	}},
}

var sharing = []check{
	{"all is there after a restart", func(s *subject) {
		s.puts("apple", "pear", "plum", "cherry")
		s.ok(s.Delete(s.Context(), 1))
		s.ok(s.Update(s.Context(), 2, store.Change{Messages: said("mango"), Tag: new("t")}))
		queries := []string{"apple", "pear", "plum", "mango", "t", "cherry apple"}
		var before []string
		for _, q := range queries {
			before = append(before, fmt.Sprint(s.search(store.Query{Text: q, Explain: true})))
		}
		s.Store = s.open()
		for i, q := range queries {
			s.same(q, fmt.Sprint(s.search(store.Query{Text: q, Explain: true})), before[i])
		}
		s.same("id of the next", s.put("lemon"), 4)
		s.same("id of a duplicate", s.put("apple"), 0)
		s.same("id of a deleted one", s.put("pear"), 5)
	}},
	{"others see what one does", func(s *subject) {
		other := &subject{T: s.T, Store: s.open()}
		s.puts("apple", "pear")
		other.finds("apple", 0)
		other.ok(other.Update(s.Context(), 0, store.Change{Messages: said("plum")}))
		s.finds("apple")
		s.finds("plum", 0)
		s.ok(s.Delete(s.Context(), 1))
		other.finds("pear")
		other.same("id of the next", other.put("pear"), 2)
		s.finds("pear", 2)
	}},
	{"many at once", func(s *subject) {
		stores := []store.Store{s.Store, s.open()}
		var mu sync.Mutex
		ids := map[int]string{}
		var wg sync.WaitGroup
		for w := range 8 {
			wg.Go(func() {
				for i := range 20 {
					text := fmt.Sprintf("memory %d of %d", i, w/2)
					id, err := stores[w%2].Put(s.Context(), store.Memory{Messages: said(text)})
					if err != nil {
						s.Error(err)
					}
					mu.Lock()
					if was, known := ids[id]; known && was != text {
						s.Errorf("id %d is %q and %q", id, was, text)
					}
					ids[id] = text
					mu.Unlock()
					if list, err := stores[1-w%2].Search(s.Context(), store.Query{Text: text, K: 1}); err != nil || len(list) != 1 {
						s.Errorf("%q finds %v, %v", text, list, err)
					}
				}
			})
		}
		wg.Wait()
		s.same("memories", len(ids), 80)
		for id, text := range ids {
			got, err := s.Get(s.Context(), id)
			s.ok(err)
			s.same(fmt.Sprint("memory ", id), string(got.Messages), string(said(text)))
		}
	}},
	{"changes at once", func(s *subject) {
		stores := []store.Store{s.Store, s.open()}
		for i := range 40 {
			s.put(fmt.Sprint("memory ", i))
		}
		var wg sync.WaitGroup
		for w := range 4 {
			wg.Go(func() {
				for id := w; id < 40; id += 4 {
					err := stores[w%2].Update(s.Context(), id, store.Change{Messages: said(fmt.Sprint("changed ", id))})
					if err == nil && id%3 == 0 {
						err = stores[w/2].Delete(s.Context(), id)
					}
					if err != nil {
						s.Error(err)
					}
				}
			})
		}
		wg.Wait()
		s.finds("memory")
		s.same("memories left", len(s.scanned(store.Filter{})), 26)
	}},
	{"one of many deletions is done", func(s *subject) {
		s.puts("a")
		var mu sync.Mutex
		done := 0
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				err := s.Delete(s.Context(), 0)
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					done++
				} else if !errors.Is(err, store.ErrNotFound) {
					s.Error(err)
				}
			})
		}
		wg.Wait()
		s.same("deletions", done, 1)
	}},
}

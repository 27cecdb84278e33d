package storetest

import (
	"fmt"

	"zino/services/mem/store"
)

// replace stores a memory that says text in place of an old one.
func (s *subject) replace(old int, text string) int {
	s.Helper()
	id, err := s.Replace(s.Context(), old, store.Memory{Messages: said(text)})
	s.ok(err)
	return id
}

// replaced checks by which memory another was replaced, -2: by none.
func (s *subject) replaced(id, by int) {
	s.Helper()
	m, err := s.Get(s.Context(), id)
	s.ok(err)
	got := -2
	if m.ReplacedBy != nil {
		got = *m.ReplacedBy
	}
	s.same(fmt.Sprintf("what replaced %d", id), got, by)
}

var replacing = []check{
	{"a replaced memory is not found", func(s *subject) {
		s.puts("the office is in Berlin", "tea")
		s.same("id", s.replace(0, "the office is in Hamburg"), 2)
		for range 2 {
			s.finds("office", 2)
			s.finds("Berlin")
			s.replaced(0, 2)
			s.replaced(2, -2)
			s.same("scan", s.scanned(store.Filter{}), []int{2, 1, 0})
			n, err := s.Len(s.Context())
			s.ok(err)
			s.same("memories", n, 2)
			s.Store = s.open()
		}
	}},
	{"an unknown memory is not replaced", func(s *subject) {
		s.puts("a", "b")
		s.ok(s.Delete(s.Context(), 1))
		for _, old := range []int{-1, 1, 2, 7} {
			_, err := s.Replace(s.Context(), old, store.Memory{Messages: said("new")})
			s.fails(fmt.Sprint("replacing ", old), err, store.ErrNotFound)
		}
		s.finds("new")
		s.same("id of the next", s.put("c"), 2)
	}},
	{"what replaced a memory is replaced in its place", func(s *subject) {
		s.puts("tea one")
		s.same("id", s.replace(0, "tea two"), 1)
		s.same("id", s.replace(0, "tea three"), 2)
		s.finds("tea", 2)
		s.replaced(0, 1)
		s.replaced(1, 2)
	}},
	{"a repeated replacement changes nothing", func(s *subject) {
		s.puts("tea one")
		for range 2 {
			s.same("id", s.replace(0, "tea two"), 1)
		}
		s.same("id of the same text", s.replace(1, "tea two"), 1)
		s.finds("tea", 1)
		s.replaced(1, -2)
	}},
	{"a stored memory replaces another", func(s *subject) {
		s.puts("tea one", "tea two")
		s.same("id", s.replace(1, "tea one"), 0)
		s.finds("tea", 0)
		s.replaced(1, 0)
	}},
	{"a replaced memory is not a duplicate", func(s *subject) {
		s.puts("tea one")
		s.replace(0, "tea two")
		s.same("id", s.replace(1, "tea one"), 2)
		s.finds("tea", 2)
		s.Store = s.open()
		s.finds("tea", 2)
		s.same("id of a duplicate", s.put("tea one"), 2)
		s.ok(s.Update(s.Context(), 2, store.Change{Messages: said("tea two")}))
	}},
	{"a replaced memory stays one when it changes", func(s *subject) {
		s.puts("tea one")
		s.replace(0, "milk")
		s.ok(s.Update(s.Context(), 0, store.Change{Messages: said("tea more")}))
		s.finds("tea")
		s.replaced(0, 1)
		s.Store = s.open()
		s.finds("tea")
		s.ok(s.Delete(s.Context(), 0))
		s.same("scan", s.scanned(store.Filter{}), []int{1})
	}},
	{"deleting what replaced a memory does not bring it back", func(s *subject) {
		s.puts("tea one")
		s.replace(0, "tea two")
		s.ok(s.Delete(s.Context(), 1))
		s.finds("tea")
		s.replaced(0, 1)
		s.same("id", s.replace(0, "tea three"), 2)
		s.replaced(0, 2)
		s.finds("tea", 2)
	}},
	{"a memory that was replaced elsewhere", func(s *subject) {
		for range 2 { // the second is a duplicate
			s.same("id", s.keep(store.Memory{Messages: said("tea one"), ReplacedBy: new(-1)}), 0)
		}
		s.finds("tea")
		s.replaced(0, -1)
		s.same("id", s.replace(0, "tea two"), 1)
		s.finds("tea", 1)
		s.replaced(0, 1)
	}},
	{"memories that replace each other in a file", func(s *subject) {
		s.keep(store.Memory{Messages: said("tea one"), ReplacedBy: new(1)})
		s.keep(store.Memory{Messages: said("tea two"), ReplacedBy: new(0)})
		s.same("id", s.replace(0, "tea three"), 2)
		s.finds("tea", 2)
	}},
	{"replacements and stores at once", func(s *subject) {
		s.puts("tea first")
		stores := []store.Store{s.Store, s.open()}
		done := make(chan error)
		for w := range 8 {
			go func() {
				_, err := stores[w%2].Replace(s.Context(), 0, store.Memory{Messages: said(fmt.Sprint("tea ", w))})
				if err == nil {
					_, err = stores[w%2].Put(s.Context(), store.Memory{Messages: said(fmt.Sprint("milk ", w))})
				}
				done <- err
			}()
		}
		for range 8 {
			s.ok(<-done)
		}
		s.same("tea found", len(s.found(store.Query{Text: "tea"})), 1)
		s.same("milk found", len(s.found(store.Query{Text: "milk"})), 8)
	}},
}

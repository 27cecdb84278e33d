package session

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"zino/pkg/zinotest"
	"zino/proto"
)

var speech = strings.Repeat("How long does the bread with walnuts take in the oven? ", 10)

// session writes a session of n events of a few hundred bytes.
func (b *env) session(id string, n int) {
	b.t.Helper()
	lines := []string{head}
	for i := range n / 4 {
		lines = append(lines, user(speech), use(fmt.Sprint(i)), strings.Replace(result(fmt.Sprint(i)), `"ok":true}`, `"ok":true,"data":`+quoted(speech)+`}`, 1), says(speech))
	}
	b.write(id, lines...)
}

// BenchmarkAppend appends an event to sessions of different lengths; the cost must
// not depend on the length.
func BenchmarkAppend(b *testing.B) {
	for _, n := range []int{100, 100_000} {
		b.Run(fmt.Sprintf("events=%d", n), func(b *testing.B) {
			s := newEnv(b, "")
			s.session("s", n)
			s.put("s", user("x"))
			b.ReportAllocs()
			for b.Loop() {
				s.put("s", user(speech))
			}
		})
	}
}

// BenchmarkMessages converts a session of 10,000 events into messages.
func BenchmarkMessages(b *testing.B) {
	s := newEnv(b, "")
	s.session("s", 10_000)
	b.SetBytes(int64(len(s.file("s"))))
	b.ReportAllocs()
	for b.Loop() {
		s.messages("s")
	}
}

// BenchmarkHold locks a session that another process has appended to.
func BenchmarkHold(b *testing.B) {
	s := newEnv(b, "")
	s.session("s", 10_000)
	for b.Loop() {
		zinotest.Must(b, s.hold("s", s.unexpected()).release())
	}
}

// BenchmarkList lists 1000 sessions of 400 kB: without an index, with the index of
// an earlier process, and again in the same process.
func BenchmarkList(b *testing.B) {
	s := newEnv(b, "")
	for i := range 1000 {
		s.session(fmt.Sprint("s", i), 800)
	}
	b.Run("first", func(b *testing.B) {
		for b.Loop() {
			zinotest.Must(b, os.RemoveAll(s.dir+"/"+indexFile))
			newEnv(b, s.dir).list(0)
		}
	})
	b.Run("next process", func(b *testing.B) {
		for b.Loop() {
			newEnv(b, s.dir).list(0)
		}
	})
	b.Run("again", func(b *testing.B) {
		for b.Loop() {
			s.list(0)
		}
	})
	b.Run("search", func(b *testing.B) {
		for b.Loop() {
			if hits, err := s.Search(b.Context(), proto.SearchSessions{Query: "nowhere walnuts"}); err != nil || len(hits.Results) > 0 {
				b.Fatal(len(hits.Results), err)
			}
		}
	})
}

// BenchmarkOpenTurns lists the turns of 10,000 sessions, as the daemon does when it
// starts: with the index of an earlier process, and again in the same process.
func BenchmarkOpenTurns(b *testing.B) {
	s := newEnv(b, "")
	for i := range 10_000 {
		id := fmt.Sprint("s", i)
		s.write(id, head, turnIn(id, "t-1", "running"), user(speech), turnIn(id, "t-1", "parked"))
	}
	s.openTurns()
	b.Run("next process", func(b *testing.B) {
		for b.Loop() {
			newEnv(b, s.dir).openTurns()
		}
	})
	b.Run("again", func(b *testing.B) {
		for b.Loop() {
			s.openTurns()
		}
	})
}

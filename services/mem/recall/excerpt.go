package recall

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"unicode/utf8"

	"zino/pkg/text"
	"zino/services/mem/index"
	"zino/services/mem/session"
)

// best returns the best documents, with texts from the logs. A document whose line is not
// in the log any more is left out, and so is one whose role and text an older hit has.
func (s *search) best(ctx context.Context, store *session.Store) ([]Hit, error) {
	var list arena[uint32]
	defer list.free()
	for i := range s.docs.list {
		if s.docs.list[i].score > 0 {
			list.push(uint32(i))
		}
	}
	h := heap{s, list.list}
	for i := len(h.list)/2 - 1; i >= 0; i-- {
		h.siftDown(i)
	}
	var hits []Hit
	oldest := map[int]bool{} // documents without an older equal one
	for len(h.list) > 0 && len(hits) < s.q.K {
		i := h.pop()
		if s.docs.list[i].copied {
			continue
		}
		d, ok := s.read(ctx, store, i)
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if !ok {
			continue
		}
		if !oldest[i] {
			first := s.oldest(ctx, store, i, d)
			if oldest[first] = true; first != i {
				continue
			}
		}
		hits = append(hits, s.hit(i, d))
	}
	return hits, nil
}

// heap is a heap of documents with the best one first.
type heap struct {
	s    *search
	list []uint32
}

func (h *heap) pop() int {
	top, last := h.list[0], len(h.list)-1
	h.list[0] = h.list[last]
	h.list = h.list[:last]
	h.siftDown(0)
	return int(top)
}

func (h *heap) siftDown(i int) {
	for {
		best := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(h.list); child++ {
			if h.s.compare(int(h.list[child]), int(h.list[best])) < 0 {
				best = child
			}
		}
		if best == i {
			return
		}
		h.list[i], h.list[best] = h.list[best], h.list[i]
		i = best
	}
}

// compare orders hits: the best first, then the newest.
func (s *search) compare(i, j int) int {
	if a, b := s.docs.list[i].score, s.docs.list[j].score; a != b {
		return cmp.Compare(b, a)
	}
	return s.compareAge(j, i)
}

// compareAge orders documents by age, the oldest first.
func (s *search) compareAge(i, j int) int {
	a, b := &s.docs.list[i], &s.docs.list[j]
	if a.ts != b.ts {
		return cmp.Compare(a.ts, b.ts)
	}
	x, y := s.sessionOf(i), s.sessionOf(j)
	return cmp.Or(cmp.Compare(x.created, y.created), cmp.Compare(x.id, y.id), cmp.Compare(a.offset, b.offset))
}

// read reads a document from its log. ok is false if the line is not what was indexed.
func (s *search) read(ctx context.Context, store *session.Store, i int) (d session.Document, ok bool) {
	at := &s.docs.list[i]
	for line, err := range store.Lines(ctx, s.sessionOf(i).id, at.offset) {
		if err != nil || line.Start != at.offset {
			return d, false
		}
		if d, ok = session.ParseDocument(line.Text); !ok {
			return d, false
		}
		r := s.encoder.document(d)
		return d, r.kind == at.kind && r.print() == s.prints.list[i]
	}
	return d, false
}

// oldest returns the oldest hit with the role and the text of document i, which are d. The
// others are marked as copied.
func (s *search) oldest(ctx context.Context, store *session.Store, i int, d session.Document) int {
	for j, print := range s.prints.list {
		if other := &s.docs.list[j]; j == i || print != s.prints.list[i] || other.score == 0 || other.copied {
			continue
		}
		other, ok := s.read(ctx, store, j)
		if !ok || other.Role != d.Role || other.Text != d.Text {
			continue
		}
		if s.compareAge(j, i) < 0 {
			i, j = j, i
		}
		s.docs.list[j].copied = true
	}
	return i
}

// hit returns a hit with the text d.
func (s *search) hit(i int, d session.Document) Hit {
	at := &s.docs.list[i]
	h := Hit{Session: s.sessionOf(i).id, From: at.offset, Document: d, Score: at.score, Own: at.own, Excerpt: s.excerpt(d.Text)}
	if !s.q.Explain {
		return h
	}
	for _, m := range s.matchesOf(i) {
		s.all.count(m.term(), m.count())
	}
	s.all.parts(s.words, int(at.words), func(i int, part float64) {
		e := index.Explanation{Word: s.words[i].Text, Weight: part / s.all.full}
		if at := s.words[i].standIn(s.all.df); at >= 0 && s.all.counts[s.all.stems[i]] > 0 {
			e.As = s.words[i].names[at]
		}
		h.Words = append(h.Words, e)
	})
	for _, m := range s.matchesOf(i) {
		s.all.reset(m.term())
	}
	slices.SortStableFunc(h.Words, func(a, b index.Explanation) int { return cmp.Compare(b.Weight, a.Weight) })
	return h
}

// excerptMax is the number of characters of an excerpt.
const excerptMax = 300

// occurrence is a word of a text that gives words of the query a part.
type occurrence struct {
	term     uint32
	from, to int // offsets in bytes
}

// excerpt returns the part of a text, on one line, that has the most important words of
// the query: the largest sum of weight times IDF.
func (s *search) excerpt(said string) string {
	line := text.OneLine(said)
	if utf8.RuneCountInString(line) <= excerptMax {
		return line
	}
	var found []occurrence
	index.Split(line, func(w index.Word) {
		if term := s.find(s.encoder.hash(w)[0]).term; len(s.all.of[term]) > 0 {
			found = append(found, occurrence{term, w.From, w.To})
		}
	})
	const room = excerptMax - 2 // without an ellipsis at each end
	within, sum, most := make(map[uint32]int), 0.0, 0.0
	start, end := 0, 0 // of the best window
	for first, behind := 0, 0; first < len(found); first++ {
		for ; behind < len(found) && utf8.RuneCountInString(line[found[first].from:found[behind].to]) <= room; behind++ {
			if within[found[behind].term]++; within[found[behind].term] == 1 {
				sum += s.importance(found[behind].term)
			}
		}
		if behind > first && sum > most {
			most, start, end = sum, found[first].from, found[behind-1].to
		}
		if behind == first { // a word that is too long
			behind++
			continue
		}
		if within[found[first].term]--; within[found[first].term] == 0 {
			sum -= s.importance(found[first].term)
		}
	}
	return widen(line, start, end, room)
}

// importance returns the sum of weight times IDF over the words that a term gives a part of.
func (s *search) importance(term uint32) (sum float64) {
	for _, i := range s.all.of[term] {
		sum += s.words[i].Weight * s.all.stemIDF[i]
	}
	return sum
}

// widen returns a part of a line with up to room characters, and an ellipsis where
// something is left out. The part from start to end is in the middle, if possible.
func widen(line string, start, end, room int) string {
	room -= utf8.RuneCountInString(line[start:end])
	before := min(utf8.RuneCountInString(line[:start]), max(room/2, room-utf8.RuneCountInString(line[end:])))
	after := room - before
	from := start
	for ; before > 0 && from > 0; before-- {
		_, size := utf8.DecodeLastRuneInString(line[:from])
		from -= size
	}
	for ; after > 0 && end < len(line); after-- {
		_, size := utf8.DecodeRuneInString(line[end:])
		end += size
	}
	if from > 0 && line[from-1] != ' ' { // begin with a whole word, if there is one
		if space := strings.IndexByte(line[from:start], ' '); space >= 0 {
			from += space + 1
		}
	}
	part := line[from:end]
	if from > 0 {
		part = "…" + part
	}
	if end < len(line) {
		part += "…"
	}
	return part
}

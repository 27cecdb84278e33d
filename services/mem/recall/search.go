package recall

import (
	"context"
	"encoding/binary"
	"hash/crc32"
	"math/bits"
	"runtime/debug"
	"slices"
	"sort"
	"time"

	"zino/proto"
	"zino/services/mem/index"
	"zino/services/mem/session"
)

// Query are the parameters of a search.
type Query struct {
	Text         string
	K            int       // maximum number of hits
	MinScore     float64   // hits with a lower score are left out
	Since, Until time.Time // of the documents; zero: no limit
	Session      string    // the id of the only session; empty: all
	NotSession   string    // the id of a session to leave out
	Role         string    // user, assistant or tool; empty: all
	Owner        *int      // only sessions of this uid are searched; nil: all
	Explain      bool
}

// Result is what was found.
type Result struct {
	Hits     []Hit // best first, of equal ones the newest first
	Searched int   // sessions
	Pending  int   // sessions that are not indexed completely
	LeftOut  int   // sessions over the limits
}

// Hit is a document that was found.
type Hit struct {
	Session string // its id
	From    int64  // the offset of its line
	session.Document
	Score, Own float64 // of the document with and without its surroundings
	Excerpt    string
	Words      []index.Explanation // shares of Own, largest first, if they were asked for
}

// The score of a document is the sum of its own score and these parts of others,
// divided by their sum, total.
const (
	nextPart    = 0.3 // of the messages before and behind it
	secondPart  = 0.1 // of the messages before and behind these
	sessionPart = 0.5 // of its session
	total       = 1 + 2*nextPart + 2*secondPart + sessionPart
)

// QueryMax is the maximum size of a query in bytes.
const QueryMax = 256 << 10

// Search finds the documents that cover most of a query. It builds for a limited time
// what is missing in the index.
func (x *Index) Search(ctx context.Context, q Query) (Result, error) {
	words := index.ParseQuery(q.Text)
	if len(words) == 0 {
		return Result{}, nil
	}
	logs, err := x.store.Logs(ctx)
	if err != nil {
		return Result{}, err
	}
	building, cancel := context.WithTimeout(ctx, x.buildTime)
	defer cancel()
	p := x.newPass(building)
	defer p.close()
	if p.dir != nil {
		if err := x.clean(p.dir, logs); err != nil {
			p.cannotKeep(err)
		}
	}
	defer debug.FreeOSMemory() // takes milliseconds; else the heap grows to its minimum of 4 MB
	s := newSearch(q, words)
	defer s.free()
	size := 0
	for i, log := range logs {
		if i == sessionsMax || size > x.bytesMax {
			s.result.LeftOut = len(logs) - i
			break
		}
		img, complete, err := p.image(log)
		if ctx.Err() != nil {
			return Result{}, ctx.Err()
		}
		if err != nil {
			continue // removed, or it cannot be read
		}
		if size += len(img.data); size > x.bytesMax {
			s.result.LeftOut = len(logs) - i
			break
		}
		s.add(log.ID, &img, complete)
	}
	if !p.lost {
		x.report("")
	}
	if s.result.Pending > 0 {
		x.buildRest()
	}
	s.score()
	s.result.Hits, err = s.best(ctx, x.store)
	return s.result, err
}

// search is the state of a search. It collects the documents of the sessions in which
// a term of the query occurs.
type search struct {
	q     Query
	words []word
	table []slot // of the terms, by hash

	docs     arena[doc]
	prints   arena[uint32]    // by document: a checksum of role and terms
	matches  arena[match]     // of the documents
	sums     arena[termCount] // of the sessions
	sessions []sessionMatches

	all, whole level // documents, and sessions

	counts  []int    // by term, of one session; 0 between them
	touched []uint32 // terms whose counts are not 0
	encoder          // of the documents that are read

	result Result
}

// word is a word of the query and the terms that it may stand for.
type word struct {
	index.QueryWord
	stem, form uint32   // terms; 0: none
	prefixes   []uint32 // terms
	names      []string // of the prefixes
}

// slot is an entry of the table of terms. Terms are numbered from 1.
type slot struct{ hash, term uint32 }

// doc is a document of a session with matches.
type doc struct {
	offset, ts int64
	own, score float64 // score 0: it is not a hit
	match      uint32  // the index of the first match
	words      uint16
	kind       kind
	copied     bool // an older hit is equal
}

// match is a term and its count.
type match uint32

const countBits = 8

func (m match) term() uint32 { return uint32(m >> countBits) }
func (m match) count() int   { return int(m & (1<<countBits - 1)) }

// sessionMatches is a session with matches.
type sessionMatches struct {
	id      string
	created int64
	first   int // its documents
	behind  int
	words   int
	score   float64
	sums    int // the index of the first sum
}

type termCount struct{ term, count uint32 }

func newSearch(q Query, words []index.QueryWord) *search {
	s := &search{q: q, words: make([]word, len(words))}
	var terms []string
	numbers := map[string]uint32{}
	number := func(term string) uint32 {
		n, known := numbers[term]
		if !known {
			terms = append(terms, term)
			n = uint32(len(terms))
			numbers[term] = n
		}
		return n
	}
	for i, w := range words {
		s.words[i] = word{QueryWord: w, stem: number(w.Stem)}
		if w.Form != "" {
			s.words[i].form = number(w.Form)
		}
		for name := range w.Prefixes() {
			s.words[i].prefixes = append(s.words[i].prefixes, number(name))
			s.words[i].names = append(s.words[i].names, name)
		}
	}
	// A sparse table lets most terms of documents miss at once.
	s.table = make([]slot, 1<<bits.Len(uint(max(1000, 4*len(terms)))))
	for i, term := range terms {
		if e := s.find(hashOf(term)); e.term == 0 { // of two terms with one hash the first
			*e = slot{hashOf(term), uint32(i + 1)}
		}
	}
	for i := range s.words {
		w := &s.words[i]
		for _, n := range []*uint32{&w.stem, &w.form} {
			if *n > 0 {
				*n = s.find(hashOf(terms[*n-1])).term
			}
		}
		for j := range w.prefixes {
			w.prefixes[j] = s.find(hashOf(w.names[j])).term
		}
	}
	s.counts = make([]int, len(terms)+1)
	s.all.df, s.whole.df = make([]int, len(terms)+1), make([]int, len(terms)+1)
	return s
}

func (s *search) free() {
	s.docs.free()
	s.prints.free()
	s.matches.free()
	s.sums.free()
}

// find returns the entry of a hash, or the free one for it.
func (s *search) find(hash uint32) *slot {
	mask := uint32(len(s.table) - 1)
	for i := hash & mask; ; i = (i + 1) & mask {
		if e := &s.table[i]; e.term == 0 || e.hash == hash {
			return e
		}
	}
}

// add adds the documents of a session.
func (s *search) add(id string, img *image, complete bool) {
	head, known := img.head()
	if head.kind == hidden || known && s.q.Owner != nil && !head.isOwner(*s.q.Owner) {
		return
	}
	if !complete {
		s.result.Pending++
	}
	if !known && (!complete || s.q.Owner != nil) {
		return
	}
	s.result.Searched++
	found, documents := sessionMatches{id: id, created: head.ts, first: len(s.docs.list)}, 0
	for r := range img.records() {
		if r.kind >= user {
			s.document(r)
			documents, found.words = documents+1, found.words+r.words
		}
	}
	s.all.n, s.all.words = s.all.n+documents, s.all.words+found.words
	s.whole.n, s.whole.words = s.whole.n+1, s.whole.words+found.words
	if len(s.touched) == 0 { // it has no hits
		s.docs.list, s.prints.list = s.docs.list[:found.first], s.prints.list[:found.first]
		return
	}
	found.behind = len(s.docs.list)
	found.sums = len(s.sums.list)
	for _, term := range s.touched {
		s.sums.push(termCount{term, uint32(s.counts[term])})
		s.whole.df[term]++
		s.counts[term] = 0
	}
	s.touched = s.touched[:0]
	s.sessions = append(s.sessions, found)
}

// isOwner reports whether a record is the header of a session of this uid.
func (r *record) isOwner(uid int) bool {
	return r.kind == header && len(r.terms) > 0 && binary.LittleEndian.Uint32(r.terms) == uint32(uid)
}

// document adds a document.
func (s *search) document(r record) {
	s.docs.push(doc{offset: r.offset, ts: r.ts, words: uint16(r.words), kind: r.kind, match: uint32(len(s.matches.list))})
	s.prints.push(r.print())
	mask := uint32(len(s.table) - 1)
	for t := r.terms; len(t) >= termSize; t = t[termSize:] {
		hash := binary.LittleEndian.Uint32(t)
		i := hash & mask
		for s.table[i].term != 0 {
			if e := s.table[i]; e.hash == hash {
				s.match(e.term, int(t[4]))
				break
			}
			i = (i + 1) & mask
		}
	}
}

func (s *search) match(term uint32, count int) {
	s.matches.push(match(term<<countBits | uint32(count)))
	s.all.df[term]++
	if s.counts[term] == 0 {
		s.touched = append(s.touched, term)
	}
	s.counts[term] += count
}

// print returns a checksum of the kind and the words of a document, which differs for
// most documents.
func (r *record) print() uint32 {
	return crc32.Update(uint32(r.kind)<<16|uint32(r.words), castagnoli, r.terms)
}

// level is the formula of package index over one kind of documents.
type level struct {
	n, words int
	df       []int // by term
	average  float64
	full     float64
	stems    []uint32  // by word: the term that gives its part, 0: none
	factors  []float64 // by word
	stemIDF  []float64
	formIDF  []float64
	of       [][]uint32 // by term: the words that it gives a part of
	counts   []int      // by term, of one document
	marked   []uint64   // set of words
}

// prepare computes what is the same for all documents.
func (l *level) prepare(words []word) {
	if l.n == 0 {
		return
	}
	l.average = float64(l.words) / float64(l.n)
	l.of, l.counts, l.marked = make([][]uint32, len(l.df)), make([]int, len(l.df)), make([]uint64, (len(words)+63)/64)
	for i, w := range words {
		stem, factor := w.stem, 1.0
		form := index.IDF(l.n, l.df[w.form])
		l.full += w.Part(index.IDF(l.n, l.df[stem]), form)
		if at := w.standIn(l.df); at >= 0 {
			stem, factor = w.prefixes[at], index.PrefixFactor
		}
		l.stems, l.factors = append(l.stems, stem), append(l.factors, factor)
		l.stemIDF, l.formIDF = append(l.stemIDF, index.IDF(l.n, l.df[stem])), append(l.formIDF, form)
		l.of[stem] = append(l.of[stem], uint32(i))
		if w.form != 0 {
			l.of[w.form] = append(l.of[w.form], uint32(i))
		}
	}
}

// standIn returns the prefix that stands in for the stem, -1 if none does.
func (w *word) standIn(df []int) int {
	if df[w.stem] > 0 {
		return -1
	}
	return slices.IndexFunc(w.prefixes, func(term uint32) bool { return df[term] > 0 })
}

// count adds a term of the document whose score is to be computed.
func (l *level) count(term uint32, count int) {
	l.counts[term] = count
	for _, w := range l.of[term] {
		l.marked[w/64] |= 1 << (w % 64)
	}
}

// parts calls yield for each word with a part in the document whose terms were counted,
// in the order of the query.
func (l *level) parts(words []word, length int, yield func(i int, part float64)) {
	for block, set := range l.marked {
		for ; set != 0; set &= set - 1 {
			i := block*64 + bits.TrailingZeros64(set)
			stem, form := 0.0, 0.0
			if count := l.counts[l.stems[i]]; count > 0 {
				stem = l.factors[i] * l.stemIDF[i] * index.Saturation(count, length, l.average)
			}
			if count := l.counts[words[i].form]; count > 0 {
				form = l.formIDF[i] * index.Saturation(count, length, l.average)
			}
			yield(i, words[i].Part(stem, form))
		}
		l.marked[block] = 0
	}
}

// score returns the score of the document whose terms were counted.
func (l *level) score(words []word, length int) float64 {
	sum := 0.0
	l.parts(words, length, func(_ int, part float64) { sum += part })
	if sum == 0 {
		return 0
	}
	return index.Round(sum / l.full)
}

// reset removes a term of a document whose score was computed.
func (l *level) reset(term uint32) { l.counts[term] = 0 }

// matchesOf returns the matches of a document.
func (s *search) matchesOf(i int) []match {
	end := len(s.matches.list)
	if i+1 < len(s.docs.list) {
		end = int(s.docs.list[i+1].match)
	}
	return s.matches.list[s.docs.list[i].match:end]
}

// score computes all scores.
func (s *search) score() {
	s.all.prepare(s.words)
	s.whole.prepare(s.words)
	var own []float64 // of the messages of a session
	for i := range s.sessions {
		found := &s.sessions[i]
		sums := s.sums.list[found.sums:]
		if i+1 < len(s.sessions) {
			sums = s.sums.list[found.sums:s.sessions[i+1].sums]
		}
		for _, sum := range sums {
			s.whole.count(sum.term, int(sum.count))
		}
		found.score = s.whole.score(s.words, found.words)
		for _, sum := range sums {
			s.whole.reset(sum.term)
		}
		own = append(own[:0], 0, 0)
		for j := found.first; j < found.behind; j++ {
			d := &s.docs.list[j]
			if matches := s.matchesOf(j); len(matches) > 0 {
				for _, m := range matches {
					s.all.count(m.term(), m.count())
				}
				d.own = s.all.score(s.words, int(d.words))
				for _, m := range matches {
					s.all.reset(m.term())
				}
			}
			if d.kind != tool {
				own = append(own, d.own)
			}
		}
		own = append(own, 0, 0)
		s.scoreSession(found, own)
	}
}

// scoreSession computes the scores of the documents of a session. own has the own scores
// of its messages, and two zeros before and behind them.
func (s *search) scoreSession(found *sessionMatches, own []float64) {
	if s.q.Session != "" && found.id != s.q.Session || found.id == s.q.NotSession {
		return
	}
	at := 2 // of the next message
	for j := found.first; j < found.behind; j++ {
		d := &s.docs.list[j]
		part := d.own
		if d.kind == tool {
			part += nextPart * (own[at-1] + own[at])
		} else {
			part += float64(nextPart*(own[at-1]+own[at+1])) + float64(secondPart*(own[at-2]+own[at+2]))
			at++
		}
		if part == 0 || !s.selects(d) {
			continue
		}
		if score := index.Round((part + float64(sessionPart*found.score)) / total); score >= s.q.MinScore {
			d.score = score
		}
	}
}

// selects reports whether the filters of the query select a document.
func (s *search) selects(d *doc) bool {
	if s.q.Role != "" && s.q.Role != d.role() {
		return false
	}
	if s.q.Since.IsZero() && s.q.Until.IsZero() {
		return true
	}
	ts := time.Unix(d.ts, 0)
	return d.ts != 0 && !ts.Before(s.q.Since) && (s.q.Until.IsZero() || ts.Before(s.q.Until))
}

func (d *doc) role() string {
	switch d.kind {
	case user:
		return proto.RoleUser
	case assistant:
		return proto.RoleAssistant
	}
	return proto.RoleTool
}

// sessionOf returns the session of a document.
func (s *search) sessionOf(i int) *sessionMatches {
	return &s.sessions[sort.Search(len(s.sessions), func(k int) bool { return s.sessions[k].behind > i })]
}

package session

import (
	"bytes"
	"context"
	"strings"
	"unicode/utf8"

	"zino/pkg/wire"
	"zino/proto"
)

const (
	hitsUsual   = 20 // sessions that a search finds if nobody says how many
	hitsMax     = 1000
	wordsMax    = 64 // words that a query may have
	problemsMax = 20
	depthMax    = 32 // levels of a call's input or result whose texts are searched
	around      = 60 // characters of an excerpt before and behind a word
)

// Search finds the sessions in whose messages, calls and results all words of a
// query occur. It reads one file after the other, the one that changed last
// first, until it has enough of them or the caller hangs up.
func (s *Store) Search(ctx context.Context, req proto.SearchSessions) (proto.SessionHits, error) {
	reply := proto.SessionHits{Results: []proto.SessionHit{}}
	words := bytes.Fields(fold(nil, req.Query))
	if len(words) == 0 {
		return reply, nil
	}
	if len(words) > wordsMax {
		return reply, invalid("A query has %d words at most.", wordsMax)
	}
	limit := min(req.Limit, hitsMax)
	if limit <= 0 {
		limit = hitsUsual
	}
	all, err := s.entries(ctx)
	if err != nil {
		return reply, err
	}
	for _, e := range all {
		if len(reply.Results) == limit {
			break
		}
		hit, found, err := s.searchIn(ctx, e, words)
		if err := ctx.Err(); err != nil {
			return reply, err
		}
		switch {
		case isGone(err):
		case err != nil && len(reply.Problems) < problemsMax:
			reply.Problems = append(reply.Problems, s.wrong(e.id, err).Error())
		case err == nil && found:
			reply.Results = append(reply.Results, hit)
		}
	}
	return reply, nil
}

// searchIn looks for the words in one session.
func (s *Store) searchIn(ctx context.Context, e entry, words [][]byte) (hit proto.SessionHit, found bool, err error) {
	q := query{words: words, missing: make([]bool, len(words))}
	for i := range q.missing {
		q.missing[i] = true
	}
	for line, err := range s.lines(e.id).From(0) {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return hit, false, err
		}
		switch ev := read(line.Text); {
		case ev.spoken():
			q.look(str(ev.role), str(ev.text))
		case ev.called():
			q.look("tool", string(appendTexts([]byte(str(ev.name)+" "), ev.input, depthMax)))
		case ev.kind == toolResult:
			q.look("tool", string(appendTexts(nil, ev.output, depthMax)))
		}
		if q.best == len(words) {
			break
		}
	}
	for _, missing := range q.missing {
		if missing {
			return hit, false, nil
		}
	}
	return proto.SessionHit{SessionID: e.id, Updated: stamp(e.updated()), Role: q.role, Excerpt: q.excerpt}, true, nil
}

// query is a search in one session under way.
type query struct {
	words   [][]byte
	missing []bool // by word: it has not occurred yet
	folded  []byte

	best    int // words in the text that has most of them
	role    string
	excerpt string
}

// appendTexts appends the strings in a JSON value, each with a line break: names
// of members, numbers and what lies deeper than depth are left out.
func appendTexts(b, raw []byte, depth int) []byte {
	if len(raw) == 0 || depth == 0 {
		return b
	}
	switch raw[0] {
	case '"':
		b, _ = wire.Unquote(b, raw) // the valid part of a damaged one
		b = append(b, '\n')
	case '{':
		for _, value := range wire.Members(raw) {
			b = appendTexts(b, value, depth-1)
		}
	case '[':
		for item := range wire.Items(raw) {
			b = appendTexts(b, item, depth-1)
		}
	}
	return b
}

// look takes in a text.
func (q *query) look(role, text string) {
	q.folded = fold(q.folded[:0], text)
	n, first := 0, len(q.folded)
	for i, word := range q.words {
		if at := bytes.Index(q.folded, word); at >= 0 {
			q.missing[i] = false
			first = min(first, at)
			n++
		}
	}
	if n > q.best {
		q.best, q.role, q.excerpt = n, role, excerpt(text, first)
	}
}

// excerpt is the part of a text around an offset in its folded form, in one line.
func excerpt(text string, folded int) string {
	at := unfolded(text, folded)
	start, end := at, at
	for n := around; n > 0 && start > 0; n-- {
		_, size := utf8.DecodeLastRuneInString(text[:start])
		start -= size
	}
	end += len(clip(text[at:], 2*around))
	var b strings.Builder
	if start > 0 {
		b.WriteString("…")
	}
	b.WriteString(oneLine(text[start:end]))
	if end < len(text) {
		b.WriteString("…")
	}
	return b.String()
}

// unfolded is the offset in a text of an offset in its folded form.
func unfolded(text string, folded int) int {
	var b [8]byte
	for i, r := range text {
		if folded -= len(foldRune(b[:0], r)); folded < 0 {
			return i
		}
	}
	return len(text)
}

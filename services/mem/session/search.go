package session

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"unicode"
	"unicode/utf8"

	"zino/pkg/text"
	"zino/pkg/wire"
	"zino/proto"
)

const (
	hitsDefault = 20 // maximum number of sessions without a limit in the request
	hitsMax     = 1000
	wordsMax    = 64 // of a query
	problemsMax = 20
	depthMax    = 32 // levels of nested JSON values that are searched
	around      = 60 // characters of an excerpt before a word; twice as many follow
)

// Search returns the sessions whose messages, calls, results and titles contain all words
// of a query. It reads the files in the order of their last change, latest first, until the
// limit is reached or ctx ends.
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
		limit = hitsDefault
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
			reply.Problems = append(reply.Problems, s.fileError(e.id, err).Error())
		case err == nil && found:
			reply.Results = append(reply.Results, hit)
		}
	}
	return reply, nil
}

// searchIn searches one session. The excerpt is from the text with the most words of the
// query.
func (s *Store) searchIn(ctx context.Context, e entry, words [][]byte) (hit proto.SessionHit, found bool, err error) {
	hit = proto.SessionHit{SessionID: e.id, Updated: stamp(e.info.ModTime())}
	occurs, best := make([]bool, len(words)), 0
	var folded []byte
	search := func(role, said string) {
		folded = fold(folded[:0], said)
		n, first := 0, len(folded)
		for i, word := range words {
			if at := bytes.Index(folded, word); at >= 0 {
				occurs[i] = true
				first = min(first, at)
				n++
			}
		}
		if n > best {
			best, hit.Role, hit.Excerpt = n, role, excerpt(said, first)
		}
	}
	for line, err := range s.log(e.id).From(0) {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return hit, false, err
		}
		switch ev := parse(line.Text); {
		case ev.isMessage():
			search(str(ev.role), str(ev.text))
		case ev.isCall():
			search("tool", string(appendTexts([]byte(str(ev.name)+" "), ev.input, depthMax)))
		case ev.kind == proto.TypeToolResult:
			search("tool", string(appendTexts(nil, ev.output, depthMax)))
		case ev.kind == proto.TypeTitle:
			search("title", str(ev.text))
		}
		if best == len(words) {
			break
		}
	}
	if slices.Contains(occurs, false) {
		return hit, false, nil
	}
	d, err := s.digest(ctx, e)
	hit.Title = cmp.Or(d.Title, d.Text)
	return hit, true, err
}

// appendTexts appends the strings in a JSON value, each with a line break. It leaves out
// names of members, numbers, and values that are nested deeper than depth.
func appendTexts(b, raw []byte, depth int) []byte {
	if len(raw) == 0 || depth == 0 {
		return b
	}
	switch raw[0] {
	case '"':
		b, _ = wire.Unquote(b, raw) // of an invalid string the valid part
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

// excerpt returns one line of the text around an offset of its folded form.
func excerpt(s string, folded int) string {
	at := len(s)
	var b [8]byte
	for i, r := range s {
		if folded -= len(foldRune(b[:0], r)); folded < 0 {
			at = i
			break
		}
	}
	start, end := at, at
	for n := 0; n < around && start > 0; n++ {
		_, size := utf8.DecodeLastRuneInString(s[:start])
		start -= size
	}
	for n := 0; n < 2*around && end < len(s); n++ {
		_, size := utf8.DecodeRuneInString(s[end:])
		end += size
	}
	part := text.OneLine(s[start:end])
	if start > 0 {
		part = "…" + part
	}
	if end < len(s) {
		part += "…"
	}
	return part
}

// fold appends a text with its case folded: the lower case of the upper case.
func fold(b []byte, s string) []byte {
	for _, r := range s {
		b = foldRune(b, r)
	}
	return b
}

func foldRune(b []byte, r rune) []byte {
	switch {
	case r < utf8.RuneSelf:
		if r >= 'A' && r <= 'Z' {
			r += 'a' - 'A'
		}
		return append(b, byte(r))
	case r == 'ß' || r == 'ẞ':
		return append(b, "ss"...)
	}
	return utf8.AppendRune(b, unicode.ToLower(unicode.ToUpper(r)))
}

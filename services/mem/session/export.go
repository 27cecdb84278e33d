package session

import (
	"context"
	"strings"
	"unicode/utf8"

	"zino/pkg/wire"
	"zino/proto"
)

const (
	// exportRoom is how much text an answer holds, in bytes. In a packet none of
	// them takes more than six.
	exportRoom = 2 << 20
	// unsplit is the length up to which a piece of text stays in one answer.
	unsplit = 1 << 10
)

// format is a way to write a session as a text.
type format struct {
	head  func(id string) string
	event func(e *event, text []byte, first bool) string
	tail  string
}

var formats = map[string]format{
	"md": {func(id string) string { return "# Session " + id + "\n\n" }, markdown, ""},
	"json": {func(id string) string {
		return string(wire.AppendString([]byte(`{"session_id":`), id)) + `,"events":[`
	}, element, "\n]}\n"},
}

// element is an event in a JSON list.
func element(_ *event, text []byte, first bool) string {
	if first {
		return "\n" + string(text)
	}
	return ",\n" + string(text)
}

// Export gives a part of a session as text. The parts joined are the whole.
func (s *Store) Export(ctx context.Context, req proto.ExportSession) (proto.SessionText, error) {
	f, ok := formats[req.Format]
	if !ok {
		return proto.SessionText{}, invalid("format: there are md and json, and no %s", quote(req.Format))
	}
	id, err := s.resolve(req.SessionID)
	if err != nil {
		return proto.SessionText{}, err
	}
	p := page{room: s.part, skip: req.Skip, place: req.From}
	if req.From == 0 {
		p.add(f.head(id), 0)
	}
	r := s.reader(ctx, id)
	if err := p.fill(f, r, req.From); err != nil {
		return proto.SessionText{}, err
	}
	p.add(f.tail, r.at)
	r.tell(req.From == 0 && !p.full)
	reply := proto.SessionText{SessionID: id, Content: p.text.String(), More: p.full}
	if p.full {
		reply.Next, reply.Skip = p.place, p.given
	}
	return reply, nil
}

// fill adds the events from a place on. The first of all counts as being at the
// session's beginning, where it can be told that it is the first.
func (p *page) fill(f format, r *reader, from int64) error {
	first := from == 0
	for line, err := range r.events(from, 0) {
		if err != nil {
			return err
		}
		e := read(line.Text)
		place := line.Start
		if first {
			place = 0
		}
		p.add(f.event(&e, line.Text, first), place)
		if first = false; p.full {
			return nil
		}
	}
	return nil
}

// page is an answer that is being filled. Where it is full, place and given tell
// where the next one begins.
type page struct {
	room  int // bytes that the text may have
	text  strings.Builder
	skip  int64 // bytes that earlier answers held of what is at the first place
	place int64 // of what was added last
	given int64 // bytes of what is at that place, those skipped included
	full  bool
}

// add adds a piece of text that belongs to a place, as far as there is room.
func (p *page) add(text string, place int64) {
	if p.full {
		return
	}
	if place != p.place {
		p.place, p.given, p.skip = place, 0, 0
	}
	skipped := min(max(p.skip, 0), int64(len(text)))
	p.skip -= skipped
	text = text[skipped:]
	n := min(len(text), p.room-p.text.Len())
	if p.full = n < len(text); p.full {
		n = split(text, n)
	}
	p.text.WriteString(text[:n])
	p.given += skipped + int64(n)
}

// split is where a text can be cut, n bytes from its beginning or before that.
func split(text string, n int) int {
	if len(text) <= unsplit {
		return 0
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return n
}

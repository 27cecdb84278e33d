package session

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"unicode/utf8"

	"zino/pkg/text"
	"zino/pkg/wire"
	"zino/proto"
)

const (
	// exportRoom is how many bytes of text an answer contains. In a packet each of
	// them takes six at most.
	exportRoom = 2 << 20
	// unsplit is the length up to which a piece of text stays in one answer.
	unsplit = 1 << 10
)

// Export returns a part of a session as text, as Markdown or as an object with
// all events. The parts joined are the whole.
func (s *Store) Export(ctx context.Context, req proto.ExportSession) (proto.SessionText, error) {
	if req.Format != "md" && req.Format != "json" {
		return proto.SessionText{}, invalid(`format: want "md" or "json", not %s`, text.Quote(req.Format))
	}
	id, err := s.resolve(req.SessionID)
	if err != nil {
		return proto.SessionText{}, err
	}
	head, format, tail := "# Session "+id+"\n\n", markdown, ""
	if req.Format == "json" {
		head, tail = string(wire.AppendString([]byte(`{"session_id":`), id))+`,"events":[`, "\n]}\n"
		format = func(_ *event, line []byte, first bool) string {
			if first {
				return "\n" + string(line)
			}
			return ",\n" + string(line)
		}
	}
	p := part{room: s.part, skip: req.Skip, place: req.From}
	if req.From == 0 {
		p.add(head, 0)
	}
	r := reader{s: s, ctx: ctx, id: id}
	first := req.From == 0
	for line, err := range r.events(req.From, 0) {
		if err != nil {
			return proto.SessionText{}, err
		}
		e := parse(line.Text)
		place := line.Start
		if first { // lines before it were skipped
			place = 0
		}
		p.add(format(&e, line.Text, first), place)
		if first = false; p.full {
			break
		}
	}
	p.add(tail, r.at)
	r.report(req.From == 0 && !p.full)
	reply := proto.SessionText{SessionID: id, Content: p.text.String(), More: p.full}
	if p.full {
		reply.Next, reply.Skip = p.place, p.given
	}
	return reply, nil
}

// part is an answer that is being filled. When it is full, place and given say
// where the next one begins.
type part struct {
	room  int // bytes that the text may have
	text  strings.Builder
	skip  int64 // bytes that earlier answers contain of what is at the first place
	place int64 // of what was added last
	given int64 // bytes of what is at that place, those skipped included
	full  bool
}

// add adds a piece of text that belongs to a place, as far as there is room.
func (p *part) add(piece string, place int64) {
	if p.full {
		return
	}
	if place != p.place {
		p.place, p.given, p.skip = place, 0, 0
	}
	skipped := min(max(p.skip, 0), int64(len(piece)))
	p.skip -= skipped
	piece = piece[skipped:]
	n := min(len(piece), p.room-p.text.Len())
	if p.full = n < len(piece); p.full {
		if len(piece) <= unsplit {
			n = 0
		}
		for n > 0 && !utf8.RuneStart(piece[n]) {
			n--
		}
	}
	p.text.WriteString(piece[:n])
	p.given += skipped + int64(n)
}

// markdown is an event for people to read, empty for types that they need not.
func markdown(e *event, _ []byte, _ bool) string {
	switch {
	case e.kind == proto.TypeMeta:
		s := ""
		if at := timeOf(e.ts); at != "" {
			s = "Begun " + at + ".\n\n"
		}
		if from := e.forkedFrom(); from != "" {
			s += "A copy of " + text.OneLine(from) + ".\n\n"
		}
		return s
	case e.isMessage():
		s := "## Assistant\n\n"
		if e.isUser() {
			s = "## User\n\n"
		}
		s += strings.TrimSpace(str(e.text)) + "\n\n"
		if isTrue(e.partial) {
			s += "*Cut off.*\n\n"
		}
		return s
	case e.kind == proto.TypeToolUse:
		return "### Call of " + text.OneLine(str(e.name)) + "\n\n" + fenced(e.input)
	case e.kind == proto.TypeToolResult && string(e.ok) == "false":
		return "### Result: failed\n\n" + fenced(e.output)
	case e.kind == proto.TypeToolResult:
		return "### Result\n\n" + fenced(e.output)
	case e.kind == proto.TypeInterrupted:
		return "*Interrupted.*\n\n"
	}
	return ""
}

// fenced is a JSON value as a block of code: a text as it is, anything else
// indented.
func fenced(raw []byte) string {
	if isText(raw) {
		return text.Fenced("", str(raw)) + "\n\n"
	}
	var indented bytes.Buffer
	if json.Indent(&indented, raw, "", "  ") != nil {
		return text.Fenced("json", string(raw)) + "\n\n"
	}
	return text.Fenced("json", indented.String()) + "\n\n"
}

package session

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"unicode/utf8"

	"zino/pkg/attach/kind"
	"zino/pkg/text"
	"zino/pkg/wire"
	"zino/proto"
)

const (
	// exportRoom is the maximum number of bytes of text in an answer. In JSON a byte
	// takes up to six.
	exportRoom = 2 << 20
	// unsplit is the number of bytes up to which a piece of text is not split.
	unsplit = 1 << 10
)

// Export returns a part of a session as text: Markdown, or a JSON object with all
// events. The whole text is the concatenation of the parts.
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
	p := part{room: s.part, skip: req.Skip, offset: req.From}
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
		offset := line.Start
		if first { // lines before it were skipped
			offset = 0
		}
		p.add(format(&e, line.Text, first), offset)
		if first = false; p.full {
			break
		}
	}
	p.add(tail, r.at)
	r.report(req.From == 0 && !p.full)
	reply := proto.SessionText{SessionID: id, Content: p.text.String(), More: p.full}
	if p.full {
		reply.Next, reply.Skip = p.offset, p.given
	}
	return reply, nil
}

// part builds an answer. When it is full, offset and given tell where the next one
// begins.
type part struct {
	room   int // maximum bytes of text
	text   strings.Builder
	skip   int64 // bytes at the first offset that earlier answers contain
	offset int64 // of the last piece
	given  int64 // bytes at this offset so far, including the skipped ones
	full   bool
}

// add adds a piece of text that belongs to an offset, as far as it fits.
func (p *part) add(piece string, offset int64) {
	if p.full {
		return
	}
	if offset != p.offset {
		p.offset, p.given, p.skip = offset, 0, 0
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

// markdown formats an event for people; the result is empty for types that are not shown.
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
		s += strings.TrimSpace(str(e.text)) + "\n\n" + files(e)
		if isTrue(e.partial) {
			s += "*Cut off.*\n\n"
		}
		return s
	case e.kind == proto.TypeToolUse:
		return "### Call of " + text.OneLine(str(e.name)) + "\n\n" + fenced(e.input)
	case e.kind == proto.TypeToolResult && string(e.ok) == "false":
		return "### Result: failed\n\n" + fenced(e.output) + files(e)
	case e.kind == proto.TypeToolResult:
		return "### Result\n\n" + fenced(e.output) + files(e)
	case e.kind == proto.TypeInterrupted:
		return "*Interrupted.*\n\n"
	}
	return ""
}

// files formats the attachments of an event.
func files(e *event) (s string) {
	for _, a := range attached(e) {
		sum, _ := kind.Sum(a.ID)
		s += "*Attached: " + text.OneLine(a.Name) + ", " + text.OneLine(a.MediaType) + ", " + sum + "*\n\n"
	}
	return s
}

// fenced formats a JSON value as a block of code: a string as its value, anything else
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

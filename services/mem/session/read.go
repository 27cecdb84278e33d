package session

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"unicode/utf8"

	"zino/pkg/durable"
	"zino/pkg/wire"
	"zino/proto"
)

// readRoom is the maximum number of bytes of the events and offsets in a packet. Any
// single event fits.
const readRoom = wire.MaxPayload - 512

// offsetRoom is the maximum number of bytes of an offset with its comma.
const offsetRoom = 20

// Read returns the events of a session from an offset on, up to the limits of the
// request and of a packet.
func (s *Store) Read(ctx context.Context, req proto.ReadSession) (proto.SessionEvents, error) {
	id, err := s.resolve(req.SessionID)
	if err != nil {
		return proto.SessionEvents{}, err
	}
	reply := proto.SessionEvents{SessionID: id, Next: req.From}
	room := s.room
	if req.MaxBytes > 0 {
		room = min(room, req.MaxBytes)
	}
	events := []byte{'['}
	n := 0
	r := reader{s: s, ctx: ctx, id: id}
	for line, err := range r.events(req.From, 0) {
		if err != nil {
			return reply, err
		}
		size := len(events) + 1 + len(line.Text) + (n+1)*offsetRoom
		if reply.More = req.Limit > 0 && n == req.Limit || n > 0 && size > room; reply.More {
			break
		}
		if n > 0 {
			events = append(events, ',')
		}
		events = append(events, line.Text...)
		reply.Offsets = append(reply.Offsets, line.Next)
		reply.Next, reply.Skipped = line.Next, r.skipped
		n++
	}
	if !reply.More {
		reply.Next, reply.Skipped = max(reply.Next, r.at), r.skipped
	}
	reply.Events = append(events, ']')
	r.report(req.From == 0 && !reply.More)
	return reply, nil
}

// reader reads the events of a session and counts the other lines.
type reader struct {
	s   *Store
	ctx context.Context
	id  string

	at      int64 // the offset behind the last line
	skipped int   // lines that are not events
}

// events iterates over the events between two offsets; until 0 is the end. The text of
// an event is valid UTF-8, and may be used until the next iteration.
func (r *reader) events(from, until int64) iter.Seq2[durable.Line, error] {
	return func(yield func(durable.Line, error) bool) {
		r.at = from
		for line, err := range r.s.log(r.id).From(from) {
			if err == nil {
				err = r.ctx.Err()
			}
			if errors.Is(err, durable.ErrPlace) {
				err = badOffset("from", from)
			}
			if err != nil {
				yield(line, r.s.fileError(r.id, err))
				return
			}
			if until > 0 && line.Start >= until {
				break
			}
			r.at = line.Next
			if ok := line.IsObject(); ok && !utf8.Valid(line.Text) {
				line.Text = bytes.ToValidUTF8(line.Text, []byte("\ufffd"))
			} else if !ok {
				line.Text = nil
			}
			if line.Text == nil || len(line.Text) > durable.MaxLine {
				r.skipped++
			} else if !yield(line, nil) {
				return
			}
		}
		if until > 0 && r.at != until {
			yield(durable.Line{}, badOffset("until", until))
		}
	}
}

// badOffset is the error of an offset at which no line begins.
func badOffset(field string, offset int64) error {
	return invalid("%s %d is not the start of an event", field, offset)
}

// report reports the number of skipped lines. It reports 0 only if all lines were read.
func (r *reader) report(all bool) {
	if r.s.opt.Skipped != nil && (all || r.skipped > 0) {
		r.s.opt.Skipped(r.id+fileEnd, r.skipped)
	}
}

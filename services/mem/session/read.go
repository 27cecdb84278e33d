package session

import (
	"context"
	"iter"

	"zino/pkg/durable"
	"zino/pkg/wire"
	"zino/proto"
)

// readRoom is what the events of a packet may take of it, in bytes: any one of
// them fits.
const readRoom = wire.MaxPayload - 512

// Read gives a session's events from a place on, as many as fit into a packet.
func (s *Store) Read(ctx context.Context, req proto.ReadSession) (proto.SessionEvents, error) {
	id, err := s.resolve(req.SessionID)
	if err != nil {
		return proto.SessionEvents{}, err
	}
	reply := proto.SessionEvents{SessionID: id, Next: req.From}
	events := []byte{'['}
	n := 0
	r := s.reader(ctx, id)
	for line, err := range r.events(req.From, 0) {
		if err != nil {
			return reply, err
		}
		if reply.More = req.Limit > 0 && n == req.Limit || n > 0 && len(events)+1+len(line.Text) > s.room; reply.More {
			break
		}
		if n > 0 {
			events = append(events, ',')
		}
		events = append(events, line.Text...)
		reply.Next, reply.Skipped = line.Next, r.skipped
		n++
	}
	if !reply.More {
		reply.Next, reply.Skipped = max(reply.Next, r.at), r.skipped
	}
	reply.Events = append(events, ']')
	r.tell(req.From == 0 && !reply.More)
	return reply, nil
}

// reader reads a session's events. Lines that are none are left out.
type reader struct {
	s   *Store
	ctx context.Context
	id  string

	at      int64 // the place behind the last line
	skipped int   // lines that were left out
}

func (s *Store) reader(ctx context.Context, id string) *reader {
	return &reader{s: s, ctx: ctx, id: id}
}

// events are those from a place to another, or to the end if that is 0. The text
// of an event is in valid UTF-8, and valid until the next one is asked for.
func (r *reader) events(from, until int64) iter.Seq2[durable.Line, error] {
	return func(yield func(durable.Line, error) bool) {
		r.at = from
		for line, err := range r.s.lines(r.id).From(from) {
			if err == nil {
				err = r.ctx.Err()
			}
			if err != nil {
				yield(line, r.s.wrong(r.id, err))
				return
			}
			if until > 0 && line.Start >= until {
				break
			}
			r.at = line.Next
			if !r.isEvent(&line) {
				r.skipped++
			} else if !yield(line, nil) {
				return
			}
		}
		if until > 0 && r.at != until {
			yield(durable.Line{}, r.s.wrong(r.id, durable.ErrPlace))
		}
	}
}

// isEvent reports whether a line can be served, and has its text ready for that.
func (r *reader) isEvent(line *durable.Line) bool {
	if !line.IsObject() {
		return false
	}
	line.Text = served(line.Text)
	return len(line.Text) <= durable.MaxLine
}

// tell tells how many lines were left out. None is worth telling if all lines
// were read.
func (r *reader) tell(all bool) {
	if r.s.opt.Skipped != nil && (all || r.skipped > 0) {
		r.s.opt.Skipped(r.id+fileEnd, r.skipped)
	}
}

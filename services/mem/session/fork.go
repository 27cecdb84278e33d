package session

import (
	"bytes"
	"context"

	"zino/pkg/durable"
	"zino/proto"
)

// forkPiece is how many bytes of a session are copied at a time.
const forkPiece = 1 << 20

// Fork copies a session up to a place into a new one.
func (s *Store) Fork(ctx context.Context, req proto.ForkSession) (proto.SessionPlace, error) {
	reply := proto.SessionPlace{SessionID: req.NewID}
	id, err := s.resolve(req.SessionID)
	if err != nil {
		return reply, err
	}
	if reply.SessionID == "" {
		reply.SessionID = newID()
	}
	if err := checkID(reply.SessionID); err != nil {
		return reply, err
	}
	if reply.SessionID == id { // which would be locked against itself
		return reply, taken(id)
	}
	c := &copying{s: s, ctx: ctx, from: origin{id, req.Until}}
	reply.Next, err = s.make(reply.SessionID, c.run)
	return reply, err
}

// copying is a fork under way.
type copying struct {
	s    *Store
	ctx  context.Context
	from origin
	pen  *durable.Tx

	lines [][]byte
	size  int
}

func (c *copying) run(p *durable.Tx) error {
	c.pen = p
	events := c.s.reader(c.ctx, c.from.id)
	first := true
	for line, err := range events.events(0, c.from.until) {
		if err != nil {
			return err
		}
		e := event{}
		if first {
			e = read(line.Text)
			if err := c.head(e, line.Text); err != nil {
				return err
			}
		}
		if first = false; e.kind == meta {
			continue
		}
		if err := c.add(unbroken(bytes.Clone(line.Text))); err != nil {
			return err
		}
	}
	if first { // nothing to copy
		if err := c.head(event{}, nil); err != nil {
			return err
		}
	}
	return c.flush()
}

// head adds the copy's first line, with the keys of the original's.
func (c *copying) head(e event, text []byte) error {
	if e.kind != meta {
		text = nil
	}
	head, err := c.s.header(text, &c.from, nil)
	if err != nil {
		return err
	}
	return c.add(head)
}

func (c *copying) add(line []byte) error {
	c.lines, c.size = append(c.lines, line), c.size+len(line)
	if c.size < forkPiece {
		return nil
	}
	return c.flush()
}

func (c *copying) flush() error {
	err := c.pen.Append(c.lines)
	c.lines, c.size = c.lines[:0], 0
	return err
}

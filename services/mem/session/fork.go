package session

import (
	"bytes"
	"context"

	"zino/pkg/durable"
	"zino/proto"
)

// forkPiece is the number of bytes after which a fork writes what it has copied.
const forkPiece = 1 << 20

// Fork copies a session up to an offset into a new one. The first line keeps the keys
// of the original's, except parent, as the copy is a session of the user, and the uid of
// another user. Events of types
// turn and say are not copied, and calls without a result are closed in the copy.
func (s *Store) Fork(ctx context.Context, req proto.ForkSession) (proto.SessionPlace, error) {
	reply := proto.SessionPlace{SessionID: req.NewID}
	id, err := s.resolve(req.SessionID)
	if err != nil {
		return reply, err
	}
	if reply.SessionID == "" {
		reply.SessionID = proto.NewSessionID()
	}
	if err := proto.CheckSessionID(reply.SessionID); err != nil {
		return reply, err
	}
	if reply.SessionID == id { // it would wait for its own lock
		return reply, exists(id)
	}
	from := &origin{id, req.Until, req.Owner}
	reply.Next, err = s.create(reply.SessionID, func(tx *durable.Tx) error {
		var lines [][]byte
		var d digest
		size := 0
		r := reader{s: s, ctx: ctx, id: id}
		for line, err := range r.events(0, req.Until) {
			if err != nil {
				return err
			}
			e := parse(line.Text)
			isMeta := e.kind == proto.TypeMeta
			if first := tx.End() == 0 && lines == nil; first {
				var given []byte
				if isMeta {
					given = line.Text
				}
				header, err := s.header(given, from, nil)
				if err != nil {
					return err
				}
				lines, size = append(lines, header), size+len(header)
			}
			if isMeta || e.kind == proto.TypeTurn || e.kind == proto.TypeSay || e.kind == proto.TypeHook {
				continue
			}
			if err := s.linkAttachments(id, reply.SessionID, append(attached(&e), texts(&e)...)); err != nil {
				return err
			}
			d.add(reply.SessionID, line.Text)
			event := inLine(bytes.Clone(line.Text))
			if lines, size = append(lines, event), size+len(event); size >= forkPiece {
				if err := tx.Append(lines); err != nil {
					return err
				}
				lines, size = lines[:0], 0
			}
		}
		if tx.End() == 0 && lines == nil { // nothing to copy
			header, err := s.header(nil, from, nil)
			if err != nil {
				return err
			}
			lines = append(lines, header)
		}
		return tx.Append(append(lines, s.results(d.Open)...))
	})
	return reply, err
}

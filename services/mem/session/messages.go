package session

import (
	"context"
	"fmt"

	"zino/pkg/durable"
	"zino/proto"
)

// Messages gives a session as messages for a model. The file stays as it is.
func (s *Store) Messages(ctx context.Context, req proto.GetMessages) (proto.SessionMessages, error) {
	reply := proto.SessionMessages{}
	if err := checkID(req.SessionID); err != nil {
		return reply, err
	}
	d, err := s.look(ctx, req.SessionID)
	if err == nil {
		err = d.known(req.SessionID)
	}
	if err != nil {
		return reply, err
	}
	var c conversation
	damaged := 0
	r := s.reader(ctx, req.SessionID)
	for line, err := range r.events(0, req.Until) {
		if err != nil {
			return reply, err
		}
		e := read(line.Text)
		if e.damaged() {
			damaged++
		}
		if c.add(&e); c.size > s.room {
			return reply, tooLong(req.SessionID)
		}
	}
	r.tell(req.Until == 0)
	if s.opt.Damaged != nil && req.Until == 0 {
		s.opt.Damaged(req.SessionID+fileEnd, damaged)
	}
	reply.Messages, reply.Count, reply.Next = c.list(), c.count, r.at
	if len(reply.Messages) > s.room {
		return reply, tooLong(req.SessionID)
	}
	return reply, nil
}

func tooLong(id string) error {
	return &proto.Error{Code: proto.CodeTooLarge, Message: fmt.Sprintf("Session %s is larger than a request can be (%d MiB). Go on in a new one: zino handoff --from-session %s --goal \"…\".", quote(id), durable.MaxLine>>20+1, id)}
}

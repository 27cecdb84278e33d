package session

import (
	"context"

	"zino/proto"
)

// listRoom is what a list may take of a packet, in bytes.
const listRoom = 12 << 20

// List lists the sessions, or those of a directory, the one that changed last in
// front.
func (s *Store) List(ctx context.Context, req proto.ListSessions) (proto.SessionList, error) {
	reply := proto.SessionList{Sessions: []proto.SessionSummary{}}
	all, err := s.entries(ctx)
	if err != nil {
		return reply, err
	}
	reply.Total = len(all)
	size := 0
	for i, e := range all {
		if req.Root == "" && req.Limit > 0 && i == req.Limit {
			break
		}
		sum, err := s.summary(ctx, e)
		if isGone(err) {
			continue
		}
		if err != nil {
			return reply, err
		}
		if req.Root != "" && sum.Root != req.Root && sum.Problem == "" {
			reply.Elsewhere++
			continue
		}
		if req.Limit > 0 && len(reply.Sessions) == req.Limit {
			continue // only counted
		}
		// No character takes more than six bytes.
		if size += 6*(len(sum.SessionID)+len(sum.Text)+len(sum.Title)+len(sum.Root)+len(sum.ForkedFrom)+len(sum.Problem)) + 384; size > listRoom {
			if req.Root == "" {
				break
			}
			continue // only counted
		}
		reply.Sessions = append(reply.Sessions, sum)
	}
	reply.Total -= reply.Elsewhere
	// A directory that cannot be written to can be listed all the same.
	_ = s.saveIndex(all)
	return reply, nil
}

// summary is what a list shows of a session. A file that is there and cannot be
// read is shown with the reason.
func (s *Store) summary(ctx context.Context, e entry) (proto.SessionSummary, error) {
	d, err := s.digest(ctx, e)
	if ctx.Err() != nil {
		return proto.SessionSummary{}, ctx.Err()
	}
	if isGone(err) {
		return proto.SessionSummary{}, err
	}
	sum := d.summary(e)
	if err != nil {
		sum.Problem = err.Error()
	}
	return sum, nil
}

// Find finds the session that an id or its beginning names, or the one that
// changed last.
func (s *Store) Find(ctx context.Context, req proto.FindSession) (proto.SessionSummary, error) {
	if req.SessionID == "" {
		return s.latest(ctx, req.Root)
	}
	id, err := s.resolve(req.SessionID)
	if err != nil {
		return proto.SessionSummary{}, err
	}
	info, err := s.root.Lstat(id + fileEnd)
	if err != nil {
		return proto.SessionSummary{}, s.wrong(id, err)
	}
	return s.summary(ctx, entry{id, info})
}

// latest is the session that changed last, of a directory unless root is empty.
func (s *Store) latest(ctx context.Context, root string) (proto.SessionSummary, error) {
	all, err := s.entries(ctx)
	if err != nil {
		return proto.SessionSummary{}, err
	}
	defer s.saveIndex(all) // the next one finds what was read now
	for _, e := range all {
		sum, err := s.summary(ctx, e)
		if isGone(err) {
			continue
		}
		if err != nil || root == "" || sum.Root == root {
			return sum, err
		}
	}
	return proto.SessionSummary{}, &proto.Error{Code: proto.CodeNotFound, Message: "No sessions found."}
}

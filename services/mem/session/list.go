package session

import (
	"cmp"
	"context"

	"zino/pkg/text"
	"zino/proto"
)

// listRoom is the maximum number of bytes of a list in a packet.
const listRoom = 12 << 20

// List lists the sessions, or those of a directory, the last changed first.
func (s *Store) List(ctx context.Context, req proto.ListSessions) (proto.SessionList, error) {
	reply := proto.SessionList{Sessions: []proto.SessionSummary{}}
	all, err := s.entries(ctx)
	if err != nil {
		return reply, err
	}
	size := 0
	for _, e := range all {
		sum, err := s.summary(ctx, e)
		if isGone(err) {
			continue
		}
		if err != nil {
			return reply, err
		}
		if sum.Parent != nil && !req.All {
			continue
		}
		if req.Root != "" && sum.Root != req.Root && sum.Problem == "" {
			reply.Elsewhere++
			continue
		}
		reply.Total++
		if req.Limit > 0 && len(reply.Sessions) == req.Limit || size > listRoom {
			continue // only counted
		}
		// In JSON a byte takes up to six.
		size += 6*(len(sum.SessionID)+len(sum.Text)+len(sum.Title)+len(sum.Root)+len(sum.ForkedFrom)+len(sum.Problem)) + 384
		if p := sum.Parent; p != nil {
			size += 6 * (len(p.SessionID) + len(p.Turn) + len(p.Call))
		}
		if size <= listRoom {
			reply.Sessions = append(reply.Sessions, sum)
		}
	}
	_ = s.saveIndex(all) // a directory that cannot be written can be listed
	return reply, nil
}

// summary returns the entry of a session in a list. For a file that cannot be read it
// contains the reason.
func (s *Store) summary(ctx context.Context, e entry) (proto.SessionSummary, error) {
	d, err := s.digest(ctx, e)
	if ctx.Err() != nil {
		return proto.SessionSummary{}, ctx.Err()
	}
	if isGone(err) {
		return proto.SessionSummary{}, err
	}
	updated := stamp(e.info.ModTime())
	sum := proto.SessionSummary{
		SessionID: e.id, Updated: updated, Bytes: e.info.Size(),
		Created: cmp.Or(d.Created, updated), Messages: d.Messages, Turns: d.Turns, Text: d.Text, ForkedFrom: d.From,
		Parent: d.Parent, Root: d.Root, Title: cmp.Or(d.Title, d.Text), CostUSD: d.CostUSD, Unpriced: d.Unpriced,
	}
	if err != nil {
		sum.Problem = err.Error()
	}
	return sum, nil
}

// Find returns the session with an id or a prefix of it, or without one the last
// changed session.
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
		return proto.SessionSummary{}, s.fileError(id, err)
	}
	return s.summary(ctx, entry{id, info})
}

// latest returns the last changed session, of a directory unless root is empty.
func (s *Store) latest(ctx context.Context, root string) (proto.SessionSummary, error) {
	all, err := s.entries(ctx)
	if err != nil {
		return proto.SessionSummary{}, err
	}
	defer s.saveIndex(all) // the index is a cache: see saveIndex
	for _, e := range all {
		sum, err := s.summary(ctx, e)
		if isGone(err) {
			continue
		}
		if err != nil || sum.Parent == nil && (root == "" || sum.Root == root) {
			return sum, err
		}
	}
	return proto.SessionSummary{}, &proto.Error{Code: proto.CodeNotFound, Message: "No sessions found."}
}

// titleMax is the number of characters of a message in a list.
const titleMax = 80

// title returns the beginning of a text on one line, with white space collapsed. It
// looks at the first 64*titleMax bytes alone.
func title(s string) string { return text.Clip(text.OneLine(text.Head(s, 64*titleMax)), titleMax) }

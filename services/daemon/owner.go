package daemon

import (
	"context"
	"fmt"
	"os"
	"slices"

	"zino/pkg/rpc"
	"zino/pkg/wire"
	"zino/proto"
)

// Several users may share a daemon. The first line of a session names the user who
// started it, and recall_sessions searches only the sessions of the user who asks, so
// that no turn quotes another user unasked.

// owned are the methods of mem with an owner.
var owned = []string{proto.MemRecallSessions.Type, proto.MemForkSession.Type}

// ownerOf returns the owner of the sessions that a user's recall_sessions searches; nil:
// all sessions. The daemon's own user can read the files.
func ownerOf(uid int) *int {
	if uid == os.Geteuid() {
		return nil
	}
	return &uid
}

// owner is ownerOf for the tools of the turn.
func (t *turn) owner() *int { return ownerOf(t.requester()) }

// requester returns the user of the turn. One that the end of a job started has the user of
// the turn before.
func (t *turn) requester() int {
	if t.job == "" {
		return t.uid
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, before := range slices.Backward(t.log.Turns) {
		if before.By != nil {
			return before.By.UID
		}
	}
	return t.uid
}

// firstLine reads the first line of a session; of a file without one it is empty.
func (s *Service) firstLine(ctx context.Context, id string) (meta proto.LogMeta, err error) {
	page, err := rpc.Call(ctx, s.mem, proto.MemReadSession, proto.ReadSession{SessionID: id, Limit: 1})
	if err != nil {
		return meta, sessionError(err)
	}
	for event := range wire.Items(page.Events) {
		if typ, err := wire.ReplyType(event); err != nil || typ != proto.TypeMeta || wire.DecodeReply(event, &meta) != nil {
			return proto.LogMeta{}, nil
		}
	}
	return meta, nil
}

// withOwner replaces the owner of a request.
func withOwner(request proto.Raw, owner *int) (proto.Raw, error) {
	if owner == nil {
		return withMember(request, "owner", nil)
	}
	return withMember(request, "owner", fmt.Append(nil, *owner))
}

// withMember replaces a member of a request, or removes it if value is nil.
func withMember(request proto.Raw, name string, value []byte) (proto.Raw, error) {
	if !wire.Valid(request) {
		return nil, proto.Errorf(proto.CodeInvalid, "Invalid request: field %q: malformed JSON", "request")
	}
	b := proto.Raw{'{'}
	add := func(key, value []byte) {
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = append(append(wire.AppendString(b, key), ':'), value...)
	}
	for key, member := range wire.Members(request) {
		if string(key) == name {
			continue
		}
		add(key, member)
	}
	if value != nil {
		add([]byte(name), value)
	}
	return append(b, '}'), nil
}

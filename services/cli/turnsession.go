package cli

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"

	"zino/proto"
)

// newSessionID makes a UUID of version 4.
func newSessionID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	b[6] = b[6]&0x0f | 0x40
	b[8] = b[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// sessionOf is the session of this run: the one that the user named, or a new
// one. known is what there is of it already, nothing if that is nothing.
func (a *app) sessionOf(ctx context.Context, d *daemon) (id string, known *proto.SessionSummary, err error) {
	if a.session == "" && !a.latest {
		return newSessionID(), nil, nil
	}
	found, err := forward(ctx, d, "mem", proto.MemFindSession, proto.FindSession{SessionID: a.session})
	switch {
	case err == nil:
		return found.SessionID, &found, nil
	case a.latest && errors.Is(err, proto.ErrNotFound):
		return "", nil, &proto.Error{Code: proto.CodeNotFound, Kind: "session", Message: "No sessions found to resume"}
	case errors.Is(err, proto.ErrNotFound), errors.Is(err, proto.ErrInvalid) && !likeUUID(a.session):
		return a.session, nil, nil
	case errors.Is(err, proto.ErrInvalid):
		return "", nil, &proto.Error{Code: proto.CodeInvalid, Kind: "session", Message: err.Error()}
	}
	return "", nil, err
}

// likeUUID reports whether id may be the beginning of a UUID. One that several
// sessions have is a mistake; any other name is a new session's.
func likeUUID(id string) bool {
	return strings.Trim(id, "0123456789abcdef-") == ""
}

// shortID is how a session is called in a hint.
func shortID(id string) string {
	const enough = 8
	if len(id) == len(newSessionID()) && likeUUID(id) {
		return id[:enough]
	}
	return id
}

// tellLoaded says what a session brings along. A program sees the messages that
// it asks for.
func (a *app) tellLoaded(known *proto.SessionSummary) {
	if known != nil && known.Messages > 0 && !a.asJSON() {
		a.say("Loaded %d previous messages", known.Messages)
	}
}

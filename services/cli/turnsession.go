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
	if a.session == "" {
		found, err := a.latestHere(ctx, d)
		return found.SessionID, &found, err
	}
	found, err := forward(ctx, d, "mem", proto.MemFindSession, proto.FindSession{SessionID: a.session})
	switch {
	case err == nil:
		return found.SessionID, &found, nil
	case errors.Is(err, proto.ErrNotFound) && likeShortID(a.session):
		return "", nil, &proto.Error{Code: proto.CodeNotFound, Kind: "session", Message: fmt.Sprintf(
			"no session has an id that begins with %s; zino sessions list --all shows those there are (with the --config and --socket that it was made with)", a.session)}
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

// likeShortID reports whether a name looks like the beginning of an id, as it is
// printed: at least eight digits of a UUID. One of decimal digits alone is more
// likely a date.
func likeShortID(name string) bool {
	const whole = len("6467336c-1f30-429b-8d2f-0123456789ab")
	if len(name) < 8 || len(name) >= whole || strings.Trim(name, "0123456789-") == "" {
		return false
	}
	for i, r := range name {
		dash := i == 8 || i == 13 || i == 18 || i == 23
		if dash != (r == '-') || !dash && !strings.ContainsRune("0123456789abcdef", r) {
			return false
		}
	}
	return true
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

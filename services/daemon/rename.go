package daemon

import (
	"context"
	"strings"
	"unicode/utf8"

	"zino/pkg/text"
	"zino/pkg/wire"
	"zino/proto"
)

// renameSession stores a new title of a session, also while a turn of it is open.
func (s *Service) renameSession(ctx context.Context, req proto.RenameSession) (proto.Empty, error) {
	if err := proto.CheckSessionID(req.SessionID); err != nil {
		return proto.Empty{}, err
	}
	title := strings.TrimSpace(req.Title)
	if err := checkTitle(title); err != nil {
		return proto.Empty{}, err
	}
	sess, err := s.enterKnown(ctx, req.SessionID)
	if err != nil {
		return proto.Empty{}, err
	}
	defer sess.leave()
	w, release, err := sess.writer()
	if err != nil {
		return proto.Empty{}, err
	}
	defer release()
	var r record
	r.event(proto.TypeTitle, proto.LogTitle{Text: title, TS: timestamp()})
	if err := sess.write(ctx, w, &r); err != nil {
		return proto.Empty{}, err
	}
	return proto.Empty{}, sess.sendTitle(title)
}

// sendTitle sends a new title to the followers. Those of a turn get it as a packet of
// that turn.
func (sess *session) sendTitle(title string) error {
	payload, err := wire.AppendObject(nil, proto.TypeTitle, proto.LogTitle{Text: title})
	if err != nil {
		return err
	}
	sess.mu.Lock()
	defer sess.mu.Unlock()
	p := packet{payload: payload}
	if t := sess.active(); t != nil {
		p = packet{payload: t.mark(payload), turn: t.id}
	}
	sess.send(p)
	return nil
}

// writer returns the writer of a session that exists, with or without an open turn. It is
// valid until release is called.
func (sess *session) writer() (w *writer, release func(), err error) {
	sess.mu.Lock()
	sess.writing++
	sess.mu.Unlock()
	release = func() {
		sess.mu.Lock()
		sess.writing--
		sess.mu.Unlock()
		sess.rest()
	}
	if err = sess.load(); err != nil {
		err = sess.elsewhere(err)
	}
	sess.mu.Lock()
	if err == nil && sess.log.Next == 0 {
		err = proto.Errorf(proto.CodeNotFound, "no session %q", sess.id)
	}
	w = sess.w
	sess.mu.Unlock()
	if err != nil {
		release()
	}
	return w, release, err
}

// checkTitle validates a title without white space around it.
func checkTitle(title string) error {
	hidden := func(r rune) bool { return r == '\n' || r == '\t' || text.Hidden(r) }
	switch n := utf8.RuneCountInString(title); {
	case title == "":
		return proto.Errorf(proto.CodeInvalid, "empty title: use 1 to %d characters", proto.TitleMax)
	case n > proto.TitleMax:
		return proto.Errorf(proto.CodeInvalid, "the title has %d characters: use at most %d", n, proto.TitleMax)
	case strings.ContainsFunc(title, hidden):
		return proto.Errorf(proto.CodeInvalid, "invalid title %s: use no control characters", text.Quote(title))
	}
	return nil
}

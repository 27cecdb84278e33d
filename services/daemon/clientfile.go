package daemon

import (
	"context"
	"os"
	"time"

	"zino/pkg/rpc"
	"zino/pkg/wire"
	"zino/proto"
)

const (
	// clientWait is how long a client may take to send the text of a file.
	clientWait = 2 * time.Second
	clientText = 1 << 20 // bytes of such a text
)

// clientFile is a file whose text the followers with client_files are asked for.
type clientFile struct {
	call   string
	packet packet
	text   chan *string // has room for one; nil: the client has no text
}

// readClient has a client of the turn send the text of a file, without blocking the stream
// of the run.
func (r *relay) readClient(at proto.Checkpoint, p proto.Proceed) {
	r.delegated.Go(func() {
		if len(at.Batch) == 1 {
			p.Text = r.turn.clientText(r.ctx, at.Batch[0], at.Path)
		}
		if r.ctx.Err() != nil {
			return
		}
		if err := r.proceed(p); err != nil {
			r.cut(err)
		}
	})
}

// clientText returns the text that a client has of a file; nil: none, or none in time.
func (t *turn) clientText(ctx context.Context, call, path string) (text *string) {
	payload, err := wire.AppendObject(nil, proto.TypeFileRequested, proto.FileRequested{Turn: t.id, ID: call, Path: path})
	if err != nil { // cannot happen: it has strings
		return nil
	}
	file := &clientFile{call: call, packet: packet{payload: payload, turn: t.id, client: true}, text: make(chan *string, 1)}
	t.mu.Lock()
	if t.silent {
		t.mu.Unlock()
		return nil
	}
	t.file = file
	t.send(file.packet)
	t.mu.Unlock()
	late := time.NewTimer(clientWait)
	defer late.Stop()
	answered := false
	select {
	case text = <-file.text:
		answered = true
	case <-late.C:
	case <-ctx.Done():
	}
	t.mu.Lock()
	t.file, t.silent = nil, !answered
	t.mu.Unlock()
	return text
}

// answerFile accepts the text of a file from a client.
func (s *Service) answerFile(ctx context.Context, req proto.AnswerFile) (proto.Empty, error) {
	if err := proto.CheckSessionID(req.SessionID); err != nil {
		return proto.Empty{}, err
	}
	if req.Text != nil && len(*req.Text) > clientText {
		return proto.Empty{}, proto.Errorf(proto.CodeTooLarge, "the text has %d bytes; at most %d are taken", len(*req.Text), clientText)
	}
	sess := s.enter(req.SessionID)
	defer sess.leave()
	sess.mu.Lock()
	defer sess.mu.Unlock()
	t := sess.find(req.Turn)
	if t == nil {
		return proto.Empty{}, noTurn(sess.id)
	}
	if uid := rpc.PeerUID(ctx); uid != t.uid && uid != 0 && uid != os.Geteuid() {
		return proto.Empty{}, proto.Errorf(proto.CodeDenied, "uid %d may not answer for a turn of uid %d", uid, t.uid)
	}
	if t.file == nil || t.file.call != req.ID {
		return proto.Empty{}, proto.Errorf(proto.CodeNotFound, "turn %s does not wait for the file of call %.40q", t.id, req.ID)
	}
	select {
	case t.file.text <- req.Text:
	default: // another client was faster
	}
	return proto.Empty{}, nil
}

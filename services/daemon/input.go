package daemon

import (
	"bytes"
	"context"
	"crypto/rand"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"zino/pkg/form"
	"zino/pkg/rpc"
	"zino/pkg/wire"
	"zino/proto"
	"zino/services/daemon/approval"
)

const (
	// inputFor is how long a request for input stays open.
	inputFor = 10 * time.Minute

	inputsMax       = 256 // open requests of the daemon
	inputMessageMax = 4000
	inputURLMax     = 4096
)

// inputs has the open requests of MCP servers for input. They and their answers are in
// memory alone, and in no log.
type inputs struct {
	wait time.Duration // see inputFor

	mu   sync.Mutex
	open map[string]*openInput // by id
}

// openInput is a request for input that no person has answered yet.
type openInput struct {
	proto.InputRequested
	form   *form.Form       // nil: a URL
	parent *proto.LogParent // of a sub-agent; its followers are asked, too
	by     int              // uid of the turn's user
	answer chan proto.InputAnswer
}

// inputRequest asks the people who follow a turn for input.
func (s *Service) inputRequest(ctx context.Context, req proto.InputRequest) (proto.InputAnswer, error) {
	none := proto.InputAnswer{Action: proto.InputCancel}
	in, err := s.newInput(req)
	if err != nil {
		return none, err
	}
	if !s.canAsk(in) {
		return none, nil
	}
	if err := s.inputs.add(in); err != nil {
		return none, err
	}
	if payload := inputPacket(in); payload != nil {
		s.sendAbout(in.SessionID, in.Turn, in.parent, packet{payload: payload, asks: in.ID, input: true})
	}
	over := time.NewTimer(s.inputs.wait)
	defer over.Stop()
	select {
	case answer := <-in.answer:
		return answer, nil
	case <-over.C:
	case <-s.stopping.Done(): // the call, and with it the turn, would hold up the stop
	case <-ctx.Done():
	}
	if s.inputs.take(in.ID) == nil {
		return <-in.answer, nil // it was answered just now
	}
	s.inputClosed(in, proto.InputClosed{Action: proto.InputCancel})
	return none, ctx.Err()
}

// newInput checks a request. The token vouches for the session and the turn.
func (s *Service) newInput(req proto.InputRequest) (*openInput, error) {
	if s.signer == nil {
		return nil, proto.Errorf(proto.CodeUnavailable, "requests for input are not available: %v", s.signerErr)
	}
	turn, err := s.signer.Turn(req.Token, time.Now())
	if err != nil || turn.Session != req.SessionID || turn.Turn == "" {
		return nil, proto.Errorf(proto.CodeDenied, "input_request needs the token of a turn of the session")
	}
	in := &openInput{by: turn.By, answer: make(chan proto.InputAnswer, 1), InputRequested: proto.InputRequested{
		ID: "in-" + strings.ToLower(rand.Text()[:8]), Server: req.Server, Message: req.Message, Schema: bytes.Clone(req.Schema), URL: req.URL,
		SessionID: turn.Session, Turn: turn.Turn, Expires: time.Now().Add(s.inputs.wait).UTC().Format(time.RFC3339),
	}}
	if req.Server == "" || len(req.Message) > inputMessageMax || (req.URL == "") == (len(req.Schema) == 0) {
		return nil, proto.Errorf(proto.CodeInvalid, "want server, a message of at most %d bytes, and either schema or url", inputMessageMax)
	}
	if req.URL != "" {
		if u, err := url.Parse(req.URL); err != nil || u.Scheme != "https" || u.Host == "" || len(req.URL) > inputURLMax {
			return nil, proto.Errorf(proto.CodeInvalid, "url: want https, of at most %d bytes", inputURLMax)
		}
		return in, nil
	}
	if in.form, err = form.Parse(req.Schema); err != nil {
		return nil, proto.Errorf(proto.CodeInvalid, "schema: %v", err)
	}
	return in, nil
}

// canAsk reports whether a person follows the turn of a request. It completes the request by
// what is known of its turn.
func (s *Service) canAsk(in *openInput) bool {
	follows := func(session, turn string) bool {
		sess := s.enter(session)
		defer sess.leave()
		sess.mu.Lock()
		defer sess.mu.Unlock()
		t := sess.find(turn)
		if t != nil && session == in.SessionID {
			in.parent = t.parent
		}
		return t != nil && slices.ContainsFunc(sess.persons, func(f *follower) bool { return f.turn == "" || f.turn == turn })
	}
	return follows(in.SessionID, in.Turn) || in.parent != nil && follows(in.parent.SessionID, in.parent.Turn)
}

// countAnswerer adds a follower with inputs, until the function that it returns is called.
func (sess *session) countAnswerer(f *follower) (leave func()) {
	sess.mu.Lock()
	defer sess.mu.Unlock()
	sess.persons = append(sess.persons, f)
	return func() {
		sess.mu.Lock()
		defer sess.mu.Unlock()
		sess.persons = slices.DeleteFunc(sess.persons, func(other *follower) bool { return other == f })
	}
}

func (i *inputs) add(in *openInput) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if len(i.open) >= inputsMax {
		return proto.Errorf(proto.CodeBusy, "%d requests for input are open", inputsMax)
	}
	i.open[in.ID] = in
	return nil
}

// take removes an open request and returns it; nil if no request has that id.
func (i *inputs) take(id string) *openInput {
	i.mu.Lock()
	defer i.mu.Unlock()
	in := i.open[id]
	delete(i.open, id)
	return in
}

// of returns the open requests that the followers of a session can answer, the oldest first.
func (i *inputs) of(session string) (list []*openInput) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, in := range i.open {
		if in.SessionID == session || in.parent != nil && in.parent.SessionID == session {
			list = append(list, in)
		}
	}
	slices.SortFunc(list, func(a, b *openInput) int { return strings.Compare(a.Expires+a.ID, b.Expires+b.ID) })
	return list
}

func inputPacket(in *openInput) []byte {
	payload, err := wire.AppendObject(nil, proto.TypeInputRequested, in.InputRequested)
	if err != nil { // cannot happen: the schema is JSON
		return nil
	}
	return payload
}

// inputClosed shows the followers that a request has closed.
func (s *Service) inputClosed(in *openInput, closed proto.InputClosed) {
	closed.ID, closed.SessionID, closed.Turn = in.ID, in.SessionID, in.Turn
	payload, err := wire.AppendObject(nil, proto.TypeInputClosed, closed)
	if err == nil { // always: it has strings and a number
		s.sendAbout(in.SessionID, in.Turn, in.parent, packet{payload: payload, input: true})
	}
}

// sendInputs queues the open requests for a follower that has just joined. session.mu is
// locked.
func (f *following) sendInputs() {
	if !f.follower.input {
		return
	}
	for _, in := range f.inputs.of(f.session.id) {
		turn := in.Turn
		if in.SessionID != f.session.id {
			turn = in.parent.Turn
		}
		if payload := inputPacket(in); payload != nil && (f.turn == "" || f.turn == turn) {
			f.follower.begin(packet{payload: payload, turn: turn})
			f.shown = append(f.shown, in.ID)
		}
	}
}

// answerInput answers a request for input. The same people may as for approvals.
func (s *Service) answerInput(ctx context.Context, req proto.AnswerInput) (proto.Empty, error) {
	s.inputs.mu.Lock()
	in := s.inputs.open[req.ID]
	s.inputs.mu.Unlock()
	unknown := proto.Errorf(proto.CodeNotFound, "no open request for input %.40q: it was answered, or its time is over", req.ID)
	if in == nil {
		return proto.Empty{}, unknown
	}
	uid := rpc.PeerUID(ctx)
	if err := approval.Approvers(s.cfg.Gate.Approvers).Allow(uid, proto.Approval{ID: in.ID, By: proto.Requester{UID: in.by}}); err != nil {
		return proto.Empty{}, err
	}
	switch {
	case req.Action != proto.InputAccept && req.Action != proto.InputDecline && req.Action != proto.InputCancel:
		return proto.Empty{}, proto.Errorf(proto.CodeInvalid, "invalid action %.40q: use %s, %s or %s", req.Action, proto.InputAccept, proto.InputDecline, proto.InputCancel)
	case len(req.Content) > 0 && (req.Action != proto.InputAccept || in.form == nil):
		return proto.Empty{}, proto.Errorf(proto.CodeInvalid, "content belongs to the form that is accepted")
	case req.Action == proto.InputAccept && in.form != nil:
		if err := in.form.Check(req.Content); err != nil {
			return proto.Empty{}, proto.Errorf(proto.CodeInvalid, "content: %v", err)
		}
	}
	if s.inputs.take(in.ID) == nil {
		return proto.Empty{}, unknown
	}
	in.answer <- proto.InputAnswer{Action: req.Action, Content: bytes.Clone(req.Content), Answered: true}
	by := approval.RequesterOf(uid)
	s.inputClosed(in, proto.InputClosed{Action: req.Action, By: &by})
	return proto.Empty{}, nil
}

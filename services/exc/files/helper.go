package files

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// The helper's side and exc's side of a connection take turns: exc sends a call,
// the helper a plan, exc its decision, and the helper the next plan or the end.

// request is sent by exc.
type request struct {
	Call  *Call
	Limit time.Duration // of the call; 0: none
	Go    bool          // the plan is approved; without Call
}

// response is sent by the helper.
type response struct {
	Plan *Plan
	Path []byte // of Plan: JSON would change bytes that are not UTF-8

	Content *Content // results
	Picture *Picture
	Data    []byte // of Picture
	Written *Written
	Edited  *Edited
	Diff    string

	Error  *Error // why the call failed
	Broken string // why the helper cannot work at all
}

// errStopped ends a call whose plan was not approved.
var errStopped = errors.New("not approved")

// Serve carries out the calls that come over conn, one after the other, until it
// is closed. The caller has entered the sandbox, and its goroutine is locked to
// the thread for which that holds: no other goroutine touches files.
func Serve(conn io.ReadWriter, sandbox Sandbox) {
	in, out := json.NewDecoder(conn), json.NewEncoder(conn)
	for {
		var req request
		if in.Decode(&req) != nil || req.Call == nil {
			return
		}
		ctx, cancel := context.Background(), context.CancelFunc(func() {})
		if req.Limit > 0 {
			ctx, cancel = context.WithTimeout(ctx, req.Limit)
		}
		var broken error
		reply, err := Do(ctx, *req.Call, &sandbox, func(p Plan) error {
			var decision request
			if broken = out.Encode(response{Plan: &p, Path: []byte(p.Path)}); broken == nil {
				broken = in.Decode(&decision)
			}
			if broken != nil || !decision.Go {
				return errStopped
			}
			return nil
		})
		cancel()
		end := response{Diff: reply.Diff}
		if e, ok := errors.AsType[*Error](err); ok {
			end.Error = e
		} else if err == nil {
			switch data := reply.Data.(type) {
			case Content:
				end.Content = &data
			case Picture:
				end.Picture, end.Data = &data, reply.Picture
			case Written:
				end.Written = &data
			case Edited:
				end.Edited = &data
			}
		}
		if broken != nil || out.Encode(end) != nil {
			return
		}
	}
}

// Refuse reports to the other side of conn why the helper cannot work.
func Refuse(conn io.Writer, why error) {
	_ = json.NewEncoder(conn).Encode(response{Broken: why.Error()}) // it also sees the end
}

// Helper is exc's side of a connection with a helper.
type Helper struct {
	conn *net.UnixConn
	in   *json.Decoder
	out  *json.Encoder
	turn chan struct{} // full during a call
}

// NewHelper makes a Helper of a connection to Serve.
func NewHelper(conn *net.UnixConn) *Helper {
	return &Helper{conn: conn, in: json.NewDecoder(conn), out: json.NewEncoder(conn), turn: make(chan struct{}, 1)}
}

// Broken is the error of a helper that cannot work in its sandbox.
type Broken struct{ Why string }

func (b *Broken) Error() string { return b.Why }

var (
	// ErrGone: the helper has ended before it took the call.
	ErrGone = errors.New("the process for files has ended")
	// ErrNoAnswer: the limit has passed without an answer.
	ErrNoAnswer = errors.New("no answer in time")
)

const (
	// answerGrace is the time for the helper to report its own timeout.
	answerGrace = time.Second
	// finishLimit is how long an approved change may go on after its caller is gone.
	finishLimit = 10 * time.Second
)

// Do carries out a call in the helper, like the function Do. When the limit has
// passed without an answer, or ctx is done before the plan is approved, the
// connection is closed and the caller must kill the helper, which may hang in a
// system call. An approved change is completed unless that takes too long.
func (h *Helper) Do(ctx context.Context, limit time.Duration, c Call, approve func(Plan) error) (Reply, error) {
	if limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, limit+answerGrace, ErrNoAnswer)
		defer cancel()
	}
	select {
	case h.turn <- struct{}{}:
		defer func() { <-h.turn }()
	case <-ctx.Done():
		return Reply{}, cause(ctx)
	}
	_ = h.conn.SetDeadline(time.Time{}) // reports a closed connection as reading does
	var mu sync.Mutex
	approved := false
	stop := context.AfterFunc(ctx, func() {
		mu.Lock()
		defer mu.Unlock()
		deadline := time.Unix(1, 0)
		if approved && cause(ctx) != ErrNoAnswer {
			deadline = time.Now().Add(finishLimit)
		}
		_ = h.conn.SetDeadline(deadline) // a socket has deadlines
	})
	defer func() {
		if !stop() { // the deadline would hold for the next call
			h.conn.Close()
		}
	}()
	_ = h.out.Encode(request{Call: &c, Limit: limit}) // a helper that has ended may have said why
	began := false
	for {
		var resp response
		if err := h.in.Decode(&resp); err != nil {
			h.conn.Close()
			switch {
			case ctx.Err() != nil:
				return Reply{}, cause(ctx)
			case !began:
				return Reply{}, ErrGone
			}
			return Reply{}, fmt.Errorf("the process for files ended during a call: %w", err)
		}
		switch {
		case resp.Broken != "":
			h.conn.Close()
			return Reply{}, &Broken{resp.Broken}
		case resp.Error != nil:
			return Reply{}, resp.Error
		case resp.Content != nil:
			return Reply{Data: *resp.Content}, nil
		case resp.Picture != nil:
			return Reply{Data: *resp.Picture, Picture: resp.Data}, nil
		case resp.Written != nil:
			return Reply{Data: *resp.Written, Diff: resp.Diff}, nil
		case resp.Edited != nil:
			return Reply{Data: *resp.Edited, Diff: resp.Diff}, nil
		case resp.Plan == nil:
			return Reply{}, errStopped
		}
		began, resp.Plan.Path = true, string(resp.Path)
		refused := approve(*resp.Plan)
		mu.Lock()
		if refused == nil {
			refused = ctx.Err()
		}
		approved = refused == nil
		mu.Unlock()
		if h.out.Encode(request{Go: approved}) != nil {
			h.conn.Close()
			return Reply{}, errors.Join(refused, ErrGone)
		}
		if refused != nil {
			var end response
			if h.in.Decode(&end) != nil { // the helper reports that it has stopped
				h.conn.Close()
			}
			return Reply{}, refused
		}
	}
}

// cause is the error of a call whose context is done.
func cause(ctx context.Context) error {
	if errors.Is(context.Cause(ctx), ErrNoAnswer) {
		return ErrNoAnswer
	}
	return ctx.Err()
}

// Closed reports whether the helper takes no more calls.
func (h *Helper) Closed() bool { return h.conn.SetDeadline(time.Time{}) != nil }

// Close ends the helper.
func (h *Helper) Close() error { return h.conn.Close() }

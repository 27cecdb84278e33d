// Package fakellm is a scripted provider of language models: a real HTTP
// server that speaks the OpenAI wire (chat completions whole and streamed, and
// the list of models), answers from a script, and records what it was asked.
// It has no randomness and never sleeps: it waits only at gates that a test
// opens.
//
// A script is a list of turns. A request takes the first turn that is left and
// whose match, if it has one, stands in the text of the request's last message.
// A request for which no turn is left is answered with status 500.
//
// Scripts are Go values or text:
//
//	# a comment; blank lines between turns are free
//	=== reply size=4 match="weather"
//	The text, up to the next line that begins with three equals signs,
//	without its last newline. A line of the text that begins so is
//	written with a backslash in front.
//	=== status 429 type=application/json header="Retry-After: 2"
//	{"error":{"message":"slow down"}}
//	=== reply end=cut
//	This stream ends early.
//
// The kinds of turn:
//
//	reply        the text is the model's answer, streamed or whole as asked
//	status CODE  the text is the body of an HTTP answer, sent as it stands
//	stall        nothing is sent until the client hangs up
//	hangup       the connection is closed without an answer
//
// Settings, all optional, as key=value or key="Go string" behind the kind:
//
//	match=TEXT   only for a request whose last message holds TEXT
//	times=N      the turn is taken N times, or "forever"; once if absent
//	wait=NAME    first wait until the gate NAME is opened
//	pause=NAME   wait at the gate NAME after the text
//	size=N       cut a reply into deltas of N characters, a body into writes of N bytes
//	whole        reply: answer with JSON even if a stream was asked for
//	event=JSON   reply: one more event with this data after the text
//	type=TYPE    status: the content type, application/json if absent
//	header=LINE  one more header line of the answer
//	end=HOW      how a reply ends (below); a body knows cut, stall and hangup
//
// Ends: done (finish reason, usage and [DONE], the default), finish (finish
// reason, then end of input), mark (no finish reason, only [DONE]), cut (end of
// input in the middle), stall (nothing more until the client hangs up), hangup
// (the connection breaks).
package fakellm

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"slices"
	"sync"
)

// Server is a running provider.
type Server struct {
	// URL is the base URL for clients; it ends in /v1.
	URL string

	http    *http.Server
	closed  chan struct{}
	closing sync.Once
	serving sync.WaitGroup

	mu       sync.Mutex
	turns    []Turn
	models   []string
	requests []*Request
	arrived  chan struct{} // closed and replaced when a request comes
	gates    map[string]chan struct{}
}

// Request is a request as it came.
type Request struct {
	// Method and Path are the HTTP method and path.
	Method, Path string
	// From is the client's address: equal for requests on one connection.
	From string
	// Header are all header lines.
	Header http.Header
	// Body is the whole body.
	Body json.RawMessage
	// Gone is closed when the client hangs up before the answer is complete.
	Gone <-chan struct{}
}

// New starts a server on a free port of loopback. It panics if there is none,
// as tests cannot go on then.
func New(script ...Turn) *Server {
	s, err := Listen("127.0.0.1:0", script...)
	if err != nil {
		panic("fakellm: " + err.Error())
	}
	return s
}

// Listen starts a server on a TCP address.
func Listen(addr string, script ...Turn) (*Server, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, err
	}
	s := &Server{
		URL: "http://" + l.Addr().String() + "/v1", closed: make(chan struct{}), turns: slices.Clone(script),
		models: []string{"fake-model"}, arrived: make(chan struct{}), gates: map[string]chan struct{}{},
	}
	s.http = &http.Server{Handler: s.routes()}
	s.serving.Go(func() {
		if err := s.http.Serve(l); err != http.ErrServerClosed {
			panic("fakellm: " + err.Error())
		}
	})
	return s, nil
}

// Close stops the server: connections are closed, waiting turns end, and no
// goroutine is left.
func (s *Server) Close() {
	s.closing.Do(func() {
		s.mu.Lock()
		close(s.closed)
		s.mu.Unlock()
		s.http.Close() // an error would be about a listener that is closed already
		s.serving.Wait()
	})
}

// isClosed reports whether Close was called.
func (s *Server) isClosed() bool {
	select {
	case <-s.closed:
		return true
	default:
		return false
	}
}

// Add appends turns to the script.
func (s *Server) Add(turns ...Turn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.turns = append(s.turns, turns...)
}

// SetModels sets what the list of models holds; at first it is fake-model.
func (s *Server) SetModels(ids ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.models = ids
}

// Open opens a gate, for good.
func (s *Server) Open(gate string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.gate(gate):
	default:
		close(s.gate(gate))
	}
}

// gate returns the channel of a gate; mu is held.
func (s *Server) gate(name string) chan struct{} {
	if s.gates[name] == nil {
		s.gates[name] = make(chan struct{})
	}
	return s.gates[name]
}

// Unused returns the number of turns that nobody has taken. A turn that is
// taken for ever counts.
func (s *Server) Unused() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.turns)
}

// Requests returns the requests so far, in the order in which they came.
func (s *Server) Requests() []*Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Wait returns the n-th request, counted from 1, as soon as it is there.
func (s *Server) Wait(ctx context.Context, n int) (*Request, error) {
	for {
		s.mu.Lock()
		requests, arrived := s.requests, s.arrived
		s.mu.Unlock()
		if len(requests) >= n {
			return requests[n-1], nil
		}
		select {
		case <-arrived:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// take records a request and takes a turn for the text of its last message.
func (s *Server) take(req *Request, text string) (Turn, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.record(req)
	for i := range s.turns {
		t := s.turns[i]
		if !t.matches(text) {
			continue
		}
		switch {
		case t.Times > 1:
			s.turns[i].Times--
		case t.Times >= 0:
			s.turns = slices.Delete(s.turns, i, i+1)
		}
		return t, true
	}
	return Turn{}, false
}

// record adds a request to the list; mu is held.
func (s *Server) record(req *Request) {
	s.requests = append(s.requests, req)
	close(s.arrived)
	s.arrived = make(chan struct{})
}

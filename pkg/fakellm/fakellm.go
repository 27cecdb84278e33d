package fakellm

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"
)

// Server is a running provider.
type Server struct {
	// URL is the base URL for clients of the OpenAI wire; it ends in /v1.
	URL string
	// Host is the base URL without a path, for clients of the other wires.
	Host string

	http    *http.Server
	closed  chan struct{}
	closing sync.Once
	serving sync.WaitGroup

	mu              sync.Mutex
	turns           []Turn
	models          []string
	abilities       []string
	requests        []*Request
	calls, thoughts int           // number sent so far, for ids and signatures
	arrived         chan struct{} // closed and replaced when a request arrives
	gates           map[string]chan struct{}
	embed           func(w http.ResponseWriter, texts []string) bool
}

// Request is a recorded request.
type Request struct {
	// Method and Path are the HTTP method and path.
	Method, Path string
	// Query is the raw query of the URL, without the question mark.
	Query string
	// From is the client's address: equal for requests on one connection.
	From string
	// Header are all header lines.
	Header http.Header
	// Body is the whole body.
	Body json.RawMessage
	// Gone is closed when the client hangs up before the answer is complete.
	Gone <-chan struct{}
}

// New starts a server on a free port of loopback. It panics if it cannot listen.
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
	host := "http://" + l.Addr().String()
	s := &Server{
		URL: host + "/v1", Host: host, closed: make(chan struct{}), turns: slices.Clone(script),
		models: []string{"fake-model"}, abilities: []string{"completion", "tools"},
		arrived: make(chan struct{}), gates: map[string]chan struct{}{},
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

// Forget drops the recorded requests.
func (s *Server) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = nil
}

// SetModels sets the models of the lists, instead of fake-model.
func (s *Server) SetModels(ids ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.models = ids
}

// SetCapabilities sets the capabilities of every model in Ollama's /api/show,
// instead of completion and tools.
func (s *Server) SetCapabilities(names ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.abilities = names
}

// Open opens a gate permanently.
func (s *Server) Open(gate string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.gate(gate):
	default:
		close(s.gate(gate))
	}
}

// gate returns the channel of a gate; mu is locked.
func (s *Server) gate(name string) chan struct{} {
	if s.gates[name] == nil {
		s.gates[name] = make(chan struct{})
	}
	return s.gates[name]
}

// Unused returns the number of turns that are not used up, those used forever
// included.
func (s *Server) Unused() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.turns)
}

// Requests returns the requests so far, in the order of arrival.
func (s *Server) Requests() []*Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Wait returns the n-th request, counted from 1, when it has arrived.
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

// take records a request and returns the turn for the text of its last message.
func (s *Server) take(req *Request, text string) (t Turn, signature string, ok bool) {
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
		t = t.settled()
		return t, s.number(t), true
	}
	return Turn{}, "", false
}

// number gives the turn's calls unique ids, and returns a signature for its
// reasoning. mu is locked; t.Calls is not shared with the script.
func (s *Server) number(t Turn) (signature string) {
	for i := range t.Calls {
		s.calls++
		if call := &t.Calls[i]; call.ID == "" && !call.NoID {
			call.ID = fmt.Sprintf("call_%d", s.calls)
		}
	}
	if t.Reasoning != "" {
		s.thoughts++
		signature = fmt.Sprintf("sig-%d", s.thoughts)
	}
	return signature
}

// record adds a request to the list; mu is locked.
func (s *Server) record(req *Request) {
	s.requests = append(s.requests, req)
	close(s.arrived)
	s.arrived = make(chan struct{})
}

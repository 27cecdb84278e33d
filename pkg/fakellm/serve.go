package fakellm

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
)

// chat is what a turn needs of a request, and where its answer goes.
type chat struct {
	ctx    context.Context
	server *Server
	w      http.ResponseWriter
	hungUp func() // marks the request as one whose client has gone
	turn   Turn
	model  string
	stream bool
	usage  bool // the last chunk is to carry the usage
	prompt int  // the prompt's size for the usage: its bytes
}

// body is the part of a request that decides the answer.
type body struct {
	Model    string `json:"model"`
	Stream   bool   `json:"stream"`
	Messages []struct {
		Content json.RawMessage `json:"content"`
	} `json:"messages"`
	StreamOptions struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
}

func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/chat/completions", s.count(s.serveChat))
	mux.HandleFunc("GET /v1/models", s.count(s.serveModels))
	mux.HandleFunc("POST /open/{gate}", func(w http.ResponseWriter, r *http.Request) { s.Open(r.PathValue("gate")) })
	mux.HandleFunc("GET /requests", s.serveRequests)
	return mux
}

// count lets Close wait for the handlers.
func (s *Server) count(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock() // so that Close waits for whoever came before it
		if s.isClosed() {
			s.mu.Unlock()
			panic(http.ErrAbortHandler)
		}
		s.serving.Add(1)
		s.mu.Unlock()
		defer s.serving.Done()
		h(w, r)
	}
}

func (s *Server) serveChat(w http.ResponseWriter, r *http.Request) {
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client is gone
	}
	gone := make(chan struct{})
	hungUp := sync.OnceFunc(func() {
		if !s.isClosed() {
			close(gone)
		}
	})
	// The context also ends when this function returns; stop comes first then.
	stop := context.AfterFunc(r.Context(), hungUp)
	defer stop()
	var req body
	bad := json.Unmarshal(raw, &req)
	turn, ok := s.take(&Request{r.Method, r.URL.Path, r.RemoteAddr, r.Header, raw, gone}, req.lastText())
	c := chat{
		ctx: r.Context(), server: s, w: w, hungUp: hungUp, turn: turn, model: req.Model, stream: req.Stream,
		usage: req.StreamOptions.IncludeUsage, prompt: len(raw),
	}
	switch {
	case bad != nil:
		c.turn = Failure(http.StatusBadRequest, `{"error":{"message":"fakellm: the request is not a chat completion"}}`)
	case !ok:
		c.turn = Failure(http.StatusInternalServerError, `{"error":{"message":"fakellm: the script has no turn for this request"}}`)
	}
	c.answer()
}

// lastText is the text of the last message; content in parts counts as its JSON.
func (b body) lastText() string {
	if len(b.Messages) == 0 {
		return ""
	}
	raw := b.Messages[len(b.Messages)-1].Content
	var text string
	if json.Unmarshal(raw, &text) != nil {
		return string(raw)
	}
	return text
}

func (s *Server) serveModels(w http.ResponseWriter, r *http.Request) {
	type model struct {
		ID      string `json:"id"`
		Object  string `json:"object"`
		OwnedBy string `json:"owned_by"`
	}
	s.mu.Lock()
	list := make([]model, len(s.models))
	for i, id := range s.models {
		list[i] = model{id, "model", "fakellm"}
	}
	s.record(&Request{Method: r.Method, Path: r.URL.Path, From: r.RemoteAddr, Header: r.Header, Gone: make(chan struct{})})
	s.mu.Unlock()
	writeJSON(w, map[string]any{"object": "list", "data": list})
}

// serveRequests shows what was recorded, for scripts that run the binary.
func (s *Server) serveRequests(w http.ResponseWriter, r *http.Request) {
	type request struct {
		Method string          `json:"method"`
		Path   string          `json:"path"`
		Header http.Header     `json:"header"`
		Body   json.RawMessage `json:"body"`
		Gone   bool            `json:"gone"`
	}
	list := []request{}
	for _, req := range s.Requests() {
		out := request{req.Method, req.Path, req.Header, req.Body, req.IsGone()}
		if !json.Valid(out.Body) {
			out.Body = json.RawMessage("null")
		}
		list = append(list, out)
	}
	writeJSON(w, list)
}

// IsGone reports whether the client hung up before the answer was complete.
func (r *Request) IsGone() bool {
	select {
	case <-r.Gone:
		return true
	default:
		return false
	}
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(http.ErrAbortHandler) // the client is gone
	}
}

func (c *chat) header() {
	for _, line := range c.turn.Header {
		name, value, _ := strings.Cut(line, ":")
		c.w.Header().Set(name, strings.TrimSpace(value))
	}
}

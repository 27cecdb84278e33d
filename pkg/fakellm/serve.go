package fakellm

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
)

// asked is a parsed request.
type asked struct {
	model  string
	stream bool
	counts bool   // the stream contains the usage
	router bool   // sent to OpenRouter's path
	last   string // text of the last message
}

// reply is a turn and the data for encoding it.
type reply struct {
	Turn
	asked
	signature string // of the reasoning
	prompt    int    // the request's size in bytes
}

// dialect is one provider's wire.
type dialect struct {
	// read parses a request; an error is the client's.
	read func(r *http.Request, raw []byte) (asked, error)
	// stream and whole encode a reply.
	stream func(reply) flow
	whole  func(reply) (status int, body object)
	// failure encodes an error of the provider.
	failure func(status int, message string) object
	// failed encodes an error inside a stream, if its form differs from failure.
	failed func(message string) object
	// unknown returns unknown events that follow the given one.
	unknown func(reply, event) []event
	// lines is true for JSON lines, false for server-sent events.
	lines bool
	// named is true if events have an event line with their type.
	named bool
}

// flow is a streamed answer.
type flow struct {
	body   []event // up to the end of the text and the calls
	finish []event // the finish reason
	usage  []event
	mark   []event // the end mark
}

// event is one event of a streamed answer.
type event struct {
	name string // of the event line, "" for none
	data any    // an object, or text that is sent unchanged
}

// chat is a request with the turn that answers it.
type chat struct {
	reply
	wire   *dialect
	ctx    context.Context
	server *Server
	w      http.ResponseWriter
	hungUp func() // closes Request.Gone
}

func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	for _, base := range []string{"/v1", "/api/v1", "/v1beta/openai"} {
		mux.HandleFunc("POST "+base+"/chat/completions", s.chats(&openai))
		mux.HandleFunc("POST "+base+"/responses", s.chats(&responses))
		mux.HandleFunc("GET "+base+"/models", s.lists(s.openaiModels))
		mux.HandleFunc("POST "+base+"/embeddings", s.embeds(openaiEmbeddings))
	}
	mux.HandleFunc("POST /v1/messages", s.chats(&anthropic))
	mux.HandleFunc("POST /v1beta/models/{call}", s.chats(&gemini))
	mux.HandleFunc("GET /v1beta/models", s.lists(s.geminiModels))
	mux.HandleFunc("POST /api/chat", s.chats(&ollama))
	mux.HandleFunc("POST /api/embed", s.embeds(ollamaEmbeddings))
	mux.HandleFunc("GET /api/tags", s.lists(s.ollamaTags))
	mux.HandleFunc("GET /api/version", s.lists(s.ollamaVersion))
	mux.HandleFunc("POST /api/show", s.lists(s.ollamaShow))
	mux.HandleFunc("POST /open/{gate}", func(w http.ResponseWriter, r *http.Request) { s.Open(r.PathValue("gate")) })
	mux.HandleFunc("GET /requests", s.serveRequests)
	return mux
}

// count lets Close wait for the handlers.
func (s *Server) count(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock() // so that Close waits for earlier connections
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

// chats returns the handler that answers from the script on a wire.
func (s *Server) chats(wire *dialect) http.HandlerFunc {
	return s.count(func(w http.ResponseWriter, r *http.Request) {
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
		// The context also ends when this function returns; stop runs before that.
		stop := context.AfterFunc(r.Context(), hungUp)
		defer stop()
		c := chat{wire: wire, ctx: r.Context(), server: s, w: w, hungUp: hungUp}
		c.reply = s.choose(wire, r, raw, gone)
		c.answer()
	})
}

// choose records a request and finds the turn that answers it.
func (s *Server) choose(wire *dialect, r *http.Request, raw []byte, gone <-chan struct{}) reply {
	in, bad := wire.read(r, raw)
	turn, signature, ok := s.take(received(r, raw, gone), in.last)
	if name := turn.refused(raw); bad == nil && name != "" {
		bad = fmt.Errorf("unsupported parameter: %q is not supported with this model", name)
	}
	if bad == nil && ok {
		return reply{turn, in, signature, len(raw)}
	}
	status, message := http.StatusInternalServerError, "the script has no turn for this request"
	if bad != nil {
		status, message = http.StatusBadRequest, bad.Error()
	}
	turn = Failure(status, encode(wire.failure(status, "fakellm: "+message)))
	return reply{Turn: turn, asked: in}
}

// refused returns the first parameter of a request that the turn refuses. Gemini and
// Ollama have the parameters in generationConfig and options.
func (t Turn) refused(raw []byte) string {
	var body struct {
		Config  map[string]json.RawMessage `json:"generationConfig"`
		Options map[string]json.RawMessage `json:"options"`
	}
	var top map[string]json.RawMessage
	if len(t.Refuses) == 0 || json.Unmarshal(raw, &body) != nil || json.Unmarshal(raw, &top) != nil {
		return ""
	}
	for _, name := range t.Refuses {
		for _, in := range []map[string]json.RawMessage{top, body.Config, body.Options} {
			if _, has := in[name]; has {
				return name
			}
		}
	}
	return ""
}

func received(r *http.Request, raw []byte, gone <-chan struct{}) *Request {
	return &Request{r.Method, r.URL.Path, r.URL.RawQuery, r.RemoteAddr, r.Header, raw, gone}
}

// serveRequests sends the recorded requests, for scripts that run the binary.
func (s *Server) serveRequests(w http.ResponseWriter, r *http.Request) {
	type request struct {
		Method string          `json:"method"`
		Path   string          `json:"path"`
		Query  string          `json:"query,omitzero"`
		Header http.Header     `json:"header"`
		Body   json.RawMessage `json:"body"`
		Gone   bool            `json:"gone"`
	}
	list := []request{}
	for _, req := range s.Requests() {
		out := request{req.Method, req.Path, req.Query, req.Header, req.Body, req.IsGone()}
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
	if _, err := io.WriteString(w, encodeLine(v)); err != nil {
		panic(http.ErrAbortHandler) // the client is gone
	}
}

func (c *chat) header() {
	for _, line := range c.Header {
		name, value, _ := strings.Cut(line, ":")
		c.w.Header().Set(name, strings.TrimSpace(value))
	}
}

// contextTokens is the reported context length of every model.
const contextTokens = 32768

// lists returns the handler that records the request and answers with list.
func (s *Server) lists(list func() object) http.HandlerFunc {
	return s.count(func(w http.ResponseWriter, r *http.Request) {
		raw, err := io.ReadAll(r.Body)
		if err != nil {
			return // the client is gone
		}
		if len(raw) == 0 {
			raw = nil
		}
		s.mu.Lock()
		s.record(received(r, raw, make(chan struct{})))
		out := list()
		s.mu.Unlock()
		writeJSON(w, out)
	})
}

// each returns an object for every model; mu is locked.
func (s *Server) each(of func(id string) object) []object {
	out := make([]object, len(s.models))
	for i, id := range s.models {
		out[i] = of(id)
	}
	return out
}

func (s *Server) openaiModels() object {
	return object{"object": "list", "data": s.each(func(id string) object {
		return object{"id": id, "object": "model", "owned_by": "fakellm"}
	})}
}

func (s *Server) geminiModels() object {
	return object{"models": s.each(func(id string) object {
		return object{
			"name": "models/" + id, "displayName": id, "inputTokenLimit": contextTokens, "outputTokenLimit": contextTokens,
			"supportedGenerationMethods": []string{"generateContent"},
		}
	})}
}

func (s *Server) ollamaTags() object {
	return object{"models": s.each(func(id string) object {
		return object{"name": id, "model": id, "modified_at": "2000-01-01T00:00:00Z", "size": 1, "digest": "fake"}
	})}
}

func (s *Server) ollamaVersion() object { return object{"version": "0.17.4"} }

func (s *Server) ollamaShow() object {
	return object{
		"capabilities": append([]string{}, s.abilities...),
		"model_info":   object{"general.architecture": "fake", "fake.context_length": contextTokens},
	}
}

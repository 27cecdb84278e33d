package fakellm

import (
	"io"
	"net/http"
)

// contextTokens is the context length that every model says it has.
const contextTokens = 32768

// lists answers with what list returns, and records the request.
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

// each returns an object for every model; mu is held.
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

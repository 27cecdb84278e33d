package fakellm

import (
	"encoding/json"
	"hash/fnv"
	"io"
	"net/http"
	"strings"
	"unicode"
)

// VectorSize is the number of dimensions of Vector.
const VectorSize = 64

// Vector returns the vector of a text: a count per word, where words with the same
// three letters at their beginning are one. Texts share a direction without sharing a
// word, and equal texts have equal vectors on every host. It is not normalised.
func Vector(text string) []float32 {
	v := make([]float32, VectorSize)
	v[0] = 0.25
	for _, word := range strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
		h := fnv.New32a()
		h.Write([]byte(string([]rune(word)[:min(3, len([]rune(word)))])))
		v[1+h.Sum32()%(VectorSize-1)]++
	}
	return v
}

// SetEmbed lets fn answer requests for embeddings; one for which it returns false, and
// all with a nil fn, get the texts' Vector.
func (s *Server) SetEmbed(fn func(w http.ResponseWriter, texts []string) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.embed = fn
}

// Embedded returns the texts of all requests for embeddings so far.
func (s *Server) Embedded() (texts []string) {
	for _, r := range s.Requests() {
		if strings.HasSuffix(r.Path, "/embeddings") || r.Path == "/api/embed" {
			var in struct{ Input []string }
			if json.Unmarshal(r.Body, &in) == nil {
				texts = append(texts, in.Input...)
			}
		}
	}
	return texts
}

// embeds returns the handler of embeddings; answer is the wire's form.
func (s *Server) embeds(answer func(model string, vectors [][]float32, tokens int) any) http.HandlerFunc {
	return s.count(func(w http.ResponseWriter, r *http.Request) {
		raw, err := io.ReadAll(r.Body)
		if err != nil {
			return // the client is gone
		}
		s.mu.Lock()
		s.record(received(r, raw, make(chan struct{})))
		fn := s.embed
		s.mu.Unlock()
		var in struct {
			Model string
			Input []string
		}
		if err := json.Unmarshal(raw, &in); err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		if fn != nil && fn(w, in.Input) {
			return
		}
		tokens := 0
		vectors := make([][]float32, len(in.Input))
		for i, text := range in.Input {
			vectors[i] = Vector(text)
			tokens += len(strings.Fields(text))
		}
		writeJSON(w, answer(in.Model, vectors, tokens))
	})
}

// openaiEmbeddings lists the last text first: clients go by the index.
func openaiEmbeddings(model string, vectors [][]float32, tokens int) any {
	data := []object{}
	for i := len(vectors) - 1; i >= 0; i-- {
		data = append(data, object{"object": "embedding", "index": i, "embedding": vectors[i]})
	}
	return object{"object": "list", "model": model, "data": data, "usage": object{"prompt_tokens": tokens, "total_tokens": tokens}}
}

func ollamaEmbeddings(model string, vectors [][]float32, tokens int) any {
	return object{"model": model, "embeddings": vectors, "prompt_eval_count": tokens}
}

package wire

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"zino/pkg/wire"
)

// Ollama is Ollama's own wire, /api/chat. Unlike its OpenAI-compatible one, it
// takes the length of the context, and does not shorten a conversation that is
// too long without a word. It is always streamed: a caller that wants the text
// whole gathers it. Source: github.com/ollama/ollama/blob/main/docs/api.md.
//
// The base URL may end in /v1 or /api.
func Ollama(ctx context.Context, ep *Endpoint, req *Request, sink Sink) error {
	body, err := ollamaBody(req)
	if err != nil {
		return err
	}
	x := ep.at(ollamaBase(ep.Base)).begin(ctx, req, body, true, sink)
	x.slow = true
	defer x.end()
	if err := x.post("/api/chat", x.bearer); err != nil {
		return err
	}
	answer := ollamaAnswer{x: x}
	return answer.read()
}

// ollamaBase is a base URL without the paths that people write behind it.
func ollamaBase(base string) string {
	base = strings.TrimRight(base, "/")
	for _, path := range []string{"/v1", "/api"} {
		base = strings.TrimSuffix(base, path)
	}
	return strings.TrimRight(base, "/")
}

// maxContext is the most tokens that a model is made to hold unless its
// Modelfile says otherwise. The server's default, 4096 tokens on most machines,
// is too short for an agent's work; what models are made for, often 131072 or
// more, takes tens of gigabytes of memory, and then the model runs on the CPU.
const maxContext = 32768

// OllamaModel asks an Ollama server about a model: how many tokens it is to
// hold, for Request.Context, and whether it takes tools. context is 0 where it
// is for the server to say: for a model that runs elsewhere, and one that says
// nothing of its length.
func OllamaModel(ctx context.Context, ep *Endpoint, model string) (context int, tools bool, err error) {
	asked := append(wire.AppendString([]byte(`{"model":`), model), '}')
	req, err := http.NewRequest(http.MethodPost, ollamaBase(ep.Base)+"/api/show", bytes.NewReader(asked))
	if err != nil {
		return 0, false, errors.New("not a usable base URL: check " + ep.BaseHint)
	}
	req.Header.Set("Content-Type", "application/json")
	ep.bearer(req.Header)
	body, err := ep.read(ctx, req)
	if err != nil {
		return 0, false, err
	}
	var shown ollamaShown
	if err := json.Unmarshal(body, &shown); err != nil {
		return 0, false, errors.New(ep.Name + " says nothing that can be read of the model " + oneLine(model, 200))
	}
	return shown.context(), shown.tools(), nil
}

// ollamaShown is what a server says of a model.
type ollamaShown struct {
	Template     string                     `json:"template"`
	Parameters   string                     `json:"parameters"`
	RemoteHost   string                     `json:"remote_host"`
	Info         map[string]json.RawMessage `json:"model_info"`
	Capabilities []string                   `json:"capabilities"`
}

// tools looks at the template where a server is too old to have capabilities.
func (s *ollamaShown) tools() bool {
	if s.Capabilities == nil {
		return strings.Contains(s.Template, ".Tools")
	}
	return slices.Contains(s.Capabilities, "tools")
}

// context is num_ctx of the Modelfile, which its author chose, else the
// model's own length within bounds.
func (s *ollamaShown) context() int {
	if s.RemoteHost != "" {
		return 0
	}
	for line := range strings.Lines(s.Parameters) {
		if words := strings.Fields(line); len(words) == 2 && words[0] == "num_ctx" {
			if n := wholeTokens(words[1]); n > 0 {
				return n
			}
		}
	}
	return min(s.length(), maxContext)
}

// length is context_length under the name of the model's architecture, else
// under any: a model can have other parts, such as for images, with their own.
func (s *ollamaShown) length() int {
	name := text(s.Info["general.architecture"]) + ".context_length"
	if n := wholeTokens(string(s.Info[name])); n > 0 {
		return n
	}
	longest := 0
	for key, value := range s.Info {
		if strings.HasSuffix(key, ".context_length") {
			longest = max(longest, wholeTokens(string(value)))
		}
	}
	return longest
}

// wholeTokens reads a number of tokens, which may be written as a float. It is
// 0 for anything else.
func wholeTokens(s string) int {
	n, err := strconv.ParseFloat(s, 64)
	if err != nil || n < 1 || n > 1<<31 {
		return 0
	}
	return int(n)
}

package wire

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	openai "github.com/sashabaranov/go-openai"
)

const (
	modelsTime = 10 * time.Second
	maxModels  = 8 << 20 // bytes of a list of models; OpenRouter's has most of one MiB
)

// Model is one of an endpoint's list.
type Model struct {
	Name    string
	Context int // tokens that it takes; 0: the list does not say
}

// Lister asks an endpoint for the models that can hold a conversation, in the
// endpoint's order.
type Lister func(ctx context.Context, ep *Endpoint) ([]Model, error)

// errNoList is the error of an endpoint that answers with something else.
var errNoList = errors.New("it has no list of models")

// FirstModel returns the first model of an endpoint's list.
func FirstModel(ctx context.Context, list Lister, ep *Endpoint) (string, error) {
	models, err := list(ctx, ep)
	if _, unreached := errors.AsType[*Fault](err); unreached {
		return "", err
	}
	if err != nil {
		return "", fmt.Errorf("its list of models: %w; or set [service] model", err)
	}
	if len(models) == 0 {
		return "", errors.New("it has no model: load one there, or set [service] model")
	}
	return models[0].Name, nil
}

// OpenAIModels is the Lister of OpenAI and of compatible servers.
func OpenAIModels(ctx context.Context, ep *Endpoint) ([]Model, error) {
	ctx, cancel := context.WithTimeout(ctx, modelsTime)
	defer cancel()
	config := openai.DefaultConfig(ep.Key)
	config.BaseURL, config.HTTPClient = ep.Base, lister{ep}
	list, err := openai.NewClientWithConfig(config).ListModels(ctx)
	if err != nil {
		return nil, ep.listError(err)
	}
	models := make([]Model, len(list.Models))
	for i, m := range list.Models {
		models[i].Name = m.ID
	}
	return usable(models), nil
}

// lister is the HTTP client that go-openai is given.
type lister struct{ *Endpoint }

// Do sends the request and bounds the answer.
func (l lister) Do(req *http.Request) (*http.Response, error) {
	identify(req)
	resp, err := l.Client.Do(req)
	if err == nil {
		resp.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(resp.Body, maxModels), resp.Body}
	}
	return resp, err
}

// listError turns an error of go-openai into the caller's.
func (ep *Endpoint) listError(err error) error {
	if e, ok := errors.AsType[*openai.RequestError](err); ok {
		return ep.refusal(e.HTTPStatusCode, e.Body)
	}
	if e, ok := errors.AsType[*openai.APIError](err); ok {
		body, err := json.Marshal(openai.ErrorResponse{Error: e})
		if err != nil {
			return err
		}
		return ep.refusal(e.HTTPStatusCode, body)
	}
	_, syntax := errors.AsType[*json.SyntaxError](err)
	_, other := errors.AsType[*json.UnmarshalTypeError](err)
	if syntax || other || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errNoList
	}
	return ep.unreachable(err)
}

// AnthropicModels is the Lister of Anthropic's wire.
func AnthropicModels(ctx context.Context, ep *Endpoint) ([]Model, error) {
	at := ep.at(anthropicBase(ep.Base))
	var list struct {
		Data []struct {
			ID  string `json:"id"`
			Max int    `json:"max_input_tokens"`
		} `json:"data"`
	}
	if err := at.list(ctx, "/v1/models?limit=1000", func(h http.Header) { at.anthropicHeader(h, true) }, &list); err != nil {
		return nil, err
	}
	models := make([]Model, len(list.Data))
	for i, m := range list.Data {
		models[i] = Model{m.ID, m.Max}
	}
	return usable(models), nil
}

// GeminiModels is the Lister of Gemini's wire.
func GeminiModels(ctx context.Context, ep *Endpoint) ([]Model, error) {
	at := ep.at(geminiBase(ep.Base))
	var list struct {
		Models []struct {
			Name    string   `json:"name"`
			Max     int      `json:"inputTokenLimit"`
			Methods []string `json:"supportedGenerationMethods"`
		} `json:"models"`
	}
	if err := at.list(ctx, "/models?pageSize=1000", at.googleKey, &list); err != nil {
		return nil, err
	}
	var models []Model
	for _, m := range list.Models {
		if m.Methods == nil || slices.Contains(m.Methods, "generateContent") {
			models = append(models, Model{strings.TrimPrefix(m.Name, "models/"), m.Max})
		}
	}
	return usable(models), nil
}

// OpenRouterModels is the Lister of OpenRouter, whose list says how long a
// context may be.
func OpenRouterModels(ctx context.Context, ep *Endpoint) ([]Model, error) {
	var list struct {
		Data []struct {
			ID  string `json:"id"`
			Max int    `json:"context_length"`
		} `json:"data"`
	}
	if err := ep.list(ctx, "/models", ep.bearer, &list); err != nil {
		return nil, err
	}
	models := make([]Model, len(list.Data))
	for i, m := range list.Data {
		models[i] = Model{m.ID, m.Max}
	}
	return usable(models), nil
}

// OllamaModels is the Lister of an Ollama server. Models that run on the server
// itself come before those that it passes on to another, which costs money and
// gives the conversation away.
func OllamaModels(ctx context.Context, ep *Endpoint) ([]Model, error) {
	var list struct {
		Models []struct {
			Name       string `json:"name"`
			RemoteHost string `json:"remote_host"`
		} `json:"models"`
	}
	if err := ep.at(ollamaBase(ep.Base)).list(ctx, "/api/tags", ep.bearer, &list); err != nil {
		return nil, err
	}
	var own, others []Model
	for _, m := range list.Models {
		if m.RemoteHost == "" {
			own = append(own, Model{Name: m.Name})
		} else {
			others = append(others, Model{Name: m.Name})
		}
	}
	return usable(append(own, others...)), nil
}

// notChat are parts of the names of models that hold no conversation.
var notChat = []string{"embed", "whisper", "tts", "dall-e", "moderation", "transcribe", "realtime", "-image", "sora"}

// usable drops what cannot be asked for a conversation, as far as its name says.
func usable(models []Model) []Model {
	return slices.DeleteFunc(models, func(m Model) bool {
		return m.Name == "" || m.Name != oneLine(m.Name, 200) ||
			slices.ContainsFunc(notChat, func(part string) bool { return strings.Contains(m.Name, part) })
	})
}

// list reads the JSON that stands at a path below the base URL.
func (ep *Endpoint) list(ctx context.Context, path string, header func(http.Header), to any) error {
	req, err := http.NewRequest(http.MethodGet, ep.Base+path, nil)
	if err != nil {
		return errors.New("not a usable base URL: check " + ep.BaseHint)
	}
	header(req.Header)
	body, err := ep.read(ctx, req)
	if err == nil && json.Unmarshal(body, to) != nil {
		err = errNoList
	}
	return err
}

// read makes a small request and reads its answer, which is to be JSON.
func (ep *Endpoint) read(ctx context.Context, req *http.Request) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, modelsTime)
	defer cancel()
	identify(req)
	resp, err := ep.Client.Do(req.WithContext(ctx))
	if err != nil {
		return nil, ep.unreachable(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxModels))
	if err != nil {
		return nil, ep.unreachable(err)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, ep.refusal(resp.StatusCode, body)
	}
	return body, nil
}

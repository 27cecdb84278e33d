package wire

import (
	"bytes"
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
	maxModels  = 8 << 20 // bytes of a list of models; OpenRouter's is almost 1 MiB
)

// Model is an entry of an endpoint's list of models.
type Model struct {
	Name    string
	Context int // context length in tokens, 0 if the list does not say it
}

// Lister asks an endpoint for its chat models, in the endpoint's order.
type Lister func(ctx context.Context, ep *Endpoint) ([]Model, error)

// errNoList is the error for an answer that is not a list of models.
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
	config.BaseURL, config.HTTPClient = ep.Base, boundedClient{ep}
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

// listError turns an error of go-openai into the error for the caller. A
// RequestError has the whole body; an APIError has only the parsed error object.
func (ep *Endpoint) listError(err error) error {
	if e, ok := errors.AsType[*openai.RequestError](err); ok {
		return ep.refused(e.HTTPStatusCode, nil, e.Body, nil).reported
	}
	if e, ok := errors.AsType[*openai.APIError](err); ok {
		body, err := json.Marshal(openai.ErrorResponse{Error: e})
		if err != nil {
			return err
		}
		return ep.refused(e.HTTPStatusCode, nil, body, nil).reported
	}
	if notJSON(err) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errNoList
	}
	return ep.unreachable(err)
}

// notJSON reports whether an error is about JSON that is broken or has other types.
func notJSON(err error) bool {
	_, syntax := errors.AsType[*json.SyntaxError](err)
	_, mistyped := errors.AsType[*json.UnmarshalTypeError](err)
	return syntax || mistyped
}

// boundedClient is the HTTP client for go-openai. It reads at most maxModels bytes
// of an answer.
type boundedClient struct{ *Endpoint }

func (c boundedClient) Do(req *http.Request) (*http.Response, error) {
	identify(req)
	resp, err := c.Client.Do(req)
	if err == nil {
		resp.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(resp.Body, maxModels), resp.Body}
	}
	return resp, err
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
	var models []Model
	for _, m := range list.Data {
		models = append(models, Model{m.ID, m.Max})
	}
	return usable(models), nil
}

// GeminiModels is the Lister of Gemini's wire.
func GeminiModels(ctx context.Context, ep *Endpoint) ([]Model, error) {
	var list struct {
		Models []struct {
			Name    string   `json:"name"`
			Max     int      `json:"inputTokenLimit"`
			Methods []string `json:"supportedGenerationMethods"`
		} `json:"models"`
	}
	if err := ep.at(geminiBase(ep.Base)).list(ctx, "/models?pageSize=1000", ep.googleKey, &list); err != nil {
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

// OpenRouterModels is the Lister of OpenRouter, whose list has context lengths.
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
	var models []Model
	for _, m := range list.Data {
		models = append(models, Model{m.ID, m.Max})
	}
	return usable(models), nil
}

// OllamaModels is the Lister of an Ollama server. Models that run on the server come
// before cloud models, which cost money and send the conversation to another host.
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

// notChat lists substrings of the names of models that are not chat models.
var notChat = []string{"embed", "whisper", "tts", "dall-e", "moderation", "transcribe", "realtime", "-image", "sora"}

// usable removes models that, by their name, are not chat models.
func usable(models []Model) []Model {
	return slices.DeleteFunc(models, func(m Model) bool {
		return m.Name == "" || m.Name != oneLine(m.Name, 200) ||
			slices.ContainsFunc(notChat, func(part string) bool { return strings.Contains(m.Name, part) })
	})
}

// list reads the JSON at a path below the base URL.
func (ep *Endpoint) list(ctx context.Context, path string, header func(http.Header), to any) error {
	body, err := ep.get(ctx, http.MethodGet, path, nil, header)
	if err == nil && json.Unmarshal(body, to) != nil {
		return errNoList
	}
	return err
}

// get sends a small request and returns the answer's body.
func (ep *Endpoint) get(ctx context.Context, method, path string, body []byte, header func(http.Header)) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, modelsTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, ep.Base+path, bytes.NewReader(body))
	if err != nil {
		return nil, errors.New("not a usable base URL: check " + ep.BaseHint)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	header(req.Header)
	identify(req)
	resp, err := ep.Client.Do(req)
	if err != nil {
		return nil, ep.unreachable(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxModels))
	if err != nil {
		return nil, ep.unreachable(err)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, ep.refused(resp.StatusCode, resp.Header, answer, nil).reported
	}
	return answer, nil
}

package wire

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"

	openai "github.com/sashabaranov/go-openai"

	"zino/proto"
)

const (
	// maxVectors limits the bytes of an answer: 64 vectors of maxDimensions, written
	// as JSON.
	maxVectors = 32 << 20
	// maxDimensions is above the size of every known model's vectors.
	maxDimensions = 16384
)

// Vectors are the embeddings of texts, in their order.
type Vectors struct {
	// List has vectors of the length 1, all with the same number of dimensions.
	List [][]float32
	// Usage is nil if the provider does not report it.
	Usage *proto.Usage
}

// Embedder asks a model for the vectors of texts. Its errors are those of a Func.
type Embedder func(ctx context.Context, ep *Endpoint, model string, texts []string) (Vectors, error)

// OpenAIEmbed is the Embedder of OpenAI, OpenRouter and compatible servers.
func OpenAIEmbed(ctx context.Context, ep *Endpoint, model string, texts []string) (Vectors, error) {
	ctx, cancel := ep.timeout(ctx)
	defer cancel()
	config := openai.DefaultConfig(ep.Key)
	config.BaseURL, config.HTTPClient = ep.Base, embedClient{ep, model}
	answer, err := openai.NewClientWithConfig(config).CreateEmbeddings(ctx, openai.EmbeddingRequest{
		Input: texts, Model: openai.EmbeddingModel(model), EncodingFormat: openai.EmbeddingEncodingFormatFloat,
	})
	if err != nil {
		return Vectors{}, ep.embedError(ctx, err)
	}
	v := Vectors{List: make([][]float32, len(texts))}
	if n := answer.Usage.PromptTokens; n > 0 {
		v.Usage = &proto.Usage{InputTokens: int64(n)}
	}
	if len(answer.Data) != len(texts) {
		return v, badVectors("the provider answered with %d embeddings for %d texts", len(answer.Data), len(texts))
	}
	for _, e := range answer.Data {
		if e.Index < 0 || e.Index >= len(texts) || v.List[e.Index] != nil {
			return v, badVectors("the provider answered with two embeddings for a text, or one of text %d", e.Index)
		}
		v.List[e.Index] = e.Embedding
	}
	return v, v.normalise(len(texts))
}

// OllamaEmbed is the Embedder of an Ollama server. A text that is longer than the
// model's context is an error, not cut.
func OllamaEmbed(ctx context.Context, ep *Endpoint, model string, texts []string) (Vectors, error) {
	ctx, cancel := ep.timeout(ctx)
	defer cancel()
	body, err := json.Marshal(struct {
		Model    string   `json:"model"`
		Input    []string `json:"input"`
		Truncate bool     `json:"truncate"`
	}{model, texts, false})
	if err != nil {
		return Vectors{}, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, ollamaBase(ep.Base)+"/api/embed", bytes.NewReader(body))
	if err != nil {
		return Vectors{}, ep.unusable("is not a usable base URL")
	}
	req.Header.Set("Content-Type", "application/json")
	ep.bearer(req.Header)
	resp, err := embedClient{ep, model}.Do(req)
	if err != nil {
		return Vectors{}, ep.embedError(ctx, err)
	}
	defer resp.Body.Close()
	var answer struct {
		Embeddings [][]float32 `json:"embeddings"`
		Tokens     int64       `json:"prompt_eval_count"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return Vectors{}, ep.embedError(ctx, err)
	}
	v := Vectors{List: answer.Embeddings}
	if answer.Tokens > 0 {
		v.Usage = &proto.Usage{InputTokens: answer.Tokens}
	}
	return v, v.normalise(len(texts))
}

// timeout limits the time of an answer in one piece.
func (ep *Endpoint) timeout(ctx context.Context) (context.Context, context.CancelFunc) {
	if ep.Stall <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, ep.Stall*wholeFactor, errStalled)
}

// embedClient is the HTTP client for embeddings. An error status is the error, since
// go-openai's has no headers, and an answer has maxVectors bytes at most.
type embedClient struct {
	*Endpoint
	model string
}

func (c embedClient) Do(req *http.Request) (*http.Response, error) {
	identify(req)
	resp, err := c.Client.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, maxRefusal)) // as much as came
		_ = resp.Body.Close()                                        // nothing is written through it
		f := c.refused(resp.StatusCode, resp.Header, text, &Request{Model: c.model}, "+model")
		if f.Class != WaitLong {
			c.observe(resp)
		}
		return nil, f
	}
	c.observe(resp)
	resp.Body = struct {
		io.Reader
		io.Closer
	}{io.LimitReader(resp.Body, maxVectors), resp.Body}
	return resp, nil
}

func (ep *Endpoint) observe(resp *http.Response) {
	if ep.Observe != nil {
		ep.Observe(resp.StatusCode, resp.Header)
	}
}

// embedError returns the error for an exchange that failed.
func (ep *Endpoint) embedError(ctx context.Context, err error) error {
	if f, ok := errors.AsType[*Fault](err); ok {
		return f
	}
	if context.Cause(ctx) == errStalled {
		return fault(Stop, proto.CodeTimeout, kindTimeout, fmt.Sprintf(
			"the model at %s gave no embeddings within %gs: try again, or raise [rtr] stall_timeout", ep.Name, (ep.Stall*wholeFactor).Seconds()))
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	switch {
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return fault(Retry, proto.CodeUnavailable, kindAPI, "the provider's answer ended before the embeddings were complete: try again")
	case notJSON(err):
		return badVectors("%s answered with JSON that is broken or not a list of embeddings: check %s", ep.Name, ep.BaseHint)
	}
	return ep.unreachable(err)
}

// badVectors returns the error for embeddings that cannot be used.
func badVectors(format string, args ...any) *Fault {
	return fault(Stop, proto.CodeInternal, kindParse, fmt.Sprintf(format, args...))
}

// normalise checks n vectors and scales them to the length 1.
func (v *Vectors) normalise(n int) error {
	if len(v.List) != n {
		return badVectors("the provider answered with %d embeddings for %d texts", len(v.List), n)
	}
	size := len(v.List[0])
	if size == 0 || size > maxDimensions {
		return badVectors("the provider answered with an embedding of %d dimensions: the model is not one for embeddings", size)
	}
	for i, vector := range v.List {
		if len(vector) != size {
			return badVectors("the provider answered with embeddings of %d and of %d dimensions", size, len(vector))
		}
		sum := 0.0
		for _, x := range vector {
			sum += float64(x) * float64(x)
		}
		if !(sum > 0) || math.IsInf(sum, 0) {
			return badVectors("the provider answered with an embedding without a direction, for text %d: all of it is 0, or a part is not a number", i)
		}
		scale := 1 / math.Sqrt(sum)
		for j := range vector {
			vector[j] = float32(float64(vector[j]) * scale)
		}
	}
	return nil
}

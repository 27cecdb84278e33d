package provider

import (
	"context"
	"net/http"

	openai "github.com/sashabaranov/go-openai"
)

// OpenAI is the wire of OpenAI's chat completions, which most servers of models
// understand. Source: platform.openai.com/docs/api-reference/chat.
func OpenAI(ctx context.Context, ep *Endpoint, req *Request, sink Sink) error {
	return completions(ctx, ep, req, "openai", sink)
}

// completions asks an endpoint that speaks the chat completions' wire. name is
// the provider's, for the state that goes back to it.
func completions(ctx context.Context, ep *Endpoint, req *Request, name string, sink Sink) error {
	body, err := completionBody(req, name)
	if err != nil {
		return err
	}
	x := ep.begin(ctx, req, body, req.Stream, sink)
	defer x.end()
	x.remedy = "set [rtr] streaming = false if it cannot stream"
	c := &carrier{exchange: x}
	config := openai.DefaultConfig(ep.Key)
	config.BaseURL, config.HTTPClient = ep.Base, c
	// The request that go-openai makes is empty: the carrier sends ours.
	if _, err := openai.NewClientWithConfig(config).CreateChatCompletionStream(x.ctx, openai.ChatCompletionRequest{}); err != nil {
		return err
	}
	answer := completion{x: x, events: c.events, name: name}
	return answer.read()
}

// carrier is the HTTP client that go-openai is given: it sends our body in
// place of go-openai's, whose typed requests drop temperature 0 and fields that
// it does not know. The answer is read by us alone: go-openai's reader cannot
// tell a cut stream from a complete one, gives up after 300 comments, and takes
// more than a microsecond for a line.
type carrier struct {
	*exchange
	events *events
}

// Do sends the request.
func (c *carrier) Do(req *http.Request) (*http.Response, error) {
	req.Header.Del("Connection")
	req.Header.Del("Authorization")
	if !c.stream {
		req.Header.Set("Accept", "application/json")
	}
	c.bearer(req.Header)
	err := c.send(req)
	if err == nil {
		c.events, err = c.open()
	}
	if err != nil {
		return nil, err
	}
	head := *c.resp
	head.Body = http.NoBody
	return &head, nil
}

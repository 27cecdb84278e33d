package wire

import (
	"context"
	"net/http"
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
	if err := x.post("/chat/completions", x.completionHeader); err != nil {
		return err
	}
	events, err := x.open()
	if err != nil {
		return err
	}
	answer := completion{x: x, events: events, name: name}
	return answer.read()
}

func (x *exchange) completionHeader(h http.Header) {
	h.Set("Accept", "application/json")
	if x.stream {
		h.Set("Accept", "text/event-stream")
		h.Set("Cache-Control", "no-cache")
	}
	x.bearer(h)
}

package wire

import (
	"context"
	"net/http"
	"slices"
	"strings"
)

// Responses is the wire of OpenAI's Responses, the only one on which its newer
// models take tools and reason. Nothing is stored at the provider: reasoning
// comes encrypted and is handed back. Source:
// platform.openai.com/docs/api-reference/responses.
func Responses(ctx context.Context, ep *Endpoint, req *Request, sink Sink) error {
	body, err := responsesBody(req)
	if err != nil {
		return err
	}
	x := ep.begin(ctx, req, body, req.Stream, sink)
	defer x.end()
	x.remedy = "set [rtr] streaming = false if it cannot stream"
	x.missing = `If it has no Responses API, set wire = "chat" in [[rtr.model]]. `
	err = x.post("/responses", func(h http.Header) {
		h.Set("Accept", "application/json")
		if req.Stream {
			h.Set("Accept", "text/event-stream")
		}
		x.bearer(h)
	})
	if err != nil {
		return err
	}
	events, err := x.open()
	if err != nil {
		return err
	}
	answer := responsesAnswer{x: x, events: events}
	return answer.read()
}

// lacksPath reports whether a refusal is that of a server which does not have the
// path. Status 404 is also the API's own answer if the model does not exist, or an
// item of the input.
func lacksPath(status int, body []byte, model string) bool {
	switch status {
	case http.StatusMethodNotAllowed, http.StatusNotImplemented:
		return true
	case http.StatusNotFound:
		text := errorText(body)
		return !slices.ContainsFunc([]string{"model", "deployment", "item with id", strings.ToLower(bareName(model))}, func(word string) bool {
			return strings.Contains(text, word)
		})
	}
	return false
}

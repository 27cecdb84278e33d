// Package wire sends requests to providers of language models: one file, or two, for each
// wire format. All of them take a conversation in OpenAI's form and give one stream
// of events.
//
//	openai.go      OpenAI's chat completions and compatible servers, OpenRouter
//	responses.go   OpenAI's Responses
//	anthropic.go   Anthropic's Messages
//	gemini.go      Gemini's streamGenerateContent
//	ollama.go      Ollama's own /api/chat
//	embed.go       embeddings of OpenAI's wire and of Ollama's
//	files.go       images and PDF files on all of them
//
// What the formats share: message.go reads a conversation and makes it one that
// every provider takes, exchange.go makes the request and reads the answer's
// events, fault.go says what an error means, traits.go what a model takes.
//
// An answer is complete only when the wire's end mark was seen; anything else is a
// *[Fault], with as many events before it as were received.
package wire

import (
	"context"
	"encoding/json"

	"zino/proto"
)

// Func has a model continue a conversation: it makes one request to an endpoint
// and passes the events of the answer to sink in order. It returns nil if the
// answer is complete, the context's error if the caller has gone, the sink's if
// that failed, and else a *Fault.
type Func func(ctx context.Context, ep *Endpoint, req *Request, sink Sink) error

// Sink takes the events of an answer. Flush is called before the provider is
// waited for.
type Sink interface {
	Event(e Event) error
	Flush() error
}

// Kind says what an Event is.
type Kind int

// The kinds of event, with the fields they use besides Kind.
const (
	Text      Kind = iota // Delta: a piece of the answer's text
	Reasoning             // Delta: a piece of the model's reasoning
	ToolStart             // Index, ID, Name: a tool call begins; the ID may be empty
	ToolArgs              // Index, Delta: a piece of the call's arguments, a JSON text
	State                 // Delta: a JSON object that goes back unchanged in the same turn
	Used                  // Usage: all that is used so far
	Finish                // Reason: why the model stopped, in the words of proto.Text
)

// Event is one event of an answer. Delta is valid during the call only.
type Event struct {
	Kind   Kind
	Index  int    // of a tool call, in the order in which calls begin
	ID     string // of a tool call
	Name   string // of the tool
	Delta  []byte
	Usage  *proto.Usage
	Reason string
}

// Request is one inference.
type Request struct {
	// Model is the model's identifier at the provider.
	Model string
	// Raw are the messages as received, valid JSON in OpenAI's form, the system
	// prompt first.
	Raw json.RawMessage
	// Messages is Raw, parsed.
	Messages []Message
	// Tools are what the model may call.
	Tools []Tool
	// Temperature and TopP are the sampling parameters.
	Temperature, TopP float64
	// MaxTokens limits the answer; 0: no limit.
	MaxTokens int
	// Effort asks for reasoning, in the word of EffortWord; empty: the model's
	// default.
	Effort string
	// Schema is the JSON Schema that the answer is restricted to; empty: none.
	Schema json.RawMessage
	// NoSummary: summaries of the reasoning are refused.
	NoSummary bool
	// Context is the size of the model's context in tokens, for servers that take
	// it from the request; 0: the server's default.
	Context int
	// Stream is true if the caller wants the text as it is generated.
	Stream bool
	// Whole asks the provider for an answer in one piece even if Stream is set: a
	// proxy in between may not pass streams.
	Whole bool
	// Traits are the model's.
	Traits Traits
}

// bytesPerToken is the approximate number of bytes of JSON in a token.
const bytesPerToken = 4

// Size estimates the size of the prompt in bytes: the text, the calls, the tools, and
// attachments by their tokens.
func (r *Request) Size() int {
	n := 0
	for _, m := range r.Messages {
		n += len(m.Text)
		if m.Text == "" {
			n += len(m.content)
		}
		for _, c := range m.Calls {
			n += len(c.Name) + len(c.Args)
		}
	}
	n += int(FileTokens(r.Messages)) * bytesPerToken
	for _, t := range r.Tools {
		n += len(t.Name) + len(t.Description) + len(t.Parameters)
	}
	return n
}

// Tool is a function that a model may call.
type Tool struct {
	Name, Description string
	// Parameters is a JSON schema of an object.
	Parameters json.RawMessage
}

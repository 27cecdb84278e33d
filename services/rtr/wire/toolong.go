package wire

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"zino/proto"
	"zino/services/rtr/retry"
)

// overflowing are providers' words, in lower case, for a conversation that does
// not fit the model.
var overflowing = []string{
	"context_length_exceeded",               // OpenAI's code, and of many others
	"maximum context length",                // OpenAI, OpenRouter, vLLM, Mistral, DeepSeek
	"exceeds the context window",            // OpenAI
	"prompt is too long",                    // Anthropic
	"exceed context limit",                  // Anthropic, for prompt and max_tokens together
	"request_too_large",                     // Anthropic's code
	"exceeds the maximum number of tokens",  // Gemini
	"exceeds the context length",            // Ollama
	"prompt too long",                       // Ollama
	"exceed_context_size",                   // llama.cpp's code
	"exceeds the available context size",    // llama.cpp
	"greater than the context length",       // LM Studio
	"context size has been exceeded",        // LM Studio
	"maximum prompt length",                 // xAI
	"reduce the length of the messages",     // Groq
	"input is too long for requested model", // Bedrock
	"request too large",                     // gateways
	"request body too large",                // GitHub
	"exceeded model token limit",            // Moonshot
	"context window exceeds limit",          // MiniMax
}

// overflows reports whether an error says that the conversation is too long.
// The status is that of the answer, or 0 for an error in a stream.
func overflows(status int, body []byte) bool {
	switch status {
	case http.StatusRequestEntityTooLarge:
		return true
	case 0, http.StatusBadRequest, http.StatusUnprocessableEntity, http.StatusInternalServerError:
	default:
		return false
	}
	text := errorText(body)
	if strings.Contains(text, "max_tokens") && strings.Contains(text, "is too large") {
		return false // it is the answer's limit that does not fit
	}
	return slices.ContainsFunc(overflowing, func(words string) bool { return strings.Contains(text, words) })
}

// errorText is what an error says, in lower case, without the request that some
// providers repeat in it.
func errorText(body []byte) string {
	text := string(body)
	var v any
	if json.Unmarshal(body, &v) == nil {
		text = strings.Join(errorWords(v), "\n")
	}
	return strings.ToLower(text)
}

// errorWords gathers the codes and messages of an error, in all the places
// where providers put them. OpenRouter hands on another's error as raw text.
func errorWords(v any) (words []string) {
	switch v := v.(type) {
	case string:
		return []string{v}
	case []any:
		for _, element := range v {
			words = append(words, errorWords(element)...)
		}
	case map[string]any:
		for _, key := range []string{"error", "response", "message", "detail", "msg", "code", "type", "param", "metadata", "raw"} {
			words = append(words, errorWords(v[key])...)
		}
	}
	return words
}

// judgeLength marks the fault of a conversation that is too long. It is so for
// good, whatever the status is.
func (f *Fault) judgeLength(status int, body []byte) *Fault {
	if f.TooLong = overflows(status, body); f.TooLong {
		f.Code, f.Verdict = proto.CodeTooLarge, retry.Verdict{Class: retry.Stop}
	}
	return f
}

// Size is about how many bytes the model has to read: what is said, the calls,
// and the tools.
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
	for _, t := range r.Tools {
		n += len(t.Name) + len(t.Description) + len(t.Parameters)
	}
	return n
}

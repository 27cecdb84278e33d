package wire

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"zino/pkg/sse"
	"zino/pkg/wire"
	"zino/proto"
)

// Ollama is Ollama's own wire, /api/chat. Unlike its OpenAI-compatible one, it takes
// the length of the context, and does not shorten a conversation that is too long
// without saying so. It is always streamed: rtr collects the text for a
// caller that wants it whole. Source: github.com/ollama/ollama/blob/main/docs/api.md.
//
// The base URL may end in /v1 or /api.
func Ollama(ctx context.Context, ep *Endpoint, req *Request, sink Sink) error {
	body, err := ollamaBody(req)
	if err != nil {
		return err
	}
	return ep.at(ollamaBase(ep.Base)).do(ctx, req, sink, call{
		path: "/api/chat", body: body, header: ep.bearer, stream: true, alwaysStreams: true, lines: true, ownEnd: true, answer: &ollamaAnswer{},
	})
}

// ollamaBase is a base URL without the paths that people write after it.
func ollamaBase(base string) string {
	base = strings.TrimRight(base, "/")
	for _, path := range []string{"/v1", "/api"} {
		base = strings.TrimSuffix(base, path)
	}
	return strings.TrimRight(base, "/")
}

// maxContext is the most tokens that a model is made to hold unless its Modelfile
// has another number. The server's default, 4096 tokens on most machines, is too
// short for an agent's work; what models are made for, often 131072 or more, takes
// tens of gigabytes of memory, and then the model runs on the CPU.
const maxContext = 32768

// Abilities are those of a model of an Ollama server.
type Abilities struct {
	Context       int // in tokens, for Request.Context; 0: the server decides
	Tools, Images bool
}

// OllamaModel asks an Ollama server about a model. The server decides about the context of
// one that runs elsewhere, and of one without a length. Images are assumed with a server
// that is too old to say.
func OllamaModel(ctx context.Context, ep *Endpoint, model string) (a Abilities, err error) {
	asked := append(wire.AppendString([]byte(`{"model":`), model), '}')
	body, err := ep.at(ollamaBase(ep.Base)).get(ctx, http.MethodPost, "/api/show", asked, ep.bearer)
	if err != nil {
		return a, err
	}
	var shown struct {
		Template     string                     `json:"template"`
		Parameters   string                     `json:"parameters"`
		RemoteHost   string                     `json:"remote_host"`
		Info         map[string]json.RawMessage `json:"model_info"`
		Capabilities []string                   `json:"capabilities"`
	}
	if err := json.Unmarshal(body, &shown); err != nil {
		return a, errors.New(ep.Name + " says nothing that can be read of the model " + oneLine(model, 200))
	}
	a.Tools, a.Images = slices.Contains(shown.Capabilities, "tools"), slices.Contains(shown.Capabilities, "vision")
	if shown.Capabilities == nil { // an old server
		a.Tools, a.Images = strings.Contains(shown.Template, ".Tools"), true
	}
	if shown.RemoteHost != "" {
		return a, nil
	}
	// num_ctx of the Modelfile was chosen by its author.
	for line := range strings.Lines(shown.Parameters) {
		if words := strings.Fields(line); len(words) == 2 && words[0] == "num_ctx" {
			if n := wholeTokens(words[1]); n > 0 {
				a.Context = n
				return a, nil
			}
		}
	}
	// The length stands under the name of the model's architecture. Other parts of a
	// model, such as for images, have lengths of their own.
	length := wholeTokens(string(shown.Info[stringOf(shown.Info["general.architecture"])+".context_length"]))
	if length == 0 {
		for key, value := range shown.Info {
			if strings.HasSuffix(key, ".context_length") {
				length = max(length, wholeTokens(string(value)))
			}
		}
	}
	a.Context = min(length, maxContext)
	return a, nil
}

// wholeTokens parses a number of tokens, which may be written as a float; it is 0
// for anything else.
func wholeTokens(s string) int {
	n, err := strconv.ParseFloat(s, 64)
	if err != nil || n < 1 || n > 1<<31 {
		return 0
	}
	return int(n)
}

// ollamaRequest is the body of a request. keep_alive is left to the server, where
// its owner has set it.
type ollamaRequest struct {
	Model    string          `json:"model"`
	Messages json.RawMessage `json:"messages"`
	Tools    json.RawMessage `json:"tools,omitzero"`
	Options  ollamaOptions   `json:"options,omitzero"`
	Stream   bool            `json:"stream"`
	Think    json.RawMessage `json:"think,omitzero"`  // a boolean, or a level
	Format   json.RawMessage `json:"format,omitzero"` // a JSON Schema of the answer
	// Truncate false makes a conversation that is too long an error; otherwise the
	// server drops its beginning. Servers that are too old to know it still do.
	Truncate bool `json:"truncate"`
}

type ollamaOptions struct {
	Temperature *float64 `json:"temperature,omitzero"`
	TopP        *float64 `json:"top_p,omitzero"`
	NumCtx      int      `json:"num_ctx,omitzero"`
	NumPredict  int      `json:"num_predict,omitzero"`
}

func ollamaBody(req *Request) ([]byte, error) {
	r := ollamaRequest{Model: req.Model, Messages: ollamaMessages(req), Tools: completionTools(req.Tools), Stream: true, Format: req.Schema}
	r.Options = ollamaOptions{NumCtx: max(req.Context, 0), NumPredict: max(req.MaxTokens, 0)}
	switch req.Effort {
	case "":
	case "true", "false":
		r.Think = json.RawMessage(req.Effort)
	default:
		r.Think = wire.AppendString(nil, req.Effort)
	}
	r.Options.Temperature, r.Options.TopP = req.Traits.sampling(req)
	return encodeBody(r, len(r.Messages)+len(r.Tools)+len(req.Schema))
}

// ollamaMessages encodes the messages. System messages stay where they are; of the
// others the user's comes first. The thinking before calls goes back with them:
// templates show it to the model within the same turn.
func ollamaMessages(req *Request) json.RawMessage {
	list := legal(req.Messages)
	b := append(make([]byte, 0, len(req.Raw)+roomAround), '[')
	message := func(role, content string) { // the last one stays open
		if len(b) > 1 {
			b = append(b, "},"...)
		}
		b = append(append(append(b, `{"role":"`...), role...), `","content":`...)
		b = wire.AppendString(b, content)
	}
	begun := false  // there is a message of the user
	var open []Call // whose results come next
	for _, m := range list {
		if m.Role == "assistant" && !begun {
			message("user", continuation)
		}
		begun = begun || m.Role != "system"
		switch m.Role {
		case "system":
			message("system", m.Said())
		case "assistant":
			message("assistant", m.Said())
			if open = sendable(m.Calls); len(open) == 0 {
				continue
			}
			if thinking := stringOf(memberOf(stateOf(m, "ollama", req.Model), "thinking")); thinking != "" {
				b = wire.AppendString(append(b, `,"thinking":`...), thinking)
			}
			b = append(b, `,"tool_calls":[`...)
			for i, c := range open {
				if i > 0 {
					b = append(b, ',')
				}
				b = append(b, '{')
				if c.ID != "" {
					b = append(wire.AppendString(append(b, `"id":`...), c.ID), ',')
				}
				b = wire.AppendString(append(b, `"function":{"name":`...), c.Name)
				b = append(append(append(b, `,"arguments":`...), c.object()...), "}}"...)
			}
			b = append(b, ']')
		case "tool":
			// Servers go by the id, older ones by the name.
			c := open[0]
			open = open[1:]
			message("tool", m.Said())
			b = wire.AppendString(append(b, `,"tool_name":`...), c.Name)
			if c.ID != "" {
				b = wire.AppendString(append(b, `,"tool_call_id":`...), c.ID)
			}
		default:
			message("user", m.Said())
			for i, f := range m.Files {
				b = appendBase64(append(b, []string{`,"images":[`, ","}[min(i, 1)]...), f)
			}
			if len(m.Files) > 0 {
				b = append(b, ']')
			}
		}
	}
	if !begun || req.Traits.NoAssistantLast && endsWithAssistant(list) {
		message("user", continuation)
	}
	return append(b, "}]"...)
}

// ollamaAnswer reads an answer of Ollama's to the line with "done": true.
type ollamaAnswer struct {
	calls    int
	thinking []byte
	usage    proto.Usage
	reason   string
	scratch  []byte
}

// event reads one line.
func (a *ollamaAnswer) event(x *exchange, _ string, raw []byte) error {
	if raw[0] != '{' || !wire.Valid(raw) {
		return x.unparsed(raw)
	}
	var message []byte
	for key, value := range wire.Members(raw) {
		switch string(key) {
		case "error":
			if says(value) {
				return x.failed(raw)
			}
		case "message":
			message = value
		case "done":
			x.stopped = string(value) == "true"
		case "done_reason":
			a.reason = stringOf(value)
		case "prompt_eval_count":
			setTokens(&a.usage.InputTokens, value)
		case "eval_count":
			setTokens(&a.usage.OutputTokens, value)
		}
	}
	var content, thinking, calls []byte
	for key, value := range wire.Members(message) {
		switch string(key) {
		case "content":
			content = value
		case "thinking":
			thinking = value
		case "tool_calls":
			calls = value
		}
	}
	for _, piece := range []struct {
		kind  Kind
		value []byte
	}{{Reasoning, thinking}, {Text, content}} {
		if len(piece.value) <= 2 || piece.value[0] != '"' {
			continue
		}
		a.scratch = appendContent(a.scratch[:0], piece.value)
		if piece.kind == Reasoning {
			a.thinking = append(a.thinking, a.scratch...)
		}
		if err := x.emit(Event{Kind: piece.kind, Delta: a.scratch}); err != nil {
			return err
		}
	}
	for element := range wire.Items(calls) { // each comes whole
		name, args := readFunction(memberOf(element, "function"))
		if name == "" {
			continue
		}
		a.calls++
		if err := x.emitCall(a.calls-1, stringOf(memberOf(element, "id")), name, args); err != nil {
			return err
		}
	}
	return nil
}

// end emits the last events of a complete answer.
func (a *ollamaAnswer) end(x *exchange, err error) error {
	if err != nil {
		return err
	}
	if a.usage.InputTokens+a.usage.OutputTokens > 0 {
		if err := x.emit(Event{Kind: Used, Usage: &a.usage}); err != nil {
			return err
		}
	}
	var state []byte
	if a.calls > 0 && len(a.thinking) > 0 {
		state = newState("ollama", x.model, append(wire.AppendString([]byte(`{"thinking":`), a.thinking), '}'))
	}
	if a.reason = stopReason(a.reason); a.calls > 0 && a.reason == "stop" {
		a.reason = "tool_calls" // Ollama has no word for it
	}
	return x.emitEnd(state, a.reason)
}

// jsonLines reads a stream that has one JSON value a line (NDJSON): lines that end
// in LF or CRLF, any number of blank ones, a byte order mark, and a last line
// without its end. It reads from its source only when it holds no complete line.
type jsonLines struct {
	in   *bufio.Reader
	any  bool   // a line has been returned
	long []byte // a line that is longer than the buffer of in
	err  error  // what ended the input
}

// next returns the next line that is not blank. It is valid until the next call.
// Lines in the middle are returned as they are; a last one without its end that is
// not JSON has been cut off, and only the error is returned.
func (l *jsonLines) next() ([]byte, error) {
	for l.err == nil {
		line, err := l.line()
		l.err = err
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		if !l.any && line[0] == '{' && err == nil && !wire.Valid(line) {
			line = l.spread(line)
		}
		if l.err != nil && !wire.Valid(line) {
			break
		}
		l.any = true
		return line, nil
	}
	return nil, l.err
}

// line returns the bytes up to the next line end or to the end of the input.
func (l *jsonLines) line() ([]byte, error) {
	l.long = l.long[:0]
	for {
		piece, err := l.in.ReadSlice('\n')
		if len(l.long)+len(piece) > sse.MaxEvent {
			return nil, sse.ErrTooLong
		}
		if err == nil && len(l.long) == 0 {
			return piece, nil
		}
		l.long = append(l.long, piece...)
		if err != bufio.ErrBufferFull {
			return l.long, err
		}
	}
}

// spread returns all of the input if that is one value on several lines, as proxies
// write their errors, else its first line. The beginning of a value that is cut off
// counts as the end of the input.
func (l *jsonLines) spread(first []byte) []byte {
	all := append(bytes.Clone(first), '\n')
	rest, err := io.ReadAll(io.LimitReader(l.in, sse.MaxEvent))
	all = append(all, rest...)
	var v json.RawMessage
	switch first = all[:len(first)]; {
	case err != nil:
		l.err = err
	case len(all) > sse.MaxEvent:
		l.err = sse.ErrTooLong
	case wire.Valid(all):
		l.err = io.EOF
		return bytes.TrimSpace(all)
	case errors.Is(json.NewDecoder(bytes.NewReader(all)).Decode(&v), io.ErrUnexpectedEOF):
		l.err = io.EOF
	}
	return first
}

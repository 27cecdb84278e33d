package wire

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"reflect"
	"strconv"
	"strings"

	"zino/pkg/wire"
)

// Gemini is the wire of Gemini's streamGenerateContent. It is always streamed:
// rtr collects the text for a caller that wants it whole. Source:
// ai.google.dev/api/generate-content.
//
// The base URL may end in a version, such as /v1beta, which is the default; the
// model may be given as models/NAME.
func Gemini(ctx context.Context, ep *Endpoint, req *Request, sink Sink) error {
	body, err := geminiBody(req)
	if err != nil {
		return err
	}
	model := url.PathEscape(strings.TrimPrefix(req.Model, "models/"))
	return ep.at(geminiBase(ep.Base)).do(ctx, req, sink, call{
		path: "/models/" + model + ":streamGenerateContent?alt=sse", body: body, header: ep.googleKey,
		stream: true, alwaysStreams: true, answer: &geminiAnswer{},
	})
}

// googleKey adds the key as a header: servers and proxies log URLs.
func (ep *Endpoint) googleKey(h http.Header) {
	if ep.Key != "" {
		h.Set("X-Goog-Api-Key", ep.Key)
	}
}

// geminiBase is a base URL with a version at its end.
func geminiBase(base string) string {
	base = strings.TrimRight(base, "/")
	if version := base[strings.LastIndexByte(base, '/')+1:]; strings.HasPrefix(version, "v1") && !strings.ContainsAny(version, ".:@") {
		return base
	}
	return base + "/v1beta"
}

// geminiRequest is the body of a request to generate content.
type geminiRequest struct {
	SystemInstruction json.RawMessage `json:"systemInstruction,omitzero"`
	Contents          json.RawMessage `json:"contents"`
	Tools             json.RawMessage `json:"tools,omitzero"`
	GenerationConfig  geminiConfig    `json:"generationConfig,omitzero"`
}

type geminiConfig struct {
	Temperature     *float64        `json:"temperature,omitzero"`
	TopP            *float64        `json:"topP,omitzero"`
	MaxOutputTokens int             `json:"maxOutputTokens,omitzero"`
	Thinking        *geminiThinking `json:"thinkingConfig,omitzero"`
	MIMEType        string          `json:"responseMimeType,omitzero"`
	Schema          json.RawMessage `json:"responseJsonSchema,omitzero"`
}

// geminiThinking has a level, or a budget for models before Gemini 3.
type geminiThinking struct {
	Budget   *int   `json:"thinkingBudget,omitzero"`
	Level    string `json:"thinkingLevel,omitzero"`
	Thoughts bool   `json:"includeThoughts,omitzero"`
}

func geminiBody(req *Request) ([]byte, error) {
	system, list := split(legal(req.Messages))
	r := geminiRequest{Contents: geminiContents(list, req.Model)}
	if system != "" {
		r.SystemInstruction = append(wire.AppendString([]byte(`{"parts":[{"text":`), system), "}]}"...)
	}
	g := &r.GenerationConfig
	g.Temperature, g.TopP = req.Traits.sampling(req)
	g.MaxOutputTokens = req.MaxTokens
	if budget, err := strconv.Atoi(req.Effort); err == nil {
		g.Thinking = &geminiThinking{Budget: &budget, Thoughts: budget > 0}
	} else if req.Effort != "" {
		g.Thinking = &geminiThinking{Level: req.Effort, Thoughts: req.Effort != "MINIMAL"}
	}
	if len(req.Schema) > 0 {
		g.MIMEType, g.Schema = "application/json", req.Schema
	}
	for i, t := range req.Tools {
		r.Tools = append(r.Tools, []string{`[{"functionDeclarations":[`, ","}[min(i, 1)]...)
		r.Tools = wire.AppendString(append(r.Tools, `{"name":`...), t.Name)
		if t.Description != "" {
			r.Tools = wire.AppendString(append(r.Tools, `,"description":`...), t.Description)
		}
		r.Tools = append(append(r.Tools, `,"parametersJsonSchema":`...), t.Parameters...)
		r.Tools = append(r.Tools, '}')
	}
	if r.Tools != nil {
		r.Tools = append(r.Tools, "]}]"...)
	}
	return encodeBody(r, len(r.Contents)+len(r.Tools)+len(r.SystemInstruction)+len(req.Schema))
}

// contentWriter writes contents. Messages of one role in a row become one content;
// the first and the last one are the user's.
type contentWriter struct {
	b     []byte
	model string
	role  string // of the open content, "" before the first
	open  []Call // calls whose results come next, with the ids that they were sent with
}

func geminiContents(list []Message, model string) json.RawMessage {
	size := roomAround
	for i := range list {
		size += len(list[i].Raw)
	}
	w := contentWriter{b: append(make([]byte, 0, size), '['), model: model}
	for _, m := range list {
		switch m.Role {
		case "assistant":
			w.answer(m)
		case "tool":
			w.result(m)
		default:
			w.text("user", m.Said())
			for _, f := range m.Files {
				w.part("user")
				w.b = wire.AppendString(append(w.b, `{"inlineData":{"mimeType":`...), f.MediaType)
				w.b = append(appendBase64(append(w.b, `,"data":`...), f), "}}"...)
			}
		}
	}
	if w.role != "user" {
		w.text("user", continuation)
	}
	return append(w.b, "]}]"...)
}

// part begins a part of a content of a role.
func (w *contentWriter) part(role string) {
	if w.role == "" && role == "model" {
		w.text("user", continuation)
	}
	switch w.role {
	case role:
		w.b = append(w.b, ',')
		return
	case "":
	default:
		w.b = append(w.b, "]},"...)
	}
	w.role = role
	w.b = append(append(append(w.b, `{"role":"`...), role...), `","parts":[`...)
}

// text writes a text; an empty one is refused by Gemini and left out.
func (w *contentWriter) text(role, text string) {
	if text == "" {
		return
	}
	w.part(role)
	w.b = append(wire.AppendString(append(w.b, `{"text":`...), text), '}')
}

// unsigned stands in the place of a missing signature: Gemini 3 refuses the first
// call of an answer without one, and documents this one for calls that another
// model made. Older models do not need it.
var unsigned = `,"thoughtSignature":"` + base64.StdEncoding.EncodeToString([]byte("skip_thought_signature_validator")) + `"`

// answer writes an assistant's message: the stored parts if this model sent them,
// else parts made from the message.
func (w *contentWriter) answer(m Message) {
	if parts, calls, ok := geminiKept(stateOf(m, "gemini", w.model), m.Calls); ok {
		for _, part := range parts {
			w.part("model")
			w.b = append(w.b, part...)
		}
		w.open = calls
		return
	}
	w.text("model", m.Said())
	w.open = sendable(m.Calls)
	for i, c := range w.open {
		w.part("model")
		b := append(appendGeminiName(append(w.b, `{"functionCall":{`...), c), `,"args":`...)
		b = append(append(b, c.object()...), '}')
		name := w.model[strings.LastIndexByte(w.model, '/')+1:]
		if i == 0 && !beginsWith(name, []string{"gemini-1", "gemini-2", "gemma", "learnlm"}) {
			b = append(b, unsigned...)
		}
		w.b = append(b, '}')
	}
}

// result writes a tool's result, which legal has put in the order of the calls. The
// form of our tools, with "ok" and with "error" for a failure, is Gemini's too; any
// other result is passed on as text, so that the model sees it unchanged.
func (w *contentWriter) result(m Message) {
	w.part("user")
	b := append(appendGeminiName(append(w.b, `{"functionResponse":{`...), w.open[0]), `,"response":`...)
	w.open = w.open[1:]
	if envelopeOK(m.Said()) != nil {
		b = append(b, m.Said()...)
	} else {
		b = append(wire.AppendString(append(b, `{"result":`...), m.Said()), '}')
	}
	w.b = append(b, "}}"...)
}

// appendGeminiName writes the members id and name of a call or result. Gemini
// matches them by id if both have one, else by name and order.
func appendGeminiName(b []byte, c Call) []byte {
	if c.ID != "" {
		b = append(wire.AppendString(append(b, `"id":`...), c.ID), ',')
	}
	return wire.AppendString(append(b, `"name":`...), c.Name)
}

// geminiKept splits kept parts, and returns their calls with the ids that Gemini
// gave them. ok is false if there are no parts, or if their calls are not those of
// the message.
func geminiKept(parts []byte, want []Call) (list []json.RawMessage, calls []Call, ok bool) {
	list, err := wire.Elements(parts)
	if err != nil || len(list) == 0 {
		return nil, nil, false
	}
	for _, part := range list {
		if value := memberOf(part, "functionCall"); value != nil {
			calls = append(calls, geminiCall(value))
		}
	}
	if len(calls) != len(want) {
		return nil, nil, false
	}
	for i, c := range calls {
		if c.Name == "" || c.Name != want[i].Name || c.ID != "" && c.ID != want[i].ID || !sameArgs(c.Args, want[i].Args) {
			return nil, nil, false
		}
	}
	return list, calls, true
}

// geminiCall reads a functionCall.
func geminiCall(raw []byte) (c Call) {
	for key, value := range wire.Members(raw) {
		switch string(key) {
		case "id":
			c.ID = stringOf(value)
		case "name":
			c.Name = stringOf(value)
		case "args":
			if string(value) != "null" {
				c.Args = string(value)
			}
		}
	}
	return c
}

// sameArgs reports whether arguments are equal as JSON; empty ones are {}. They are nearly
// always the same bytes, but a client that stored them may have escaped a character
// in another way.
func sameArgs(a, b string) bool {
	value := func(raw string) any {
		if raw == "" {
			return map[string]any{}
		}
		d := json.NewDecoder(strings.NewReader(raw))
		d.UseNumber()
		var v any
		if d.Decode(&v) != nil {
			return nil // malformed, and so the same as null: neither is an object
		}
		return v
	}
	a, b = strings.TrimSpace(a), strings.TrimSpace(b)
	return a == b || reflect.DeepEqual(value(a), value(b))
}

// partList keeps the parts of an answer as they came, with their signatures. Texts
// without one are joined: a stream has one part for a few tokens.
type partList struct {
	b      []byte // the list, without its bracket at the end
	open   bool   // the last part is a text that can be joined with
	thinks bool   // that text is a thought
	signed bool   // a part has a signature or is a thought: the list must go back
}

// geminiPart is a part of an answer.
type geminiPart struct {
	text, call []byte // the values of text and functionCall, nil for none
	thought    bool
	signed     bool
	members    int
}

func readGeminiPart(raw []byte) (p geminiPart) {
	for key, value := range wire.Members(raw) {
		p.members++
		switch string(key) {
		case "text":
			p.text = value
		case "thought":
			p.thought = string(value) == "true"
		case "thoughtSignature":
			p.signed = len(value) > 2
		case "functionCall":
			p.call = value
		}
	}
	return p
}

// add adds a part, but none with an empty text only: Gemini sends those, and refuses
// them in a request.
func (l *partList) add(raw []byte, p geminiPart) {
	bare := p.text != nil && (p.members == 1 || p.members == 2 && p.thought)
	switch {
	case bare && len(p.text) > 2 && p.text[0] == '"':
		inner := p.text[1 : len(p.text)-1] // as it stands in its quotes
		if l.open && l.thinks == p.thought {
			l.b = append(l.b, inner...)
			return
		}
		l.next()
		l.open, l.thinks = true, p.thought
		if l.b = append(l.b, '{'); p.thought {
			l.signed = true
			l.b = append(l.b, `"thought":true,`...)
		}
		l.b = append(append(l.b, `"text":"`...), inner...)
	case p.members > 0 && !bare:
		l.next()
		l.b = append(l.b, raw...)
		l.signed = l.signed || p.signed || p.thought
	}
}

// next ends the open part and begins another.
func (l *partList) next() {
	if l.open {
		l.b, l.open = append(l.b, `"}`...), false
	}
	l.b = append(l.b, "[,"[min(len(l.b), 1)])
}

// list ends the list, which has a part, and makes it one line, as stored records
// are. The line ends stand between JSON's tokens.
func (l *partList) list() []byte {
	if l.open {
		l.b, l.open = append(l.b, `"}`...), false
	}
	return append(bytes.Map(func(r rune) rune {
		if r == '\n' || r == '\r' {
			return ' '
		}
		return r
	}, l.b), ']')
}

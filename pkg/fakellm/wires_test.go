package fakellm

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"zino/pkg/sse"
	"zino/pkg/zinotest"
)

// heard is an answer in a form common to all wires.
type heard struct {
	text, reasoning, signature, reason string
	calls                              []Call
	usage                              Usage
	failure                            string // the error in the answer
	end                                bool   // has the end mark
	junk                               int    // events that are not JSON
}

// client is a client of one wire.
type client struct {
	name, path, whole string // path for a stream, and for a whole answer
	body              string // with the placeholders STREAM and TEXT
	hear              func(h *heard, name string, data []byte)
	lines             bool
	mark              bool // the wire has an end mark besides the reason
}

var clients = []client{
	{
		name: "OpenAI", path: "/v1/chat/completions", whole: "/v1/chat/completions", hear: hearOpenAI, mark: true,
		body: `{"model":"m","stream":STREAM,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"TEXT"}]}`,
	},
	{
		name: "OpenRouter", path: "/api/v1/chat/completions", whole: "/api/v1/chat/completions", hear: hearOpenAI, mark: true,
		body: `{"model":"m","stream":STREAM,"messages":[{"role":"user","content":"TEXT"}]}`,
	},
	{
		name: "Anthropic", path: "/v1/messages", whole: "/v1/messages", hear: hearAnthropic, mark: true,
		body: `{"model":"m","max_tokens":9,"stream":STREAM,"messages":[{"role":"user","content":[{"type":"text","text":"TEXT"}]}]}`,
	},
	{
		name: "Responses", path: "/v1/responses", whole: "/v1/responses", hear: hearResponses,
		body: `{"model":"m","stream":STREAM,"input":[{"role":"user","content":"TEXT"}]}`,
	},
	{
		name: "Gemini", path: "/v1beta/models/m:streamGenerateContent?alt=sse", whole: "/v1beta/models/m:generateContent", hear: hearGemini,
		body: `{"contents":[{"role":"user","parts":[{"text":"TEXT"}]}]}`,
	},
	{
		name: "Ollama", path: "/api/chat", whole: "/api/chat", hear: hearOllama, lines: true,
		body: `{"model":"m","stream":STREAM,"messages":[{"role":"user","content":"TEXT"}]}`,
	},
}

// post sends a request and returns the response with its body open.
func (c client) post(t *testing.T, s *Server, stream bool, text string) *http.Response {
	t.Helper()
	path, flag := c.whole, "false"
	if stream {
		path, flag = c.path, "true"
	}
	body := strings.NewReplacer("STREAM", flag, "TEXT", text).Replace(c.body)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.Host+path, strings.NewReader(body))
	zinotest.Must(t, err)
	req.Header.Set("Anthropic-Version", "2023-06-01")
	resp, err := http.DefaultTransport.RoundTrip(req)
	zinotest.Must(t, err)
	t.Cleanup(func() { resp.Body.Close() })
	return resp
}

// ask sends a request and reads the whole answer.
func (c client) ask(t *testing.T, s *Server, stream bool, text string) heard {
	t.Helper()
	resp := c.post(t, s, stream, text)
	h := heard{}
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "application/json") {
		raw, err := read(resp)
		zinotest.Must(t, err)
		h.take(c, "", []byte(strings.TrimPrefix(raw, bom)))
		return h
	}
	for next := c.events(resp.Body); ; {
		name, data, err := next()
		if err == io.EOF {
			return h
		}
		zinotest.Must(t, err)
		h.take(c, name, data)
	}
}

// take reads one event.
func (h *heard) take(c client, name string, data []byte) {
	if string(data) == "[DONE]" {
		h.end = true
		return
	}
	if !json.Valid(data) {
		h.junk++
		return
	}
	c.hear(h, name, data)
}

// events reads a stream in the wire's framing.
func (c client) events(body io.Reader) func() (string, []byte, error) {
	if !c.lines {
		r := sse.NewReader(body)
		return func() (string, []byte, error) {
			ev, err := r.Next()
			return ev.Name, ev.Data, err
		}
	}
	all, err := io.ReadAll(body)
	lines := strings.Split(strings.TrimPrefix(string(all), bom), "\n")
	return func() (string, []byte, error) {
		for len(lines) > 0 {
			line := strings.TrimSpace(lines[0])
			if lines = lines[1:]; line != "" {
				return "", []byte(line), nil
			}
		}
		if err != nil {
			return "", nil, err
		}
		return "", nil, io.EOF
	}
}

// decodeInto decodes data that is known to be JSON.
func decodeInto(data []byte, v any) {
	if err := json.Unmarshal(data, v); err != nil {
		panic(err)
	}
}

// failed reads an error, an object with a message or a string.
func (h *heard) failed(raw json.RawMessage) {
	var e struct{ Message string }
	if len(raw) == 0 {
		return
	}
	if json.Unmarshal(raw, &e) != nil {
		decodeInto(raw, &e.Message)
	}
	h.failure = e.Message
}

// addCall adds a call, or appends to the call with that index.
func (h *heard) addCall(i int, id, name, args string) {
	for len(h.calls) <= i {
		h.calls = append(h.calls, Call{})
	}
	h.calls[i].ID += id
	h.calls[i].Name += name
	h.calls[i].Args += args
}

// compact removes the spaces from arguments in JSON.
func compact(raw json.RawMessage) string {
	var out bytes.Buffer
	if json.Compact(&out, raw) != nil {
		return ""
	}
	return out.String()
}

type openaiHeard struct {
	Content          string
	Reasoning        string
	ReasoningContent string `json:"reasoning_content"`
	ReasoningDetails []struct {
		Signature string
	} `json:"reasoning_details"`
	ToolCalls []struct {
		Index    *int
		ID       string
		Function struct{ Name, Arguments string }
		Extra    struct {
			Google struct {
				Signature string `json:"thought_signature"`
			}
		} `json:"extra_content"`
	} `json:"tool_calls"`
}

func hearOpenAI(h *heard, _ string, data []byte) {
	var in struct {
		Choices []struct {
			Delta, Message openaiHeard
			FinishReason   string `json:"finish_reason"`
		}
		Usage struct {
			Prompt     int `json:"prompt_tokens"`
			Completion int `json:"completion_tokens"`
			Details    struct {
				Read  int `json:"cached_tokens"`
				Write int `json:"cache_write_tokens"`
			} `json:"prompt_tokens_details"`
			Out struct {
				Reasoning int `json:"reasoning_tokens"`
			} `json:"completion_tokens_details"`
		}
		Error json.RawMessage
	}
	decodeInto(data, &in)
	h.failed(in.Error)
	if u := in.Usage; u.Prompt > 0 {
		h.usage = Usage{u.Prompt, u.Completion, u.Details.Read, u.Details.Write, u.Out.Reasoning}
	}
	for _, c := range in.Choices {
		h.openai(c.Delta)
		h.openai(c.Message)
		h.reason += c.FinishReason
	}
}

func (h *heard) openai(m openaiHeard) {
	h.text += m.Content
	h.reasoning += m.Reasoning + m.ReasoningContent
	for _, d := range m.ReasoningDetails {
		h.signature += d.Signature
	}
	for i, c := range m.ToolCalls {
		switch {
		case c.Index != nil:
			i = *c.Index
		case c.Function.Name != "":
			i = len(h.calls)
		default:
			i = len(h.calls) - 1
		}
		h.addCall(i, c.ID, c.Function.Name, c.Function.Arguments)
		h.signature += c.Extra.Google.Signature
	}
}

type anthropicUsageHeard struct {
	In    int `json:"input_tokens"`
	Out   int `json:"output_tokens"`
	Read  int `json:"cache_read_input_tokens"`
	Write int `json:"cache_creation_input_tokens"`
}

type anthropicBlockHeard struct {
	Type, Text, Thinking, Signature, ID, Name string
	Input                                     json.RawMessage
	PartialJSON                               string `json:"partial_json"`
}

func hearAnthropic(h *heard, name string, data []byte) {
	var in struct {
		Type    string
		Message struct{ Usage anthropicUsageHeard }
		Index   int
		Block   anthropicBlockHeard `json:"content_block"`
		Delta   struct {
			anthropicBlockHeard
			StopReason string `json:"stop_reason"`
		}
		Content    []anthropicBlockHeard
		StopReason string `json:"stop_reason"`
		Usage      anthropicUsageHeard
		Error      json.RawMessage
	}
	decodeInto(data, &in)
	if name != "" && name != in.Type {
		h.junk++
	}
	h.failed(in.Error)
	h.end = h.end || in.Type == "message_stop"
	h.anthropicUsage(in.Message.Usage)
	h.anthropicUsage(in.Usage)
	h.anthropic(in.Block)
	h.anthropic(in.Delta.anthropicBlockHeard)
	for _, b := range in.Content {
		h.anthropic(b)
		if b.Type == "tool_use" {
			h.addCall(len(h.calls)-1, "", "", compact(b.Input))
		}
	}
	h.reason += in.Delta.StopReason + in.StopReason
}

func (h *heard) anthropic(b anthropicBlockHeard) {
	h.text += b.Text
	h.reasoning += b.Thinking
	h.signature += b.Signature
	switch b.Type {
	case "tool_use":
		h.addCall(len(h.calls), b.ID, b.Name, "")
	case "input_json_delta":
		h.addCall(len(h.calls)-1, "", "", b.PartialJSON)
	}
}

func (h *heard) anthropicUsage(u anthropicUsageHeard) {
	if u.Out > 0 {
		h.usage.Out = u.Out
	}
	if u.In > 0 {
		h.usage.In, h.usage.CacheRead, h.usage.CacheWrite = u.In+u.Read+u.Write, u.Read, u.Write
	}
}

func hearGemini(h *heard, _ string, data []byte) {
	var in struct {
		Candidates []struct {
			Content struct {
				Parts []struct {
					Text             string
					Thought          bool
					ThoughtSignature []byte
					FunctionCall     *struct {
						ID, Name string
						Args     json.RawMessage
					}
				}
			}
			FinishReason string
		}
		Usage struct {
			Prompt     int `json:"promptTokenCount"`
			Cached     int `json:"cachedContentTokenCount"`
			Candidates int `json:"candidatesTokenCount"`
			Thoughts   int `json:"thoughtsTokenCount"`
		} `json:"usageMetadata"`
		Error json.RawMessage
	}
	decodeInto(data, &in)
	h.failed(in.Error)
	if u := in.Usage; u.Prompt > 0 {
		h.usage = Usage{u.Prompt, u.Candidates + u.Thoughts, u.Cached, 0, u.Thoughts}
	}
	for _, c := range in.Candidates {
		for _, p := range c.Content.Parts {
			if p.Thought {
				h.reasoning += p.Text
			} else {
				h.text += p.Text
			}
			if f := p.FunctionCall; f != nil {
				h.addCall(len(h.calls), f.ID, f.Name, compact(f.Args))
			}
			h.signature += string(p.ThoughtSignature)
		}
		h.reason += c.FinishReason
	}
	h.end = h.end || h.reason != ""
}

type responsesHeard struct {
	Type, Name, Arguments string
	CallID                string `json:"call_id"`
	Encrypted             string `json:"encrypted_content"`
	Content, Summary      []struct{ Text string }
}

func hearResponses(h *heard, name string, data []byte) {
	type response struct {
		Status     string
		Output     []responsesHeard
		Incomplete struct{ Reason string } `json:"incomplete_details"`
		Usage      struct {
			In        int `json:"input_tokens"`
			Out       int `json:"output_tokens"`
			InDetails struct {
				Read  int `json:"cached_tokens"`
				Write int `json:"cache_write_tokens"`
			} `json:"input_tokens_details"`
			OutDetails struct {
				Reasoning int `json:"reasoning_tokens"`
			} `json:"output_tokens_details"`
		}
	}
	var in struct {
		Type, Delta, Message string
		Item                 responsesHeard
		Response             response
		Error                json.RawMessage
		Object               string
	}
	decodeInto(data, &in)
	if name != "" && name != in.Type {
		h.junk++
	}
	if in.Type == "error" {
		h.failure = in.Message
	}
	if string(in.Error) != "null" {
		h.failed(in.Error)
	}
	if in.Object == "response" {
		decodeInto(data, &in.Response)
		for _, item := range in.Response.Output {
			for _, part := range item.Summary {
				h.reasoning += part.Text
			}
			for _, part := range item.Content {
				h.text += part.Text
			}
			h.responses(item)
			if item.Type == "function_call" {
				h.addCall(len(h.calls)-1, "", "", item.Arguments)
			}
		}
	}
	switch in.Type {
	case "response.output_text.delta":
		h.text += in.Delta
	case "response.reasoning_summary_text.delta":
		h.reasoning += in.Delta
	case "response.function_call_arguments.delta":
		h.addCall(len(h.calls)-1, "", "", in.Delta)
	case "response.output_item.added":
		in.Item.Encrypted = ""
		h.responses(in.Item)
	case "response.output_item.done":
		h.signature += in.Item.Encrypted
	}
	if u := in.Response.Usage; u.In > 0 {
		h.usage = Usage{u.In, u.Out, u.InDetails.Read, u.InDetails.Write, u.OutDetails.Reasoning}
	}
	if status := in.Response.Status; status == "completed" || status == "incomplete" {
		h.end = true
		if h.reason = in.Response.Incomplete.Reason; h.reason == "" {
			h.reason = status
		}
	}
}

func (h *heard) responses(item responsesHeard) {
	h.signature += item.Encrypted
	if item.Type == "function_call" {
		h.addCall(len(h.calls), item.CallID, item.Name, "")
	}
}

func hearOllama(h *heard, _ string, data []byte) {
	var in struct {
		Message struct {
			Content, Thinking string
			ToolCalls         []struct {
				ID       string
				Function struct {
					Name      string
					Arguments json.RawMessage
				}
			} `json:"tool_calls"`
		}
		Done   bool
		Reason string `json:"done_reason"`
		In     int    `json:"prompt_eval_count"`
		Out    int    `json:"eval_count"`
		Error  json.RawMessage
	}
	decodeInto(data, &in)
	h.failed(in.Error)
	h.text += in.Message.Content
	h.reasoning += in.Message.Thinking
	for _, c := range in.Message.ToolCalls {
		h.addCall(len(h.calls), c.ID, c.Function.Name, compact(c.Function.Arguments))
	}
	h.end = h.end || in.Done
	h.reason += in.Reason
	if in.In > 0 {
		h.usage = Usage{In: in.In, Out: in.Out}
	}
}

// TestRefusedParameter checks that a request with a parameter that the turn refuses
// gets status 400 in the wire's form, and one without it the reply.
func TestRefusedParameter(t *testing.T) {
	for _, c := range clients {
		t.Run(c.name, func(t *testing.T) {
			parameter, with := "top_p", `"top_p":1,`
			switch c.name {
			case "Gemini":
				parameter, with = "topP", `"generationConfig":{"topP":1},`
			case "Ollama":
				with = `"options":{"top_p":1},`
			}
			s := New(Turn{Text: "x", Refuses: []string{"seed", parameter}, Times: 2})
			defer s.Close()
			resp := c.post(t, s, false, "a")
			resp.Body.Close()
			if resp.StatusCode != http.StatusOK {
				t.Errorf("without the parameter: status %d", resp.StatusCode)
			}
			c.body = "{" + with + c.body[1:]
			resp = c.post(t, s, false, "a")
			body, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if err != nil || resp.StatusCode != http.StatusBadRequest || !strings.Contains(string(body), parameter) {
				t.Errorf("with it: status %d, %s, %v", resp.StatusCode, body, err)
			}
		})
	}
}

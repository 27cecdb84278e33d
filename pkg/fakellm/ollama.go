package fakellm

import (
	"encoding/json"
	"net/http"
)

// ollama is the wire of Ollama's /api/chat.
var ollama = dialect{
	read: readOllama, stream: ollamaStream, whole: ollamaWhole, failure: ollamaFailure, unknown: ollamaUnknown, lines: true,
}

func readOllama(_ *http.Request, raw []byte) (asked, error) {
	var in struct {
		Model    string `json:"model"`
		Stream   *bool  `json:"stream"`
		Messages []struct {
			Content string `json:"content"`
		} `json:"messages"`
	}
	if json.Unmarshal(raw, &in) != nil {
		return asked{}, errNoChat
	}
	out := asked{model: in.Model, stream: in.Stream == nil || *in.Stream}
	if n := len(in.Messages); n > 0 {
		out.last = in.Messages[n-1].Content
	}
	return out, nil
}

func ollamaStream(r reply) flow {
	var out flow
	line := func(message object) {
		out.body = append(out.body, event{data: r.ollamaLine(message)})
	}
	for _, text := range r.cut(r.Reasoning) {
		line(object{"content": "", "thinking": text})
	}
	for _, text := range r.pieces() {
		line(object{"content": text})
	}
	calls, broken := r.ollamaCalls()
	for _, call := range calls {
		line(object{"content": "", "tool_calls": []object{call}})
	}
	last := r.ollamaLine(object{"content": ""})
	r.ollamaEnd(last)
	switch {
	case broken != "":
		out.body = append(out.body, event{data: ollamaFailure(0, broken)})
	case r.End == Mark:
		delete(last, "done_reason")
		out.mark = []event{{data: last}}
	default:
		out.finish = []event{{data: last}}
	}
	return out
}

func (r reply) ollamaLine(message object) object {
	message["role"] = "assistant"
	return object{"model": r.model, "created_at": "2000-01-01T00:00:00Z", "message": message, "done": false}
}

// ollamaCalls returns the calls before the first whose arguments are not JSON, and
// the server's error for that one.
func (r reply) ollamaCalls() (list []object, broken string) {
	for i, call := range r.Calls {
		args, ok := arguments(call)
		if !ok {
			return list, "error parsing tool call: raw='" + call.Args + "', err=unexpected end of JSON input"
		}
		function := object{"name": call.Name, "arguments": args}
		if !call.NoIndex {
			function["index"] = i
		}
		out := object{"function": function}
		if !call.NoID {
			out["id"] = call.ID
		}
		list = append(list, out)
	}
	return list, ""
}

// ollamaEnd adds done, the reason and the usage to the last line.
func (r reply) ollamaEnd(line object) {
	line["done"], line["done_reason"] = true, r.reason("stop", "stop", "length", "stop")
	n, ok := r.tokens()
	if !ok {
		return
	}
	line["prompt_eval_count"], line["eval_count"] = n.In, n.Out
	line["total_duration"], line["load_duration"] = 2, 1 // ns
}

func ollamaWhole(r reply) (int, object) {
	calls, broken := r.ollamaCalls()
	if broken != "" {
		return http.StatusInternalServerError, ollamaFailure(0, broken)
	}
	message := object{"content": r.content()}
	if r.Reasoning != "" {
		message["thinking"] = r.Reasoning
	}
	if len(calls) > 0 {
		message["tool_calls"] = calls
	}
	body := r.ollamaLine(message)
	r.ollamaEnd(body)
	return http.StatusOK, body
}

func ollamaFailure(_ int, message string) object { return object{"error": message} }

func ollamaUnknown(r reply, _ event) []event {
	future := r.ollamaLine(object{"content": "", "future": object{"a": 1}})
	return []event{{data: object{"future": object{"a": 1}}}, {data: future}}
}

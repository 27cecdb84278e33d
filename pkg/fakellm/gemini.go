package fakellm

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
)

// gemini is the wire of Gemini's generateContent.
var gemini = dialect{
	read: readGemini, stream: geminiStream, whole: geminiWhole, failure: geminiFailure, unknown: geminiUnknown,
}

func readGemini(r *http.Request, raw []byte) (asked, error) {
	var in struct {
		Contents []struct {
			Parts []struct {
				Text     string `json:"text"`
				Response struct {
					Response any `json:"response"`
				} `json:"functionResponse"`
			} `json:"parts"`
		} `json:"contents"`
	}
	model, method, _ := strings.Cut(r.PathValue("call"), ":")
	out := asked{model: model, stream: method == "streamGenerateContent"}
	switch {
	case method != "generateContent" && !out.stream:
		return out, errors.New("no such method: " + method)
	case out.stream && r.URL.Query().Get("alt") != "sse":
		return out, errors.New("streamGenerateContent is known with ?alt=sse only")
	case json.Unmarshal(raw, &in) != nil:
		return out, errNoChat
	}
	if n := len(in.Contents); n > 0 {
		var texts []string
		for _, part := range in.Contents[n-1].Parts {
			texts = append(append(texts, part.Text), allTexts(part.Response.Response)...)
		}
		out.last = strings.Join(texts, "\n")
	}
	return out, nil
}

// allTexts returns every text in a JSON value, at any depth.
func allTexts(v any) (texts []string) {
	switch v := v.(type) {
	case string:
		return []string{v}
	case []any:
		for _, inner := range v {
			texts = append(texts, allTexts(inner)...)
		}
	case object:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			texts = append(texts, allTexts(v[key])...)
		}
	}
	return texts
}

func geminiStream(r reply) flow {
	var out flow
	for _, part := range r.geminiParts(r.cut(r.Reasoning), r.pieces()) {
		out.body = append(out.body, event{data: r.geminiResponse(nil, part)})
	}
	if len(out.body) == 0 {
		out.body = []event{{data: r.geminiResponse(nil, object{"text": ""})}}
	}
	last := r.geminiResponse(r.geminiReason(), object{"text": ""})
	if usage := r.geminiUsage(); usage != nil {
		last["usageMetadata"] = usage
	}
	if r.End != Mark {
		return flow{body: out.body, finish: []event{{data: last}}}
	}
	delete(last["candidates"].([]object)[0], "finishReason")
	return flow{body: out.body, mark: []event{{data: last}}}
}

// geminiParts returns the parts of a reply, in order.
func (r reply) geminiParts(thoughts, texts []string) (parts []object) {
	for _, text := range thoughts {
		parts = append(parts, object{"text": text, "thought": true})
	}
	for _, text := range texts {
		parts = append(parts, object{"text": text})
	}
	for i, call := range r.Calls {
		args, ok := arguments(call)
		if !ok {
			break // reported by the finish reason only
		}
		out := object{"name": call.Name, "args": args}
		if !call.NoID {
			out["id"] = call.ID
		}
		part := object{"functionCall": out}
		if i == 0 && r.Reasoning != "" {
			part["thoughtSignature"] = base64.StdEncoding.EncodeToString([]byte(r.signature))
		}
		parts = append(parts, part)
	}
	return parts
}

// broken reports whether a call's arguments are not JSON.
func (r reply) broken() bool {
	for _, call := range r.Calls {
		if _, ok := arguments(call); !ok {
			return true
		}
	}
	return false
}

func (r reply) geminiReason() string {
	if r.broken() && r.Finish == "" {
		return "MALFORMED_FUNCTION_CALL"
	}
	return r.reason("STOP", "STOP", "MAX_TOKENS", "SAFETY")
}

// geminiResponse returns a response, or a chunk of one; without a reason if it is nil.
func (r reply) geminiResponse(reason any, parts ...object) object {
	candidate := object{"index": 0, "content": object{"role": "model", "parts": parts}}
	if reason != nil {
		candidate["finishReason"] = reason
	}
	return object{"candidates": []object{candidate}, "modelVersion": r.model, "responseId": "fake"}
}

// geminiUsage returns the usage, nil if the turn reports none. On this wire
// candidatesTokenCount excludes thoughts.
func (r reply) geminiUsage() object {
	n, ok := r.tokens()
	if !ok {
		return nil
	}
	out := object{"promptTokenCount": n.In, "candidatesTokenCount": n.Out - n.Reasoning, "totalTokenCount": n.In + n.Out}
	if n.CacheRead > 0 {
		out["cachedContentTokenCount"] = n.CacheRead
	}
	if n.Reasoning > 0 {
		out["thoughtsTokenCount"] = n.Reasoning
	}
	return out
}

func geminiWhole(r reply) (int, object) {
	var thoughts, texts []string
	if r.Reasoning != "" {
		thoughts = []string{r.Reasoning}
	}
	if text := r.content(); text != "" || len(r.Calls) == 0 {
		texts = []string{text}
	}
	body := r.geminiResponse(r.geminiReason(), r.geminiParts(thoughts, texts)...)
	if usage := r.geminiUsage(); usage != nil {
		body["usageMetadata"] = usage
	}
	return http.StatusOK, body
}

func geminiFailure(status int, message string) object {
	name := "INTERNAL"
	switch status {
	case http.StatusBadRequest:
		name = "INVALID_ARGUMENT"
	case http.StatusServiceUnavailable:
		name = "UNAVAILABLE"
	}
	return object{"error": object{"code": status, "message": message, "status": name}}
}

func geminiUnknown(r reply, _ event) []event {
	return []event{
		{"future", object{"future": object{"a": 1}}},
		{"", r.geminiResponse(nil, object{"futurePart": object{"a": 1}})},
	}
}

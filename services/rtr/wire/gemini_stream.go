package wire

import (
	"fmt"

	"zino/pkg/wire"
	"zino/proto"
)

// geminiAnswer reads a stream of complete response objects, each with the new parts
// and the cumulative usage.
type geminiAnswer struct {
	parts   partList
	calls   int
	usage   []byte // the last usageMetadata
	reason  string
	scratch []byte
}

// event reads one response, or a list of responses as sent without alt=sse. It
// continues after the finish reason, because the usage may follow it.
func (a *geminiAnswer) event(x *exchange, _ string, raw []byte) error {
	if !wire.Valid(raw) || raw[0] != '{' && raw[0] != '[' {
		return x.unparsed(raw)
	}
	if raw[0] == '[' {
		for response := range wire.Items(raw) {
			if response[0] != '{' {
				return x.unparsed(raw)
			}
			if err := a.event(x, "", response); err != nil {
				return err
			}
		}
		return nil
	}
	var candidates, feedback []byte
	for key, value := range wire.Members(raw) {
		switch string(key) {
		case "error":
			if says(value) {
				return x.failed(raw)
			}
		case "candidates":
			candidates = value
		case "usageMetadata":
			a.usage = append(a.usage[:0], value...)
		case "promptFeedback":
			feedback = value
		}
	}
	if !isList(candidates) {
		return x.unparsed(raw)
	}
	none := true
	for candidate := range wire.Items(candidates) {
		none = false
		if err := a.candidate(x, candidate); err != nil {
			return err
		}
	}
	if !none {
		return nil
	}
	// A blocked prompt has a reason instead of candidates.
	reason := stringOf(memberOf(feedback, "blockReason"))
	if reason == "" || reason == "BLOCKED_REASON_UNSPECIFIED" {
		return nil
	}
	if message := stringOf(memberOf(feedback, "blockReasonMessage")); message != "" {
		reason += ": " + message
	}
	return fault(Stop, proto.CodeDenied, kindAPI,
		fmt.Sprintf("the provider blocked the prompt (%s): change what is asked, or take another model", x.mask.text(reason, maxMessage)))
}

// isList reports whether a member is a list, null or missing.
func isList(raw []byte) bool { return len(raw) == 0 || raw[0] == '[' || string(raw) == "null" }

// candidate reads the candidate with index 0; only one is requested.
func (a *geminiAnswer) candidate(x *exchange, raw []byte) error {
	var content, reason, message []byte
	for key, value := range wire.Members(raw) {
		switch string(key) {
		case "index":
			if string(value) != "0" && string(value) != "null" {
				return nil
			}
		case "content":
			content = value
		case "finishReason":
			reason = value
		case "finishMessage":
			message = value
		}
	}
	parts := memberOf(content, "parts")
	if !isList(parts) {
		return x.unparsed(raw)
	}
	for part := range wire.Items(parts) {
		if err := a.part(x, part); err != nil {
			return err
		}
	}
	word := stringOf(reason)
	switch word {
	case "", "FINISH_REASON_UNSPECIFIED":
		return nil
	case "MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS", "MISSING_THOUGHT_SIGNATURE",
		"MALFORMED_RESPONSE", "NO_IMAGE", "IMAGE_OTHER", "CONTINUATION", "OTHER":
		if m := stringOf(message); m != "" {
			word += ": " + m
		}
		return fault(Stop, proto.CodeUnavailable, kindAPI,
			fmt.Sprintf("the model failed in the middle of its answer (%s): try again, or take another model", x.mask.text(word, maxMessage)))
	case "LANGUAGE", "MODEL_ARMOR", "IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION":
		word = "SAFETY"
	}
	a.reason = stopReason(word)
	x.finish()
	return nil
}

// part reads a part. A part that is neither text nor a call is kept in the state
// only.
func (a *geminiAnswer) part(x *exchange, raw []byte) error {
	p := readGeminiPart(raw)
	a.parts.add(raw, p)
	if len(a.parts.b) > MaxAnswer {
		return x.tooLarge()
	}
	if p.call == nil {
		if len(p.text) <= 2 || p.text[0] != '"' {
			return nil
		}
		kind := Text
		if p.thought {
			kind = Reasoning
		}
		a.scratch = appendContent(a.scratch[:0], p.text)
		return x.emit(Event{Kind: kind, Delta: a.scratch})
	}
	// Calls arrive complete: partial arguments are opt-in. Reject them, since wrongly
	// joined arguments must not be executed.
	if says(memberOf(p.call, "partialArgs")) || string(memberOf(p.call, "willContinue")) == "true" {
		return x.garbled("sent the arguments of a call in pieces, which it was not asked for", p.call)
	}
	c := geminiCall(p.call)
	if c.Name == "" {
		return nil
	}
	a.calls++
	return x.emitCall(a.calls-1, c.ID, c.Name, c.Args)
}

// end emits the last usage, also of a broken answer, since its tokens are billed,
// and then the last events of a complete answer. candidatesTokenCount excludes
// thoughts; promptTokenCount includes cached tokens.
func (a *geminiAnswer) end(x *exchange, err error) error {
	var prompt, tools, said, thoughts, cached int64
	for key, value := range wire.Members(a.usage) {
		switch string(key) {
		case "promptTokenCount":
			setTokens(&prompt, value)
		case "toolUsePromptTokenCount":
			setTokens(&tools, value)
		case "candidatesTokenCount":
			setTokens(&said, value)
		case "thoughtsTokenCount":
			setTokens(&thoughts, value)
		case "cachedContentTokenCount":
			setTokens(&cached, value)
		}
	}
	if prompt+tools+said+thoughts > 0 {
		usage := &proto.Usage{InputTokens: prompt + tools, OutputTokens: said + thoughts, CacheReadTokens: cached, ReasoningTokens: thoughts}
		if failed := x.emit(Event{Kind: Used, Usage: usage}); err == nil {
			err = failed
		}
	}
	if err != nil {
		return err
	}
	var state []byte
	if a.calls > 0 && a.parts.signed {
		state = newState("gemini", x.model, a.parts.list())
	}
	if a.calls > 0 && a.reason == "stop" {
		a.reason = "tool_calls" // Gemini's STOP covers both
	}
	return x.emitEnd(state, a.reason)
}

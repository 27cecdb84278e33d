package wire

import (
	"fmt"

	"zino/pkg/wire"
	"zino/proto"
)

// geminiAnswer reads a stream of responses, each of them whole: the new parts, and
// the usage so far.
type geminiAnswer struct {
	parts   partList
	calls   int
	usage   []byte // the last usageMetadata
	reason  string
	scratch []byte
}

// event reads one response, or a list of them as without alt=sse. It reads on after
// the finish reason: the usage may follow it.
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
	// The reason for a blocked prompt stands in place of candidates.
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

// isList reports whether a member is a list; a missing one and null are empty ones.
func isList(raw []byte) bool { return len(raw) == 0 || raw[0] == '[' || string(raw) == "null" }

// candidate reads the first of the candidates; only one is asked for.
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

// part reads a part. Those that are neither text nor a call are only sent back with
// the others.
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
	// A call comes whole. Arguments in pieces come only to clients that ask for
	// them; what is pieced together wrongly must not be run.
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

// end emits the last usage, of a broken answer too, as its tokens are paid for; then
// the last events of a complete answer. Thoughts are counted besides the candidates'
// tokens, those from the cache among the prompt's.
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
		state = newState("gemini", x.req.Model, a.parts.list())
	}
	if a.calls > 0 && a.reason == "stop" {
		a.reason = "tool_calls" // Gemini has no word for it
	}
	return x.emitEnd(state, a.reason)
}

package wire

import (
	"fmt"

	"zino/pkg/wire"
	"zino/proto"
	"zino/services/rtr/retry"
)

// finish takes a finish reason, and what Gemini says of it.
func (a *geminiAnswer) finish(reason, message string) error {
	switch reason {
	case "", "FINISH_REASON_UNSPECIFIED":
		return nil
	case "MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS", "MISSING_THOUGHT_SIGNATURE",
		"MALFORMED_RESPONSE", "NO_IMAGE", "IMAGE_OTHER", "CONTINUATION", "OTHER":
		return a.stopped(reason, message)
	case "LANGUAGE", "MODEL_ARMOR", "IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION":
		reason = "SAFETY"
	}
	a.finished, a.reason = true, stopReason(reason)
	a.x.hurry()
	return nil
}

// stopped is the error of an answer that Gemini itself calls a failure.
func (a *geminiAnswer) stopped(reason, message string) error {
	if message != "" {
		reason += ": " + message
	}
	return fault(retry.Stop, proto.CodeUnavailable, kindAPI,
		fmt.Sprintf("the model failed in the middle of its answer (%s): try again, or take another model", a.x.mask.text(reason, maxMessage)))
}

// blocked is the error of a prompt that Gemini does not answer, if feedback
// says so. It stands in place of candidates.
func (a *geminiAnswer) blocked(feedback []byte) error {
	var reason, message string
	for key, value := range wire.Members(feedback) {
		switch string(key) {
		case "blockReason":
			reason = text(value)
		case "blockReasonMessage":
			message = text(value)
		}
	}
	if reason == "" || reason == "BLOCKED_REASON_UNSPECIFIED" {
		return nil
	}
	if message != "" {
		reason += ": " + message
	}
	return fault(retry.Stop, proto.CodeDenied, kindAPI,
		fmt.Sprintf("the provider blocked the prompt (%s): change what is asked, or take another model", a.x.mask.text(reason, maxMessage)))
}

// geminiUsage reads a usageMetadata, nil for one that says nothing. The tokens
// of thoughts are counted beside the candidates', those from the cache among the
// prompt's.
func geminiUsage(raw []byte) *proto.Usage {
	var prompt, tools, said, thoughts, cached int64
	for key, value := range wire.Members(raw) {
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
	if prompt+tools+said+thoughts == 0 {
		return nil
	}
	return &proto.Usage{InputTokens: prompt + tools, OutputTokens: said + thoughts, CacheReadTokens: cached, ReasoningTokens: thoughts}
}

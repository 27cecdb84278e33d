package chat

import (
	"cmp"
	"strings"

	"zino/proto"
)

// remedy returns one command that may help after an error; "": none is known.
func remedy(e *proto.Error, provider string) string {
	message := strings.ToLower(e.Message + " " + e.Details)
	provider = cmp.Or(provider, "anthropic")
	contains := func(words ...string) bool {
		for _, word := range words {
			if strings.Contains(message, word) {
				return true
			}
		}
		return false
	}
	switch {
	case e.Status == 401 || e.Status == 403 || contains("api key", "api_key"):
		return "zino auth set " + provider
	case contains("connection refused", "could not connect"):
		return "/doctor"
	case e.Code == proto.CodeBudget:
		return "zino usage"
	case contains("context", "too long", "too many tokens") && contains("long", "window", "exceed", "large"):
		return "/handoff"
	case e.Status == 404, e.Status == 429, contains("model") && contains("not found", "unknown", "does not exist"):
		return "/model"
	}
	return ""
}

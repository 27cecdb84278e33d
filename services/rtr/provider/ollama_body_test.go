package provider

import (
	"testing"
)

func TestOllamaBodies(t *testing.T) { shapesFit(t, "ollama", "/api/chat", ollamaBody) }

func FuzzOllamaBody(f *testing.F) {
	addConversations(f)
	f.Fuzz(func(t *testing.T, raw []byte) { bodyHolds(t, raw, "/api/chat", ollamaBody) })
}

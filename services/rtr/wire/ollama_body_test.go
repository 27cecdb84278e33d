package wire

import "testing"

func TestOllamaBodies(t *testing.T) { shapesFit(t, "ollama", "/api/chat", ollamaBody) }

func FuzzOllamaBody(f *testing.F) { fuzzBodies(f, "/api/chat", ollamaBody) }

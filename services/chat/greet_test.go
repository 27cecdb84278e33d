package chat

import (
	"testing"

	"zino/pkg/zinotest"
	"zino/proto"
)

// TestConnectedTo checks which model the router's answer stands for.
func TestConnectedTo(t *testing.T) {
	answer := proto.RouterCapabilities{Provider: "anthropic", Model: "claude-sonnet-5-5", ContextWindow: 200_000}
	for _, test := range []struct {
		name    string
		request proto.Chat
		answer  proto.RouterCapabilities
		model   string
		context string
	}{
		{"configured", proto.Chat{}, answer, "claude-sonnet-5-5", "0 %"},
		{"named", proto.Chat{Provider: "anthropic", Model: "claude-sonnet-5-5"}, answer, "claude-sonnet-5-5", "0 %"},
		{"found", proto.Chat{Provider: "auto"}, answer, "claude-sonnet-5-5", "0 %"},
		{"unknown context", proto.Chat{}, proto.RouterCapabilities{Provider: "openai", Model: "local"}, "local", ""},
		{"another model", proto.Chat{Model: "other"}, answer, "before", ""},
		{"none", proto.Chat{}, proto.RouterCapabilities{Provider: offline, Fallback: true}, "before", ""},
	} {
		x := newTestChat(t)
		x.request, x.model = test.request, "before"
		x.connectedTo(test.answer)
		zinotest.Equal(t, test.name, x.model, test.model)
		zinotest.Equal(t, test.name+": context", x.contextText(), test.context)
	}
}

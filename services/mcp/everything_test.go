package mcp

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"zino/pkg/rpc"
	"zino/pkg/zinotest"
	"zino/proto"
)

// TestEverythingServer uses the server that the protocol's authors test clients with: a tool
// for each kind of content, prompts, resources.
func TestEverythingServer(t *testing.T) {
	node, modules := zinotest.Node(t)
	program := filepath.Join(modules, "@modelcontextprotocol/server-everything/dist/index.js")
	e := newRunning(t, fmt.Sprintf("[mcp.servers.all]\ncommand = [%q, %q, \"stdio\"]\nenv = { PLAIN = \"seen\" }\n", node, program))
	found, err := rpc.Call(t.Context(), e.client, proto.MCPSearch, proto.SearchTools{Query: "add two numbers"})
	zinotest.Must(t, err)
	if best := found.Tools[0]; best.Name != "get-sum" || !strings.Contains(string(best.Input), `"required":["a","b"]`) {
		t.Errorf("found %+v", best)
	}
	if state := e.state("all"); state.Tools < 13 || state.Protocol != "2025-11-25" || state.State != proto.MCPRunning {
		t.Errorf("state %+v", state)
	}
	zinotest.Equal(t, "text", e.text("all", "echo", `{"message":"bread"}`), "Echo: bread")
	zinotest.Equal(t, "numbers", e.text("all", "get-sum", `{"a":2,"b":3}`), "The sum of 2 and 3 is 5.")
	zinotest.Contains(t, "numbers as text", e.fails("all", "get-sum", `{"a":"2","b":3}`), "invalid_input: ")
	zinotest.Contains(t, "environment", e.text("all", "get-env", `{}`), `"PLAIN": "seen"`)

	structured := e.ask("all", "get-structured-content", `{"location":"Chicago"}`)
	zinotest.Equal(t, "structured", string(structured.Data.Structured)+structured.Data.Text, `{"conditions":"Light rain / drizzle","humidity":82,"temperature":36}`)
	picture := e.ask("all", "get-tiny-image", `{}`)
	if len(picture.attachments) != 1 || picture.attachments[0].MediaType != "image/png" || !strings.HasPrefix(string(picture.attachments[0].Data), "\x89PNG") {
		t.Errorf("attachments %d", len(picture.attachments))
	}
	annotated := e.ask("all", "get-annotated-message", `{"messageType":"success","includeImage":true}`)
	zinotest.Equal(t, "annotated", fmt.Sprint(annotated.Data.Text, len(annotated.attachments)), "Operation completed successfully1")

	links := e.ask("all", "get-resource-links", `{"count":2}`).Data.Resources
	if len(links) != 2 || links[0].Name != "Blob Resource 1" || links[1].MediaType != "text/plain" {
		t.Fatalf("links %+v", links)
	}
	read, err := rpc.Call(t.Context(), e.client, proto.MCPRead, proto.ReadResource{Server: "all", URI: links[1].URI})
	zinotest.Must(t, err)
	zinotest.Contains(t, "the resource behind a link", string(read.Result), `"ok":true`, "plaintext resource")
	zinotest.Contains(t, "an embedded resource", e.text("all", "get-resource-reference", `{"resourceType":"Text","resourceId":1}`), "plaintext resource")

	long := e.ask("all", "trigger-long-running-operation", `{"duration":0.2,"steps":4}`)
	zinotest.Contains(t, "long", long.Data.Text, "completed")
	if len(long.progress) == 0 || long.progress[0] != "1/4\n" {
		t.Errorf("progress %q", long.progress)
	}

	prompts, err := rpc.Call(t.Context(), e.client, proto.MCPPrompts, proto.ListPrompts{})
	zinotest.Must(t, err)
	if !slices.ContainsFunc(prompts.Prompts, func(p proto.MCPPromptInfo) bool {
		return p.Name == "args-prompt" && len(p.Arguments) == 2 && p.Arguments[0].Required && !p.Arguments[1].Required
	}) {
		t.Errorf("prompts %+v", prompts.Prompts)
	}
	prompt, err := rpc.Call(t.Context(), e.client, proto.MCPPrompt, proto.GetMCPPrompt{Server: "all", Name: "args-prompt", Arguments: map[string]string{"city": "Ulm"}})
	zinotest.Must(t, err)
	zinotest.Equal(t, "prompt", prompt.Text, "What's weather in Ulm?")
}

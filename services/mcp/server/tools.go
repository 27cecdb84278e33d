package server

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"zino/pkg/rpc"
	"zino/proto"
)

// pingLimit is how long a REPL may take to answer a ping.
const pingLimit = 800 * time.Millisecond

// definitions lists the tools in the order in which they are offered. An argument is
// described by the field of the method's request, "argument" or "argument=field", or by a
// text of its own in own.
var definitions = []struct {
	name, description string
	service, method   string
	arguments         []string
	required          []string
	own               map[string]string
	annotations       mcp.ToolAnnotations
	pages             bool
	handle            func(context.Context, *Server, *mcp.CallToolRequest) (any, string, error)
}{
	{
		name: "memory_search", description: "Searches the user's long-term memories in Zino by words, best first.",
		service: "mem", method: proto.MemSearchHard.Type, arguments: []string{"query", "top_k", "tag"}, required: []string{"query"},
		annotations: mcp.ToolAnnotations{ReadOnlyHint: true}, handle: handled(searchMemories),
	},
	{
		name: "memory_store", description: "Stores a fact in the user's long-term memories in Zino. Storing it again changes nothing.",
		service: "mem", method: proto.MemStoreHard.Type, arguments: []string{"text", "tag"}, required: []string{"text"},
		own:         map[string]string{"text": "The fact, in words that make sense on their own."},
		annotations: mcp.ToolAnnotations{IdempotentHint: true, DestructiveHint: new(bool)}, handle: handled(storeMemory),
	},
	{
		name: "sessions_search", description: "Finds earlier sessions with Zino that contain all words of a query.",
		service: "mem", method: proto.MemSearchSessions.Type, arguments: []string{"query", "limit"}, required: []string{"query"},
		annotations: mcp.ToolAnnotations{ReadOnlyHint: true}, handle: handled(searchSessions),
	},
	{
		name: "sessions_read", description: "Reads the events of a session with Zino: messages, tool calls, results. If more is true, ask again with from set to next.",
		service: "mem", method: proto.MemReadSession.Type, arguments: []string{"session_id", "from"}, required: []string{"session_id"},
		annotations: mcp.ToolAnnotations{ReadOnlyHint: true}, handle: handled(readSession),
	},
	{
		name: "pages_list", description: "Lists the live pages that are connected to Zino's REPL: browser tabs, workers, programs.",
		service: "repl", method: proto.ReplPages.Type, pages: true,
		annotations: mcp.ToolAnnotations{ReadOnlyHint: true}, handle: handled(listPages),
	},
	{
		name: "pages_eval", description: "Runs code in a live page and returns its value, or the error that it threw. The code and its result are recorded in the page's file.",
		service: "repl", method: proto.ReplEval.Type, arguments: []string{"page", "code", "timeout_ms"}, required: []string{"page", "code"},
		pages: true, handle: handled(evalPage),
	},
	{
		name: "ask", description: "Has Zino, an AI agent on this host, carry out a task or answer a question, with its own tools. The answer names the session; give its id to go on in it.",
		service: "daemon", method: proto.DaemonChat.Type, arguments: []string{"prompt=message", "session_id", "root", "model"}, required: []string{"prompt"},
		own: map[string]string{
			"session_id": "The session to go on in, as named by an earlier answer; absent: a new one.",
			"root":       "The working directory of the tools: an absolute path, in the directory that the server was started with.",
		},
		handle: handled(ask),
	},
}

// Names lists the names of all tools.
func Names() (list []string) {
	for _, d := range definitions {
		list = append(list, d.name)
	}
	return list
}

// tools returns the tools with their schemas, which are made of those of the methods.
func tools() (list []tool, err error) {
	for _, d := range definitions {
		schema, err := schemaOf(d.service, d.method, d.arguments, d.required, d.own)
		if err != nil {
			return nil, fmt.Errorf("tool %s: %w", d.name, err)
		}
		resolved, err := schema.Resolve(nil)
		if err != nil {
			return nil, fmt.Errorf("tool %s: %w", d.name, err)
		}
		annotations := d.annotations
		list = append(list, tool{
			definition: mcp.Tool{Name: d.name, Description: d.description, InputSchema: schema, Annotations: &annotations},
			schema:     resolved, handle: d.handle, pages: d.pages,
		})
	}
	return list, nil
}

// schemaOf returns the schema of a tool's arguments: fields of a method's request.
func schemaOf(service, method string, arguments, required []string, own map[string]string) (*jsonschema.Schema, error) {
	description, err := rpc.DescriptionOf(service)
	if err != nil {
		return nil, err
	}
	var request struct {
		Properties map[string]*jsonschema.Schema `json:"properties"`
	}
	for _, m := range description.Methods {
		if m.Type == method {
			if err := json.Unmarshal(m.Request, &request); err != nil {
				return nil, err
			}
		}
	}
	schema := &jsonschema.Schema{
		Type: "object", Properties: map[string]*jsonschema.Schema{}, Required: required,
		AdditionalProperties: &jsonschema.Schema{Not: &jsonschema.Schema{}},
	}
	for _, argument := range arguments {
		name, field, renamed := strings.Cut(argument, "=")
		if !renamed {
			field = name
		}
		property := request.Properties[field]
		if property == nil { // an argument of the tool alone
			property = &jsonschema.Schema{Type: "string"}
		}
		if text := own[name]; text != "" {
			property.Description = text
		}
		if property.Description == "" {
			return nil, fmt.Errorf("%s of %s has no field %q", method, service, field)
		}
		schema.Properties[name] = property
		schema.PropertyOrder = append(schema.PropertyOrder, name)
	}
	return schema, nil
}

// handled decodes the arguments of a handler.
func handled[Args any](do func(context.Context, *Server, *mcp.CallToolRequest, Args) (any, string, error)) func(context.Context, *Server, *mcp.CallToolRequest) (any, string, error) {
	return func(ctx context.Context, s *Server, req *mcp.CallToolRequest) (any, string, error) {
		var args Args
		if err := json.Unmarshal(req.Params.Arguments, &args); err != nil {
			return nil, "", fmt.Errorf("invalid arguments: %w", err)
		}
		return do(ctx, s, req, args)
	}
}

func searchMemories(ctx context.Context, s *Server, _ *mcp.CallToolRequest, args proto.SearchHard) (any, string, error) {
	found, err := forward(ctx, s, proto.MemSearchHard, args)
	return found, "", err
}

func storeMemory(ctx context.Context, s *Server, _ *mcp.CallToolRequest, args struct{ Text, Tag string }) (any, string, error) {
	messages, err := json.Marshal([]map[string]string{{"role": "user", "content": args.Text}})
	if err != nil {
		return nil, "", err
	}
	stored, err := forward(ctx, s, proto.MemStoreHard, proto.StoreHard{Messages: messages, Tag: args.Tag})
	return stored, "", err
}

func searchSessions(ctx context.Context, s *Server, _ *mcp.CallToolRequest, args proto.SearchSessions) (any, string, error) {
	hits, err := forward(ctx, s, proto.MemSearchSessions, args)
	return hits, "", err
}

func readSession(ctx context.Context, s *Server, _ *mcp.CallToolRequest, args proto.ReadSession) (any, string, error) {
	const page = 64 << 10 // bytes of events in one answer: a model reads it
	args.MaxBytes = page
	events, err := forward(ctx, s, proto.MemReadSession, args)
	events.Offsets = nil
	return events, "", err
}

func listPages(ctx context.Context, s *Server, _ *mcp.CallToolRequest, _ struct{}) (any, string, error) {
	pages, err := call(ctx, "repl", s.o.Repl, proto.ReplPages, proto.PagesRequest{})
	return pages, "", err
}

func evalPage(ctx context.Context, s *Server, req *mcp.CallToolRequest, args proto.Eval) (any, string, error) {
	args.Agent = "mcp"
	if info := req.Session.InitializeParams(); info != nil && info.ClientInfo != nil && info.ClientInfo.Name != "" {
		args.Agent = "mcp " + info.ClientInfo.Name
	}
	result, err := call(ctx, "repl", s.o.Repl, proto.ReplEval, args)
	return result, "", err
}

package agr

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"zino/pkg/gate"
	"zino/pkg/rpc"
	"zino/pkg/wire"
	"zino/proto"
)

// Names of the tools for MCP servers.
const (
	mcpSearch = "mcp_search"
	mcpCall   = "mcp_call"
)

// searchTools returns the two tools that reach all tools of MCP servers.
func searchTools(servers []string) []tool {
	return []tool{
		{
			function: function{
				mcpSearch, "Finds tools of the connected MCP servers by words; without words lists their names. Servers: " + strings.Join(servers, ", ") + ".",
				proto.Raw(`{"type":"object","properties":{"query":{"type":"string"},"server":{"type":"string"}}}`),
			},
			reads: true, recover: repeat, call: (*turn).searchMCP,
		},
		{
			function: function{
				mcpCall, "Calls a tool that mcp_search found.",
				proto.Raw(`{"type":"object","properties":{"server":{"type":"string"},"tool":{"type":"string"},"arguments":{"type":"object"}},"required":["server","tool","arguments"]}`),
			},
			required: []string{"server", "tool"}, byService: true, call: (*turn).callMCP,
		},
	}
}

// searchMCP lists tools: a line each, and the schemas of the best ones behind.
func (t *turn) searchMCP(c *call, f fields) result {
	query, err := f.text("query")
	server, serverErr := f.text("server")
	if err := errors.Join(err, serverErr); err != nil {
		return malformedCall(err)
	}
	req := proto.SearchTools{Query: query, Server: server, Root: t.req.Root, Project: t.req.Project, Client: t.req.Client}
	found, err := rpc.Call(t.ctx, t.mcp, proto.MCPSearch, req)
	for _, needed := range found.Needed { // servers of a host's constellation that never ran
		token, err := t.askPerson(c, needed)
		if _, ok := errors.AsType[stopped](err); ok {
			return failed(err)
		}
		if err == nil { // else it stays among the problems
			req.ServerTokens = append(req.ServerTokens, token)
		}
	}
	if len(req.ServerTokens) > 0 {
		found, err = rpc.Call(t.ctx, t.mcp, proto.MCPSearch, req)
	}
	if err != nil {
		return failed(err)
	}
	var lines []string
	schemas := []proto.Raw{}
	for _, tool := range found.Tools {
		lines = append(lines, tool.Server+"."+tool.Name+": "+tool.Description)
		if len(tool.Input) > 0 {
			schemas = append(schemas, encode(struct {
				Server string    `json:"server"`
				Tool   string    `json:"tool"`
				Input  proto.Raw `json:"input"`
			}{tool.Server, tool.Name, tool.Input}))
		}
	}
	lines = append(lines, found.Names...)
	if found.More > 0 {
		lines = append(lines, fmt.Sprintf("%d further tools fit.", found.More))
	}
	for _, server := range slices.Sorted(maps.Keys(found.Instructions)) {
		lines = append(lines, "The server "+server+" says: "+found.Instructions[server])
	}
	lines = append(lines, found.Problems...)
	if len(lines) == 0 {
		lines = append(lines, "No tool was found.")
	}
	for _, schema := range schemas {
		lines = append(lines, string(schema))
	}
	r := t.masked(result{text: strings.Join(lines, "\n")}) // before it is stored
	r.text = t.shortText(r.text)
	return r
}

// callMCP carries out mcp_call.
func (t *turn) callMCP(c *call, f fields) result {
	server, err := f.text("server")
	name, nameErr := f.text("tool")
	if err := errors.Join(err, nameErr); err != nil {
		return malformedCall(err)
	}
	arguments := unquoted(proto.Raw(f["arguments"]))
	if len(arguments) == 0 || string(arguments) == "null" {
		arguments = proto.Raw("{}")
	}
	if _, err := object(arguments); err != nil {
		return refused("arguments: %v", err)
	}
	return t.useMCP(c, server, name, arguments)
}

// useMCP calls a tool of an MCP server. It is never repeated: its effect is not known here.
func (t *turn) useMCP(c *call, server, name string, arguments proto.Raw) result {
	req := proto.CallTool{
		Server: server, Tool: name, Arguments: arguments, Root: t.req.Root, Project: t.req.Project, Client: t.req.Client,
		Events: t.req.Events, SessionID: t.req.SessionID, Turn: t.req.Turn, Key: t.fullKey(c), Ask: c.ask(),
	}
	var answer proto.ToolResult
	err := t.approved(c, func(grant string) (err error) {
		if req.Token = t.token(); gate.IsServer(grant) {
			req.ServerToken = grant
		} else {
			req.Grant = grant
		}
		answer, err = rpc.CallEvents(t.ctx, t.mcp, proto.MCPCall, req, func(typ string, payload []byte) error { return t.passOutput(c, typ, payload) })
		return err
	})
	switch {
	case errors.Is(err, rpc.ErrHungUp):
		return interrupted()
	case err != nil:
		return failed(err)
	case !isEnvelope(answer.Result):
		return failed(errors.New("mcp answered with something that is not a result"))
	}
	r := t.masked(result{data: answer.Result, files: answer.Attachments}) // before it is stored
	r.data = t.shortened(r.data)
	return r
}

// shortened returns an envelope whose texts and structured value have about t.outputBytes
// each. What is longer is stored with the session.
func (t *turn) shortened(envelope proto.Raw) proto.Raw {
	if t.outputBytes <= 0 || len(envelope) <= t.outputBytes {
		return envelope
	}
	return replaced(envelope, func(key string, value []byte) (string, []byte) {
		if key != "data" && key != "error" {
			return key, value
		}
		return key, replaced(value, func(key string, value []byte) (string, []byte) {
			said := string(value)
			switch key {
			case "text", "message":
				if json.Unmarshal(value, &said) != nil {
					return key, value
				}
			case "structured": // a part of it is a text
			default:
				return key, value
			}
			if len(said) > t.outputBytes {
				value = wire.AppendString(nil, t.shortText(said))
			}
			return key, value
		})
	})
}

// replaced returns an object with each member replaced by what do returns.
func replaced(object []byte, do func(key string, value []byte) (string, []byte)) proto.Raw {
	b := proto.Raw{'{'}
	for key, value := range wire.Members(object) {
		if len(b) > 1 {
			b = append(b, ',')
		}
		name, value := do(string(key), value)
		b = append(append(wire.AppendString(b, name), ':'), value...)
	}
	return append(b, '}')
}

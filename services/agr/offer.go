package agr

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"zino/pkg/rpc"
	"zino/pkg/wire"
	"zino/proto"
)

const (
	mcpLimit    = 200 * time.Millisecond // for mcp to list the servers of a turn
	searchCost  = 100                    // tokens that the two search tools may add to direct ones
	toolNameMax = 64                     // bytes of the name of a tool, for every provider
)

// offerOf returns what the model is offered of MCP servers, nil if nothing is. It repeats
// what the session has stored, so that its prompt stays the same; fresh is true if that is
// new. Without an answer of mcp there is one notice, and no other tools.
func (s *Service) offerOf(ctx context.Context, req proto.ListServers, stored proto.Raw) (o *proto.ToolOffer, fresh bool, notices []string) {
	if len(stored) > 0 {
		o = &proto.ToolOffer{}
		if err := wire.DecodeReply(stored, o); err != nil || o.Mode != proto.OfferDirect && o.Mode != proto.OfferSearch {
			o = nil
		}
	}
	if !s.servers.Any() && len(req.Project) == 0 && len(req.Client) == 0 {
		return o, false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, mcpLimit)
	defer cancel()
	req.Definitions = true
	list, err := rpc.Call(ctx, s.mcp, proto.MCPServers, req)
	if err != nil {
		return o, false, []string{"The tools of MCP servers are not available: " + err.Error()}
	}
	if o != nil {
		return o, false, append(list.Notices, news(o, list.Tools)...)
	}
	next := newOffer(list)
	return next, next != nil, list.Notices
}

// newOffer returns the offer for a list of servers, nil if none of them can be used.
func newOffer(list proto.ServerList) *proto.ToolOffer {
	o := &proto.ToolOffer{Mode: proto.OfferSearch, Servers: []string{}}
	for _, server := range list.Servers {
		if server.State != proto.MCPDisabled && server.State != proto.MCPUnavailable {
			o.Servers = append(o.Servers, server.Name)
		}
	}
	if len(o.Servers) == 0 {
		return nil
	}
	if len(list.Tools) == 0 {
		return o
	}
	o.Mode, o.Digest = proto.OfferDirect, digestOf(list.Tools)
	taken := map[string]bool{}
	for _, t := range list.Tools {
		o.Tools = append(o.Tools, proto.OfferedTool{Name: directName(t.Server, t.Name, taken), Server: t.Server, Tool: t.Name, Description: t.Description, Input: t.Input})
	}
	size := 0
	for _, t := range searchTools(o.Servers) {
		size += len(encode(t.function))
	}
	o.Search = (size+3)/4 <= searchCost
	return o
}

// news says that there are tools which the session was not offered and cannot reach.
func news(o *proto.ToolOffer, tools []proto.MCPTool) []string {
	if o.Mode != proto.OfferDirect || o.Search || len(tools) == 0 || digestOf(tools) == o.Digest {
		return nil
	}
	n := 0
	for _, t := range tools {
		if !slices.ContainsFunc(o.Tools, func(old proto.OfferedTool) bool { return old.Server == t.Server && old.Tool == t.Name }) {
			n++
		}
	}
	if n == 0 {
		return nil
	}
	return []string{fmt.Sprintf("MCP servers have %d new tools: the next session has them.", n)}
}

// digestOf returns the hash of definitions.
func digestOf(tools []proto.MCPTool) string {
	h := sha256.New()
	for _, t := range tools {
		h.Write(append(encode(t), '\n'))
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}

var badInName = regexp.MustCompile(`[^A-Za-z0-9_-]`)

// directName returns the name of a tool for the model. A long name, and one that is taken,
// ends with a hash.
func directName(server, tool string, taken map[string]bool) string {
	name := "mcp__" + badInName.ReplaceAllString(server, "_") + "__" + badInName.ReplaceAllString(tool, "_")
	if len(name) > toolNameMax || taken[name] {
		sum := sha256.Sum256([]byte(server + "/" + tool))
		end := "_" + hex.EncodeToString(sum[:4])
		name = name[:min(len(name), toolNameMax-len(end))] + end
	}
	taken[name] = true
	return name
}

// mcpTools returns the tools of an offer.
func mcpTools(o *proto.ToolOffer) (list []tool) {
	if o == nil {
		return nil
	}
	for _, offered := range o.Tools {
		list = append(list, tool{
			function: function{offered.Name, offered.Description, parametersOf(offered.Input)}, byService: true,
			call: func(t *turn, c *call, _ fields) result { return t.useMCP(c, offered.Server, offered.Tool, c.input) },
		})
	}
	if o.Mode == proto.OfferSearch || o.Search {
		list = append(list, searchTools(o.Servers)...)
	}
	return list
}

// parametersOf returns a schema that every provider accepts: one that is not an object's, or
// has alternatives at its top, is replaced by that of any object. mcp checks the arguments,
// and its error has the server's own schema.
func parametersOf(schema proto.Raw) proto.Raw {
	any := proto.Raw(`{"type":"object","properties":{}}`)
	var top map[string]json.RawMessage
	if json.Unmarshal(schema, &top) != nil || string(top["type"]) != `"object"` {
		return any
	}
	for _, key := range []string{"oneOf", "anyOf", "allOf", "not", "enum", "$ref"} {
		if _, ok := top[key]; ok {
			return any
		}
	}
	if _, ok := top["properties"]; !ok { // some providers demand it
		return append(schema[:strings.LastIndexByte(string(schema), '}'):len(schema)], `,"properties":{}}`...)
	}
	return schema
}

// Package server offers Zino's memories, sessions, live pages and turns to MCP clients.
// It is a client of the daemon and of repl, and holds no secret.
package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"zino/pkg/rpc"
	"zino/pkg/wire"
	"zino/proto"
)

// Options are the options of one server.
type Options struct {
	Daemon  string      // the daemon's socket
	Repl    string      // the REPL's socket; empty: no tools for pages
	Root    string      // ask runs here or below; empty: without a root
	Sandbox proto.Level // of ask; empty: as configured
	Network *bool       // of ask; nil: as configured
	Tools   []string    // the tools to offer; empty: all
}

// Server answers the requests of one MCP client.
type Server struct {
	o      Options
	mcp    *mcp.Server
	asking chan struct{} // has one place: asks of a connection follow each other
	log    *slog.Logger
}

// tool is one tool with the handler of its arguments. The result is a JSON object, with
// text in its place for clients that show text; empty: the object.
type tool struct {
	definition mcp.Tool
	schema     *jsonschema.Resolved
	handle     func(ctx context.Context, s *Server, call *mcp.CallToolRequest) (structured any, text string, err error)
	pages      bool // offered only while a REPL answers
}

// New returns a server for one connection.
func New(o Options, log *slog.Logger) (*Server, error) {
	list, err := tools()
	if err != nil {
		return nil, err
	}
	for _, name := range o.Tools {
		if !slices.ContainsFunc(list, func(t tool) bool { return t.definition.Name == name }) {
			return nil, fmt.Errorf("unknown tool %q: want %s", name, strings.Join(Names(), ", "))
		}
	}
	s := &Server{o: o, asking: make(chan struct{}, 1), log: log}
	s.mcp = mcp.NewServer(&mcp.Implementation{Name: "zino", Version: rpc.Build}, &mcp.ServerOptions{
		Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}}, // nil would advertise logging
		Logger:       log,
	})
	for _, t := range list {
		if len(o.Tools) > 0 && !slices.Contains(o.Tools, t.definition.Name) || t.pages && !s.hasPages() {
			continue
		}
		s.mcp.AddTool(&t.definition, s.handler(t))
	}
	return s, nil
}

// hasPages reports whether a REPL answers.
func (s *Server) hasPages() bool {
	if s.o.Repl == "" {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), pingLimit)
	defer cancel()
	_, err := call(ctx, "repl", s.o.Repl, proto.Ping, proto.PingRequest{})
	return err == nil
}

// MCP returns the server of the SDK, for other transports.
func (s *Server) MCP() *mcp.Server { return s.mcp }

// Serve answers the requests on in until it ends. Answers to requests that were read are
// written before it returns.
func (s *Server) Serve(ctx context.Context, in io.ReadCloser, out io.WriteCloser) error {
	d := newDrain(in, out)
	err := s.mcp.Run(ctx, &mcp.IOTransport{Reader: d, Writer: d.writer()})
	if errors.Is(err, io.EOF) || ctx.Err() != nil {
		return nil
	}
	return err
}

// handler returns the SDK's handler of a tool. An error of Zino is a result, so that the
// model can read it.
func (s *Server) handler(t tool) mcp.ToolHandler {
	return func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		if err := t.check(req.Params); err != nil {
			return failed(err), nil
		}
		structured, text, err := t.handle(ctx, s, req)
		if err != nil {
			s.log.Debug("tool failed", "tool", t.definition.Name, "error", err)
			return failed(err), nil
		}
		if text == "" {
			b, err := json.Marshal(structured)
			if err != nil {
				return failed(err), nil
			}
			text = string(b)
		}
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}, StructuredContent: structured}, nil
	}
}

// check validates the arguments of a call; absent ones are an empty object.
func (t tool) check(params *mcp.CallToolParamsRaw) error {
	if len(params.Arguments) == 0 {
		params.Arguments = json.RawMessage("{}")
	}
	var value any
	if err := json.Unmarshal(params.Arguments, &value); err != nil {
		return fmt.Errorf("the arguments are not JSON: %w", err)
	}
	if err := t.schema.Validate(value); err != nil {
		return fmt.Errorf("invalid arguments: %w", err)
	}
	return nil
}

// failed returns a result that is an error.
func failed(err error) *mcp.CallToolResult {
	message := err.Error()
	if e, ok := errors.AsType[*proto.Error](err); ok {
		message = e.Message
	}
	return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: message}}}
}

// call makes a request on a connection of its own, which closes when ctx ends: requests
// run side by side, and canceling one hangs up.
func call[Req, Rep any](ctx context.Context, service, socket string, m proto.Method[Req, Rep], req Req) (Rep, error) {
	c := &rpc.Client{Service: service, Path: socket}
	defer c.Close()
	return rpc.Call(ctx, c, m, req)
}

// forward has the daemon pass a request on to mem.
func forward[Req, Rep any](ctx context.Context, s *Server, m proto.Method[Req, Rep], req Req) (Rep, error) {
	inner, err := wire.AppendObject(nil, m.Type, req)
	if err != nil {
		var none Rep
		return none, err
	}
	through := proto.Method[proto.Forward, Rep]{Service: "daemon", Type: proto.DaemonForward.Type, Reply: m.Reply}
	return call(ctx, "daemon", s.o.Daemon, through, proto.Forward{Service: m.Service, Request: inner})
}

package mcp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// serve is a server for tests: this binary, run again by exc. Arguments say how it
// misbehaves.
func serve(args []string) error {
	has := func(arg string) bool { return slices.Contains(args, arg) }
	if file := os.Getenv("STARTS"); file != "" {
		f, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		fmt.Fprintln(f, os.Getpid())
		f.Close()
	}
	switch {
	case has("exit"):
		fmt.Fprintln(os.Stderr, "no configuration found")
		return errors.New("giving up")
	case has("hang"):
		select {}
	case has("flood"):
		for {
			fmt.Println(strings.Repeat("flood ", 1000))
		}
	case has("raw-tools"):
		return serveRaw()
	}
	if has("fork") { // leaves the process group and the session, twice
		if err := exec.Command("setsid", "sh", "-c", "setsid sleep 10007 & sleep 10007").Start(); err != nil {
			return err
		}
	}
	if has("print") {
		fmt.Println("Server listening on stdio")
	}
	var in io.ReadCloser = os.Stdin
	if has("ignore-discover") || has("die-discover") {
		r, w := io.Pipe()
		in = r
		go func() {
			lines := bufio.NewReader(os.Stdin)
			for {
				line, err := lines.ReadBytes('\n')
				if bytes.Contains(line, []byte("server/discover")) {
					if has("die-discover") {
						os.Exit(3)
					}
					continue
				}
				w.Write(line)
				if err != nil {
					w.CloseWithError(err)
					return
				}
			}
		}()
	}
	s := testServer()
	return s.Run(context.Background(), &mcp.IOTransport{Reader: in, Writer: os.Stdout, MaxLineLength: -1})
}

type sleepArgs struct {
	Seconds  float64 `json:"seconds"`
	Progress int     `json:"progress,omitempty"`
}

type nameArgs struct {
	Name string `json:"name"`
}

type elicitArgs struct {
	Message  string         `json:"message,omitempty"`
	Form     map[string]any `json:"form,omitempty"`
	URL      string         `json:"url,omitempty"`
	Required bool           `json:"required,omitempty"` // fails until the URL was visited
	Fail     bool           `json:"fail,omitempty"`     // fails without input
}

// elicitInput asks for input, and returns what it got.
func elicitInput(ctx context.Context, req *mcp.CallToolRequest, a elicitArgs) (*mcp.CallToolResult, any, error) {
	params := &mcp.ElicitParams{Message: a.Message, Mode: "form", RequestedSchema: a.Form}
	if a.URL != "" {
		params = &mcp.ElicitParams{Message: a.Message, Mode: "url", URL: a.URL, ElicitationID: "e1"}
	}
	if a.Required {
		return nil, nil, mcp.URLElicitationRequiredError([]*mcp.ElicitParams{params})
	}
	answer := func(r *mcp.ElicitResult) (*mcp.CallToolResult, any, error) {
		if a.Fail && r.Action != "accept" {
			return nil, nil, errors.New("no input")
		}
		b, err := json.Marshal(r.Content)
		return textResult(r.Action + " " + string(b)), nil, err
	}
	if r, ok := req.Params.InputResponses["it"].(*mcp.ElicitResult); ok {
		return answer(r)
	}
	if init := req.Session.InitializeParams(); init == nil || init.ProtocolVersion >= "2026-07-28" {
		return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"it": params}}, nil, nil
	}
	r, err := req.Session.Elicit(ctx, params)
	if err != nil {
		return nil, nil, err
	}
	return answer(r)
}

type sizeArgs struct {
	Bytes int `json:"bytes"`
}

type noArgs struct{}

func textResult(s string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: s}}}
}

// png is a picture of one pixel.
var png = []byte("\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\b\x06\x00\x00\x00\x1f\x15\xc4\x89\x00\x00\x00\rIDATx\x9cc\xf8\xcf\xc0\xf0\x1f\x00\x05\x00\x01\xff\x89\x99=\x1d\x00\x00\x00\x00IEND\xaeB`\x82")

// testServer has the tools of the tests.
func testServer() *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ServerOptions{Instructions: "Use echo to echo."})
	mcp.AddTool(s, &mcp.Tool{Name: "echo", Description: "Echoes a name. It does nothing else."}, func(_ context.Context, _ *mcp.CallToolRequest, a nameArgs) (*mcp.CallToolResult, any, error) {
		return textResult("hello " + a.Name), nil, nil
	})
	mcp.AddTool(s, &mcp.Tool{Name: "fail", Description: "Fails."}, func(context.Context, *mcp.CallToolRequest, noArgs) (*mcp.CallToolResult, any, error) {
		return nil, nil, errors.New("it failed")
	})
	mcp.AddTool(s, &mcp.Tool{Name: "sleep_seconds", Description: "Sleeps."}, func(ctx context.Context, req *mcp.CallToolRequest, a sleepArgs) (*mcp.CallToolResult, any, error) {
		parts := max(1, a.Progress)
		for i := range parts {
			select {
			case <-time.After(time.Duration(a.Seconds * float64(time.Second) / float64(parts))):
			case <-ctx.Done():
				if file := os.Getenv("CANCELLED"); file != "" {
					os.WriteFile(file, []byte("cancelled"), 0o600)
				}
				return nil, nil, ctx.Err()
			}
			if a.Progress > 0 {
				req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: req.Params.GetProgressToken(), Progress: float64(i + 1), Total: float64(parts), Message: "sleeping"})
			}
		}
		return textResult("slept"), nil, nil
	})
	mcp.AddTool(s, &mcp.Tool{Name: "big", Description: "Returns many bytes."}, func(_ context.Context, _ *mcp.CallToolRequest, a sizeArgs) (*mcp.CallToolResult, any, error) {
		return textResult(strings.Repeat("x", a.Bytes)), nil, nil
	})
	mcp.AddTool(s, &mcp.Tool{Name: "picture", Description: "Returns an image."}, func(context.Context, *mcp.CallToolRequest, noArgs) (*mcp.CallToolResult, any, error) {
		size := int64(3)
		return &mcp.CallToolResult{Content: []mcp.Content{
			&mcp.TextContent{Text: "one"}, &mcp.ImageContent{MIMEType: "image/png", Data: png}, &mcp.AudioContent{MIMEType: "audio/wav", Data: []byte("abc")},
			&mcp.ResourceLink{URI: "test://a", Name: "a", MIMEType: "text/plain", Size: &size},
			&mcp.EmbeddedResource{Resource: &mcp.ResourceContents{URI: "test://t", Text: "two"}},
			&mcp.EmbeddedResource{Resource: &mcp.ResourceContents{URI: "test://dir/b.pdf", MIMEType: "application/pdf", Blob: []byte("%PDF-1.4")}},
		}}, nil, nil
	})
	mcp.AddTool(s, &mcp.Tool{Name: "structured", Description: "Returns JSON."}, func(context.Context, *mcp.CallToolRequest, noArgs) (*mcp.CallToolResult, map[string]any, error) {
		return nil, map[string]any{"a": 1.0, "b": []any{"<x>"}}, nil
	})
	mcp.AddTool(s, &mcp.Tool{Name: "crash", Description: "Ends the server."}, func(context.Context, *mcp.CallToolRequest, noArgs) (*mcp.CallToolResult, any, error) {
		fmt.Fprintln(os.Stderr, "panic: crashed")
		os.Exit(7)
		return nil, nil, nil
	})
	mcp.AddTool(s, &mcp.Tool{Name: "crash_once", Description: "Ends the server once.", Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true}}, func(context.Context, *mcp.CallToolRequest, noArgs) (*mcp.CallToolResult, any, error) {
		if _, err := os.Stat(os.Getenv("ONCE")); err != nil {
			os.WriteFile(os.Getenv("ONCE"), nil, 0o600)
			os.Exit(7)
		}
		return textResult("alive"), nil, nil
	})
	mcp.AddTool(s, &mcp.Tool{Name: "print", Description: "Prints to standard output."}, func(context.Context, *mcp.CallToolRequest, noArgs) (*mcp.CallToolResult, any, error) {
		fmt.Println("console.log is not a message")
		fmt.Println(`["neither", "is", "this"]`)
		fmt.Println(`{"nor":"this"}`)
		return textResult("printed"), nil, nil
	})
	mcp.AddTool(s, &mcp.Tool{Name: "environment", Description: "Returns a variable."}, func(_ context.Context, _ *mcp.CallToolRequest, a nameArgs) (*mcp.CallToolResult, any, error) {
		if a.Name == "" {
			return textResult(strings.Join(os.Environ(), "\n")), nil, nil
		}
		return textResult(os.Getenv(a.Name)), nil, nil
	})
	mcp.AddTool(s, &mcp.Tool{Name: "directory", Description: "Returns the working directory."}, func(context.Context, *mcp.CallToolRequest, noArgs) (*mcp.CallToolResult, any, error) {
		dir, err := os.Getwd()
		return textResult(dir), nil, err
	})
	mcp.AddTool(s, &mcp.Tool{Name: "pid", Description: "Returns the process."}, func(context.Context, *mcp.CallToolRequest, noArgs) (*mcp.CallToolResult, any, error) {
		return textResult(strconv.Itoa(os.Getpid())), nil, nil
	})
	mcp.AddTool(s, &mcp.Tool{Name: "grow", Description: "Adds a tool."}, func(context.Context, *mcp.CallToolRequest, noArgs) (*mcp.CallToolResult, any, error) {
		mcp.AddTool(s, &mcp.Tool{Name: "grown", Description: "Was added."}, func(context.Context, *mcp.CallToolRequest, noArgs) (*mcp.CallToolResult, any, error) {
			return textResult("grown"), nil, nil
		})
		return textResult("grows"), nil, nil
	})
	mcp.AddTool(s, &mcp.Tool{Name: "question", Description: "Asks a question."}, func(ctx context.Context, req *mcp.CallToolRequest, _ noArgs) (*mcp.CallToolResult, any, error) {
		params := &mcp.ElicitParams{Message: "Which colour?", RequestedSchema: map[string]any{"type": "object", "properties": map[string]any{"colour": map[string]any{"type": "string"}}}}
		answer := func(action string, content map[string]any) (*mcp.CallToolResult, any, error) {
			return textResult(fmt.Sprint(action, " ", content["colour"])), nil, nil
		}
		if r, ok := req.Params.InputResponses["colour"].(*mcp.ElicitResult); ok {
			return answer(r.Action, r.Content)
		}
		if init := req.Session.InitializeParams(); init == nil || init.ProtocolVersion >= "2026-07-28" {
			return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"colour": params}}, nil, nil
		}
		r, err := req.Session.Elicit(ctx, params)
		if err != nil {
			return nil, nil, err
		}
		return answer(r.Action, r.Content)
	})
	mcp.AddTool(s, &mcp.Tool{Name: "elicit", Description: "Asks for input."}, elicitInput)
	mcp.AddTool(s, &mcp.Tool{Name: "hold", Description: "Waits until a file exists, after it has made another."}, func(ctx context.Context, _ *mcp.CallToolRequest, a nameArgs) (*mcp.CallToolResult, any, error) {
		os.WriteFile(a.Name+".held", nil, 0o600)
		for ctx.Err() == nil {
			if _, err := os.Stat(a.Name); err == nil {
				return textResult("held"), nil, nil
			}
			time.Sleep(5 * time.Millisecond)
		}
		return nil, nil, ctx.Err()
	})
	s.AddPrompt(&mcp.Prompt{Name: "review", Description: "Reviews.", Arguments: []*mcp.PromptArgument{{Name: "number", Required: true}}}, func(_ context.Context, req *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{
			{Role: "user", Content: &mcp.TextContent{Text: "Review " + req.Params.Arguments["number"] + "."}},
			{Role: "assistant", Content: &mcp.TextContent{Text: "I will."}},
		}}, nil
	})
	s.AddResource(&mcp.Resource{URI: "test://readme", Name: "readme", MIMEType: "text/plain"}, func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: "test://readme", MIMEType: "text/plain", Text: "read me"}}}, nil
	})
	return s
}

// serveRaw is a server of 2025-11-25 whose definitions are broken.
func serveRaw() error {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var req struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
		}
		if err := json.Unmarshal(lines.Bytes(), &req); err != nil {
			return err
		}
		reply := ""
		switch req.Method {
		case "server/discover":
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}`+"\n", req.ID)
			continue
		case "initialize":
			reply = `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"raw","version":"1"}}`
		case "tools/list":
			reply = `{"tools":[{"name":"twice","description":"first","inputSchema":{"type":"object"}},{"name":"twice","description":"second"},
				{"name":"none"},{"name":"list","inputSchema":["x"]},{"name":"","description":"no name"},{"name":"hidden\u202ename"},
				{"name":"remote","inputSchema":{"$ref":"https://example.com/schema"}},{"name":"lookahead","inputSchema":{"type":"object","properties":{"a":{"type":"string","pattern":"(?=x)"}}}},
				{"name":"draft4","inputSchema":{"type":"object","properties":{"a":{"type":"number","minimum":1,"exclusiveMinimum":true}}}},
				{"name":"described","description":"a\u001b[31mb\u202ec","inputSchema":{"type":"object"}},null]}`
			reply = strings.NewReplacer("\n", "", "\t", "").Replace(reply)
		case "tools/call":
			reply = `{"content":[{"type":"text","text":"called"}]}`
		default:
			continue
		}
		fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", req.ID, reply)
	}
	return lines.Err()
}

package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"net/url"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"zino/pkg/form"
	"zino/pkg/rpc"
	"zino/pkg/text"
	"zino/proto"
)

const (
	questionMax = 4000 // bytes of the message of a question
	pageMax     = 4096 // bytes of the URL of a question
)

// elicit answers a question of a server.
func (in *instance) elicit(ctx context.Context, req *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
	c := in.asker(ctx)
	if c == nil {
		return &mcp.ElicitResult{Action: proto.InputCancel}, nil
	}
	if in.s.answer != nil {
		return in.s.answer(ctx, c, req.Params), nil
	}
	return in.question(ctx, c, req.Params), nil
}

// asker returns the call in which a server asks a question. Since 2026-07-28 the question is
// in the call's context. Before, it is certain only if all calls that the server may work on
// belong to one session; else asker returns nil, and from then on the instance makes one call
// at a time. A server may still work on a call that was given up: then the instance ends as soon
// as no call uses it, and the next one can ask again.
func (in *instance) asker(ctx context.Context) *call {
	if c, ok := ctx.Value(callKey{}).(*call); ok {
		return c
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	var only *call
	for _, c := range in.progress {
		if only != nil && (only.session != c.session || c.session == "") {
			in.serial = true
			return nil
		}
		only = c
	}
	for session := range in.abandoned {
		if only != nil && only.session != session {
			in.renew = true
			return nil
		}
	}
	return only
}

// question has the daemon ask the people who follow the session of a call. The clock of the
// call stops meanwhile.
func (in *instance) question(ctx context.Context, c *call, p *mcp.ElicitParams) *mcp.ElicitResult {
	message := text.Head(strings.ToValidUTF8(in.hidden(p.Message), "\ufffd"), questionMax)
	unanswered := func(action, reason string) *mcp.ElicitResult {
		c.want(cmp.Or(text.Clip(clean(text.OneLine(message), 1000), 300), "(no message)") + reason)
		return &mcp.ElicitResult{Action: action}
	}
	req := proto.InputRequest{Server: in.d.name, Message: message, SessionID: c.session, Token: c.token}
	if p.Mode == "url" {
		page, err := url.Parse(p.URL)
		if err != nil || page.Scheme != "https" || page.Host == "" || len(p.URL) > pageMax {
			return unanswered(proto.InputDecline, " (declined: the URL is not https, or too long)")
		}
		req.URL = p.URL
	} else {
		schema, err := json.Marshal(p.RequestedSchema)
		if p.RequestedSchema == nil {
			schema = []byte(`{"type":"object","properties":{}}`)
		}
		var f *form.Form
		if schema, _ = in.hide.JSON(schema); err == nil {
			f, err = form.Parse(schema)
		}
		if err != nil {
			return unanswered(proto.InputCancel, " ("+text.Clip(clean(text.OneLine(err.Error()), 200), 200)+")")
		}
		if secret := f.Secret(); secret != "" {
			return unanswered(proto.InputDecline, " (declined: "+text.Quote(text.Clip(clean(text.OneLine(secret), 200), 80))+" looks like a secret, which a form must not ask for)")
		}
		req.Schema = schema
	}
	if c.token == "" { // a person calls, with zino mcp test
		return unanswered(proto.InputCancel, "")
	}
	defer c.pause()()
	ctx, cancel := context.WithCancel(ctx) // before 2026-07-28 it is that of the session
	defer cancel()
	defer context.AfterFunc(c.running(), cancel)()
	answer, err := rpc.Call(ctx, in.s.daemon, proto.DaemonInputRequest, req)
	if err != nil {
		in.s.log.Info("no person could be asked for input", "server", in.d.name, "error", err)
	}
	result := &mcp.ElicitResult{Action: answer.Action}
	if err == nil && answer.Action == proto.InputAccept && req.URL == "" {
		err = json.Unmarshal(answer.Content, &result.Content)
	}
	if err != nil || !answer.Answered {
		return unanswered(proto.InputCancel, "")
	}
	return result
}

// visits asks about the pages that have to be visited before a call: the error of a server of
// 2025-11-25. What to do next is added to the error.
func (in *instance) visits(ctx context.Context, c *call, e *jsonrpc.Error) {
	var pages struct {
		Elicitations []*mcp.ElicitParams `json:"elicitations"`
	}
	if json.Unmarshal(e.Data, &pages) != nil || len(pages.Elicitations) > visitsMax {
		return
	}
	accepted := len(pages.Elicitations) > 0
	for _, p := range pages.Elicitations {
		accepted = accepted && p != nil && p.Mode == "url" && in.question(ctx, c, p).Action == proto.InputAccept
	}
	if accepted {
		e.Message += " (the user was shown the page: call the tool again when it was visited)"
	}
}

const visitsMax = 4

// refuse answers the requests of servers that are not advertised: the SDK would answer
// roots/list with an empty list.
func refuse(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		if method == "roots/list" || method == "sampling/createMessage" {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "method not found: " + method}
		}
		return next(ctx, method, req)
	}
}

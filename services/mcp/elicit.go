package mcp

import (
	"context"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"zino/pkg/text"
)

// elicit answers a question of a server.
func (in *instance) elicit(ctx context.Context, req *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
	c := in.asker(ctx)
	if c == nil {
		return &mcp.ElicitResult{Action: "cancel"}, nil
	}
	if in.s.answer != nil {
		return in.s.answer(ctx, c, req.Params), nil
	}
	c.mu.Lock()
	c.wanted = append(c.wanted, text.Clip(clean(text.OneLine(req.Params.Message), 1000), 300))
	c.mu.Unlock()
	return &mcp.ElicitResult{Action: "cancel"}, nil
}

// asker returns the call in which a server asks a question. Since 2026-07-28 the question is
// in the call's context. Before, it is certain only if all calls in flight belong to one
// session; else asker returns nil, and from then on the instance makes one call at a time.
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
	return only
}

package agr

import (
	"context"
	"os"
	"slices"
	"sync"

	"zino/pkg/rpc"
	"zino/proto"
)

// pages is a fake repl with one page, shop-1a2b: it records code, and answers as
// eval says.
type pages struct {
	mu    sync.Mutex
	evals []proto.Eval
	eval  func(ctx context.Context, req proto.Eval) (proto.Evaluated, error)
}

var shop = proto.Page{ID: "1a2b", Name: "shop", File: "debug/shop-1a2b.md", Lang: "js", Kind: "page", State: "idle", LastSeen: "2026-11-21T14:03:07Z"}

// paging starts a repl beside a bench. gone takes its socket away.
func (b *bench) paging() (p *pages, gone func()) {
	b.t.Helper()
	p = &pages{}
	serve(b.t, "repl", b.cfg.Repl.Socket, p.register)
	gone = sync.OnceFunc(func() {
		c := &rpc.Client{Service: "repl", Path: b.cfg.Repl.Socket}
		defer c.Close()
		// What was dialled before this has been accepted when it is answered.
		if _, err := rpc.Call(context.Background(), c, proto.Ping, proto.PingRequest{}); err != nil {
			b.t.Error(err)
		}
		if err := os.Remove(b.cfg.Repl.Socket); err != nil {
			b.t.Error(err)
		}
	})
	b.t.Cleanup(gone)
	return p, gone
}

func (p *pages) register(s *rpc.Server) {
	rpc.Handle(s, proto.ReplPages, func(context.Context, proto.PagesRequest) (proto.Pages, error) {
		return proto.Pages{Pages: []proto.Page{shop}}, nil
	})
	rpc.Handle(s, proto.ReplEval, p.run)
}

func (p *pages) run(ctx context.Context, req proto.Eval) (proto.Evaluated, error) {
	p.mu.Lock()
	p.evals = append(p.evals, req)
	eval := p.eval
	p.mu.Unlock()
	if eval == nil {
		return proto.Evaluated{OK: true, Kind: "json", Value: "25", Background: []proto.RealmEvent{}, DurationMS: 17, File: shop.File}, nil
	}
	return eval(ctx, req)
}

// answers sets how code ends from now on.
func (p *pages) answers(eval func(ctx context.Context, req proto.Eval) (proto.Evaluated, error)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.eval = eval
}

// asked returns the code so far.
func (p *pages) asked() []proto.Eval {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.evals)
}

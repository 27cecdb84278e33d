// Package agr is the agent's loop: it asks the model, carries out the blocks
// that the answer holds, puts the results where the blocks stand, and asks
// again until an answer holds none. It runs nothing and holds no key itself.
package agr

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"

	"zino/pkg/catalog"
	"zino/pkg/config"
	"zino/pkg/rpc"
	"zino/pkg/wire"
	"zino/proto"
)

// Service answers run.
type Service struct {
	limit int
	cat   *catalog.Catalog
	rtr   *rpc.Client
	exc   *rpc.Client
	log   *slog.Logger
}

// New returns the agent over its neighbours and the catalog.
func New(cfg *config.Config, cat *catalog.Catalog, log *slog.Logger) *Service {
	return &Service{
		limit: cfg.Agr.MaxIterations,
		cat:   cat,
		rtr:   &rpc.Client{Service: "rtr", Path: cfg.Rtr.Socket},
		exc:   &rpc.Client{Service: "exc", Path: cfg.Exc.Socket},
		log:   log,
	}
}

// Register adds the service's methods to s.
func (s *Service) Register(srv *rpc.Server) {
	rpc.HandleText(srv, proto.AgrRun, s.run)
	srv.OnStats(func(stats *proto.Stats) {
		stats.Problems = append(stats.Problems, s.cat.Snapshot().Problems...)
	})
}

// Close ends the connections to other services and the catalog's watch.
func (s *Service) Close() error {
	s.rtr.Close()
	s.exc.Close()
	return s.cat.Close()
}

// run is the loop. Its text is that of the last inference, with results.
func (s *Service) run(ctx context.Context, req proto.Run, out *rpc.Out) (proto.Text, error) {
	limit := s.limit
	if req.MaxIterations != nil {
		limit = *req.MaxIterations
	}
	if limit <= 0 || !isList(req.Messages) {
		_, err := elements(req.Messages)
		return answer(nil, 0), err
	}
	messages := req.Messages
	for n := 1; ; n++ {
		t := &turn{s: s, ctx: ctx, req: req, out: out}
		if err := t.infer(messages); err != nil {
			return proto.Text{}, err
		}
		if !t.interrupted || n >= limit {
			return answer(t.text, n), nil
		}
		var err error
		if messages, err = appendMessage(messages, "assistant", t.text); err != nil {
			return proto.Text{}, err
		}
	}
}

func answer(text []byte, iterations int) proto.Text {
	return proto.Text{Content: string(text), Iterations: &iterations}
}

// elements checks a list of messages that nobody else will look at.
func elements(messages proto.Raw) ([]json.RawMessage, error) {
	list, err := wire.Elements(messages)
	if err != nil {
		return nil, &proto.Error{Code: proto.CodeInvalid, Message: fmt.Sprintf("Invalid request: field %q: %v", "messages", err)}
	}
	return list, nil
}

// appendMessage returns messages with one more at the end. The list itself is
// copied, never decoded.
func appendMessage(messages proto.Raw, role string, content []byte) (proto.Raw, error) {
	end := len(messages) - 1
	for end >= 0 && messages[end] != ']' {
		end--
	}
	if end < 0 || messages[0] != '[' {
		return nil, &proto.Error{Code: proto.CodeInvalid, Message: `Invalid request: field "messages": expected a list`}
	}
	list := append(make(proto.Raw, 0, len(messages)+len(content)+len(content)/8+64), messages[:end]...)
	if !empty(list) {
		list = append(list, ',')
	}
	list = wire.AppendString(append(list, `{"role":`...), role)
	list = wire.AppendString(append(list, `,"content":`...), content)
	return append(list, "}]"...), nil
}

func isList(raw proto.Raw) bool { return len(raw) > 0 && raw[0] == '[' }

// empty reports whether a list without its closing bracket holds nothing.
func empty(list []byte) bool {
	for _, c := range list[1:] {
		if c != ' ' && c != '\n' && c != '\t' && c != '\r' {
			return false
		}
	}
	return true
}

// providerError words an error of the router. What the provider said stays at
// hand for programs.
func providerError(err error) error {
	words := err.Error()
	origin, ok := errors.AsType[*proto.Error](err)
	if !ok {
		return fmt.Errorf("rtr: %w", err)
	}
	if !errors.Is(err, rpc.ErrConnect) {
		words = "rtr error: " + words
	}
	e := *origin
	e.Message = "Agentic runtime error: " + words
	return &e
}

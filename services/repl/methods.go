package repl

import (
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"

	"zino/pkg/rpc"
	"zino/proto"
)

// Register has s answer the methods of repl.
func (s *Service) Register(srv *rpc.Server) {
	rpc.Handle(srv, proto.ReplPages, s.Pages)
	rpc.Handle(srv, proto.ReplEval, s.Eval)
	rpc.Handle(srv, proto.ReplResult, s.Result)
	rpc.Handle(srv, proto.ReplEvents, s.Events)
	rpc.Handle(srv, proto.ReplStarted, s.Started)
	rpc.HandleEvents(srv, proto.ReplAttach, s.attach)
	rpc.HandleEvents(srv, proto.ReplWatch, func(ctx context.Context, req proto.WatchPages, out *rpc.Out) (proto.Empty, error) {
		return proto.Empty{}, s.Watch(ctx, req, out.Event)
	})
	srv.OnStats(s.stats)
}

// attach is a realm for as long as its connection lives.
func (s *Service) attach(ctx context.Context, req proto.Attach, out *rpc.Out) (proto.Empty, error) {
	r, err := s.Connect(req)
	if err != nil {
		return proto.Empty{}, err
	}
	defer r.Close()
	if err := out.Event("attached", r.Attached()); err != nil {
		return proto.Empty{}, err
	}
	for {
		typ, packet, err := r.Next(ctx)
		if errors.Is(err, io.EOF) || ctx.Err() != nil {
			return proto.Empty{}, nil
		}
		if err == nil {
			err = out.Event(typ, packet)
		}
		if err != nil {
			return proto.Empty{}, err
		}
	}
}

// Pages lists the realms that are connected, in the order of their names.
func (s *Service) Pages(context.Context, proto.PagesRequest) (proto.Pages, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	pages := make([]proto.Page, 0, len(s.live))
	for _, r := range s.live {
		pages = append(pages, r.t.describe())
	}
	slices.SortFunc(pages, func(a, b proto.Page) int {
		if c := strings.Compare(a.Name, b.Name); c != 0 {
			return c
		}
		return strings.Compare(a.ID, b.ID)
	})
	return proto.Pages{Pages: pages}, nil
}

// stats adds what the service has trouble with.
func (s *Service) stats(stats *proto.Stats) {
	if stats.Info == nil {
		stats.Info = map[string]string{}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, file := range slices.Sorted(maps.Keys(s.faults)) {
		stats.Problems = append(stats.Problems, s.faults[file])
	}
}

// setFault notes what is wrong with a file; "": nothing.
func (s *Service) setFault(file, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if text == "" {
		delete(s.faults, file)
		return
	}
	s.faults[file] = text
}

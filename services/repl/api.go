// Package repl is the file REPL: live pages as Markdown files. A realm (a page,
// a worker, a program) connects over one of the transports; the service keeps a
// file for it, gives it the code that people, editors and models write into that
// file, and writes below what comes of it.
package repl

import (
	"context"
	"io"
	"log/slog"
	"sync"

	"zino/pkg/config"
	"zino/pkg/rpc"
	"zino/proto"
)

// Service is the file REPL of one directory. It is safe for concurrent use.
type Service struct {
	cfg    config.Repl
	log    *slog.Logger
	closed chan struct{}
	once   sync.Once
}

// New opens the directory of the REPL and begins to watch it.
func New(cfg config.Repl, log *slog.Logger) (*Service, error) {
	return &Service{cfg: cfg, log: log, closed: make(chan struct{})}, nil
}

// Register has s answer the methods of repl.
func (s *Service) Register(*rpc.Server) {}

// Close ends all realms and lets go of the directory.
func (s *Service) Close() error {
	s.once.Do(func() { close(s.closed) })
	return nil
}

// Connect adds a realm until its Close. No two live realms have the same id.
func (s *Service) Connect(a proto.Attach) (*Realm, error) {
	return &Realm{s: s, attached: proto.Attached{ID: a.ID, Name: a.Name, Nonce: a.Nonce}}, nil
}

// Realm is a connected realm, as a transport sees it.
type Realm struct {
	s        *Service
	attached proto.Attached
}

// Attached tells the realm who it is.
func (r *Realm) Attached() proto.Attached { return r.attached }

// Next waits for the next packet to be sent to the realm: "job" with a
// [proto.Job], or "cancel" with a [proto.JobName]. A job that is returned counts
// as sent. The error is ctx's, or io.EOF when the realm or the service is closed.
func (r *Realm) Next(ctx context.Context) (typ string, packet any, err error) {
	select {
	case <-ctx.Done():
		return "", nil, ctx.Err()
	case <-r.s.closed:
		return "", nil, io.EOF
	}
}

// Close tells that the realm is gone. What runs in it has failed.
func (r *Realm) Close() {}

// Result takes what came of a job.
func (s *Service) Result(context.Context, proto.JobResult) (proto.Empty, error) {
	return proto.Empty{}, proto.ErrUnknown
}

// Events takes what happened in a realm beside its jobs.
func (s *Service) Events(context.Context, proto.RealmEvents) (proto.Empty, error) {
	return proto.Empty{}, nil
}

// Started takes a realm's word that a job has begun.
func (s *Service) Started(context.Context, proto.JobStarted) (proto.Empty, error) {
	return proto.Empty{}, nil
}

// Pages lists the realms that are connected.
func (s *Service) Pages(context.Context, proto.PagesRequest) (proto.Pages, error) {
	return proto.Pages{Pages: []proto.Page{}}, nil
}

// Watch calls event with what happens, until ctx ends, event fails, or the
// service is closed: "page" with a [proto.Page], "exchange" with a [proto.Exchange].
func (s *Service) Watch(ctx context.Context, req proto.WatchPages, event func(typ string, packet any) error) error {
	<-ctx.Done()
	return nil
}

// Eval runs code in a realm and waits for what comes of it.
func (s *Service) Eval(context.Context, proto.Eval) (proto.Evaluated, error) {
	return proto.Evaluated{}, proto.ErrNotFound
}

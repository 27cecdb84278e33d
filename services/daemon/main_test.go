package daemon

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"zino/pkg/config"
	"zino/pkg/rpc"
	"zino/pkg/zinotest"
	"zino/proto"
)

// neighbours are what the fake services do. Each is a real server on a real
// socket; one whose function is nil does not exist.
type neighbours struct {
	sys    func(context.Context, proto.GetPrompt, *rpc.Out) error
	ctx    func(context.Context, proto.Build, *rpc.Out) error
	mem    func(context.Context, proto.AppendHistory) (proto.Empty, error)
	agr    func(context.Context, proto.Run, *rpc.Out) (proto.Text, error)
	rtr    func(context.Context, proto.Infer, *rpc.Out) (proto.Text, error)
	more   func(service string, s *rpc.Server) // registers more methods
	config func(*config.Config)
}

// all are neighbours that answer: a prompt, one line of history, and text.
func all() neighbours {
	return neighbours{
		sys:    answers[proto.GetPrompt](`{"type":"system_prompt","content":"Be <brief>."}`),
		ctx:    answers[proto.Build](`{"type":"context","messages":[ {"role":"user","content":"old"} ]}`),
		mem:    func(context.Context, proto.AppendHistory) (proto.Empty, error) { return proto.Empty{}, nil },
		agr:    agent("The ", "answer."),
		rtr:    model("The ", "model."),
		more:   func(string, *rpc.Server) {},
		config: func(*config.Config) {},
	}
}

// answers answers with one packet, or hangs up where it is empty.
func answers[Req any](packet string) func(context.Context, Req, *rpc.Out) error {
	return func(_ context.Context, _ Req, out *rpc.Out) error {
		return errors.Join(out.Frame([]byte(packet)), out.Flush())
	}
}

// agent answers with pieces of text, after three iterations.
func agent(pieces ...string) func(context.Context, proto.Run, *rpc.Out) (proto.Text, error) {
	return func(_ context.Context, _ proto.Run, out *rpc.Out) (proto.Text, error) {
		n := 3
		text, err := say(out, pieces)
		text.Iterations = &n
		return text, err
	}
}

// model answers with pieces of text.
func model(pieces ...string) func(context.Context, proto.Infer, *rpc.Out) (proto.Text, error) {
	return func(_ context.Context, _ proto.Infer, out *rpc.Out) (proto.Text, error) { return say(out, pieces) }
}

func say(out *rpc.Out, pieces []string) (proto.Text, error) {
	for _, piece := range pieces {
		if err := errors.Join(out.Text([]byte(piece)), out.Flush()); err != nil {
			return proto.Text{}, err
		}
	}
	return proto.Text{Content: strings.Join(pieces, "")}, nil
}

// env is a daemon with its neighbours and what they have seen.
type env struct {
	t       *testing.T
	cfg     *config.Config
	log     *zinotest.Buffer
	service *Service
	runs    recorder[proto.Run]
	infers  recorder[proto.Infer]
	gets    recorder[proto.GetPrompt]
	builds  recorder[proto.Build]
	stored  recorder[proto.AppendHistory]
	daemon  *rpc.Server
	served  chan struct{} // closed when the last server that was started has ended
}

// recorder keeps requests.
type recorder[T any] struct {
	mu  sync.Mutex
	all []T
}

func (r *recorder[T]) add(v T) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, v)
}

func (r *recorder[T]) list() []T {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.all)
}

func newEnv(t *testing.T, n neighbours) *env {
	t.Helper()
	dir := zinotest.Dir(t)
	b := &env{t: t, cfg: config.Default(), log: &zinotest.Buffer{}}
	for _, name := range config.Services {
		*b.cfg.SocketOf(name) = filepath.Join(dir, name)
	}
	n.config(b.cfg)
	b.start(n)
	s := New(b.cfg, slog.New(slog.NewTextHandler(b.log, nil)))
	s.storeTimeout = 100 * time.Millisecond
	b.service = s
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	b.daemon = b.serve("daemon", s.Register)
	return b
}

// start runs the neighbours that exist. Raw fields are copied: they lie in the
// connection's buffer.
func (b *env) start(n neighbours) {
	b.t.Helper()
	more := func(service string, register func(*rpc.Server)) {
		b.t.Helper()
		b.serve(service, func(s *rpc.Server) { register(s); n.more(service, s) })
	}
	if n.sys != nil {
		more("sys", func(s *rpc.Server) { rpc.HandleRelay(s, proto.SysGet, seen(&b.gets, n.sys)) })
	}
	if n.ctx != nil {
		more("ctx", func(s *rpc.Server) { rpc.HandleRelay(s, proto.CtxBuild, seen(&b.builds, n.ctx)) })
	}
	if n.mem != nil {
		more("mem", func(s *rpc.Server) {
			rpc.Handle(s, proto.MemAppendHistory, func(ctx context.Context, req proto.AppendHistory) (proto.Empty, error) {
				req.Messages = bytes.Clone(req.Messages)
				empty, err := n.mem(ctx, req)
				b.stored.add(req)
				return empty, err
			})
		})
	}
	if n.agr != nil {
		more("agr", func(s *rpc.Server) {
			rpc.HandleText(s, proto.AgrRun, func(ctx context.Context, req proto.Run, out *rpc.Out) (proto.Text, error) {
				req.Messages = bytes.Clone(req.Messages)
				b.runs.add(req)
				return n.agr(ctx, req, out)
			})
		})
	}
	if n.rtr != nil {
		more("rtr", func(s *rpc.Server) {
			rpc.HandleText(s, proto.RtrInfer, func(ctx context.Context, req proto.Infer, out *rpc.Out) (proto.Text, error) {
				req.Messages = bytes.Clone(req.Messages)
				b.infers.add(req)
				return n.rtr(ctx, req, out)
			})
		})
	}
}

// seen records the requests of a handler.
func seen[T any](r *recorder[T], f func(context.Context, T, *rpc.Out) error) func(context.Context, T, *rpc.Out) error {
	return func(ctx context.Context, req T, out *rpc.Out) error {
		r.add(req)
		return f(ctx, req, out)
	}
}

// serve runs a service until the test ends.
func (b *env) serve(name string, register func(*rpc.Server)) *rpc.Server {
	b.t.Helper()
	s := rpc.NewServer(name, slog.New(slog.DiscardHandler))
	register(s)
	l, err := net.Listen("unix", b.cfg.Socket(name))
	if err != nil {
		b.t.Fatal(err)
	}
	var serveErr error
	served := make(chan struct{})
	go func() { serveErr = s.Serve(l); close(served) }()
	b.served = served
	b.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), zinotest.Timeout)
		defer cancel()
		err := s.Shutdown(ctx)
		<-served
		if err := errors.Join(err, serveErr); err != nil {
			b.t.Errorf("%s: %v", name, err)
		}
	})
	return s
}

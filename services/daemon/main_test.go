package daemon

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"zino/pkg/config"
	"zino/pkg/rpc"
	"zino/pkg/zinotest"
	"zino/pkg/zinotest/rpctest"
	"zino/proto"
)

// neighbours are the handlers of the fake services. A service whose handler is nil
// does not run.
type neighbours struct {
	sys    func(context.Context, proto.GetPrompt, *rpc.Out) error
	ctx    func(context.Context, proto.Build, *rpc.Out) error
	mem    func(context.Context, proto.AppendHistory) (proto.Empty, error)
	agr    func(context.Context, proto.Run, *rpc.Out) (proto.Text, error)
	rtr    func(context.Context, proto.Infer, *rpc.Out) (proto.Text, error)
	more   func(service string, s *rpc.Server) // registers more methods
	config func(*config.Config)

	storeTimeout time.Duration // of the service; 0 means 100 ms
}

// all returns neighbours that answer with a prompt, one line of history, and text.
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

// answers returns a handler that replies with one packet, or closes the connection if
// packet is empty.
func answers[Req any](packet string) func(context.Context, Req, *rpc.Out) error {
	return func(_ context.Context, _ Req, out *rpc.Out) error {
		return errors.Join(out.Frame([]byte(packet)), out.Flush())
	}
}

// agent returns an agr that answers with pieces of text, after three iterations.
func agent(pieces ...string) func(context.Context, proto.Run, *rpc.Out) (proto.Text, error) {
	return func(_ context.Context, _ proto.Run, out *rpc.Out) (proto.Text, error) {
		n := 3
		text, err := say(out, pieces)
		text.Iterations = &n
		return text, err
	}
}

// model returns an rtr that answers with pieces of text.
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

// env is a daemon with fake neighbours, which record their requests.
type env struct {
	t       *testing.T
	cfg     *config.Config
	log     zinotest.Buffer
	service *Service
	server  *rpc.Server
	runs    rpctest.Record[proto.Run]
	infers  rpctest.Record[proto.Infer]
	gets    rpctest.Record[proto.GetPrompt]
	builds  rpctest.Record[proto.Build]
	stored  rpctest.Record[proto.AppendHistory]
}

func newEnv(t *testing.T, n neighbours) *env {
	t.Helper()
	dir := zinotest.Dir(t)
	b := &env{t: t, cfg: config.Default()}
	b.cfg.Daemon.DataDir = zinotest.Dir(t)
	for _, name := range config.Services {
		*b.cfg.SocketOf(name) = filepath.Join(dir, name)
	}
	n.config(b.cfg)
	b.start(n)
	b.service = New(b.cfg, b.log.Logger())
	b.service.promptPause = time.Millisecond
	b.service.storeTimeout = cmp.Or(n.storeTimeout, 100*time.Millisecond)
	t.Cleanup(func() { zinotest.Must(t, b.service.Close()) })
	_, b.server = rpctest.New(t, "daemon", b.cfg.Daemon.Socket, b.service.Register)
	return b
}

// start runs the neighbours. Raw fields are cloned because they alias the connection's
// buffer.
func (b *env) start(n neighbours) {
	b.t.Helper()
	serve := func(name string, register func(*rpc.Server)) {
		b.t.Helper()
		rpctest.New(b.t, name, b.cfg.Socket(name), func(s *rpc.Server) { register(s); n.more(name, s) })
	}
	if n.sys != nil {
		serve("sys", func(s *rpc.Server) { rpc.HandleRelay(s, proto.SysGet, recorded(&b.gets, n.sys)) })
	}
	if n.ctx != nil {
		serve("ctx", func(s *rpc.Server) { rpc.HandleRelay(s, proto.CtxBuild, recorded(&b.builds, n.ctx)) })
	}
	if n.mem != nil {
		serve("mem", func(s *rpc.Server) {
			rpc.Handle(s, proto.MemAppendHistory, func(ctx context.Context, req proto.AppendHistory) (proto.Empty, error) {
				req.Messages = bytes.Clone(req.Messages)
				empty, err := n.mem(ctx, req)
				b.stored.Add(req)
				return empty, err
			})
		})
	}
	if n.agr != nil {
		serve("agr", func(s *rpc.Server) {
			rpc.HandleText(s, proto.AgrRun, func(ctx context.Context, req proto.Run, out *rpc.Out) (proto.Text, error) {
				req.Messages = bytes.Clone(req.Messages)
				b.runs.Add(req)
				return n.agr(ctx, req, out)
			})
		})
	}
	if n.rtr != nil {
		serve("rtr", func(s *rpc.Server) {
			rpc.HandleText(s, proto.RtrInfer, func(ctx context.Context, req proto.Infer, out *rpc.Out) (proto.Text, error) {
				req.Messages = bytes.Clone(req.Messages)
				b.infers.Add(req)
				return n.rtr(ctx, req, out)
			})
		})
	}
}

// recorded returns a handler that records its requests.
func recorded[T any](r *rpctest.Record[T], f func(context.Context, T, *rpc.Out) error) func(context.Context, T, *rpc.Out) error {
	return func(ctx context.Context, req T, out *rpc.Out) error {
		r.Add(req)
		return f(ctx, req, out)
	}
}

func (b *env) dial() *rpctest.Conn {
	b.t.Helper()
	return rpctest.Dial(b.t, b.cfg.Daemon.Socket)
}

// ask sends one request and reads its answer.
func (b *env) ask(payload string) (streamed string, last rpctest.Packet) {
	b.t.Helper()
	c := b.dial()
	c.Send(payload)
	return c.Finish()
}

// turn sends one request and returns the packets of its answer.
func (b *env) turn(payload string) (packets []string, last rpctest.Packet) {
	b.t.Helper()
	c := b.dial()
	c.Send(payload)
	return rest(c)
}

// rest returns the packets up to and including the terminal one, and the terminal one.
func rest(c *rpctest.Conn) (packets []string, last rpctest.Packet) {
	all := c.Rest()
	return rpctest.Raws(all), all[len(all)-1]
}

// checkIdle checks that agr, rtr and append_history of mem have had no request.
func (b *env) checkIdle() {
	b.t.Helper()
	if runs, infers, stored := len(b.runs.All()), len(b.infers.All()), len(b.stored.All()); runs+infers+stored > 0 {
		b.t.Errorf("%d runs, %d inferences, %d stored exchanges; want none", runs, infers, stored)
	}
}

// equalLists compares two lists of texts.
func equalLists(t *testing.T, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s:\n got %s\nwant %s", what, strings.Join(got, "\n     "), strings.Join(want, "\n     "))
	}
}

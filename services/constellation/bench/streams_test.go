package bench_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"zino/pkg/config"
	"zino/pkg/fakellm"
	"zino/pkg/rpc"
	"zino/proto"
	"zino/services/constellation/measure"
)

// streamsAtOnce is the number of open streams in one router.
const streamsAtOnce = 200

// benchStreams opens many streams in one router, pauses each in the middle of its
// answer, and then lets all continue.
func benchStreams(b *bench) ([]line, error) {
	n := streamsAtOnce
	turn := fakellm.Turn{Text: strings.Repeat("The bread is in the oven. ", 40), Size: 30, Pause: "all are open", Times: fakellm.Forever}
	llm := fakellm.New(fakellm.Turn{Match: "warm", Text: "yes"}, turn)
	defer llm.Close()
	c, err := b.constellation(false, func(cfg *config.Config) {
		cfg.Provider, cfg.API.BaseURL, cfg.Service.Model = "openai", llm.URL, "fake-model"
	}, nil, "rtr")
	defer c.stop()
	if err != nil {
		return nil, err
	}
	s := &openStreams{client: &rpc.Client{Service: "rtr", Path: c.cfg.Rtr.Socket}, want: turn.Text}
	defer s.client.Close()
	// The first stream loads the pages of the program that every stream needs.
	if _, err := rpc.CallText(context.Background(), s.client, proto.RtrInfer, question("Are you warm?"), sinkFunc(func([]byte) {})); err != nil {
		return nil, err
	}
	before, err := measure.Anonymous(c.processes["rtr"].pid())
	if err != nil {
		return nil, err
	}
	s.start(n)
	if err := s.awaitOpen(); err != nil {
		return nil, err
	}
	after, err := measure.Anonymous(c.processes["rtr"].pid())
	if err != nil {
		return nil, err
	}
	llm.Open("all are open")
	if err := s.awaitEnd(); err != nil {
		return nil, err
	}
	return []line{{
		name: fmt.Sprintf("memory of an open stream, %d in one rtr", n), unit: megabytes, measured: (after - before) * 1e6 / float64(n),
		goals: []goal{atMost(64 << 10)}, note: fmt.Sprintf("anonymous; rtr at rest %.1f MB, with all %.1f MB", before, after),
	}}, nil
}

// openStreams are requests that are paused by the provider.
type openStreams struct {
	client *rpc.Client
	want   string
	open   sync.WaitGroup // done when all text has arrived
	ended  sync.WaitGroup
	mu     sync.Mutex
	err    error
}

func (s *openStreams) start(n int) {
	for range n {
		s.open.Add(1)
		s.ended.Go(func() {
			have, opened := 0, sync.OnceFunc(s.open.Done)
			defer opened()
			sink := sinkFunc(func(delta []byte) {
				if have += len(delta); have == len(s.want) {
					opened()
				}
			})
			text, err := rpc.CallText(context.Background(), s.client, proto.RtrInfer, question("Where is the bread?"), sink)
			if err == nil && text.Content != s.want {
				err = fmt.Errorf("an answer of %d bytes", len(text.Content))
			}
			if err != nil {
				s.fail(err)
			}
		})
	}
}

// question returns a request for a stream.
func question(text string) proto.Infer {
	return proto.Infer{Messages: proto.Raw(`[{"role":"user","content":"` + text + `"}]`), TopP: 1, Stream: true}
}

func (s *openStreams) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

func (s *openStreams) awaitOpen() error { return s.await(&s.open) }
func (s *openStreams) awaitEnd() error  { return s.await(&s.ended) }

func (s *openStreams) await(g *sync.WaitGroup) error {
	done := make(chan struct{})
	go func() { g.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		return fmt.Errorf("%d concurrent streams make no progress", streamsAtOnce)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// sinkFunc is an rpc.Sink that calls a function.
type sinkFunc func(delta []byte)

// Text calls f.
func (f sinkFunc) Text(delta []byte) error { f(delta); return nil }

// Flush does nothing.
func (f sinkFunc) Flush() error { return nil }

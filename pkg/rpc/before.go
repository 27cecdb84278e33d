package rpc

import "context"

// BeforeShutdown has Shutdown call fn first, with its ctx. Until fn returns,
// requests are answered as before: what is to be finished may depend on them.
// New connections are accepted as well, unless they are KeptOpen. Register it
// before Serve.
func (s *Server) BeforeShutdown(fn func(context.Context)) { s.before = append(s.before, fn) }

// KeptOpen tells that somebody else holds the listeners open, too: whoever
// connects once Shutdown has begun waits for the next process.
func (s *Server) KeptOpen() { s.keptOpen = true }

// finish does what is to be done before no request is taken any more.
func (s *Server) finish(ctx context.Context) {
	s.finishOnce.Do(func() {
		for _, fn := range s.before {
			fn(ctx)
		}
	})
}

package repl

import "sync"

// work counts what a service that is to stop lets come to its end: callers that
// wait for an answer, and jobs that are out.
type work struct {
	mu    sync.Mutex
	count int
	idle  chan struct{} // closed when nothing is left and nothing more may come
	last  bool          // nothing more may come
}

func newWork() work { return work{idle: make(chan struct{})} }

// begin counts a caller, unless the service is ending.
func (w *work) begin() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.last {
		w.count++
	}
	return !w.last
}

// add counts a job. It may be the next one of a request that is under way.
func (w *work) add() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.count++
}

func (w *work) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.count--
	w.finish()
}

func (w *work) draining() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.last
}

// drain has nothing more begin. The channel is closed when all has come to its end.
func (w *work) drain() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last = true
	w.finish()
	return w.idle
}

func (w *work) finish() {
	if !w.last || w.count > 0 {
		return
	}
	select {
	case <-w.idle:
	default:
		close(w.idle)
	}
}

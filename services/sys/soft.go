package sys

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"time"

	"zino/pkg/rpc"
	"zino/proto"
)

const (
	getTimeout   = 500 * time.Millisecond // short, since a prompt waits for the soft memory
	storeTimeout = 2 * time.Second        // longer, since mem syncs the file
	retryEvery   = time.Second
)

// softMemory caches the soft memory, which mem stores. Each prompt asks mem, and uses
// the cache if mem cannot be reached or a new text is not stored there yet.
type softMemory struct {
	mem     *rpc.Client
	initial string // used until mem or a caller has set one
	log     *slog.Logger

	storing sync.Mutex // serializes stores, so that the newest is stored last

	mu      sync.Mutex
	value   string
	used    bool   // mem or a caller has set one, which may be empty
	pending bool   // value is not stored in mem yet
	away    bool   // the last request to mem failed
	asked   uint64 // number of the last request to mem
	applied uint64 // number of the request that returned value: earlier answers are stale

	once sync.Once
	wake chan struct{}
	done chan struct{}
	idle chan struct{}
}

func newSoftMemory(mem *rpc.Client, initial string, log *slog.Logger) *softMemory {
	s := &softMemory{
		mem: mem, initial: initial, log: log,
		wake: make(chan struct{}, 1), done: make(chan struct{}), idle: make(chan struct{}),
	}
	go s.run()
	return s
}

// text returns the soft memory as last known.
func (s *softMemory) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.used {
		return s.initial
	}
	return s.value
}

// state describes the connection with mem for stats.
func (s *softMemory) state() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.pending:
		return "to be stored in mem"
	case s.away:
		return "as last known: mem cannot be reached"
	}
	return "as in mem"
}

// unsaved reports whether a text is not stored in mem yet.
func (s *softMemory) unsaved() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pending
}

// set stores text in mem. If mem cannot be reached, run stores it later; if mem
// refuses it, set returns that error and changes nothing.
func (s *softMemory) set(ctx context.Context, text string) error {
	s.storing.Lock()
	defer s.storing.Unlock()
	err := s.store(ctx, text, storeTimeout)
	if err != nil && !unreachable(err) {
		return err
	}
	s.note(err)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.value, s.used, s.pending = text, true, err != nil
	s.supersede()
	if s.pending {
		select {
		case s.wake <- struct{}{}:
		default: // already signaled
		}
	}
	return nil
}

// refresh updates the text if mem answers in time.
func (s *softMemory) refresh(ctx context.Context) {
	s.mu.Lock()
	s.asked++
	number, pending := s.asked, s.pending
	s.mu.Unlock()
	if pending {
		s.storePending(ctx)
		return
	}
	limited, cancel := context.WithTimeout(ctx, getTimeout)
	defer cancel()
	reply, err := rpc.Call(limited, s.mem, proto.MemGetSoft, proto.GetSoft{})
	if ctx.Err() != nil { // the caller hung up: not a failure of mem
		return
	}
	s.note(err)
	if err == nil {
		s.apply(number, reply)
	}
}

// apply uses the answer to a request, unless a newer text is known.
func (s *softMemory) apply(number uint64, reply proto.SoftMemory) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if number < s.applied || s.pending {
		return
	}
	s.applied = number
	s.value, s.used = reply.Content, s.used || reply.Set || reply.Content != ""
}

// supersede makes the answers to all earlier requests stale. s.mu must be locked.
func (s *softMemory) supersede() {
	s.asked++
	s.applied = s.asked
}

// storePending stores the pending text and reports whether no text is pending. It
// returns false at once if another goroutine is storing.
func (s *softMemory) storePending(ctx context.Context) bool {
	if !s.storing.TryLock() {
		return false
	}
	defer s.storing.Unlock()
	s.mu.Lock()
	text, pending := s.value, s.pending
	s.mu.Unlock()
	if !pending {
		return true
	}
	err := s.store(ctx, text, getTimeout)
	s.note(err)
	if err != nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pending = false
	s.supersede()
	return true
}

func (s *softMemory) store(ctx context.Context, text string, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	_, err := rpc.Call(ctx, s.mem, proto.MemSetSoft, proto.SetSoft{Content: text})
	return err
}

// run stores a pending text in the background until close.
func (s *softMemory) run() {
	defer close(s.idle)
	retry := time.NewTimer(retryEvery)
	retry.Stop()
	for {
		select {
		case <-s.done:
			return
		case <-s.wake:
			retry.Reset(retryEvery)
		case <-retry.C:
			if !s.storePending(context.Background()) {
				retry.Reset(retryEvery)
			}
		}
	}
}

// close ends run and makes a last attempt to store a pending text.
func (s *softMemory) close() error {
	lost := false
	s.once.Do(func() {
		close(s.done)
		<-s.idle
		lost = !s.storePending(context.Background())
	})
	if lost {
		return errors.New("mem could not be reached: the soft memory that was set is lost")
	}
	return nil
}

// note logs when mem becomes unreachable, and when it is reachable again.
func (s *softMemory) note(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err != nil && !s.away:
		s.log.Warn("mem cannot be reached, the prompt keeps the soft memory as last known", "error", err)
	case err == nil && s.away:
		s.log.Info("mem answers again")
	}
	s.away = err != nil
}

// unreachable reports whether mem could not be reached, as opposed to a refusal.
func unreachable(err error) bool {
	for _, target := range []error{
		rpc.ErrConnect, context.Canceled, context.DeadlineExceeded,
		proto.ErrUnavailable, proto.ErrTimeout, proto.ErrCanceled, proto.ErrBusy,
	} {
		if errors.Is(err, target) {
			return true
		}
	}
	_, broken := errors.AsType[net.Error](err)
	return broken
}

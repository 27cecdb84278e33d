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
	askLimit   = 500 * time.Millisecond // for mem to say what the soft memory is: a prompt waits for it
	storeLimit = 2 * time.Second        // for mem to store one: it waits for the disk
	retryEvery = time.Second
)

// softMemory is the soft memory as this process knows it. mem has the truth,
// and is asked each time, unless it cannot be reached or a new text is still
// to be handed over to it.
type softMemory struct {
	mem     *rpc.Client
	initial string // what is used until there was any
	log     *slog.Logger

	storing sync.Mutex // one store at a time, so that mem ends up with the newest

	mu      sync.Mutex
	value   string
	used    bool   // there was one, from mem or from a caller, if only an empty one
	pending bool   // mem does not have value yet
	away    bool   // mem could not be reached the last time
	asked   uint64 // numbers the answers of mem in the order of asking
	applied uint64 // number of what value is from: earlier answers are stale

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
		return "to be handed over to mem"
	case s.away:
		return "as last known: mem cannot be reached"
	}
	return "as in mem"
}

// unsaved reports whether there is a text that mem does not have yet.
func (s *softMemory) unsaved() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pending
}

// set stores text in mem. Where mem cannot be reached it is handed over later;
// where mem refuses it, that is the error and nothing changes.
func (s *softMemory) set(ctx context.Context, text string) error {
	s.storing.Lock()
	defer s.storing.Unlock()
	err := s.store(ctx, text, storeLimit)
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
		default: // run has been told already
		}
	}
	return nil
}

// refresh brings the text up to date, as far as mem answers in time.
func (s *softMemory) refresh(ctx context.Context) {
	s.mu.Lock()
	s.asked++
	number, pending := s.asked, s.pending
	s.mu.Unlock()
	if pending {
		s.handOver(ctx)
		return
	}
	limited, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	reply, err := rpc.Call(limited, s.mem, proto.MemGetSoft, proto.GetSoft{})
	if ctx.Err() != nil { // the caller hung up, which says nothing about mem
		return
	}
	s.note(err)
	if err == nil {
		s.apply(number, reply)
	}
}

// apply takes an answer of mem, unless something newer is known.
func (s *softMemory) apply(number uint64, reply proto.SoftMemory) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if number < s.applied || s.pending {
		return
	}
	s.applied = number
	s.value, s.used = reply.Content, s.used || reply.Set || reply.Content != ""
}

// supersede makes all answers stale that mem was asked for before. The caller
// holds s.mu.
func (s *softMemory) supersede() {
	s.asked++
	s.applied = s.asked
}

// handOver stores a text that mem does not have yet and reports whether none
// is left. It leaves the work to whoever is at it already.
func (s *softMemory) handOver(ctx context.Context) bool {
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
	err := s.store(ctx, text, askLimit)
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

func (s *softMemory) store(ctx context.Context, text string, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	_, err := rpc.Call(ctx, s.mem, proto.MemSetSoft, proto.SetSoft{Content: text})
	return err
}

// run hands over in the background until close.
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
			if !s.handOver(context.Background()) {
				retry.Reset(retryEvery)
			}
		}
	}
}

// close ends run and hands over a last time: after it the text would be lost.
func (s *softMemory) close() error {
	lost := false
	s.once.Do(func() {
		close(s.done)
		<-s.idle
		lost = !s.handOver(context.Background())
	})
	if lost {
		return errors.New("mem could not be reached: the soft memory that was set is lost")
	}
	return nil
}

// note logs when mem goes away and when it comes back.
func (s *softMemory) note(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err != nil && !s.away:
		s.log.Warn("mem cannot be asked, the prompt keeps the soft memory as last known", "error", err)
	case err == nil && s.away:
		s.log.Info("mem answers again")
	}
	s.away = err != nil
}

// unreachable tells a mem that is away from one that refuses.
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

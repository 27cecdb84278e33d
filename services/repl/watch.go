package repl

import (
	"context"
	"sync"

	"zino/proto"
)

// packetsMax is how many packets may wait for a watcher.
const packetsMax = 1000

// subscriber is a caller of watch.
type subscriber struct {
	only *pageLog // nil: all

	mu      sync.Mutex
	packets []packet
	lost    bool          // packets were dropped: the caller reads too slowly
	wake    chan struct{} // has an element if there may be packets
}

// Watch calls event with what happens until ctx ends, event fails, or the service is
// closed: "page" with a [proto.Page], "exchange" with a [proto.Exchange]. A caller
// that reads too slowly gets the error busy.
func (s *Service) Watch(ctx context.Context, req proto.WatchPages, event func(typ string, packet any) error) error {
	w := &subscriber{wake: make(chan struct{}, 1)}
	if req.Page != "" {
		l, err := s.connectedLog(req.Page)
		if err != nil {
			return err
		}
		w.only = l
	}
	s.mu.Lock()
	s.subscribers[w] = true
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.subscribers, w)
	}()
	for {
		select {
		case <-w.wake:
		case <-ctx.Done():
			return nil
		case <-s.closed:
			return nil
		}
		w.mu.Lock()
		packets, lost := w.packets, w.lost
		w.packets = nil
		w.mu.Unlock()
		if lost {
			return &proto.Error{Code: proto.CodeBusy, Message: "watcher too slow, events were dropped: call watch again"}
		}
		for _, p := range packets {
			if err := event(p.typ, p.body); err != nil {
				return err
			}
		}
	}
}

// publish sends a packet to the callers of watch.
func (s *Service) publish(l *pageLog, typ string, body any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for w := range s.subscribers {
		if w.only != nil && w.only != l {
			continue
		}
		w.mu.Lock()
		if w.lost = w.lost || len(w.packets) >= packetsMax; !w.lost {
			w.packets = append(w.packets, packet{typ, body})
		}
		w.mu.Unlock()
		signal(w.wake)
	}
}

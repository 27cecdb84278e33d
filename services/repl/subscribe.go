package repl

import (
	"context"
	"sync"

	"zino/proto"
)

// behindMax is how many packets may wait for one who watches.
const behindMax = 1000

// subscriber is one who watches.
type subscriber struct {
	only *transcript // nil: all

	mu      sync.Mutex
	packets []packet
	lost    bool          // it was too slow
	wake    chan struct{} // has an element if there may be packets
}

// Watch calls event with what happens, until ctx ends, event fails, or the
// service is closed: "page" with a [proto.Page], "exchange" with a [proto.Exchange].
// One who takes too long over it is turned out with the error busy.
func (s *Service) Watch(ctx context.Context, req proto.WatchPages, event func(typ string, packet any) error) error {
	w := &subscriber{wake: make(chan struct{}, 1)}
	if req.Page != "" {
		t, err := s.connected(req.Page)
		if err != nil {
			return err
		}
		w.only = t
	}
	s.subscribe(w)
	defer s.unsubscribe(w)
	for {
		select {
		case <-w.wake:
		case <-ctx.Done():
			return nil
		case <-s.closed:
			return nil
		}
		packets, err := w.take()
		if err != nil {
			return err
		}
		for _, p := range packets {
			if err := event(p.typ, p.body); err != nil {
				return err
			}
		}
	}
}

func (s *Service) subscribe(w *subscriber) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watchers[w] = true
}

func (s *Service) unsubscribe(w *subscriber) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.watchers, w)
}

// publish tells those who watch.
func (s *Service) publish(t *transcript, typ string, body any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for w := range s.watchers {
		if w.only == nil || w.only == t {
			w.put(packet{typ, body})
		}
	}
}

func (w *subscriber) put(p packet) {
	w.mu.Lock()
	if w.lost = w.lost || len(w.packets) >= behindMax; !w.lost {
		w.packets = append(w.packets, p)
	}
	w.mu.Unlock()
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (w *subscriber) take() ([]packet, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.lost {
		return nil, &proto.Error{Code: proto.CodeBusy, Message: "More happened than was read. Watch again."}
	}
	packets := w.packets
	w.packets = nil
	return packets, nil
}

package web

import (
	"context"
	"errors"
	"time"

	"github.com/coder/websocket"

	"zino/proto"
)

const (
	listEvery = 5 * time.Second        // the list is sent anew at least that often
	listPause = 100 * time.Millisecond // and at most that often
)

// live sends the list of realms whenever it has changed, until ctx ends or the
// browser hangs up.
func (s *Server) live(ctx context.Context, c *websocket.Conn) error {
	ctx = c.CloseRead(ctx)
	watching, cancel := context.WithCancel(ctx)
	changed := make(chan struct{}, 1)
	watched := make(chan error, 1)
	go func() {
		defer cancel()
		watched <- s.service.Watch(watching, proto.WatchPages{}, func(string, any) error {
			select {
			case changed <- struct{}{}:
			default: // it is known already
			}
			return nil
		})
	}()
	err := s.sendLists(ctx, watching, c, changed)
	cancel()
	return errors.Join(err, <-watched)
}

// sendLists sends the list until watching ends. What is being sent then is sent
// to its end: ctx cuts the socket.
func (s *Server) sendLists(ctx, watching context.Context, c *websocket.Conn, changed <-chan struct{}) error {
	for {
		pages, err := s.service.Pages(ctx, proto.PagesRequest{})
		if err != nil {
			return err
		}
		if err := write(ctx, c, "pages", pages); err != nil {
			return err
		}
		if !wait(watching, time.After(listPause), nil) || !wait(watching, time.After(listEvery), changed) {
			return nil
		}
	}
}

// wait returns when it is time or something has changed; false if ctx has ended.
func wait(ctx context.Context, at <-chan time.Time, changed <-chan struct{}) bool {
	select {
	case <-at:
	case <-changed:
	case <-ctx.Done():
		return false
	}
	return true
}

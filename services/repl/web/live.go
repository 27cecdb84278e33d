package web

import (
	"context"
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
	ctx, cancel := context.WithCancel(c.CloseRead(ctx))
	changed := make(chan struct{}, 1)
	watched := make(chan error, 1)
	go func() {
		defer cancel()
		watched <- s.service.Watch(ctx, proto.WatchPages{}, func(string, any) error {
			select {
			case changed <- struct{}{}:
			default: // it is known already
			}
			return nil
		})
	}()
	err := s.sendLists(ctx, c, changed)
	cancel()
	if err == nil {
		err = <-watched
	}
	return err
}

func (s *Server) sendLists(ctx context.Context, c *websocket.Conn, changed <-chan struct{}) error {
	for {
		pages, err := s.service.Pages(ctx, proto.PagesRequest{})
		if err != nil {
			return err
		}
		if err := write(ctx, c, "pages", pages); err != nil {
			return err
		}
		if !wait(ctx, time.After(listPause), nil) || !wait(ctx, time.After(listEvery), changed) {
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

package repl

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"zino/pkg/zinotest"
	"zino/proto"
)

// watching collects packets until stop.
func (b *env) watching(page string) (packets chan string, stop func() error) {
	b.t.Helper()
	ctx, cancel := context.WithCancel(b.t.Context())
	packets = make(chan string, 1000)
	ended := make(chan error, 1)
	b.Service.mu.Lock()
	before := len(b.Service.subscribers)
	b.Service.mu.Unlock()
	go func() {
		ended <- b.Watch(ctx, proto.WatchPages{Page: page}, func(typ string, packet any) error {
			switch p := packet.(type) {
			case proto.Page:
				packets <- fmt.Sprintf("%s %s %s", typ, p.Name, p.State)
			case proto.Exchange:
				packets <- fmt.Sprintf("%s %s %s %v", typ, p.Page[:1], p.Agent, p.OK)
			}
			return nil
		})
	}()
	b.until("a watcher", func() bool {
		b.Service.mu.Lock()
		defer b.Service.mu.Unlock()
		return len(b.Service.subscribers) > before
	})
	return packets, func() error { cancel(); return <-ended }
}

// TestWatch: connections, states and exchanges are reported, of all pages or of one.
func TestWatch(t *testing.T) {
	t.Parallel()
	b := newEnv(t, "")
	all, stopAll := b.watching("")
	one := b.silentPage(proto.Attach{Name: "one"})
	only, stopOnly := b.watching("one")
	two := b.silentPage(proto.Attach{Name: "two"})
	want := func(packets chan string, list ...string) {
		t.Helper()
		for _, w := range list {
			if got := <-packets; got != w {
				t.Errorf("got %q, want %q", got, w)
			}
		}
	}
	want(all, "page one idle", "page two idle")
	for _, f := range []*fake{two, one} {
		b.add(f.Attached().File, js("1"))
		must(t, f.answer(f.job(0).Job, "1"))
		name := f.Attached().Name
		want(all, "page "+name+" executing")
		if got := <-all; got[:len("page one completed (")] != "page "+name+" completed (" {
			t.Errorf("got %q", got)
		}
		want(all, "exchange "+name[:1]+" agent true")
	}
	one.leave()
	want(all, "page one gone")
	want(only, "page one executing")
	<-only
	want(only, "exchange o agent true", "page one gone")
	must(t, stopAll())
	must(t, stopOnly())
	zinotest.Error(t, b.Watch(t.Context(), proto.WatchPages{Page: "missing"}, nil), proto.ErrNotFound)
}

// TestWatchSlow: a watcher that does not read gets an error and does not delay others.
func TestWatchSlow(t *testing.T) {
	t.Parallel()
	b := newEnv(t, "")
	f := b.page(proto.Attach{Name: "a"})
	hold, entered := make(chan bool), make(chan bool, 1)
	ended := make(chan error, 1)
	go func() {
		ended <- b.Watch(t.Context(), proto.WatchPages{}, func(string, any) error {
			select {
			case entered <- true:
			default:
			}
			<-hold
			return nil
		})
	}()
	b.until("the watcher has a packet", func() bool {
		b.publish(f.log, proto.TypePage, proto.Page{})
		return len(entered) > 0
	})
	for range packetsMax + 1 {
		b.publish(f.log, proto.TypePage, proto.Page{})
	}
	close(hold)
	zinotest.Error(t, <-ended, proto.ErrBusy)
}

func TestWatchFails(t *testing.T) {
	t.Parallel()
	b := newEnv(t, "")
	gone := errors.New("gone")
	ended := make(chan error, 1)
	go func() {
		ended <- b.Watch(t.Context(), proto.WatchPages{}, func(string, any) error { return gone })
	}()
	f := b.page(proto.Attach{Name: "a"})
	b.until("the end", func() bool {
		b.publish(f.log, proto.TypePage, proto.Page{})
		return len(ended) > 0
	})
	zinotest.Error(t, <-ended, gone)
}

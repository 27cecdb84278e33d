package exc

import (
	"io"
	"sync"
	"time"
	"unicode/utf8"

	"zino/proto"
)

const (
	liveMax  = 4 << 10                // bytes of a packet's text
	livePace = 120 * time.Millisecond // from one packet to the next: with the last one, ten in a second
)

// live shows what a command prints while it runs: the newest of it, from time
// to time. A caller that is slow to read delays nothing but this.
type live struct {
	send    func(proto.ToolOutput) error
	more    chan struct{} // something came
	stopped chan struct{}
	done    chan struct{}

	mu      sync.Mutex
	pending proto.ToolOutput
	streams []*liveStream
}

// startLive shows what comes with send, in a goroutine of its own, until stop.
func startLive(send func(proto.ToolOutput) error) *live {
	l := &live{send: send, more: make(chan struct{}, 1), stopped: make(chan struct{}), done: make(chan struct{})}
	go l.run()
	return l
}

// stop shows the rest and waits until the caller has taken it, or is gone.
func (l *live) stop() {
	l.mu.Lock()
	for _, s := range l.streams {
		l.add(decode(s.rest), 0)
		s.rest = nil
	}
	l.mu.Unlock()
	close(l.stopped)
	<-l.done
}

func (l *live) run() {
	defer close(l.done)
	for {
		select {
		case <-l.more:
		case <-l.stopped:
			_ = l.flush() // whoever is gone gets no result either
			return
		}
		if l.flush() != nil {
			return
		}
		select {
		case <-time.After(livePace):
		case <-l.stopped:
		}
	}
}

// flush sends what has come.
func (l *live) flush() error {
	l.mu.Lock()
	o := l.pending
	l.pending = proto.ToolOutput{}
	l.mu.Unlock()
	if o.Text == "" {
		return nil
	}
	return l.send(o)
}

// add takes text in, in front of which left bytes were left out. Only the
// newest is kept. mu is held.
func (l *live) add(text string, left int64) {
	o := &l.pending
	if left > 0 {
		o.LeftOut += int64(len(o.Text)) + left
		o.Text = ""
	}
	o.Text += text
	cut := max(0, len(o.Text)-liveMax)
	for cut < len(o.Text) && !utf8.RuneStart(o.Text[cut]) {
		cut++
	}
	o.LeftOut += int64(cut)
	o.Text = o.Text[cut:]
}

// stream is one of the outputs that are shown.
func (l *live) stream() io.Writer {
	s := &liveStream{l: l}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.streams = append(l.streams, s)
	return s
}

// liveStream makes whole characters of the bytes of one output.
type liveStream struct {
	l    *live
	rest []byte // the beginning of a character
}

// Write takes p in. It never fails and never waits.
func (s *liveStream) Write(p []byte) (int, error) {
	s.l.mu.Lock()
	defer s.l.mu.Unlock()
	all := append(s.rest, p...)
	whole := trimPartialEnd(all)
	newest := whole
	if len(whole) > liveMax {
		newest = trimPartialStart(whole[len(whole)-liveMax:])
	}
	s.l.add(decode(newest), int64(len(whole)-len(newest)))
	s.rest = append(s.rest[:0:0], all[len(whole):]...)
	select {
	case s.l.more <- struct{}{}:
	default:
	}
	return len(p), nil
}

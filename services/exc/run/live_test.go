package run

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"zino/proto"
)

// tap writes to a stream of a Live.
type tap struct {
	live   *Live
	stream string
}

func (w tap) Write(p []byte) (int, error) {
	w.live.Tap(w.stream, p)
	return len(p), nil
}

// packet is one that was sent, and when.
type packet struct {
	proto.ToolOutput
	at time.Time
}

// recorder keeps packets.
type recorder struct{ packets []packet }

func (r *recorder) send(o proto.ToolOutput) error {
	r.packets = append(r.packets, packet{o, time.Now()})
	return nil
}

// pass advances the clock of the bubble.
func pass(d time.Duration) { <-time.After(d) }

// Output in small pieces is shown at most ten times a second, and completely.
func TestLivePace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{}
		l := NewLive(r.send)
		w := tap{l, "stdout"}
		var all strings.Builder
		for range 3000 { // three seconds
			_, _ = w.Write([]byte("dröp "))
			all.WriteString("dröp ")
			pass(time.Millisecond)
		}
		l.Stop()
		var shown strings.Builder
		for i, p := range r.packets {
			shown.WriteString(p.Text)
			if i >= 10 && p.at.Sub(r.packets[i-10].at) < time.Second {
				t.Errorf("packets %d to %d within a second", i-10, i)
			}
		}
		if shown.String() != all.String() || len(r.packets) < 20 {
			t.Errorf("%d bytes of %d were shown in %d packets", shown.Len(), all.Len(), len(r.packets))
		}
		if first := r.packets[0]; first.Text != "dröp " {
			t.Errorf("the first packet had to wait: %q", first.Text)
		}
	})
}

// Of output that comes too fast the newest is shown, and the rest counted.
func TestLiveFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{}
		l := NewLive(r.send)
		w := tap{l, "stdout"}
		random := rand.New(rand.NewPCG(3, 4))
		text := strings.Repeat("0123456789äöü€𝄞\n", 40000)
		for p := []byte(text); len(p) > 0; {
			n := min(len(p), 1+random.IntN(20000))
			_, _ = w.Write(p[:n])
			p = p[n:]
			pass(10 * time.Millisecond)
		}
		l.Stop()
		at := 0
		for _, p := range r.packets {
			at += int(p.LeftOut)
			if len(p.Text) > liveMax || !utf8.ValidString(p.Text) || !strings.HasPrefix(text[at:], p.Text) {
				t.Fatalf("a packet of %d bytes is not what stands at %d", len(p.Text), at)
			}
			at += len(p.Text)
		}
		if at != len(text) {
			t.Errorf("%d bytes of %d are accounted for", at, len(text))
		}
	})
}

// A caller that does not read its packets does not delay the command.
func TestLiveBlockedCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{}
		open := make(chan struct{})
		l := NewLive(func(o proto.ToolOutput) error {
			<-open
			return r.send(o)
		})
		w := tap{l, "stdout"}
		_, _ = w.Write([]byte("first"))
		synctest.Wait()
		for range 1000 {
			_, _ = w.Write(make([]byte, 32<<10))
		}
		_, _ = w.Write([]byte("last"))
		if n := len(l.pending.Text); n != liveMax {
			t.Errorf("%d bytes wait", n)
		}
		close(open)
		l.Stop()
		if len(r.packets) != 2 || r.packets[0].Text != "first" || r.packets[1].LeftOut != 1000<<15+4-liveMax || !strings.HasSuffix(r.packets[1].Text, "\x00last") {
			t.Errorf("got %d packets", len(r.packets))
		}
	})
}

// Characters of one output are joined across packets of the other.
func TestLiveCharacters(t *testing.T) {
	tests := []struct {
		name   string
		pieces []string // of standard output and standard error in turn
		want   string
	}{
		{"split", []string{"a\xe2", "err", "\x82", "", "\xac."}, "aerr€."},
		{"both split", []string{"\xc3", "\xf0\x9d", "\xa4", "\x84\x9e"}, "ä𝄞"},
		{"bad", []string{"\xff", "", "a\xe2\x82", "", "b"}, "\uFFFDa\uFFFDb"},
		{"never completed", []string{"a\xe2\x82", "b\xc3"}, "ab\uFFFD\uFFFD"},
	}
	for _, tt := range tests {
		synctest.Test(t, func(t *testing.T) {
			r := &recorder{}
			l := NewLive(r.send)
			streams := []tap{{l, "stdout"}, {l, "stderr"}}
			for i, p := range tt.pieces {
				if n, err := streams[i%2].Write([]byte(p)); n != len(p) || err != nil {
					t.Errorf("%s: wrote %d, %v", tt.name, n, err)
				}
			}
			l.Stop()
			var got strings.Builder
			for _, p := range r.packets {
				got.WriteString(p.Text)
			}
			if got.String() != tt.want {
				t.Errorf("%s: got %q", tt.name, got.String())
			}
		})
	}
}

// No more packets are sent to a caller that has hung up.
func TestLiveCallerGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sent := 0
		l := NewLive(func(proto.ToolOutput) error {
			sent++
			return errors.New("gone")
		})
		w := tap{l, "stdout"}
		for range 10 {
			_, _ = w.Write([]byte("x"))
			pass(time.Second)
		}
		l.Stop()
		if sent != 1 {
			t.Errorf("it was sent %d packets", sent)
		}
	})
}

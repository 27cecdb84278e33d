package wire

import (
	"bytes"
	"io"
	"strings"
	"testing"
)

func TestReaderReady(t *testing.T) {
	stream := frames(t, "{}", "{}")
	r := NewReader(bytes.NewReader(append(stream, 0, 0, 0, 9, '{')))
	for i, want := range []bool{false, true, false} { // nothing is read before the first wait
		if got := r.Ready(); got != want {
			t.Fatalf("before frame %d: Ready = %v", i, got)
		}
		if i == 2 {
			break
		}
		if err := r.Wait(); err != nil {
			t.Fatal(err)
		}
		if !r.Ready() {
			t.Fatalf("frame %d lies in the buffer and is not ready", i)
		}
		if payload, err := r.Next(); err != nil || string(payload) != "{}" {
			t.Fatalf("frame %d: %q, %v", i, payload, err)
		}
	}
	if _, err := r.Next(); err != io.ErrUnexpectedEOF {
		t.Errorf("a frame cut in its body: %v", err)
	}
}

func TestReaderWaitAtEnd(t *testing.T) {
	r := NewReader(bytes.NewReader(frames(t, "{}")))
	if _, err := r.Next(); err != nil {
		t.Fatal(err)
	}
	if err := r.Wait(); err != io.EOF {
		t.Errorf("Wait at the end: %v", err)
	}
}

func TestDetach(t *testing.T) {
	for _, size := range []int{10, bufferSize, keepSize + 1} {
		first, second := strings.Repeat("1", size), strings.Repeat("2", size)
		r := NewReader(bytes.NewReader(frames(t, first, second)))
		payload, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		kept := r.Detach(payload)
		if _, err := r.Next(); err != nil {
			t.Fatal(err)
		}
		if string(kept) != first {
			t.Errorf("size %d: a detached payload changed with the next frame", size)
		}
	}
}

// TestReaderGivesBack holds that one large frame does not cost its memory for
// as long as the connection lives.
func TestReaderGivesBack(t *testing.T) {
	r := NewReader(bytes.NewReader(frames(t, strings.Repeat("x", 4*keepSize), "{}")))
	for range 2 {
		if _, err := r.Next(); err != nil {
			t.Fatal(err)
		}
	}
	if cap(r.big) > keepSize {
		t.Errorf("%d bytes are kept after a large frame", cap(r.big))
	}
}

// FuzzReader reads any bytes: no panic, nothing invented, and what is returned
// are the frames that stand there.
func FuzzReader(f *testing.F) {
	f.Add([]byte{}, uint8(1))
	f.Add([]byte{0, 0, 0}, uint8(1))
	f.Add([]byte{0, 0, 0, 0}, uint8(4))
	f.Add([]byte{1, 0, 0, 0, 'x'}, uint8(2))
	f.Add([]byte("\x00\x00\x00\x02{}\x00\x00\x00\x02{}"), uint8(3))
	f.Add([]byte("\x00\x00\x10\x00{"), uint8(9))
	f.Fuzz(func(t *testing.T, stream []byte, portion uint8) {
		got, err := readAll(NewReader(&portions{stream, int(portion)%7 + 1}))
		if err == nil {
			t.Fatal("the frames never end")
		}
		again := frames(t, got...)
		if !bytes.HasPrefix(stream, again) {
			t.Fatalf("%d frames are not those of the stream", len(got))
		}
		if rest := stream[len(again):]; (err == io.EOF) != (len(rest) == 0) {
			t.Fatalf("%d bytes are left and the error is %v", len(rest), err)
		}
	})
}

// portions is a reader that hands out a few bytes at a time.
type portions struct {
	rest []byte
	size int
}

func (p *portions) Read(b []byte) (int, error) {
	if len(p.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(b, p.rest[:min(p.size, len(p.rest))])
	p.rest = p.rest[n:]
	return n, nil
}

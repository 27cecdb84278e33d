package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
)

// frames returns these payloads as frames, one after the other.
func frames(t testing.TB, payloads ...string) []byte {
	t.Helper()
	var b []byte
	for _, p := range payloads {
		var err error
		if b, err = AppendFrame(b, []byte(p)); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

// readAll returns copies of all payloads up to the error that ends them.
func readAll(r *Reader) (payloads []string, err error) {
	for {
		payload, err := r.Next()
		if err != nil {
			return payloads, err
		}
		payloads = append(payloads, string(payload))
	}
}

// sizes are payload lengths around every limit inside the reader.
var sizes = []int{
	0, 1, 4, bufferSize - headerSize - 1, bufferSize - headerSize, bufferSize - headerSize + 1,
	bufferSize, 3 * bufferSize, keepSize - 1, keepSize + 1, firstAlloc, firstAlloc + 1,
}

func payloadsOf(sizes []int) (payloads []string) {
	for i, n := range sizes {
		payloads = append(payloads, strings.Repeat(string(rune('a'+i)), n))
	}
	return payloads
}

func TestFrameLayout(t *testing.T) {
	got := frames(t, `{"a":1}`, "")
	if want := "\x00\x00\x00\x07{\"a\":1}\x00\x00\x00\x00"; string(got) != want {
		t.Errorf("frames = %q, want %q", got, want)
	}
	b := append([]byte("kept"), 0xee)
	b, err := AppendFrame(b, []byte("{}"))
	if want := "kept\xee\x00\x00\x00\x02{}"; err != nil || string(b) != want {
		t.Errorf("appended: %q, %v, want %q", b, err, want)
	}
}

// TestReaderSources reads the same frames from readers that deliver their
// bytes in different portions: the payloads must not depend on it.
func TestReaderSources(t *testing.T) {
	want := payloadsOf(sizes)
	stream := frames(t, want...)
	for name, source := range map[string]func(io.Reader) io.Reader{
		"whole":        func(r io.Reader) io.Reader { return r },
		"byte by byte": iotest.OneByteReader,
		"halves":       iotest.HalfReader,
		"EOF at once":  iotest.DataErrReader,
	} {
		t.Run(name, func(t *testing.T) {
			got, err := readAll(NewReader(source(bytes.NewReader(stream))))
			if err != io.EOF {
				t.Fatalf("after %d frames: %v", len(got), err)
			}
			if len(got) != len(want) {
				t.Fatalf("%d frames, want %d", len(got), len(want))
			}
			for i := range want {
				if got[i] != want[i] {
					t.Errorf("frame %d: %d bytes, want %d", i, len(got[i]), len(want[i]))
				}
			}
		})
	}
}

// TestReaderCut ends the stream after every single byte: what arrived whole is
// returned, and the end is EOF between frames and ErrUnexpectedEOF inside one.
func TestReaderCut(t *testing.T) {
	payloads := []string{"", "{}", strings.Repeat("x", bufferSize)}
	stream := frames(t, payloads...)
	ends := map[int]int{} // offset of a boundary to the frames before it
	for i, end := 0, 0; i <= len(payloads); i++ {
		ends[end] = i
		if i < len(payloads) {
			end += headerSize + len(payloads[i])
		}
	}
	whole := 0
	for cut := 0; cut <= len(stream); cut++ {
		n, boundary := ends[cut]
		want := io.ErrUnexpectedEOF
		if boundary {
			whole, want = n, io.EOF
		}
		got, err := readAll(NewReader(bytes.NewReader(stream[:cut])))
		if len(got) != whole || err != want {
			t.Fatalf("cut at %d: %d frames and %v, want %d and %v", cut, len(got), err, whole, want)
		}
	}
}

func TestReaderTooLarge(t *testing.T) {
	for _, n := range []uint32{MaxPayload + 1, 1 << 25, 1 << 31, 1<<32 - 1} {
		stream := append(binary.BigEndian.AppendUint32(nil, n), "not read"...)
		r := NewReader(bytes.NewReader(stream))
		allocated := allocatedBytes(func() {
			payload, err := r.Next()
			if !errors.Is(err, ErrTooLarge) || payload != nil {
				t.Errorf("length %d: %d bytes, error %v", n, len(payload), err)
			} else if !strings.Contains(err.Error(), fmt.Sprint(n)) {
				t.Errorf("length %d: the error does not name it: %v", n, err)
			}
		})
		if allocated > 64<<10 {
			t.Errorf("length %d: %d bytes were allocated for a frame that is refused", n, allocated)
		}
	}
}

// TestReaderAnnounced holds that a header alone does not cost its length: the
// body's memory grows as bytes arrive.
func TestReaderAnnounced(t *testing.T) {
	stream := append(binary.BigEndian.AppendUint32(nil, MaxPayload), "little"...)
	r := NewReader(bytes.NewReader(stream))
	allocated := allocatedBytes(func() {
		if _, err := r.Next(); err != io.ErrUnexpectedEOF {
			t.Errorf("error %v", err)
		}
	})
	if allocated > 2*firstAlloc {
		t.Errorf("%d bytes were allocated for 6 that arrived", allocated)
	}
}

func allocatedBytes(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func TestLargestFrame(t *testing.T) {
	payload := bytes.Repeat([]byte("z"), MaxPayload)
	b, err := AppendFrame(nil, payload)
	if err != nil || b[0] != 0 {
		t.Fatalf("first byte %d, error %v", b[0], err)
	}
	got, err := NewReader(bytes.NewReader(b)).Next()
	if err != nil || !bytes.Equal(got, payload) {
		t.Fatalf("%d bytes, error %v", len(got), err)
	}
	b, err = AppendFrame([]byte("kept"), append(payload, 'z'))
	if !errors.Is(err, ErrTooLarge) || string(b[:8]) != "kept\x00\x00\x00\x00" {
		t.Errorf("above the limit: %q, error %v", b[:8], err)
	}
}

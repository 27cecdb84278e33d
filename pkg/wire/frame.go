// Package wire is Zino's packet format and nothing above it: frames of a
// 4-byte big-endian length and that many bytes of UTF-8 JSON, always an
// object; a codec for those objects; and hand-written forms of the few small
// packets that flow by the thousand. It knows no service and no socket.
package wire

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

const (
	// MaxPayload is the largest payload of a frame in bytes. The first byte of
	// a frame is therefore always 0.
	MaxPayload = 1<<24 - 1

	headerSize = 4
	bufferSize = 4 << 10   // what one connection holds while it is quiet
	keepSize   = 256 << 10 // a larger body is given back after its request
	firstAlloc = 64 << 10  // what an announced length alone can make us allocate
)

// ErrTooLarge is wrapped by errors about frames above MaxPayload.
var ErrTooLarge = errors.New("too large")

// Begin appends room for a frame's header to b. The payload is appended after
// it, and End fills in the length.
func Begin(b []byte) []byte { return append(b, 0, 0, 0, 0) }

// End writes the length of the frame that starts at b[start:], where Begin was
// called. A payload above MaxPayload is an error and leaves b as it is.
func End(b []byte, start int) error {
	n := len(b) - start - headerSize
	if n > MaxPayload {
		return fmt.Errorf("a packet of %d bytes is %w: the limit is %d", n, ErrTooLarge, MaxPayload)
	}
	binary.BigEndian.PutUint32(b[start:], uint32(n))
	return nil
}

// AppendFrame appends payload as one frame.
func AppendFrame(b, payload []byte) ([]byte, error) {
	start := len(b)
	b = append(Begin(b), payload...)
	return b, End(b, start)
}

// Reader reads frames. It is not safe for concurrent use.
type Reader struct {
	// Reserve is asked before memory above 64 KiB is allocated for a frame, with
	// all the bytes that the frame will have. Its error is that of Next.
	Reserve func(total int) error

	br   *bufio.Reader
	big  []byte // body of a frame that does not fit the buffer
	used int    // bytes in br that the last frame returned still occupies
}

// NewReader returns a Reader of r.
func NewReader(r io.Reader) *Reader {
	return &Reader{br: bufio.NewReaderSize(r, bufferSize)}
}

// Wait blocks until the next frame has begun: io.EOF means that the peer ended
// between two frames.
func (r *Reader) Wait() error {
	r.release()
	_, err := r.br.Peek(1)
	return err
}

// Ready reports whether the next frame lies in the buffer as a whole, so that
// Next will not block.
func (r *Reader) Ready() bool {
	r.release()
	if r.br.Buffered() < headerSize {
		return false
	}
	head, _ := r.br.Peek(headerSize)
	return r.br.Buffered() >= headerSize+int(binary.BigEndian.Uint32(head))
}

// Next returns the payload of the next frame, valid until the next call of any
// method. The announced length is checked before anything is allocated. Errors:
// io.EOF between frames, io.ErrUnexpectedEOF inside one, ErrTooLarge.
func (r *Reader) Next() ([]byte, error) {
	r.release()
	head, err := r.br.Peek(headerSize)
	if err != nil {
		return nil, r.cut(err, len(head))
	}
	n := int(binary.BigEndian.Uint32(head))
	switch {
	case n > MaxPayload:
		return nil, fmt.Errorf("a packet of %d bytes is %w: the limit is %d", n, ErrTooLarge, MaxPayload)
	case headerSize+n <= bufferSize:
		return r.small(n)
	}
	return r.large(n)
}

// Detach hands the memory of the last payload over to the caller, who may keep
// it; a payload that lies in the shared buffer is copied.
func (r *Reader) Detach(payload []byte) []byte {
	if r.used > 0 {
		return append([]byte(nil), payload...)
	}
	r.big = nil
	return payload
}

// small returns a payload in place.
func (r *Reader) small(n int) ([]byte, error) {
	frame, err := r.br.Peek(headerSize + n)
	if err != nil {
		return nil, r.cut(err, len(frame))
	}
	r.used = headerSize + n
	return frame[headerSize:], nil
}

// large reads a payload into memory of its own, which grows as bytes arrive:
// a header alone cannot claim 16 MiB.
func (r *Reader) large(n int) ([]byte, error) {
	if _, err := r.br.Discard(headerSize); err != nil {
		return nil, err
	}
	body := r.big[:0]
	for len(body) < n {
		if len(body) == cap(body) {
			size := min(n, max(firstAlloc, 16*len(body)))
			if r.Reserve != nil && size > firstAlloc {
				if err := r.Reserve(size); err != nil {
					return nil, err
				}
			}
			body = grow(body, size)
		}
		m, err := r.br.Read(body[len(body):min(n, cap(body))])
		body = body[:len(body)+m]
		if err != nil {
			return nil, r.cut(err, headerSize+len(body))
		}
	}
	r.big = body
	return body, nil
}

func grow(b []byte, size int) []byte {
	bigger := make([]byte, len(b), size)
	copy(bigger, b)
	return bigger
}

// release gives back what the last payload occupied.
func (r *Reader) release() {
	if r.used > 0 {
		r.br.Discard(r.used) // cannot fail: the bytes are in the buffer
		r.used = 0
	}
	if cap(r.big) > keepSize {
		r.big = nil
	}
}

// cut tells the end between two frames from one inside a frame.
func (r *Reader) cut(err error, got int) error {
	if errors.Is(err, io.EOF) && got > 0 {
		return io.ErrUnexpectedEOF
	}
	return err
}

// Package wire is Zino's packet format: frames of a 4-byte big-endian length and
// that many bytes of UTF-8 JSON, always an object; a codec for those objects,
// which reads and writes the structs of proto; and a scanner for JSON text that is
// passed on undecoded. The most frequent packets have hand-written encoders and
// decoders. The package does not depend on services or sockets.
package wire

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
)

const (
	// MaxPayload is the largest payload of a frame in bytes. The first byte of
	// a frame is therefore always 0.
	MaxPayload = 1<<24 - 1

	headerSize = 4
	bufferSize = 4 << 10   // memory of an idle connection
	keepSize   = 256 << 10 // larger bodies are not allocated at once
	freeSize   = 64 << 10  // allocated without asking Reserve
)

// ErrTooLarge is wrapped by errors about frames above MaxPayload.
var ErrTooLarge = errors.New("too large")

// Begin appends space for a frame's header to b. The payload is appended after it,
// and End sets the length.
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

// AppendHeader appends the header of a frame of n bytes, at most MaxPayload.
func AppendHeader(b []byte, n int) []byte { return binary.BigEndian.AppendUint32(b, uint32(n)) }

// AppendFrame appends payload as one frame.
func AppendFrame(b, payload []byte) ([]byte, error) {
	start := len(b)
	b = append(Begin(b), payload...)
	return b, End(b, start)
}

// Reader reads frames. It is not safe for concurrent use.
type Reader struct {
	// Reserve is called before memory above 64 KiB is allocated for a frame, with the
	// total size to allocate. Next returns its error.
	Reserve func(total int) error

	br   *bufio.Reader
	big  []byte // body of a frame that is larger than the buffer
	used int    // bytes in br of the last frame returned
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

// Ready reports whether the whole next frame is in the buffer, so that Next does
// not block.
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

// Detach returns the last payload in memory that the caller may keep: a payload in
// the shared buffer is copied.
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

// large reads a payload into separate memory, which grows as bytes arrive: a header
// alone cannot allocate 16 MiB.
func (r *Reader) large(n int) ([]byte, error) {
	if _, err := r.br.Discard(headerSize); err != nil {
		return nil, err
	}
	body := r.big[:0]
	for len(body) < n {
		if len(body) == cap(body) {
			size := min(n, max(keepSize, 16*len(body)))
			if r.Reserve != nil && size > freeSize {
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

func grow(b []byte, size int) []byte { return append(Buffer(size), b...) }

// Sizes of buffers that are worth keeping.
const (
	leastSpare = 64 << 10
	mostSpare  = 1 << 20
)

// spares contains buffers from Free until the garbage collector empties it.
var spares sync.Pool

// Buffer returns an empty buffer with room for n bytes, if possible one that was freed.
func Buffer(n int) []byte {
	if n == 0 || n >= leastSpare {
		if b, ok := spares.Get().(*[]byte); ok && cap(*b) >= n {
			return *b
		}
	}
	return make([]byte, 0, n+n/8) // conversations grow
}

// Free has Buffer return b, of which nothing is used any more.
func Free(b []byte) {
	if b = b[:0]; leastSpare <= cap(b) && cap(b) <= mostSpare {
		spares.Put(&b)
	}
}

// release frees the memory of the last payload.
func (r *Reader) release() {
	if r.used > 0 {
		r.br.Discard(r.used) // cannot fail: the bytes are in the buffer
		r.used = 0
	}
	if cap(r.big) >= leastSpare {
		Free(r.big)
		r.big = nil
	}
}

// cut returns the error for a stream that ends after got bytes of a frame.
func (r *Reader) cut(err error, got int) error {
	if errors.Is(err, io.EOF) && got > 0 {
		return io.ErrUnexpectedEOF
	}
	return err
}

// Hand-written encoders and decoders of the most frequent packets. Tests compare them
// with the codec.

const (
	chunkHead = `{"type":"chunk","delta":"`
	deltaHead = `{"type":"assistant_delta","text":"`
	textTail  = `"}`
	maxPing   = 64 // longer pings go through the codec
)

// AppendChunk appends the frame {"type":"chunk","delta":…}.
func AppendChunk[T string | []byte](b []byte, delta T) ([]byte, error) {
	return appendText(b, chunkHead, delta)
}

// AppendDelta appends the frame {"type":"assistant_delta","text":…}.
func AppendDelta[T string | []byte](b []byte, delta T) ([]byte, error) {
	return appendText(b, deltaHead, delta)
}

// appendText appends the frame of a packet that begins with head and ends with
// text.
func appendText[T string | []byte](b []byte, head string, text T) ([]byte, error) {
	start := len(b)
	b = append(Begin(b), head[:len(head)-1]...)
	b = append(AppendString(b, text), '}')
	return b, End(b, start)
}

// ChunkDelta returns the text of a chunk in the form that AppendChunk writes.
// Text without escapes is a part of the payload, other text is appended to
// scratch[:0]. ok is false for any other form: use the codec then.
func ChunkDelta(payload, scratch []byte) (delta []byte, ok bool) {
	return textOf(payload, chunkHead, scratch)
}

// DeltaText is ChunkDelta for what AppendDelta writes.
func DeltaText(payload, scratch []byte) (delta []byte, ok bool) {
	return textOf(payload, deltaHead, scratch)
}

func textOf(payload []byte, head string, scratch []byte) (text []byte, ok bool) {
	if !begins(payload, head) || !bytes.HasSuffix(payload, []byte(textTail)) || len(payload) < len(head)+len(textTail) {
		return nil, false
	}
	text = payload[len(head) : len(payload)-len(textTail)]
	if verbatim(text) {
		return text, true
	}
	quoted := payload[len(head)-1 : len(payload)-1]
	if end, ok := skipString(quoted, 0); !ok || end != len(quoted) {
		return nil, false // the last quote is not the end of the delta
	}
	return Unquote(scratch[:0], quoted)
}

// IsChunk reports whether payload begins as AppendChunk writes it.
func IsChunk(payload []byte) bool { return begins(payload, chunkHead) }

func begins(payload []byte, head string) bool {
	return len(payload) > len(head) && string(payload[:len(head)]) == head
}

// IsPing reports whether payload is a ping with no field but its type.
func IsPing(payload []byte) bool {
	if len(payload) > maxPing {
		return false
	}
	f := object(payload)
	key, value, ok := f.next()
	if !ok || string(key) != "type" || string(value) != `"ping"` {
		return false
	}
	_, _, more := f.next()
	return !more && f.err == nil
}

// PongHead returns the constant part of a pong, for AppendPong. lifetime may be empty.
func PongHead(service, version string, proto int, lifetime string) []byte {
	b := AppendString([]byte(`{"type":"pong","service":`), service)
	b = AppendString(append(b, `,"version":`...), version)
	b = strconv.AppendInt(append(b, `,"proto":`...), int64(proto), 10)
	if lifetime != "" {
		b = AppendString(append(b, `,"lifetime":`...), lifetime)
	}
	return append(b, `,"uptime_s":`...)
}

// AppendPong appends the frame of a pong.
func AppendPong(b, head []byte, uptime int64) []byte {
	start := len(b)
	b = append(Begin(b), head...)
	b = append(strconv.AppendInt(b, uptime, 10), '}')
	End(b, start) // cannot fail: a few dozen bytes
	return b
}

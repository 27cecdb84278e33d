package wire

import (
	"bytes"
	"strconv"
)

// The packets that flow by the thousand, written and read by hand. Everything
// here is only a faster way to the result of the general codec: tests hold
// both together.

const (
	chunkHead = `{"type":"chunk","delta":"`
	deltaHead = `{"type":"assistant_delta","text":"`
	textTail  = `"}`
	maxPing   = 64 // a ping longer than this takes the general way
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
// The text lies in the payload where it can, else it is appended to
// scratch[:0]. ok is false for anything else: use the general codec then.
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

// IsPing reports whether payload is a ping with nothing besides its type.
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

// PongHead prepares the part of a pong that never changes; AppendPong ends it.
func PongHead(service, version string, proto int) []byte {
	b := AppendString([]byte(`{"type":"pong","service":`), service)
	b = AppendString(append(b, `,"version":`...), version)
	b = strconv.AppendInt(append(b, `,"proto":`...), int64(proto), 10)
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

package sse

import (
	"bytes"
	"io"
)

const (
	firstBuffer = 512       // enough for a stream of single tokens
	burstBuffer = 4 << 10   // for a faster stream
	keptBuffer  = 256 << 10 // larger buffers are freed when they are empty
	maxIdle     = 100       // empty reads in a row
)

// lines cuts a stream into lines. A CR ends a line at once; a LF after it is skipped
// with the next line, so that a server that ends lines with CR only causes no wait.
type lines struct {
	src     io.Reader
	buf     []byte
	pos     int   // start of what has not been returned
	seen    int   // bytes from pos without a line end
	full    bool  // the last read filled the buffer: more has arrived
	skipLF  bool  // the last line ended in CR
	started bool  // the first line, with a byte order mark, was returned
	err     error // of the source, kept until the buffer is used up
}

// next returns the next line without its end. It is valid until the next call.
func (l *lines) next() ([]byte, error) {
	for {
		l.dropLF()
		if line, ok := l.cut(); ok {
			return l.unmark(line), nil
		}
		if len(l.buf)-l.pos >= MaxEvent {
			return nil, ErrTooLong
		}
		if l.err != nil {
			return l.rest()
		}
		l.fill()
	}
}

// cut removes a complete line from the buffer.
func (l *lines) cut() ([]byte, bool) {
	held := l.buf[l.pos:]
	fresh := held[l.seen:]
	end := bytes.IndexByte(fresh, '\n')
	if end >= 0 {
		fresh = fresh[:end]
	}
	if cr := bytes.IndexByte(fresh, '\r'); cr >= 0 {
		end = cr
	}
	if end < 0 {
		l.seen = len(held)
		return nil, false
	}
	end += l.seen
	l.skipLF = held[end] == '\r'
	l.pos += end + 1
	l.seen = 0
	return held[:end], true
}

// rest returns the text after the last line end, then the source's error.
func (l *lines) rest() ([]byte, error) {
	line := l.unmark(l.buf[l.pos:])
	l.pos, l.seen = len(l.buf), 0
	if len(line) == 0 {
		return nil, l.err
	}
	return line, nil
}

// dropLF drops the LF of a CRLF whose CR ended the last line.
func (l *lines) dropLF() {
	if !l.skipLF || l.pos == len(l.buf) {
		return
	}
	l.skipLF = false
	if l.buf[l.pos] == '\n' {
		l.pos++
	}
}

// unmark drops the byte order mark of the first line.
func (l *lines) unmark(line []byte) []byte {
	if l.started {
		return line
	}
	l.started = true
	return bytes.TrimPrefix(line, []byte("\xef\xbb\xbf"))
}

// fill reads once from the source, after making room.
func (l *lines) fill() {
	if l.pos == len(l.buf) {
		l.buf, l.pos = l.buf[:0], 0
		switch size := cap(l.buf); {
		case size > keptBuffer:
			l.buf = nil
		case l.full && size < burstBuffer:
			l.buf = make([]byte, 0, 2*size)
		}
	}
	if len(l.buf) == cap(l.buf) {
		l.room()
	}
	for range maxIdle {
		n, err := l.src.Read(l.buf[len(l.buf):cap(l.buf)])
		l.buf = l.buf[:len(l.buf)+n]
		l.full = len(l.buf) == cap(l.buf)
		if l.err = err; n > 0 || err != nil {
			return
		}
	}
	l.err = io.ErrNoProgress
}

// room moves the unread bytes to the front of a buffer with space after them.
func (l *lines) room() {
	held := l.buf[l.pos:]
	if l.pos < cap(l.buf)/2 || cap(l.buf) == 0 {
		l.buf = append(make([]byte, 0, max(firstBuffer, 2*cap(l.buf))), held...)
	} else {
		l.buf = l.buf[:copy(l.buf, held)]
	}
	l.pos = 0
}

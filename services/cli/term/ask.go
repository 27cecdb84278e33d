package term

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// Discard drops what was typed and not read yet.
func Discard(f *os.File) {
	unix.IoctlSetInt(int(f.Fd()), unix.TCFLSH, unix.TCIFLUSH) // fails if f is not a terminal
}

// InForeground reports whether this process may read from the terminal f: a background job
// of a shell would be stopped.
func InForeground(f *os.File) bool {
	group, err := unix.IoctlGetInt(int(f.Fd()), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}

// ReadLineUntil reads a line from a terminal in its normal mode. When ctx ends first it
// consumes nothing. The error at the end of the input is io.EOF.
func ReadLineUntil(ctx context.Context, f *os.File) (string, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return "", err
	}
	defer r.Close()
	stop := context.AfterFunc(ctx, func() { w.Close() })
	defer func() {
		if stop() {
			w.Close()
		}
	}()
	var line strings.Builder
	for chunk := make([]byte, 4096); ; {
		ready := []unix.PollFd{{Fd: int32(f.Fd()), Events: unix.POLLIN}, {Fd: int32(r.Fd()), Events: unix.POLLIN}}
		if _, err := unix.Poll(ready, -1); err != nil && !errors.Is(err, unix.EINTR) {
			return "", err
		}
		switch {
		case ctx.Err() != nil:
			return "", ctx.Err()
		case ready[0].Revents == 0:
			continue
		case ready[0].Revents&unix.POLLHUP != 0: // closed: each read would return at once
			return "", io.ErrUnexpectedEOF
		}
		n, err := f.Read(chunk)
		line.Write(chunk[:n])
		if s := line.String(); err != nil || strings.HasSuffix(s, "\n") {
			return strings.TrimSuffix(s, "\n"), err
		}
	}
}

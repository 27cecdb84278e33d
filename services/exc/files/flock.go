package files

import (
	"context"
	"errors"
	"os"
	"syscall"
	"time"
)

// How often a file is asked for that another process has.
const (
	firstWait = time.Millisecond
	lastWait  = 20 * time.Millisecond
)

// locked is a file that other processes wait for until it is closed. No other
// file gets its identity as long.
type locked struct {
	*os.File
	id identity
}

// seize locks the file that bears the target's name, or nothing where that
// cannot be: its replacement takes the name from it, so whoever has waited must
// look again. What cannot be locked is looked at just before it is replaced,
// and a new file takes no name that somebody has taken meanwhile.
func (t target) seize(ctx context.Context) (*locked, error) {
	if t.info == nil || !t.info.Mode().IsRegular() {
		return nil, nil
	}
	for _, access := range []int{os.O_RDONLY, os.O_WRONLY} { // some can only be written, and NFS locks only then
		f, err := os.OpenFile(t.at, access|syscall.O_NOFOLLOW|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
		if err != nil {
			continue
		}
		fi, err := f.Stat()
		if err == nil {
			err = flock(ctx, f)
		}
		if err == nil {
			return &locked{f, identityOf(fi)}, nil
		}
		f.Close() // nothing was written
		if ctx.Err() != nil {
			return nil, err
		}
	}
	return nil, nil
}

// flock waits until nobody else has the file locked, or ctx is done.
func flock(ctx context.Context, f *os.File) error {
	for wait := firstWait; ; wait = min(2*wait, lastWait) {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !isAny(err, syscall.EWOULDBLOCK, syscall.EINTR) {
			return err
		}
		select {
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		case <-time.After(wait):
		}
	}
}

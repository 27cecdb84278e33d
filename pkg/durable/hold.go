package durable

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"syscall"
	"time"
)

// Hold is a lock on a name, for work that takes longer than a write. The kernel
// ends it when its process dies. The file of that name stands for the lock and
// is there while somebody has it; one that a dead process left is no lock.
type Hold struct {
	root *os.Root
	name string
	f    *os.File
}

// TryHold takes the lock of a name, which has no directory part. It returns nil
// if somebody else has it, in this process or another. A file system that
// cannot lock is an error.
func TryHold(root *os.Root, name string) (*Hold, error) {
	for {
		f, err := openPrivate(root, name, os.O_RDWR|os.O_CREATE)
		if err != nil {
			return nil, err
		}
		// Whoever has the lock removes the file before he ends it, so a lock on
		// a file without a name is worth nothing.
		fi, err := lockNamed(f, root, name, syscall.LOCK_EX|syscall.LOCK_NB)
		if fi != nil {
			return &Hold{root, name, f}, nil
		}
		taken := errors.Is(err, syscall.EWOULDBLOCK)
		if taken {
			err = nil
		}
		if err = errors.Join(err, f.Close()); err != nil || taken {
			return nil, err
		}
	}
}

// Waits between looks at a lock that somebody else has. The first ones take
// 15 ms together: somebody who ends a lock at this moment is not waited for.
const (
	firstWait  = time.Millisecond
	unnoticed  = 8 * time.Millisecond
	laterWaits = 25 * time.Millisecond
)

// AwaitHold waits for the lock of a name until ctx ends. If somebody else has
// it, busy is called once.
func AwaitHold(ctx context.Context, root *os.Root, name string, busy func() error) (*Hold, error) {
	for wait := firstWait; ; wait *= 2 {
		h, err := TryHold(root, name)
		if h != nil || err != nil {
			return h, err
		}
		if wait > unnoticed && wait < laterWaits {
			if err := busy(); err != nil {
				return nil, err
			}
			wait = laterWaits
		}
		wait = min(wait, laterWaits)
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(wait):
		}
	}
}

// Release ends the lock.
func (h *Hold) Release() error {
	err := h.root.Remove(h.name)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return either(err, h.f.Close())
}

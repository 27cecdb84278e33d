package durable

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"zino/pkg/zinotest"
)

const lockName = "a.lock"

func TestLock(t *testing.T) {
	dir := t.TempDir()
	first, err := os.Open(dir) // a directory can be locked like a file
	zinotest.Must(t, err)
	second, err := os.Open(dir)
	zinotest.Must(t, err)
	defer second.Close()
	zinotest.Must(t, TryLock(first))
	zinotest.Error(t, TryLock(second), ErrLocked)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	zinotest.Error(t, Lock(ctx, second), context.Canceled)
	got := make(chan error)
	go func() { got <- Lock(t.Context(), second) }()
	zinotest.Must(t, first.Close())
	zinotest.Must(t, zinotest.Receive(t, "the lock", got))
	zinotest.Error(t, TryLock(first), syscall.EBADF)
}

func TestLockFile(t *testing.T) {
	dir := t.TempDir()
	root := openRoot(t, dir)
	free := func() error { t.Error("busy was called for a free lock"); return nil }
	l, err := AwaitLockFile(t.Context(), root, lockName, free)
	zinotest.Must(t, err)
	for range 2 {
		_, err := TryLockFile(root, lockName)
		zinotest.Error(t, err, ErrLocked)
	}
	other, err := TryLockFile(root, "b.lock")
	zinotest.Must(t, err)
	zinotest.Must(t, other.Unlock())
	zinotest.Must(t, l.Unlock())
	zinotest.Equal(t, "the directory", zinotest.Names(t, dir), "")

	// A file that is not locked is not a lock.
	zinotest.Write(t, filepath.Join(dir, lockName), "")
	l, err = TryLockFile(root, lockName)
	zinotest.Must(t, err)
	zinotest.Must(t, os.Remove(filepath.Join(dir, lockName)))
	zinotest.Must(t, l.Unlock())

	_, err = AwaitLockFile(t.Context(), root, "no/such/dir", free)
	zinotest.Error(t, err, fs.ErrNotExist)
}

func TestAwaitLockFile(t *testing.T) {
	root := openRoot(t, t.TempDir())
	first, err := TryLockFile(root, lockName)
	zinotest.Must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	_, err = AwaitLockFile(ctx, root, lockName, func() error { cancel(); return nil })
	zinotest.Error(t, err, context.Canceled)
	gone := errors.New("the client has disconnected")
	_, err = AwaitLockFile(t.Context(), root, lockName, func() error { return gone })
	zinotest.Error(t, err, gone)

	busy, got := make(chan struct{}), make(chan error)
	go func() {
		l, err := AwaitLockFile(t.Context(), root, lockName, func() error { close(busy); return nil })
		if err == nil {
			err = l.Unlock()
		}
		got <- err
	}()
	zinotest.Receive(t, "busy", busy)
	zinotest.Must(t, first.Unlock())
	zinotest.Must(t, zinotest.Receive(t, "the lock", got))
}

func TestLockFileExcludes(t *testing.T) {
	root := openRoot(t, t.TempDir())
	holders, total := 0, 0
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 5 {
				l, err := AwaitLockFile(t.Context(), root, lockName, func() error { return nil })
				if err != nil {
					t.Error(err)
					return
				}
				if holders++; holders != 1 { // the race detector checks this, too
					t.Errorf("%d goroutines have the lock", holders)
				}
				holders--
				total++
				if err := l.Unlock(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	zinotest.Equal(t, "locks", total, 20)
}

// lockForever acquires the lock, prints a line and waits to be killed.
func lockForever(args []string) error {
	root, err := os.OpenRoot(args[0])
	if err != nil {
		return err
	}
	if _, err := AwaitLockFile(context.Background(), root, lockName, func() error { return nil }); err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, "locked")
	for {
		syscall.Pause()
	}
}

// TestKilledLocker checks that the kernel releases the lock of a killed process.
func TestKilledLocker(t *testing.T) {
	dir := t.TempDir()
	root := openRoot(t, dir)
	for range 5 {
		p := zinotest.Start(t, zinotest.Command(t, "locker", dir))
		p.WaitFor("locked")
		l, err := AwaitLockFile(t.Context(), root, lockName, func() error { p.Kill(); return nil })
		zinotest.Must(t, err)
		zinotest.Must(t, l.Unlock())
	}
}

package durable

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

const lockName = "a.lock"

// never is for locks that nobody else should have.
func never(t *testing.T) func() error {
	return func() error { t.Error("somebody else has the lock"); return nil }
}

func TestHold(t *testing.T) {
	dir := t.TempDir()
	root := openRoot(t, dir)
	h, err := AwaitHold(t.Context(), root, lockName, never(t))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if other, err := TryHold(root, lockName); other != nil || err != nil {
			t.Fatalf("a second one has the lock: %v, %v", other, err)
		}
	}
	if other, err := TryHold(root, "b.lock"); err != nil || other == nil || other.Release() != nil {
		t.Errorf("another name: %v, %v", other, err)
	}
	if err := h.Release(); err != nil {
		t.Fatal(err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
	// A file that nobody has locked stands for nothing.
	writeFile(t, filepath.Join(dir, lockName), "")
	h, err = TryHold(root, lockName)
	if err != nil || h == nil {
		t.Fatalf("a lock that was left: %v, %v", h, err)
	}
	if err := os.Remove(filepath.Join(dir, lockName)); err != nil {
		t.Fatal(err)
	}
	if err := h.Release(); err != nil {
		t.Errorf("the file was gone: %v", err)
	}
}

func TestAwaitHold(t *testing.T) {
	root := openRoot(t, t.TempDir())
	first, err := TryHold(root, lockName)
	if err != nil {
		t.Fatal(err)
	}
	busy, got := make(chan struct{}), make(chan error)
	go func() {
		h, err := AwaitHold(t.Context(), root, lockName, func() error { close(busy); return nil })
		if err == nil {
			err = h.Release()
		}
		got <- err
	}()
	<-busy
	if err := first.Release(); err != nil {
		t.Fatal(err)
	}
	if err := <-got; err != nil {
		t.Error(err)
	}
}

func TestAwaitHoldEnds(t *testing.T) {
	root := openRoot(t, t.TempDir())
	h, err := TryHold(root, lockName)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Release()
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := AwaitHold(ctx, root, lockName, func() error { cancel(); return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	gone := errors.New("gone")
	if _, err := AwaitHold(t.Context(), root, lockName, func() error { return gone }); err != gone {
		t.Errorf("nobody to tell: %v", err)
	}
	if _, err := AwaitHold(t.Context(), root, "no/such/dir", never(t)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no such directory: %v", err)
	}
}

// TestHoldExcludes has many take the lock in turn.
func TestHoldExcludes(t *testing.T) {
	root := openRoot(t, t.TempDir())
	held, total := 0, 0
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 5 {
				h, err := AwaitHold(t.Context(), root, lockName, func() error { return nil })
				if err != nil {
					t.Error(err)
					return
				}
				if held++; held != 1 { // the race detector looks on as well
					t.Errorf("%d have the lock", held)
				}
				held--
				total++
				if err := h.Release(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if total != 20 {
		t.Errorf("the lock was taken %d times", total)
	}
}

// holdForEver takes the lock, says so and dies with it.
func holdForEver(dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	h, err := AwaitHold(context.Background(), root, lockName, func() error { return nil })
	if err != nil {
		return err
	}
	fmt.Println("held")
	_, err = io.Copy(io.Discard, os.Stdin) // until we are killed
	return errors.Join(err, h.Release())
}

// TestHolderDies has the kernel end the lock of a process that was killed.
func TestHolderDies(t *testing.T) {
	dir := t.TempDir()
	root := openRoot(t, dir)
	for range 5 {
		cmd := child(t, "holder", dir)
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		defer in.Close()
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		if line, err := bufio.NewReader(out).ReadString('\n'); line != "held\n" {
			t.Fatalf("the holder said %q, %v", line, err)
		}
		h, err := AwaitHold(t.Context(), root, lockName, func() error { return cmd.Process.Kill() })
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err == nil {
			t.Error("the holder ended by itself")
		}
		if err := h.Release(); err != nil {
			t.Fatal(err)
		}
	}
}

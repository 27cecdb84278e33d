package ledger

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"zino/pkg/zinotest"
	"zino/proto"
)

// TestDiskFull runs cutShort in a process of its own, whose files cannot grow.
func TestDiskFull(t *testing.T) {
	if out, err := child(t, "cut", t.TempDir()).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// roomFor lets no file of this process grow beyond size, until lift: a write
// beyond it is cut short and fails, as on a full disk.
func roomFor(size int) (lift func() error, err error) {
	signal.Ignore(syscall.SIGXFSZ)
	var old syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &old); err != nil {
		return nil, err
	}
	limit := syscall.Rlimit{Cur: uint64(size), Max: old.Max}
	return func() error { return syscall.Setrlimit(syscall.RLIMIT_FSIZE, &old) }, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit)
}

// cutShort cuts every write short at every byte.
func cutShort(dir string) error {
	for room := range 130 {
		if err := cutReservation(filepath.Join(dir, "r"+strconv.Itoa(room)), room); err != nil {
			return fmt.Errorf("room for %d bytes of a reservation: %w", room, err)
		}
		if err := cutSettlement(filepath.Join(dir, "s"+strconv.Itoa(room)), room); err != nil {
			return fmt.Errorf("room for %d bytes of a settlement: %w", room, err)
		}
	}
	return nil
}

// cutReservation: what cannot be recorded is refused and does not count. The
// line has 103 bytes, of which the last may be missing.
func cutReservation(dir string, room int) error {
	l, err := openChild(dir, Limits{TokensPerDay: 100})
	if err != nil {
		return err
	}
	lift, err := roomFor(room)
	if err != nil {
		return err
	}
	ask := Ask{Input: 10, Output: 20}
	_, err = l.Reserve(context.Background(), ask)
	if err := lift(); err != nil {
		return err
	}
	text, readErr := os.ReadFile(l.file.path())
	whole := strings.HasSuffix(strings.TrimSuffix(string(text), "\n"), "}}")
	if whole != (err == nil) || err != nil && (!errors.Is(err, proto.ErrUnavailable) || !strings.Contains(err.Error(), "file too large")) || readErr != nil {
		return fmt.Errorf("%q, %w", text, err)
	}
	want := 0.0
	if err == nil {
		want = 30 // it stays under way
	}
	r, err := l.Reserve(context.Background(), ask)
	if err != nil {
		return err
	}
	if err := r.Settle(used(1, 1)); err != nil {
		return err
	}
	report, err := l.Report(context.Background(), proto.UsageRequest{})
	if err != nil || report.Budgets[0].Reserved != want || report.Budgets[0].Spent != 2 {
		return fmt.Errorf("it stands at %+v, %w", report.Budgets, err)
	}
	return nil
}

// cutSettlement: what cannot be recorded is recorded later, once.
func cutSettlement(dir string, room int) error {
	l, err := openChild(dir, Limits{})
	if err != nil {
		return err
	}
	settle := func(tokens int64) error {
		r, err := l.Reserve(context.Background(), Ask{})
		if err != nil {
			return err
		}
		return r.Settle(used(tokens, 0))
	}
	lift, err := roomFor(room)
	if err != nil {
		return err
	}
	first, second := settle(1), settle(2)
	if err := lift(); err != nil {
		return err
	}
	if second == nil || first == nil && room < 80 || first != nil && room > 120 {
		return fmt.Errorf("two settlements: %v, %w", first, second)
	}
	if odd := room%2 == 1; odd {
		err = l.Close()
	} else {
		err = settle(4)
	}
	if err != nil {
		return err
	}
	report, err := l.Report(context.Background(), proto.UsageRequest{})
	want := proto.Usage{InputTokens: int64(7 - room%2*4)}
	if err != nil || report.Total.Requests != int64(3-room%2) || report.Total.Usage != want {
		return fmt.Errorf("the report has %+v, %w", report.Total, err)
	}
	return nil
}

// TestDisk runs fillDisk in a mount namespace of its own, where it can have a
// small disk that goes away with it.
func TestDisk(t *testing.T) {
	cmd := child(t, "disk", t.TempDir())
	zinotest.SmallDisk(t, cmd)
}

// fillDisk spends until the disk is full, and then has a disk that cannot be
// written at all.
func fillDisk(dir string) error {
	if err := zinotest.Mount(dir, "size=32k", 0); err != nil {
		return err
	}
	limited, err := openChild(dir, Limits{TokensPerDay: 1e9})
	if err != nil {
		return err
	}
	n := int64(0)
	for ; err == nil; n++ {
		var r *Reservation
		if r, err = limited.Reserve(context.Background(), Ask{Input: 1, Output: 1}); err == nil {
			_ = r.Settle(used(1, 1)) // the last one finds the disk full, and is owed
		}
	}
	if !errors.Is(err, proto.ErrUnavailable) || !strings.Contains(err.Error(), "no space left on device") || n < 50 {
		return fmt.Errorf("%d requests, then %w", n, err)
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		return fmt.Errorf("mount: %w", err)
	}
	if _, err = limited.Reserve(context.Background(), Ask{}); !errors.Is(err, proto.ErrUnavailable) || !strings.Contains(err.Error(), "read-only file system") {
		return fmt.Errorf("reserved on a read-only disk: %w", err)
	}
	if _, err = openChild(dir, Limits{TokensPerDay: 1}); !errors.Is(err, proto.ErrUnavailable) {
		return fmt.Errorf("opened with limits: %w", err)
	}
	free, err := openChild(dir, Limits{})
	if err != nil {
		return err
	}
	if r, err := free.Reserve(context.Background(), Ask{}); err != nil || r.Settle(used(1, 1)) == nil {
		return fmt.Errorf("without limits: %w", err)
	}
	report, err := free.Report(context.Background(), proto.UsageRequest{})
	if got := report.Total.Requests; err != nil || got < n-2 || got > n-1 {
		return fmt.Errorf("%d requests of %d are there, %w", got, n-1, err)
	}
	return nil
}

package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"zino/pkg/zinotest"
	"zino/proto"
)

func openStore(dir string) (*Store, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	return New(root, Options{}), nil
}

func appendTo(s *Store, id string, events ...string) error {
	var list []proto.Raw
	for _, e := range events {
		list = append(list, proto.Raw(e))
	}
	_, err := s.Append(context.Background(), proto.AppendSession{SessionID: id, Create: true}, list)
	return err
}

// writeForever appends pairs of events and prints its pid and the number of stored
// pairs.
func writeForever(args []string) error {
	s, err := openStore(args[0])
	if err != nil {
		return err
	}
	for i := 0; ; i++ {
		text := fmt.Sprintf("%d %d ", os.Getpid(), i)
		if err := appendTo(s, "s", user(text+strings.Repeat("x", rand.IntN(9000))), says(text)); err != nil {
			return err
		}
		if _, err := fmt.Println(os.Getpid(), i+1); err != nil {
			return err
		}
	}
}

// TestKilledWriters kills processes that append to one session. It must contain
// every acknowledged event once and in order.
func TestKilledWriters(t *testing.T) {
	dir := t.TempDir()
	var mu sync.Mutex
	acked := map[int]int{} // pid to the number of pairs
	for range 10 {
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				lines := zinotest.KillAfter(t, zinotest.Command(t, "writer", dir), 1+rand.IntN(4))
				mu.Lock()
				defer mu.Unlock()
				for _, line := range lines {
					pid, n, _ := strings.Cut(line, " ")
					key, _ := strconv.Atoi(pid)
					acked[key], _ = strconv.Atoi(n)
				}
			})
		}
		wg.Wait()
	}
	b := newEnv(t, dir)
	seen := map[int]int{}
	events, _ := b.pages("s", 0)
	for i, line := range events {
		e := parse([]byte(line))
		if e.kind == proto.TypeMeta && i == 0 {
			continue
		}
		var pid, n int
		if _, err := fmt.Sscanf(str(e.text), "%d %d ", &pid, &n); err != nil || n != seen[pid]/2 {
			t.Fatalf("event %d, number %d of its process: %.80s, %v", i, seen[pid], line, err)
		}
		seen[pid]++
	}
	for pid, pairs := range acked {
		if seen[pid] < 2*pairs {
			t.Errorf("process %d: %d pairs were acknowledged, found %d events", pid, pairs, seen[pid])
		}
	}
	if sum := b.list(0); len(acked) != 30 || len(sum.Sessions) != 1 || sum.Sessions[0].Messages != len(events)-1 {
		t.Errorf("%d writers, %+v, %d events", len(acked), sum, len(events))
	}
}

// batch returns the events of an append, the same ones for the same number.
func batch(n int) (events []proto.Raw) {
	for i := range 3 {
		events = append(events, proto.Raw(given(10*n+i)))
	}
	return events
}

// appendAtForever appends batches from a number and an offset on, as a daemon does that
// repeats the append whose answer was lost. It prints each number and the offset
// behind the batch.
func appendAtForever(args []string) error {
	s, err := openStore(args[0])
	if err != nil {
		return err
	}
	n, _ := strconv.Atoi(args[1])
	at, _ := strconv.ParseInt(args[2], 10, 64)
	for ; ; n++ {
		req := proto.AppendSession{SessionID: "s", Create: true, At: &at, Header: proto.Raw(`{"ts":"2026-11-22T09:00:00Z"}`)}
		place, err := s.Append(context.Background(), req, batch(n))
		if err != nil {
			return err
		}
		if at = place.Next; len(place.Offsets) != 3 || place.Offsets[2] != at {
			return fmt.Errorf("%+v", place)
		}
		if _, err := fmt.Println(n, at); err != nil {
			return err
		}
	}
}

// TestKilledAppendAt kills a writer again and again, which then repeats what was not
// acknowledged: the session contains each event once.
func TestKilledAppendAt(t *testing.T) {
	dir := t.TempDir()
	next, at := 0, "0"
	for range 8 {
		lines := zinotest.KillAfter(t, zinotest.Command(t, "daemon", dir, fmt.Sprint(next), at), 1+rand.IntN(4))
		n, end, _ := strings.Cut(lines[len(lines)-1], " ")
		last, err := strconv.Atoi(n)
		zinotest.Must(t, err)
		next, at = last+1, end
	}
	var want strings.Builder
	want.WriteString(`{"type":"meta","schema_version":1,"ts":"2026-11-22T09:00:00Z"}` + "\n")
	for n := range next + 1 { // the last append may not have been acknowledged
		for _, event := range batch(n) {
			want.WriteString(strings.ReplaceAll(string(event), "\u2028", `\u2028`) + "\n")
		}
	}
	b := newEnv(t, dir)
	end, err := strconv.Atoi(at)
	zinotest.Must(t, err)
	if got := b.file("s"); len(got) < end || !strings.HasPrefix(want.String(), got) {
		t.Errorf("acknowledged up to %s, the file is\n%s\nwant\n%s", at, got, want.String())
	}
	zinotest.Equal(t, "files", b.files(), "s.jsonl")
}

// turnForever starts a turn with a call and never ends it.
func turnForever(args []string) error {
	s, err := openStore(args[0])
	if err != nil {
		return err
	}
	return s.Hold(context.Background(), proto.HoldSession{SessionID: "s"},
		func() error { _, err := fmt.Fprintln(os.Stderr, "waiting"); return err },
		func(h proto.SessionHeld) error {
			id := fmt.Sprint(h.Next)
			if err := appendTo(s, "s", user("question "+id), use(id)); err != nil {
				return err
			}
			fmt.Fprintln(os.Stderr, "held", h.Mended)
			for {
				syscall.Pause()
			}
		})
}

// TestKilledTurns checks that the next waiting turn gets the lock of a killed
// process, and that the call of the killed turn is closed.
func TestKilledTurns(t *testing.T) {
	dir := t.TempDir()
	first := zinotest.Start(t, zinotest.Command(t, "turn", dir))
	first.WaitFor("held 0")
	for range 3 {
		next := zinotest.Start(t, zinotest.Command(t, "turn", dir))
		next.WaitFor("waiting")
		first.Kill()
		next.WaitFor("held 1")
		first = next
	}
	first.Kill()
	b := newEnv(t, dir)
	h := b.hold("s", b.unexpected())
	zinotest.Equal(t, "closed calls", h.Mended, 1)
	var list []json.RawMessage
	messages := b.messages("s")
	if err := json.Unmarshal([]byte(messages), &list); err != nil || legal([]byte(messages)) != nil || len(list) != 12 {
		t.Errorf("%d messages, %v: %s", len(list), err, messages)
	}
	zinotest.Must(t, h.release())
	zinotest.Equal(t, "files", b.files(), "s.jsonl")
}

func TestDiskFull(t *testing.T) {
	zinotest.SmallDisk(t, zinotest.Command(t, "full", t.TempDir()))
}

// fillDisk appends and copies until the disk is full. The errors must be ENOSPC, and
// all acknowledged events must be there.
func fillDisk(args []string) error {
	if err := zinotest.Mount(args[0], "size=128k", 0); err != nil {
		return err
	}
	s, err := openStore(args[0])
	if err != nil {
		return err
	}
	n := 0
	for err == nil {
		if err = appendTo(s, "s", user(strings.Repeat("x", 9000)), says("y")); err == nil {
			n++
		}
	}
	if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "free some disk space") || n == 0 {
		return fmt.Errorf("%d appended, then %w", n, err)
	}
	ctx := context.Background()
	if _, err := s.Fork(ctx, proto.ForkSession{SessionID: "s", NewID: "copy"}); !errors.Is(err, syscall.ENOSPC) {
		return fmt.Errorf("fork on a full disk: %w", err)
	}
	list, err := s.List(ctx, proto.ListSessions{})
	if err != nil || list.Total != 1 || list.Sessions[0].Messages != 2*n {
		return fmt.Errorf("%+v of %d pairs, %w", list, n, err)
	}
	if _, err := s.Remove(ctx, proto.RemoveSession{SessionID: "s"}); err != nil {
		return err
	}
	return appendTo(s, "s", user(strings.Repeat("x", 9000)))
}

func TestReadOnly(t *testing.T) {
	zinotest.SmallDisk(t, zinotest.Command(t, "readonly", t.TempDir()))
}

// readOnly uses sessions on a read-only file system: reads succeed, and changes fail
// with EROFS.
func readOnly(args []string) error {
	dir := args[0]
	if err := zinotest.Mount(dir, "size=128k", 0); err != nil {
		return err
	}
	s, err := openStore(dir)
	if err != nil {
		return err
	}
	if err := appendTo(s, "s", user("q"), use("1")); err != nil {
		return err
	}
	if err := zinotest.Remount(dir, syscall.MS_RDONLY); err != nil {
		return err
	}
	ctx := context.Background()
	list, err := s.List(ctx, proto.ListSessions{})
	messages, messagesErr := s.Messages(ctx, proto.GetMessages{SessionID: "s"})
	if err := errors.Join(err, messagesErr); err != nil || list.Total != 1 || legal(messages.Messages) != nil {
		return fmt.Errorf("%+v, %s, %w", list, messages.Messages, err)
	}
	_, forkErr := s.Fork(ctx, proto.ForkSession{SessionID: "s"})
	_, removeErr := s.Remove(ctx, proto.RemoveSession{SessionID: "s"})
	holdErr := s.Hold(ctx, proto.HoldSession{SessionID: "s"}, func() error { return nil }, func(proto.SessionHeld) error { return errors.New("held") })
	for what, err := range map[string]error{"append": appendTo(s, "s", user("x")), "fork": forkErr, "remove": removeErr, "hold": holdErr} {
		if !errors.Is(err, syscall.EROFS) || !strings.Contains(err.Error(), dir) {
			return fmt.Errorf("%s: %w", what, err)
		}
	}
	return nil
}

package session

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"zino/pkg/zinotest"
	"zino/proto"
)

// children are what the test binary does in the place of another process, in
// the directory that it is given.
var children = map[string]func(dir string) error{
	"writer": writeForEver,
	"turn":   turnForEver,
	"full":   fillDisk,
	"fixed":  readOnly,
}

func child(t *testing.T, role, dir string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), "SESSION_CHILD="+role, "SESSION_DIR="+dir, "GORACE=atexit_sleep_ms=0")
	return cmd
}

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

// writeForEver appends pairs of events and prints the number of each pair that
// is stored.
func writeForEver(dir string) error {
	s, err := openStore(dir)
	if err != nil {
		return err
	}
	for i := 0; ; i++ {
		text := fmt.Sprintf("%d %d ", os.Getpid(), i)
		if err := appendTo(s, "s", user(text+strings.Repeat("x", rand.IntN(9000))), says(text)); err != nil {
			return err
		}
		if _, err := fmt.Println(i); err != nil {
			return err
		}
	}
}

// TestKilledWriters kills processes that append to one session, a hundred times.
// What they had said to be stored must be there, in order and once.
func TestKilledWriters(t *testing.T) {
	dir := t.TempDir()
	var mu sync.Mutex
	acked := map[int]int{} // pid to the last number acknowledged
	for range 34 {
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				pid, last := killWriter(t, dir, 1+rand.IntN(4))
				mu.Lock()
				defer mu.Unlock()
				acked[pid] = max(acked[pid], last)
			})
		}
		wg.Wait()
	}
	b := newBench(t, dir)
	seen := map[int]int{}
	events, _ := b.pages("s", 0)
	for i, line := range events {
		e := read([]byte(line))
		if e.kind == meta && i == 0 {
			continue
		}
		var pid, n int
		if _, err := fmt.Sscanf(str(e.text), "%d %d ", &pid, &n); err != nil || n != seen[pid]/2 {
			t.Fatalf("event %d, the %d. of its process: %.80s, %v", i, seen[pid], line, err)
		}
		seen[pid]++
	}
	for pid, last := range acked {
		if seen[pid] < 2*(last+1) {
			t.Errorf("process %d: %d pairs were acknowledged, %d events are there", pid, last+1, seen[pid])
		}
	}
	if sum := b.list(0); len(sum.Sessions) != 1 || sum.Sessions[0].Messages != len(events)-1 {
		t.Errorf("%+v, %d events", sum, len(events))
	}
}

// killWriter runs a writer, kills it after it has acknowledged n appends and
// returns its pid and the number of the last one that it acknowledged.
func killWriter(t *testing.T, dir string, n int) (pid, last int) {
	cmd := child(t, "writer", dir)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Error(err)
		return 0, -1
	}
	last = -1
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if last, err = strconv.Atoi(lines.Text()); err != nil {
			t.Error(err)
		}
		if n--; n == 0 {
			if err := cmd.Process.Kill(); err != nil {
				t.Error(err)
			}
		}
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != -1 {
		t.Errorf("the writer ended by itself: %v", err)
	}
	return cmd.Process.Pid, last
}

// turnForEver begins a turn with a call and hangs in it.
func turnForEver(dir string) error {
	s, err := openStore(dir)
	if err != nil {
		return err
	}
	return s.Hold(context.Background(), proto.HoldSession{SessionID: "s"},
		func() error { _, err := fmt.Println("waiting"); return err },
		func(h proto.SessionHeld) error {
			id := fmt.Sprint(h.Next)
			if err := appendTo(s, "s", user("question "+id), use(id)); err != nil {
				return err
			}
			fmt.Println("held", h.Mended)
			_, err := io.Copy(io.Discard, os.Stdin)
			return err
		})
}

// TestKilledTurns has turns of several processes on one session follow each
// other although each of them is killed, and each find its predecessor's call
// answered.
func TestKilledTurns(t *testing.T) {
	dir := t.TempDir()
	const turns = 4
	type process struct {
		cmd   *exec.Cmd
		lines *bufio.Scanner
	}
	var queue []process
	for range turns {
		cmd := child(t, "turn", dir)
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
		p := process{cmd, bufio.NewScanner(out)}
		// The first one has the session when the next one comes.
		want := "waiting"
		if len(queue) == 0 {
			want = "held 0"
		}
		if p.lines.Scan(); p.lines.Text() != want {
			t.Fatalf("process %d says %q", len(queue), p.lines.Text())
		}
		queue = append(queue, p)
	}
	for i, p := range queue {
		if i > 0 {
			if p.lines.Scan(); p.lines.Text() != "held 1" {
				t.Errorf("process %d says %q", i, p.lines.Text())
			}
		}
		if i == 0 {
			// Any of those who wait may come next: kill all but one.
			for _, other := range queue[2:] {
				kill(t, other.cmd)
			}
			queue = queue[:2]
		}
		kill(t, p.cmd)
		if i == 1 {
			break
		}
	}
	checkTurns(t, dir)
}

func kill(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if err := cmd.Process.Kill(); err != nil {
		t.Error(err)
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) {
		t.Errorf("it ended by itself: %v", err)
	}
}

// checkTurns holds that the two turns are sound.
func checkTurns(t *testing.T, dir string) {
	t.Helper()
	b := newBench(t, dir)
	h := b.hold("s", b.alone())
	if h.Mended != 1 {
		t.Errorf("%+v", h.SessionHeld)
	}
	var list []json.RawMessage
	messages := b.messages("s")
	if err := json.Unmarshal([]byte(messages), &list); err != nil || legal([]byte(messages)) != nil || len(list) != 6 {
		t.Errorf("%d messages, %v: %s", len(list), err, messages)
	}
	if err := h.release(); err != nil {
		t.Error(err)
	}
	if got := b.files(); got != "s.jsonl" {
		t.Errorf("files %s", got)
	}
}

// inNamespace runs a child in a mount namespace of its own, where it can have
// a disk that goes away with it.
func inNamespace(t *testing.T, role string) {
	t.Helper()
	cmd := child(t, role, t.TempDir())
	zinotest.SmallDisk(t, cmd)
}

func TestDiskFull(t *testing.T) { inNamespace(t, "full") }

// fillDisk appends and copies until the disk is full: each error says so, and
// nothing that was acknowledged is lost.
func fillDisk(dir string) error {
	if err := zinotest.Mount(dir, "size=128k", 0); err != nil {
		return err
	}
	s, err := openStore(dir)
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

func TestReadOnly(t *testing.T) { inNamespace(t, "fixed") }

// readOnly uses sessions that cannot be written: they can be read all the same,
// and what would change them is an error that says why.
func readOnly(dir string) error {
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
	if err := syscall.Mount("none", dir, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		return fmt.Errorf("mount: %w", err)
	}
	ctx := context.Background()
	_, readErr := s.Read(ctx, proto.ReadSession{SessionID: "s"})
	list, listErr := s.List(ctx, proto.ListSessions{})
	messages, messagesErr := s.Messages(ctx, proto.GetMessages{SessionID: "s"})
	_, exportErr := s.Export(ctx, proto.ExportSession{SessionID: "s", Format: "md"})
	if err := errors.Join(readErr, listErr, messagesErr, exportErr); err != nil || list.Total != 1 || legal(messages.Messages) != nil {
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

package audit

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"zino/pkg/audit/line"
	"zino/pkg/config"
	"zino/pkg/wire"
	"zino/pkg/zinotest"
	"zino/proto"
)

// sink takes records, unless err is set.
type sink struct {
	mu   sync.Mutex
	err  error
	got  []proto.AuditEntry
	sync bool
}

func (s *sink) send(_ context.Context, list []proto.AuditEntry, sync bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return s.err
	}
	s.got = append(s.got, list...)
	s.sync = s.sync || sync
	return nil
}

func (s *sink) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

func (s *sink) kinds() (list []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.got {
		list = append(list, e.Kind)
	}
	return list
}

func newTest(t *testing.T, required bool) (*Log, *sink) {
	s := &sink{}
	l := newLog(required, slog.New(slog.NewTextHandler(io.Discard, nil)), s.send)
	t.Cleanup(func() { l.Close() })
	return l, s
}

func TestRecordKeepsTheOrder(t *testing.T) {
	l, s := newTest(t, true)
	s.fail(errors.New("not there"))
	for range 3 {
		l.Record("call", Event{Session: "s", Data: Call{Tool: "bash"}})
	}
	l.Record("job", Event{})
	s.fail(nil)
	zinotest.Must(t, l.Close())
	if got := strings.Join(s.kinds(), " "); got != "call call call job" {
		t.Errorf("got %s", got)
	}
	if got := string(s.got[0].Data); got != `{"tool":"bash","ok":false,"duration_ms":0,"by":0}` {
		t.Errorf("data %s", got)
	}
}

func TestRecordCountsWhatIsLost(t *testing.T) {
	l, s := newTest(t, true)
	s.fail(errors.New("not there"))
	data := Call{Tool: strings.Repeat("x", 50<<10)}
	for range 30 {
		l.Record("call", Event{Data: data})
	}
	s.fail(nil)
	zinotest.Eventually(t, "all is sent", func() bool { return len(s.kinds()) > 20 })
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.got) != 21 || s.got[0].Kind != proto.AuditGap {
		t.Fatalf("%d records, the first is a %s", len(s.got), s.got[0].Kind)
	}
	var g gap
	zinotest.Must(t, wire.DecodeReply(s.got[0].Data, &g))
	if g.Lost != 10 || g.From == "" || g.To < g.From {
		t.Errorf("the gap is %+v", g)
	}
}

func TestRecordWithTooMuchData(t *testing.T) {
	l, s := newTest(t, false)
	l.Record("call", Event{Data: Call{Tool: strings.Repeat("x", 70<<10)}})
	zinotest.Must(t, l.Close())
	if got := string(s.got[0].Data); !strings.HasPrefix(got, `{"oversized":`) {
		t.Errorf("data %.100s", got)
	}
}

func TestReady(t *testing.T) {
	for _, required := range []bool{true, false} {
		l, s := newTest(t, required)
		s.fail(errors.New("not there"))
		var ahead time.Duration
		start := time.Now()
		l.now = func() time.Time { return start.Add(ahead) }
		l.Record("call", Event{})
		if err := l.Ready(); err != nil {
			t.Errorf("at once: %v", err)
		}
		l.mu.Lock()
		ahead = 6 * time.Second
		l.mu.Unlock()
		if err := l.Ready(); required != errors.Is(err, proto.ErrUnavailable) || required && err.Error() != "the audit service does not answer" {
			t.Errorf("required %t: %v", required, err)
		}
		s.fail(nil)
		zinotest.Eventually(t, "it answers again", func() bool { return l.Ready() == nil })
	}
}

// TestDenied checks that a service that may not record is as one without audit.
func TestDenied(t *testing.T) {
	l, s := newTest(t, true)
	s.fail(&proto.Error{Code: proto.CodeDenied, Message: "uid 5 may not"})
	start := time.Now()
	l.now = func() time.Time { return start }
	l.Record("call", Event{})
	l.mu.Lock()
	l.now = func() time.Time { return start.Add(time.Minute) }
	l.mu.Unlock()
	if l.Ready() == nil {
		t.Error("it is ready")
	}
}

func TestRecordSync(t *testing.T) {
	l, s := newTest(t, true)
	zinotest.Must(t, l.RecordSync(t.Context(), "approval", Event{}))
	if !s.sync {
		t.Error("it was not synced")
	}
	s.fail(errors.New("not there"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.RecordSync(ctx, "approval", Event{}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// TestReadyAsks checks that a service that records nothing notices that the audit is gone.
func TestReadyAsks(t *testing.T) {
	l, _ := newTest(t, true)
	l.ping = func(context.Context) error { return errors.New("not there") }
	zinotest.Must(t, l.Ready())
	l.mu.Lock()
	start := time.Now()
	l.now = func() time.Time { return start.Add(time.Minute) }
	l.mu.Unlock()
	if err := l.Ready(); !errors.Is(err, proto.ErrUnavailable) {
		t.Errorf("got %v", err)
	}
}

func TestNilLog(t *testing.T) {
	var l *Log
	l.Record("call", Event{})
	l.Files("policy", "/x")
	zinotest.Must(t, l.RecordSync(t.Context(), "approval", Event{}))
	zinotest.Must(t, l.Ready())
	zinotest.Must(t, l.Close())
}

// TestPlainLogCannotBeOpened: a service works without a record, and says so.
func TestPlainLogCannotBeOpened(t *testing.T) {
	home, log := zinotest.Dir(t), new(zinotest.Buffer)
	t.Setenv("ZINO_HOME", home)
	zinotest.Must(t, os.WriteFile(filepath.Join(home, "log"), nil, 0o600))
	cfg := config.Default()
	cfg.Audit.Socket = ""
	if l := Open(cfg, "exc", log.Logger()); l != nil {
		t.Error("a log without a file")
	}
	if text := log.String(); !strings.Contains(text, "level=WARN") || !strings.Contains(text, "make it writable") || !strings.Contains(text, home) {
		t.Errorf("logged %q", text)
	}
}

func TestPlainLog(t *testing.T) {
	home := zinotest.Dir(t)
	t.Setenv("ZINO_HOME", home)
	cfg := config.Default()
	cfg.Audit.Socket = ""
	discard := slog.New(slog.NewTextHandler(io.Discard, nil))
	for _, service := range []string{"exc", "agr"} {
		l := Open(cfg, service, discard)
		l.Record("call", Event{Session: "s", Turn: "t-1", Call: "c1", Data: Call{Tool: "bash"}})
		zinotest.Must(t, l.Close())
	}
	data, err := os.ReadFile(filepath.Join(home, "log", line.PlainFile))
	zinotest.Must(t, err)
	lines := bytes.Split(bytes.TrimSpace(data), []byte("\n"))
	if len(lines) != 2 {
		t.Fatalf("%d lines", len(lines))
	}
	r, err := line.Parse(lines[1])
	zinotest.Must(t, err)
	if r.Seq != 0 || r.Prev != "" || r.Src != "agr" || r.UID != os.Geteuid() || r.PID != os.Getpid() || r.Session != "s" || r.Call != "c1" {
		t.Errorf("%+v", r)
	}
	if strings.Contains(string(data), "seq") || strings.Contains(string(data), "prev") {
		t.Errorf("%s", data)
	}
	info, err := os.Stat(filepath.Join(home, "log", line.PlainFile))
	zinotest.Must(t, err)
	if info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v", info.Mode())
	}
}

// TestPlainLogIsBounded has services append at the same time to a log that is full several
// times, and that the user removes: each file has whole lines, and at most two files are left.
func TestPlainLogIsBounded(t *testing.T) {
	home := zinotest.Dir(t)
	t.Setenv("ZINO_HOME", home)
	path := filepath.Join(home, "log", line.PlainFile)
	const most = 4 << 10
	var all sync.WaitGroup
	for _, service := range []string{"exc", "agr", "rtr"} {
		p, err := openPlain(service)
		zinotest.Must(t, err)
		p.max = most
		all.Go(func() {
			defer func() { p.f.Close() }()
			for range 100 {
				if err := p.send(t.Context(), []proto.AuditEntry{{Kind: "call", Call: "c1"}}, false); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	for _, path := range []string{path, OldPlain(path)} {
		data, err := os.ReadFile(path)
		zinotest.Must(t, err)
		if len(data) > most+3*200 { // each service may have looked before the last line of the others
			t.Errorf("%s has %d bytes", path, len(data))
		}
		for l := range bytes.Lines(data) {
			if _, err := line.Parse(l); err != nil {
				t.Errorf("%s: %q: %v", path, l, err)
			}
		}
	}
	p, err := openPlain("exc")
	zinotest.Must(t, err)
	defer func() { p.f.Close() }()
	zinotest.Must(t, os.Remove(path))
	zinotest.Must(t, p.send(t.Context(), []proto.AuditEntry{{Kind: "call"}}, false))
	if data, err := os.ReadFile(path); err != nil || bytes.Count(data, []byte("\n")) != 1 {
		t.Errorf("after the log was removed: %q, %v", data, err)
	}
}

func TestFiles(t *testing.T) {
	l, s := newTest(t, false)
	path := filepath.Join(zinotest.Dir(t), "policy.toml")
	l.Files("policy", path)
	l.Files("policy", path)
	zinotest.Write(t, path, "version = 1\n")
	l.Files("policy", path)
	l.Files("policy", path)
	zinotest.Must(t, l.Close())
	if len(s.got) != 2 || !strings.Contains(string(s.got[0].Data), `"after":"absent"`) || strings.Contains(string(s.got[1].Data), "absent") {
		t.Errorf("got %q", s.got)
	}
}

func TestHead(t *testing.T) {
	if got := Head([]byte(strings.Repeat("x", 511) + "é")); got != strings.Repeat("x", 511) {
		t.Errorf("%q", got)
	}
}

package service

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"zino/pkg/zinotest"
)

// fakeJournal receives datagrams like the journal.
type fakeJournal struct {
	t    *testing.T
	conn *net.UnixConn
	path string
}

func newFakeJournal(t *testing.T) *fakeJournal {
	t.Helper()
	path := filepath.Join(zinotest.Dir(t), "j")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	zinotest.Must(t, err)
	t.Cleanup(func() { conn.Close() })
	return &fakeJournal{t, conn, path}
}

// next returns the fields of one line.
func (j *fakeJournal) next() map[string]string {
	j.t.Helper()
	if err := j.conn.SetReadDeadline(time.Now().Add(zinotest.Timeout)); err != nil {
		j.t.Fatal(err)
	}
	b := make([]byte, 1<<20)
	n, err := j.conn.Read(b)
	if err != nil {
		j.t.Fatalf("no line received: %v", err)
	}
	fields := map[string]string{}
	for b = b[:n]; len(b) > 0; {
		name, rest, ok := bytes.Cut(b, []byte("\n"))
		if !ok || len(rest) < 8 {
			j.t.Fatalf("not a field: %q", b)
		}
		size := binary.LittleEndian.Uint64(rest)
		rest = rest[8:]
		if uint64(len(rest)) <= size || rest[size] != '\n' {
			j.t.Fatalf("field %s: want %d bytes", name, size)
		}
		fields[string(name)] = string(rest[:size])
		b = rest[size+1:]
	}
	return fields
}

// stream returns a file that JOURNAL_STREAM names.
func stream(t *testing.T) *os.File {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "stream"))
	zinotest.Must(t, err)
	t.Cleanup(func() { f.Close() })
	var stat syscall.Stat_t
	zinotest.Must(t, syscall.Fstat(int(f.Fd()), &stat))
	t.Setenv("JOURNAL_STREAM", fmt.Sprintf("%d:%d", stat.Dev, stat.Ino))
	return f
}

// logTo returns the log of a service whose standard error is f.
func logTo(t *testing.T, f *os.File, journal string) *slog.Logger {
	t.Helper()
	was := journalSocket
	t.Cleanup(func() { journalSocket = was })
	journalSocket = journal
	t.Setenv("ZINO_LOG_LEVEL", "")
	return Logger(f, "mem", "INFO")
}

func written(t *testing.T, f *os.File) string {
	t.Helper()
	text, err := os.ReadFile(f.Name())
	zinotest.Must(t, err)
	return string(text)
}

func TestJournalFields(t *testing.T) {
	j, f := newFakeJournal(t), stream(t)
	log := logTo(t, f, j.path)
	log.Debug("below the level")
	log.LogAttrs(t.Context(), slog.LevelInfo, "request",
		slog.String("type", "search_hard"), slog.Duration("duration", 1500*time.Microsecond),
		slog.String("trace", "ab12"), slog.Int("uid", 1000), slog.String("error", "no \"space\"\nleft"))
	got := j.next()
	for name, want := range map[string]string{
		"MESSAGE":           `request type=search_hard duration=1.5ms trace=ab12 uid=1000 error="no \"space\"\nleft"`,
		"PRIORITY":          "6",
		"SYSLOG_IDENTIFIER": "zino-mem",
		"ZINO_SERVICE":      "mem",
		"ZINO_TYPE":         "search_hard",
		"ZINO_DURATION_MS":  "1.5",
		"ZINO_TRACE":        "ab12",
		"ZINO_UID":          "1000",
		"ZINO_ERROR":        "no \"space\"\nleft",
	} {
		if got[name] != want {
			t.Errorf("%s is %q, want %q", name, got[name], want)
		}
	}
	if len(got) != 9 {
		t.Errorf("%d fields: %q", len(got), got)
	}
	if text := written(t, f); text != "" {
		t.Errorf("also written as text: %s", text)
	}
}

func TestJournalPriorities(t *testing.T) {
	j := newFakeJournal(t)
	log := slog.New(newJournal(j.path, "x", slog.NewTextHandler(discardFile(t), &slog.HandlerOptions{Level: slog.LevelDebug})))
	for level, want := range map[slog.Level]string{slog.LevelDebug: "7", slog.LevelInfo: "6", slog.LevelWarn: "4", slog.LevelError: "3", slog.LevelError + 4: "3", slog.LevelDebug - 4: "7"} {
		if level < slog.LevelDebug {
			if log.Enabled(t.Context(), level) {
				t.Errorf("level %v is written", level)
			}
			continue
		}
		log.Log(t.Context(), level, "said")
		if got := j.next()["PRIORITY"]; got != want {
			t.Errorf("level %v has the priority %s, want %s", level, got, want)
		}
	}
}

// discardFile is a file for text that the test does not read.
func discardFile(t *testing.T) *os.File {
	t.Helper()
	f, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	zinotest.Must(t, err)
	t.Cleanup(func() { f.Close() })
	return f
}

func TestJournalAttributes(t *testing.T) {
	j := newFakeJournal(t)
	log := slog.New(newJournal(j.path, "x", slog.NewTextHandler(discardFile(t), nil))).With("service", "rtr", "always", 1)
	long := strings.Repeat("k", 100)
	for _, test := range []struct {
		name    string
		log     func()
		message string
		field   string
		value   string
	}{
		{"a group", func() { log.WithGroup("http").With("status", 200).Info("m", "path", "/a b") }, `m always=1 http.status=200 http.path="/a b"`, "ZINO_HTTP_PATH", "/a b"},
		{"a group value", func() { log.Info("m", slog.Group("g", "a", 1, slog.Group("h", "b", 2))) }, "m always=1 g.a=1 g.h.b=2", "ZINO_G_H_B", "2"},
		{"an empty group", func() { log.Info("m", slog.Group("g")) }, "m always=1", "ZINO_G", ""},
		{"no group", func() { log.WithGroup("").Info("m", "a", true) }, "m always=1 a=true", "ZINO_A", "true"},
		{"an error", func() { log.Info("m", "error", errors.New("it broke")) }, `m always=1 error="it broke"`, "ZINO_ERROR", "it broke"},
		{"an empty value", func() { log.Info("m", "a", "") }, `m always=1 a=""`, "ZINO_A", ""},
		{"an empty attribute", func() { log.Info("m", slog.Attr{}) }, "m always=1", "ZINO_", ""},
		{"a strange name", func() { log.Info("m", "Ä-b.c 1", "v") }, "m always=1 Ä-b.c 1=v", "ZINO___B_C_1", "v"},
		{"a long name", func() { log.Info("m", long, "v") }, "m always=1 " + long + "=v", "ZINO_" + strings.Repeat("K", 59), "v"},
		{"a long duration", func() { log.Info("m", long, time.Second) }, "m always=1 " + long + "=1s", "ZINO_" + strings.Repeat("K", 56) + "_MS", "1000"},
		{"an escape", func() { log.Info("m", "a", "\x1b[31m") }, `m always=1 a="\x1b[31m"`, "ZINO_A", "\x1b[31m"},
		{"newlines", func() { log.Info("m\nn", "a", "b\nPRIORITY=0\n") }, "m\nn always=1 a=\"b\\nPRIORITY=0\\n\"", "ZINO_A", "b\nPRIORITY=0\n"},
		{"a value without an end", func() { log.Info("m", "a", strings.Repeat("x", 40000)) }, "", "ZINO_A", strings.Repeat("x", fieldMax) + " [cut, it had 40000 bytes]"},
	} {
		test.log()
		got := j.next()
		if test.message != "" && got["MESSAGE"] != test.message {
			t.Errorf("%s: message %q, want %q", test.name, got["MESSAGE"], test.message)
		}
		if got[test.field] != test.value || got["ZINO_SERVICE"] != "rtr" || got["ZINO_ALWAYS"] != "1" || got["PRIORITY"] != "6" {
			t.Errorf("%s: %q", test.name, got)
		}
	}
}

func TestTextWhileJournalIsDown(t *testing.T) {
	j, f := newFakeJournal(t), stream(t)
	log := logTo(t, f, j.path)
	log.Info("first")
	j.next()
	if err := errors.Join(j.conn.Close(), os.Remove(j.path)); err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	log.With("a", 1).Info("second", "b", 2)
	log.Info("third")
	if want := "level=INFO msg=second service=mem a=1 b=2\nlevel=INFO msg=third service=mem\n"; written(t, f) != want {
		t.Errorf("written %q, want %q", written(t, f), want)
	}
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: j.path, Net: "unixgram"})
	zinotest.Must(t, err)
	defer conn.Close()
	j.conn = conn
	log.Info("fourth")
	if got := j.next()["MESSAGE"]; got != "fourth" {
		t.Errorf("message %q", got)
	}
}

func TestTextForLinesLargerThanADatagram(t *testing.T) {
	j, f := newFakeJournal(t), stream(t)
	log := logTo(t, f, j.path)
	var attrs []slog.Attr
	for i := range 40 {
		attrs = append(attrs, slog.String(fmt.Sprint("a", i), strings.Repeat("x", fieldMax)))
	}
	log.LogAttrs(context.Background(), slog.LevelInfo, "much", attrs...)
	if text := written(t, f); !strings.HasPrefix(text, "level=INFO msg=much service=mem a0=xxx") {
		t.Errorf("written %.100q", text)
	}
	log.Info("little")
	if got := j.next()["MESSAGE"]; got != "little" {
		t.Errorf("message %q", got)
	}
}

// TestTextWithInheritedJournalVariable: a child process inherits JOURNAL_STREAM, but its
// stderr may be another file.
func TestTextWithInheritedJournalVariable(t *testing.T) {
	j, f := newFakeJournal(t), stream(t)
	t.Setenv("JOURNAL_STREAM", "1:2")
	logTo(t, f, j.path).Info("said")
	if text := written(t, f); !strings.HasPrefix(text, "time=") || !strings.HasSuffix(text, "level=INFO msg=said service=mem\n") {
		t.Errorf("written %q", text)
	}
}

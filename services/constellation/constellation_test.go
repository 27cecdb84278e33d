package constellation_test

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"zino/pkg/config"
	"zino/pkg/zinotest"
	"zino/services/constellation"
)

func TestEveryServiceAnswers(t *testing.T) {
	cfg := start(t)
	for _, name := range config.Services {
		got := ask(t, cfg.Socket(name), `{"type":"ping"}`)
		if want := `{"type":"pong","service":"` + name + `",`; len(got) != 1 || !strings.HasPrefix(got[0], want) {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// TestMessage sends a message through every service: prompt, agent, model,
// executor, history.
func TestMessage(t *testing.T) {
	cfg := start(t)
	got := ask(t, cfg.Daemon.Socket, `{"message":" run echo one two ","channel_id":"kitchen"}`)
	if want := `{"type":"response","content":"one two\n[offline, no AI]"}`; len(got) != 1 || got[0] != want {
		t.Fatalf("answer %s, want %s", got, want)
	}
	got = ask(t, cfg.Daemon.Socket, `{"message":"run echo three","stream":true}`)
	if last := got[len(got)-1]; len(got) < 2 || !strings.HasPrefix(last, `{"type":"done","full_text":`) || !strings.HasSuffix(last, `,"iterations":2}`) {
		t.Errorf("streamed: %s", got)
	}
	if !strings.Contains(strings.Join(got, ""), `<tool_response>\nthree\n`) {
		t.Errorf("the result is not in the stream: %s", got)
	}
	history := ask(t, cfg.Mem.Socket, `{"type":"get_history","channel_id":"kitchen"}`)[0]
	want := `{"type":"history","messages":[{"role":"user","content":"run echo one two"},{"role":"assistant","content":"one two\n[offline, no AI]"}]}`
	if history != want {
		t.Errorf("history %s, want %s", history, want)
	}
}

// TestCloseLeavesNothing checks that Close removes the sockets, and that the stored data
// can be used again.
func TestCloseLeavesNothing(t *testing.T) {
	cfg := newConfig(t)
	for round := range 2 {
		c, err := constellation.Start(cfg, slog.New(slog.DiscardHandler))
		zinotest.Must(t, err)
		soft := ask(t, cfg.Mem.Socket, `{"type":"get_soft"}`)[0]
		if want := []string{`{"type":"soft_memory","content":""}`, `{"type":"soft_memory","content":"kept","set":true}`}[round]; soft != want {
			t.Errorf("round %d: %s, want %s", round, soft, want)
		}
		ask(t, cfg.Sys.Socket, `{"type":"set_soft_memory","content":"kept"}`)
		zinotest.Must(t, c.Close())
		sockets, err := filepath.Glob(filepath.Join(cfg.Dir, "*.sock"))
		if err != nil || len(sockets) > 0 {
			t.Errorf("round %d: left behind: %v, %v", round, sockets, err)
		}
	}
}

// TestStartRefuses checks that if a service cannot start, the others are stopped and the
// error names it.
func TestStartRefuses(t *testing.T) {
	cfg := newConfig(t)
	zinotest.Must(t, os.WriteFile(cfg.Agr.Socket, nil, 0o600))
	c, err := constellation.Start(cfg, slog.New(slog.DiscardHandler))
	if c != nil || err == nil || !strings.HasPrefix(err.Error(), "agr: ") || !strings.Contains(err.Error(), "is not a socket") {
		t.Fatalf("Start: %v", err)
	}
	if _, err := os.Lstat(cfg.Mem.Socket); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("mem's socket is still there: %v", err)
	}
	cfg.Tools.Dir = cfg.Agr.Socket // a file
	if _, err := constellation.Start(cfg, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "[tools] dir") {
		t.Errorf("Start without tools: %v", err)
	}
}

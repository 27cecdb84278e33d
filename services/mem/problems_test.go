package mem

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"zino/pkg/durable"
	"zino/pkg/zinotest"
)

func TestProblems(t *testing.T) {
	var log zinotest.Buffer
	p := newProblems(slog.New(slog.NewTextHandler(&log, nil)))
	p.set("a", "first", nil)
	p.set("a", "first", nil)
	p.set("a", "second", nil)
	p.set("b", "other", func() bool { return true })
	p.set("c", "", nil)
	zinotest.Equal(t, "problems", strings.Join(p.list(), "|"), "second")
	if n := strings.Count(log.String(), "first"); n != 1 {
		t.Errorf("logged %d times", n)
	}
	p.set("a", "", nil)
	for i := range maxProblems + 5 {
		p.set(fmt.Sprint(i), fmt.Sprint("problem ", i), nil)
	}
	if list := p.list(); len(list) != maxProblems || list[0] != "problem 5" {
		t.Errorf("%d problems, the first is %q", len(list), list[0])
	}
}

// TestUnrepairedFile checks that a file that could not be rewritten is a problem
// until mem or a person repairs or removes it.
func TestUnrepairedFile(t *testing.T) {
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	zinotest.Must(t, err)
	defer root.Close()
	p := newProblems(slog.New(slog.DiscardHandler))
	report := p.reporter(root, "channels/")
	for what, repair := range map[string]func() error{
		"repaired by mem": func() error { report(durable.Event{Kind: durable.Repaired, Name: "c.json"}); return nil },
		"by hand":         func() error { return os.WriteFile(filepath.Join(dir, "c.json"), []byte("[]"), 0o600) },
		"removed":         func() error { return os.Remove(filepath.Join(dir, "c.json")) },
	} {
		zinotest.Must(t, os.WriteFile(filepath.Join(dir, "c.json"), []byte("damaged"), 0o600))
		report(durable.Event{Kind: durable.Damaged, Name: "c.json", Err: errors.New("disk full")})
		if list := p.list(); len(list) != 1 || !strings.Contains(list[0], "channels/c.json") || !strings.Contains(list[0], "disk full") {
			t.Errorf("problems %q", list)
		}
		zinotest.Must(t, repair())
		if list := p.list(); len(list) != 0 {
			t.Errorf("%s: problems %q", what, list)
		}
	}
}

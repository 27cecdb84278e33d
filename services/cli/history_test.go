package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"zino/pkg/visible"
	"zino/pkg/wire"
)

// TestHistoryFile keeps turns over runs: whole, in order, for the user alone.
func TestHistoryFile(t *testing.T) {
	path := filepath.Join(shortDir(t), "base", "chat_history")
	for _, turn := range []string{"one", "two\n\tlines\n", "two\n\tlines", " \n", "", "\"quoted\" \\ \u2028", strings.Repeat("x", historyText+1)} {
		h := opened(t, path)
		if err := h.add(turn); err != nil {
			t.Fatal(err)
		}
	}
	h := opened(t, path)
	if want := []string{"one", "two\n\tlines", "\"quoted\" \\ \u2028"}; !slices.Equal(h.turns, want) {
		t.Errorf("kept %q, want %q", h.turns, want)
	}
	if got := h.At(1); got != "two⏎⇥lines" || h.typed(got) != "two\n\tlines" || h.Len() != 3 {
		t.Errorf("recalled %q of %d", got, h.Len())
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if info, err = os.Stat(filepath.Dir(path)); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the directory: %v, %v", info.Mode(), err)
	}
}

func opened(t *testing.T, path string) *lineHistory {
	t.Helper()
	h, err := openHistory(path)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// TestHistoryLimit remembers the last thousand, and does not let the file grow.
func TestHistoryLimit(t *testing.T) {
	path := filepath.Join(shortDir(t), "chat_history")
	var b strings.Builder
	for i := range historySlop*historyMax + 1 {
		fmt.Fprintf(&b, "\"turn %d\"\n", i)
	}
	write(t, path, b.String())
	h := opened(t, path)
	if h.Len() != historyMax || h.At(0) != "turn 2000" || h.At(historyMax-1) != "turn 1001" {
		t.Errorf("%d turns, from %q to %q", h.Len(), h.At(h.Len()-1), h.At(0))
	}
	if err := h.add("last"); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil || strings.Count(string(text), "\n") != historyMax+1 || !strings.HasSuffix(string(text), "\"last\"\n") {
		t.Errorf("the file has %d lines, %v", strings.Count(string(text), "\n"), err)
	}
	if left, err := os.ReadDir(filepath.Dir(path)); err != nil || len(left) != 1 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestHistoryOdd reads what can be read of a file that is not as it should be.
func TestHistoryOdd(t *testing.T) {
	for _, test := range []struct {
		name, text string
		want       []string
		after      string // the file after one more turn
	}{
		{"torn", "\"one\"\n\"tw", []string{"one"}, "\"one\"\n\"tw\n\"new\"\n"},
		{"no newline at the end", "\"one\"\n\"two\"", []string{"one", "two"}, "\"one\"\n\"two\"\n\"new\"\n"},
		{"not JSON", "one\n{}\n\n\"\xff\"\n\"two\"\r\n", []string{"two"}, "one\n{}\n\n\"\xff\"\n\"two\"\r\n\"new\"\n"},
		{"escapes", `"a\u001b[31mb"` + "\n", []string{"a\x1b[31mb"}, `"a\u001b[31mb"` + "\n\"new\"\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			path := filepath.Join(shortDir(t), "chat_history")
			write(t, path, test.text)
			h := opened(t, path)
			if !slices.Equal(h.turns, test.want) {
				t.Errorf("read %q, want %q", h.turns, test.want)
			}
			if shown := h.At(0); strings.ContainsFunc(shown, visible.Harmful) {
				t.Errorf("shows %q", shown)
			}
			if err := h.add("new"); err != nil {
				t.Fatal(err)
			}
			if text, err := os.ReadFile(path); err != nil || string(text) != test.after {
				t.Errorf("the file holds %q, %v; want %q", text, err, test.after)
			}
		})
	}
}

// TestHistoryNone goes on without a file.
func TestHistoryNone(t *testing.T) {
	dir := shortDir(t)
	mkfifo(t, filepath.Join(dir, "pipe"))
	write(t, filepath.Join(dir, "file"), "")
	for _, path := range []string{dir, filepath.Join(dir, "pipe"), filepath.Join(dir, "file", "x")} {
		h, err := openHistory(path)
		if err == nil {
			t.Errorf("%s is read", path)
		}
		if err := h.add("one"); err != nil || h.Len() != 1 {
			t.Errorf("%s: %v, %d turns", path, err, h.Len())
		}
	}
	h := opened(t, filepath.Join(dir, "file"))
	h.path = filepath.Join(dir, "file", "x")
	if err := h.add("one"); err == nil || h.Len() != 1 {
		t.Errorf("%v, %d turns", err, h.Len())
	}
}

// FuzzHistory holds that what is read can be shown, typed again, and is kept.
func FuzzHistory(f *testing.F) {
	for _, seed := range []string{"\"one\"\n\"two\\nlines\"\n", "\"torn", "\"\\ud800\"\n", "\"\\u001b\"\n\"a⏎b\"", "\n\n[]\n\"\t\"\r\n"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		h := &lineHistory{turns: readTurns(data)}
		var again []byte
		for i := range h.Len() {
			if shown := h.At(i); strings.ContainsFunc(shown, visible.Harmful) || strings.ContainsAny(shown, "\n\t") {
				t.Errorf("shows %q", shown)
			}
			again = append(wire.AppendString(again, h.turns[i]), '\n')
		}
		if got := readTurns(again); !slices.Equal(got, h.turns) {
			t.Errorf("%q was kept as %q", h.turns, got)
		}
	})
}

package history

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"zino/pkg/wire"
	"zino/pkg/zinotest"
)

// TestFile checks that messages are stored whole, in order, with mode 0600.
func TestFile(t *testing.T) {
	path := filepath.Join(zinotest.Dir(t), "base", "chat_history")
	for _, turn := range []string{"one", "two\n\tlines\n", "two\n\tlines", " \n", "", "\"quoted\" \\ \u2028", strings.Repeat("x", historyText+1)} {
		h := opened(t, path)
		zinotest.Must(t, h.Add(turn))
	}
	h := opened(t, path)
	if want := []string{"one", "two\n\tlines", "\"quoted\" \\ \u2028"}; !slices.Equal(h.messages, want) {
		t.Errorf("kept %q, want %q", h.messages, want)
	}
	if got := h.At(1); got != "two\n\tlines" || h.Len() != 3 {
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

func opened(t *testing.T, path string) *History {
	t.Helper()
	h, err := Open(path)
	zinotest.Must(t, err)
	return h
}

// TestLimit checks that the last thousand are kept and a long file is rewritten.
func TestLimit(t *testing.T) {
	path := filepath.Join(zinotest.Dir(t), "chat_history")
	var b strings.Builder
	for i := range historySlop*historyMax + 1 {
		fmt.Fprintf(&b, "\"turn %d\"\n", i)
	}
	zinotest.Write(t, path, b.String())
	h := opened(t, path)
	if h.Len() != historyMax || h.At(0) != "turn 2000" || h.At(historyMax-1) != "turn 1001" {
		t.Errorf("%d turns, from %q to %q", h.Len(), h.At(h.Len()-1), h.At(0))
	}
	zinotest.Must(t, h.Add("last"))
	stored := zinotest.Read(t, path)
	if strings.Count(stored, "\n") != historyMax+1 || !strings.HasSuffix(stored, "\"last\"\n") {
		t.Errorf("the file has %d lines", strings.Count(stored, "\n"))
	}
	if left, err := os.ReadDir(filepath.Dir(path)); err != nil || len(left) != 1 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestDamagedFile checks that the valid lines of a damaged file are read.
func TestDamagedFile(t *testing.T) {
	for _, test := range []struct {
		name, file string
		want       []string
		after      string // the file after one more turn
	}{
		{"torn", "\"one\"\n\"tw", []string{"one"}, "\"one\"\n\"tw\n\"new\"\n"},
		{"no newline at the end", "\"one\"\n\"two\"", []string{"one", "two"}, "\"one\"\n\"two\"\n\"new\"\n"},
		{"not JSON", "one\n{}\n\n\"\xff\"\n\"two\"\r\n", []string{"two"}, "one\n{}\n\n\"\xff\"\n\"two\"\r\n\"new\"\n"},
		{"escapes", `"a\u001b[31mb"` + "\n", []string{"a\x1b[31mb"}, `"a\u001b[31mb"` + "\n\"new\"\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			path := filepath.Join(zinotest.Dir(t), "chat_history")
			zinotest.Write(t, path, test.file)
			h := opened(t, path)
			if !slices.Equal(h.messages, test.want) {
				t.Errorf("read %q, want %q", h.messages, test.want)
			}
			zinotest.Must(t, h.Add("new"))
			zinotest.Equal(t, "file", zinotest.Read(t, path), test.after)
		})
	}
}

// TestUnreadable checks that the history works without a file.
func TestUnreadable(t *testing.T) {
	dir := zinotest.Dir(t)
	zinotest.Must(t, syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
	zinotest.Write(t, filepath.Join(dir, "file"), "")
	for _, path := range []string{dir, filepath.Join(dir, "pipe"), filepath.Join(dir, "file", "x")} {
		h, err := Open(path)
		if err == nil {
			t.Errorf("%s: no error", path)
		}
		if err := h.Add("one"); err != nil || h.Len() != 1 {
			t.Errorf("%s: %v, %d turns", path, err, h.Len())
		}
	}
	h := opened(t, filepath.Join(dir, "file"))
	h.path = filepath.Join(dir, "file", "x")
	if err := h.Add("one"); err == nil || h.Len() != 1 {
		t.Errorf("%v, %d turns", err, h.Len())
	}
}

// FuzzHistory checks that messages are stored unchanged.
func FuzzHistory(f *testing.F) {
	for _, seed := range []string{"\"one\"\n\"two\\nlines\"\n", "\"torn", "\"\\ud800\"\n", "\"\\u001b\"\n\"a⏎b\"", "\n\n[]\n\"\t\"\r\n"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		h := &History{messages: parseHistory(data)}
		var again []byte
		for i := range h.Len() {
			again = append(wire.AppendString(again, h.messages[i]), '\n')
		}
		if got := parseHistory(again); !slices.Equal(got, h.messages) {
			t.Errorf("%q was stored as %q", h.messages, got)
		}
	})
}

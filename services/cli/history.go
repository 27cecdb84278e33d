package cli

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"zino/pkg/visible"
	"zino/pkg/wire"
)

const (
	historyMax  = 1000     // turns that are remembered
	historySlop = 2        // so many times that may stand in the file
	historyText = 64 << 10 // bytes of a turn; longer ones are not remembered
	historyRead = 64 << 20 // bytes at the file's end that are looked at
)

// lineHistory are the turns that were typed on a terminal, in this run and in
// those before. It is a term.History.
type lineHistory struct {
	path     string   // a file of JSON texts, a line each; empty: none is kept
	turns    []string // the oldest in front
	torn     bool     // the file does not end in a newline
	recalled bool     // a turn was recalled that is not shown as it is
}

// openHistory reads the history that is kept in path. What is wrong with the
// file is no reason not to chat.
func openHistory(path string) (*lineHistory, error) {
	h := &lineHistory{path: path}
	data, err := readTail(path)
	if err != nil {
		return &lineHistory{}, err
	}
	h.torn = len(data) > 0 && data[len(data)-1] != '\n'
	h.turns = readTurns(data)
	stale := len(h.turns) > historySlop*historyMax
	h.turns = h.turns[max(0, len(h.turns)-historyMax):]
	if stale {
		return h, h.rewrite()
	}
	return h, nil
}

// readTail reads a file's end, nothing if there is no file.
func readTail(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a file", path)
	}
	if err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if _, err := f.Seek(max(0, info.Size()-historyRead), io.SeekStart); err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(f, historyRead))
}

// readTurns reads the lines of a history. Lines that are none are skipped.
func readTurns(data []byte) (turns []string) {
	for line := range bytes.Lines(data) {
		text, ok := wire.Unquote(nil, bytes.TrimSpace(line))
		if ok && len(text) <= historyText {
			turns = append(turns, string(text))
		}
	}
	return turns
}

// rewrite replaces the file by one with nothing but what is remembered.
func (h *lineHistory) rewrite() error {
	var b []byte
	for _, turn := range h.turns {
		b = append(wire.AppendString(b, turn), '\n')
	}
	f, err := os.CreateTemp(filepath.Dir(h.path), ".chat_history-")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // an error if all went well: it has another name by then
	_, err = f.Write(b)
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(f.Name(), h.path)
	}
	h.torn = h.torn && err != nil
	return err
}

// add remembers a turn, unless it is the one before again.
func (h *lineHistory) add(turn string) error {
	turn = strings.TrimRight(turn, "\n")
	if strings.TrimSpace(turn) == "" || len(turn) > historyText || len(h.turns) > 0 && h.turns[len(h.turns)-1] == turn {
		return nil
	}
	h.turns = append(h.turns, turn)
	if h.path == "" {
		return nil
	}
	return h.write(turn)
}

// write appends a turn to the file, with one write: two chats may do so.
func (h *lineHistory) write(turn string) error {
	if err := os.MkdirAll(filepath.Dir(h.path), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(h.path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	line := append(wire.AppendString(nil, turn), '\n')
	if h.torn {
		line = append([]byte("\n"), line...)
	}
	_, err = f.Write(line)
	if closed := f.Close(); err == nil {
		err = closed
	}
	h.torn = false
	return err
}

// Add does nothing: a turn may have several lines, and is remembered as a whole.
func (h *lineHistory) Add(string) {}

// Len is the number of turns.
func (h *lineHistory) Len() int { return len(h.turns) }

// At is a turn as it can be edited in one line; 0 is the newest.
func (h *lineHistory) At(i int) string {
	turn := h.turns[len(h.turns)-1-i]
	shown := asLine.Replace(turn)
	h.recalled = h.recalled || shown != turn
	return visible.Text(shown)
}

// A recalled turn shows its newlines and tabs as characters of one cell.
var (
	asLine  = strings.NewReplacer("\n", "⏎", "\t", "⇥")
	asTyped = strings.NewReplacer("⏎", "\n", "⇥", "\t")
)

// typed is a line as it is meant.
func (h *lineHistory) typed(line string) string {
	if !h.recalled {
		return line
	}
	return asTyped.Replace(line)
}

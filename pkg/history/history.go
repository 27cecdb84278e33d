// Package history keeps the messages that were typed in chats, in this run and in earlier
// ones. The plain chat and the interactive one share the file.
package history

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"zino/pkg/wire"
)

const (
	historyMax  = 1000     // messages to keep
	historySlop = 2        // rewrite the file above historyMax times this
	historyText = 64 << 10 // bytes of a message; longer ones are not kept
	historyRead = 64 << 20 // bytes at the end of the file that are read
)

// History is the list of messages that were typed on a terminal, in this run and
// in earlier ones. It implements golang.org/x/term.History.
type History struct {
	path     string   // a file of JSON strings, one a line; "": not stored
	messages []string // oldest first
	torn     bool     // the file does not end in a newline
}

// Open reads the history stored in path. With an error it returns a history that
// is not stored.
func Open(path string) (*History, error) {
	h := &History{path: path}
	data, err := readTail(path)
	if err != nil {
		return &History{}, err
	}
	h.torn = len(data) > 0 && data[len(data)-1] != '\n'
	h.messages = parseHistory(data)
	stale := len(h.messages) > historySlop*historyMax
	h.messages = h.messages[max(0, len(h.messages)-historyMax):]
	if stale {
		return h, h.rewrite()
	}
	return h, nil
}

// readTail reads the end of a file, nothing if it does not exist.
func readTail(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a file", path)
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

// parseHistory skips invalid lines.
func parseHistory(data []byte) (messages []string) {
	for line := range bytes.Lines(data) {
		message, ok := wire.Unquote(nil, bytes.TrimSpace(line))
		if ok && len(message) <= historyText {
			messages = append(messages, string(message))
		}
	}
	return messages
}

// rewrite replaces the file by the messages in memory.
func (h *History) rewrite() error {
	var b []byte
	for _, message := range h.messages {
		b = append(wire.AppendString(b, message), '\n')
	}
	f, err := os.CreateTemp(filepath.Dir(h.path), ".chat_history-")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // fails after the rename
	_, err = f.Write(b)
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), h.path); err != nil {
		return err
	}
	h.torn = false
	return nil
}

// Add appends a message to the history and its file, unless it repeats the last
// one. After an error messages are no longer stored.
func (h *History) Add(message string) error {
	message = strings.TrimRight(message, "\n")
	if strings.TrimSpace(message) == "" || len(message) > historyText || len(h.messages) > 0 && h.messages[len(h.messages)-1] == message {
		return nil
	}
	h.messages = append(h.messages, message)
	if h.path == "" {
		return nil
	}
	err := h.write(message)
	if err != nil {
		h.path = ""
	}
	return err
}

func (h *History) write(message string) error {
	if err := os.MkdirAll(filepath.Dir(h.path), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(h.path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	line := append(wire.AppendString(nil, message), '\n')
	if h.torn {
		line = append([]byte("\n"), line...)
	}
	h.torn = false
	_, err = f.Write(line) // one write: two chats may append at the same time
	return errors.Join(err, f.Close())
}

// Len returns the number of messages.
func (h *History) Len() int { return len(h.messages) }

// At returns a message; 0 is the newest.
func (h *History) At(i int) string { return h.messages[len(h.messages)-1-i] }

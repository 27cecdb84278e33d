package supervise

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
)

// LogFile is a file that is put aside, as NAME.1, when it has grown to a
// limit. It is safe for concurrent use.
type LogFile struct {
	path  string
	limit int64

	mu   sync.Mutex
	f    *os.File
	size int64
}

// OpenLog opens the log at path for appending, mode 0600, in a directory that
// is made if need be, mode 0700. limit is in bytes.
func OpenLog(path string, limit int64) (*LogFile, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("cannot make the log's directory: %w", err)
	}
	l := &LogFile{path: path, limit: limit}
	return l, l.open()
}

func (l *LogFile) open() error {
	f, err := os.OpenFile(l.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("cannot open the log: %w", err)
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return err
	}
	l.f, l.size = f, info.Size()
	return nil
}

// Write appends b, after putting a full file aside. A file that cannot be put
// aside goes on growing: that is better than losing what happens.
func (l *LogFile) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.f == nil {
		return 0, os.ErrClosed
	}
	if l.size > 0 && l.size+int64(len(b)) > l.limit {
		l.rotate()
	}
	n, err := l.f.Write(b)
	l.size += int64(n)
	return n, err
}

func (l *LogFile) rotate() {
	full := l.f
	if os.Rename(l.path, l.path+".1") == nil && l.open() == nil {
		full.Close() // everything has been written
	}
}

// Close closes the file.
func (l *LogFile) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.f
	l.f = nil
	return f.Close()
}

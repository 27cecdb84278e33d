package supervise

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"
)

// LogFile is a log file that is renamed to NAME.1 when it reaches a limit. It is
// safe for concurrent use.
type LogFile struct {
	path  string
	limit int64

	mu   sync.Mutex
	f    *os.File
	size int64
}

// OpenLog opens the log at path for appending, mode 0600, and creates its
// directory, mode 0700. limit is in bytes.
func OpenLog(path string, limit int64) (*LogFile, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("create the directory of the log: %w", err)
	}
	l := &LogFile{path: path, limit: limit}
	return l, l.open()
}

func (l *LogFile) open() error {
	f, err := os.OpenFile(l.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open the log: %w", err)
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return err
	}
	l.f, l.size = f, info.Size()
	return nil
}

// Write appends b, to a new file if the limit is reached. A file that cannot be
// renamed grows further: losing log lines would be worse.
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
		full.Close() // has no unwritten data
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

// linger is how long run waits for the rest of a program's output: a grandchild may keep
// the pipe open.
const linger = 200 * time.Millisecond

// copyOutput connects the program's standard error to the set's output. done must be
// called when the program has exited or could not be started. It returns the last line,
// or "" if output is a file, which the program writes directly. The pipe is not that of
// os/exec, which would wait for grandchildren in Wait, and close the pipe after a write
// error of the log, so that SIGPIPE would kill the program.
func (s *Set) copyOutput(cmd *exec.Cmd) (done func() string, err error) {
	if f, ok := s.output.(*os.File); ok {
		cmd.Stderr = f
		return func() string { return "" }, nil
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd.Stderr = w
	read := make(chan struct{})
	end := &tail{}
	go func() {
		defer close(read)
		defer r.Close()
		pump(s.output, end, r)
	}()
	return func() string {
		w.Close()
		select {
		case <-read:
		case <-time.After(linger):
		}
		return end.line()
	}, nil
}

// pump copies r to w up to its end. Errors of w are ignored: a full disk must not
// stop a service.
func pump(w io.Writer, end *tail, r io.Reader) {
	b := make([]byte, 32<<10)
	for {
		n, err := r.Read(b)
		if n > 0 {
			w.Write(b[:n]) // an error cannot be logged
			end.add(b[:n])
		}
		if err != nil {
			return
		}
	}
}

// tailMax is the longest last line that is kept, in bytes.
const tailMax = 4 << 10

// tail is the end of a program's output.
type tail struct {
	mu  sync.Mutex
	end []byte
}

func (t *tail) add(b []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.end = append(t.end, b...)
	t.end = append(t.end[:0], t.end[max(0, len(t.end)-tailMax):]...)
}

// line returns the last line that is not blank.
func (t *tail) line() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	end := bytes.TrimSpace(t.end)
	return string(bytes.TrimSpace(end[bytes.LastIndexByte(end, '\n')+1:]))
}

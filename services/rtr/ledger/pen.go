package ledger

import (
	"bytes"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"time"
)

const (
	// syncEvery is how long a line may be in the kernel's hands alone.
	syncEvery = time.Second
	// mostOwed is how many bytes are kept of what cannot be written.
	mostOwed = 1 << 20
)

// pen writes lines at the end of the file. What a full disk does not take is
// owed, and goes out in front of what is written next.
type pen struct {
	file file
	log  *slog.Logger

	mu     sync.Mutex // held for a write; guards what follows
	owed   []byte
	timer  *time.Timer // runs until the next sync; nil: all is on disk
	closed bool

	syncing sync.WaitGroup // timers that run and syncs under way
}

// note appends a line, and keeps it for later if that fails. It needs no lock
// on the file: it only adds, at the end, all at once.
func (p *pen) note(line []byte) error {
	open, err := p.file.open(os.O_RDWR)
	if err != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.keep(line)
		return err
	}
	defer open.Close()
	return p.write(open, line, true)
}

// write appends what is owed and a line to the open file. After an error the
// line is not there, and is owed if so wished.
func (p *pen) write(open *os.File, line []byte, owe bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	text := append(p.owed[:len(p.owed):len(p.owed)], line...)
	n := 0
	fresh, err := freshLine(open)
	if err == nil && len(fresh)+len(text) == 0 {
		return nil
	}
	if err == nil {
		n, err = open.Write(append(fresh, text...))
	}
	left := unwritten(text, n-len(fresh))
	if n > 0 && len(left) == 0 {
		p.owed = nil
		return p.syncLater()
	}
	p.owed = bytes.Clone(left[:max(0, len(left)-len(line))])
	if owe {
		p.keep(line)
	}
	return p.file.wrong(err)
}

// ready has everything in the open file that belongs there before it is read:
// what is owed, and the end of its last line, should that have been lost.
func (p *pen) ready(open *os.File) error { return p.write(open, nil, false) }

// keep owes a line. More than a megabyte of them is not worth the memory.
func (p *pen) keep(line []byte) {
	if len(p.owed)+len(line) <= mostOwed {
		p.owed = append(p.owed, line...)
	}
}

// freshLine is what must come first so that a line begins where one can: the
// end of the last line may have been lost with its writer.
func freshLine(open *os.File) ([]byte, error) {
	fi, err := open.Stat()
	if err != nil || fi.Size() == 0 {
		return nil, err
	}
	var last [1]byte
	if _, err := open.ReadAt(last[:], fi.Size()-1); err != nil {
		return nil, err
	}
	if last[0] == '\n' {
		return nil, nil
	}
	return []byte("\n"), nil
}

// unwritten is what is left of lines of which n bytes were written: every line
// that is not there as a whole. The line's end may be missing.
func unwritten(text []byte, n int) []byte {
	if n <= 0 {
		return text
	}
	whole := bytes.LastIndexByte(text[:n], '\n') + 1
	if end := bytes.IndexByte(text[whole:], '\n'); end >= 0 && whole+end == n {
		whole = n + 1
	}
	return text[whole:]
}

// syncLater has what was written on disk within a second. mu is held.
func (p *pen) syncLater() error {
	if p.closed {
		return p.sync()
	}
	if p.timer != nil {
		return nil
	}
	p.syncing.Add(1)
	p.timer = time.AfterFunc(syncEvery, func() {
		defer p.syncing.Done()
		p.mu.Lock()
		p.timer = nil
		p.mu.Unlock()
		if err := p.sync(); err != nil {
			p.log.Warn("usage is recorded, but would not survive a power failure", "error", err)
		}
	})
	return nil
}

// sync has the file and its name on disk.
func (p *pen) sync() error {
	open, err := p.file.open(os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // somebody has taken the file away
	}
	if err != nil {
		return err
	}
	defer open.Close()
	if err := p.file.onDisk(open); err != nil {
		return p.file.wrong(err)
	}
	p.log.Debug("usage is on disk", "file", p.file.path())
	return nil
}

// close writes what is owed and syncs. Later lines are synced one by one.
func (p *pen) close() error {
	p.mu.Lock()
	p.closed = true
	due := p.timer != nil && p.timer.Stop()
	owes := len(p.owed) > 0
	p.mu.Unlock()
	if due {
		p.syncing.Done()
	}
	p.syncing.Wait()
	if owes {
		return p.note(nil)
	}
	if due {
		return p.sync()
	}
	return nil
}

package repl

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"

	"zino/services/repl/page"
)

// lookBack is how much of a log's end is looked at for a sign of a request that
// an earlier service left executing.
const lookBack = 16 << 10

// markInterrupted marks the requests that an earlier service left executing as
// interrupted, also in the logs of pages that never come back. Only logs that
// look as if there were one are read further: there may be thousands.
func (s *Service) markInterrupted() {
	names, err := s.dir.Names(logDir)
	if err != nil {
		s.log.Warn("the logs cannot be listed", "dir", logDir, "error", err)
	}
	for _, file := range names {
		name, id, ok := parts(file)
		if !ok {
			continue
		}
		if left, err := s.leftExecuting(logDir + "/" + file); err != nil || !left {
			continue // what cannot be read is reported when its page connects
		}
		t := newTranscript(s, name, id, "js")
		t.status.kind = "" // nobody has come for it yet
		s.transcripts[t.base] = t
		t.mu.Lock()
		t.open()
		t.mu.Unlock()
	}
}

// parts takes a log's name apart.
func parts(file string) (name, id string, ok bool) {
	base, ok := strings.CutSuffix(file, ".md")
	i := strings.LastIndexByte(base, '-')
	if !ok || i < 1 || !page.IsShortID(base[i+1:]) || page.Sanitize(base[:i]) != base[:i] {
		return "", "", false
	}
	return base[:i], base[i+1:], true
}

// leftExecuting reports whether a line near the end of a log looks like a
// placeholder.
func (s *Service) leftExecuting(file string) (bool, error) {
	f, err := s.dir.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	end, err := lastBytes(f)
	return bytes.Contains(end, []byte("\nexecuting (")), errors.Join(err, f.Close())
}

func lastBytes(f *os.File) ([]byte, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	from := max(0, info.Size()-lookBack)
	return io.ReadAll(io.NewSectionReader(f, from, lookBack))
}

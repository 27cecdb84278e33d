package repl

import (
	"path/filepath"
	"strings"
	"time"
)

// checkEvery is the interval at which all logs are checked for changes that no
// notification reported.
const checkEvery = 2 * time.Second

// follow passes changes in the directory of the logs on to their transcripts, until
// the watcher is closed.
func (s *Service) follow() {
	for path := range s.watch.C {
		if path == "" {
			for _, t := range s.all() {
				t.inspect()
			}
			continue
		}
		base, ok := strings.CutSuffix(filepath.Base(path), ".md")
		if !ok {
			continue
		}
		s.mu.Lock()
		t := s.transcripts[base]
		s.mu.Unlock()
		if t != nil {
			t.touch()
		}
	}
}

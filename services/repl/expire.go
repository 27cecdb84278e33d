package repl

import (
	"bytes"
	"fmt"
	"time"

	"zino/services/repl/page"
)

const (
	expireAfter = 7 * 24 * time.Hour // that a page is gone
	expireEvery = time.Hour
	expireMax   = 16 << 10 // bytes of a log that holds nothing but the guide
)

// expire removes logs in which nothing ever happened, until the service is closed. It
// does not begin at the start: pages that are still open come back first.
func (s *Service) expire() {
	ticker := time.NewTicker(expireEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			s.removeOld(time.Now())
		case <-s.closed:
			return
		}
	}
}

// removeOld removes the logs that hold nothing but the guide and whose pages are gone
// for expireAfter: connecting and leaving sets the time of such a file.
func (s *Service) removeOld(now time.Time) {
	files, err := s.dir.Names(logDir)
	if err != nil {
		s.log.Warn("cannot list the logs", "dir", logDir, "error", err)
		return
	}
	taken := map[string]bool{}
	for _, file := range files {
		taken[file] = true
	}
	for _, file := range files {
		name, id, ok := splitLogName(file)
		if !ok || taken[name+"-"+id] { // beside it are long results
			continue
		}
		path := logDir + "/" + file
		stamp, err := s.dir.Stat(path)
		if err == nil && stamp.Size() <= expireMax && now.Sub(stamp.Written()) >= expireAfter {
			s.removeFresh(path, name, id, now)
		}
	}
}

// removeFresh removes a log unless something has happened in it, its page is connected,
// or another program has it open.
func (s *Service) removeFresh(path, name, id string, now time.Time) {
	s.mu.Lock()
	l := s.logs[id]
	s.mu.Unlock()
	if l != nil {
		l.mu.Lock() // nothing else reads the file meanwhile
		defer l.mu.Unlock()
	}
	s.mu.Lock()
	used := s.logs[id] != l || s.live[id] != nil || l != nil && (l.page != nil || l.listed.live || l.listed.pending)
	s.mu.Unlock()
	if used {
		return
	}
	removed, err := s.dir.RemoveIf(path, func(text []byte, written time.Time) bool {
		return now.Sub(written) >= expireAfter && s.isFresh(text, name, id)
	})
	if err != nil {
		s.log.Warn("cannot remove an old log", "file", path, "error", err)
	}
	if !removed {
		return
	}
	s.log.Debug("an empty log of a page that is gone was removed", "file", path)
	s.mu.Lock()
	if s.logs[id] == l && l != nil && !l.listed.live { // else it comes back just now, and the file is created again
		delete(s.logs, id)
		l.closed = true
		l.alarm.stop()
	}
	s.mu.Unlock()
	s.registry.changed()
}

// isFresh reports whether the text of a log is exactly what it was created with.
func (s *Service) isFresh(text []byte, name, id string) bool {
	lang, footer := s.langOf(text)
	if lang == "" {
		return false
	}
	for _, program := range []bool{false, true} {
		o := page.Options{Name: name, ID: id, Lang: normalLang(lang), Program: program, Footer: footer}
		_, edit, _ := page.New(o).Apply(page.View{Missing: true}, page.Start{At: time.Now()})
		if bytes.Equal(text, edit.Text) {
			return true
		}
	}
	const before = "# %s-%s\n> This file is a REPL, a chat between you and a live page: add a fenced %s block at the bottom, and the page runs it and the result is printed below. " +
		"Please do not edit the replies or the last line.\n\n%s\n" // of earlier versions
	return string(text) == fmt.Sprintf(before, name, id, "JS", footer) || string(text) == fmt.Sprintf(before, name, id, "Python", footer)
}

// touch notes in the file's time that its page connects or leaves, if nothing has
// happened in it yet. mu is locked.
func (l *pageLog) touch() {
	path, now := l.file, time.Now()
	if size := l.known.stamp.Size(); size == 0 || size > expireMax {
		return
	}
	v, err := l.s.dir.Read(path, 0)
	if err != nil || v.Missing || now.Sub(v.ModTime) < expireEvery || !l.s.isFresh(v.Bytes, l.name, l.id) {
		return
	}
	if err := l.s.dir.Touch(path, now); err != nil {
		l.s.log.Debug("cannot set the time of a log", "file", path, "error", err)
	}
}

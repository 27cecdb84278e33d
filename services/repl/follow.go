package repl

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"

	"zino/services/repl/page"
)

// lookBack is how much of a log's end is searched for what an earlier service left to
// do.
const lookBack = 16 << 10

// follow passes changes in the directory of the logs on to them, until the watcher
// is closed.
func (s *Service) follow() {
	for path := range s.watcher.C {
		if path == "" {
			for _, l := range s.allLogs() {
				l.poll()
			}
			continue
		}
		name, id, ok := splitLogName(filepath.Base(path))
		if !ok {
			continue
		}
		s.mu.Lock()
		l := s.logs[id]
		s.mu.Unlock()
		if l == nil {
			l = s.openGone(name, id)
		}
		if l != nil && l.name == name {
			l.alarm.touch()
		}
	}
}

// openLeft opens the logs that have something to be done although their pages may
// never come back: requests that an earlier service left executing, and text that was
// appended while no service ran. Only the ends of the logs are read to find them:
// there may be thousands.
func (s *Service) openLeft() {
	files, err := s.dir.Names(logDir)
	if err != nil {
		s.log.Warn("cannot list the logs", "dir", logDir, "error", err)
	}
	names := s.namesOf(files)
	for _, file := range files {
		name, id, ok := splitLogName(file)
		if !ok {
			continue
		}
		end, err := s.readEnd(logDir + "/" + file)
		if err != nil {
			continue // an error is reported when the page connects
		}
		executing := page.Unfinished(end)
		lang, footer := s.langOf(end)
		if !executing && (lang == "" || strings.HasSuffix(strings.TrimRight(string(end), " \t\r\n"), footer)) {
			continue
		}
		if lang == "" {
			lang = "js"
		}
		l := newPageLog(s, name, id, lang)
		l.mu.Lock()
		l.open()
		l.mu.Unlock()
		if names[id] == name {
			s.logs[id] = l
		} else {
			l.close() // no page will come back to it
		}
	}
}

// openGone opens the log of a page that is gone and that was not connected since the
// start: its file has changed. Files that do not look like logs are left alone.
func (s *Service) openGone(name, id string) *pageLog {
	end, err := s.readEnd(logDir + "/" + name + "-" + id + ".md")
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			s.log.Debug("cannot read a file among the logs", "name", name+"-"+id, "error", err)
		}
		return nil
	}
	lang, _ := s.langOf(end)
	if names, err := s.logNames(); err != nil || lang == "" || names[id] != name {
		return nil
	}
	s.mu.Lock()
	l := s.logs[id]
	if l == nil && !s.work.draining() {
		l = newPageLog(s, name, id, lang)
		s.logs[id] = l
	}
	s.mu.Unlock()
	if l == nil {
		return nil
	}
	s.forgetOldLogs()
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.open()
	}
	return l
}

// anyFooter is the usual footer of a language.
var anyFooter = regexp.MustCompile(`(?m)^> Write code in a fenced ([^ \n]+) block below to execute against this page\.[ \t\r]*$`)

// langOf returns the language of a log, as its last footer in the file's end names it,
// and the footer; "" if it has no footer.
func (s *Service) langOf(end []byte) (lang, footer string) {
	if i := bytes.LastIndex(end, []byte(s.cfg.Footer)); i >= 0 && s.cfg.Footer != usualFooter {
		return "js", s.cfg.Footer
	}
	all := anyFooter.FindAllSubmatch(end, -1)
	if len(all) == 0 {
		return "", ""
	}
	last := all[len(all)-1]
	footer = strings.TrimRight(string(last[0]), " \t\r")
	switch lang = string(last[1]); lang {
	case "JS":
		return "js", footer
	case "Python":
		return "python", footer
	}
	return plainLabel(lang, "js"), footer
}

// readEnd reads the end of a file.
func (s *Service) readEnd(file string) ([]byte, error) {
	f, err := s.dir.Open(file)
	if err != nil {
		return nil, err
	}
	var end []byte
	info, err := f.Stat()
	if err == nil {
		end, err = io.ReadAll(io.NewSectionReader(f, max(0, info.Size()-lookBack), lookBack))
	}
	return end, errors.Join(err, f.Close())
}

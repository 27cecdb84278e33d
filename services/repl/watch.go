package repl

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
)

// checkEvery is the distance between two looks at all files. They find what
// nobody notifies of: network file systems, a directory that was made anew.
const checkEvery = 2 * time.Second

// notifier tells of changes in the directory of the logs. The directory is
// watched and not the files: editors put new ones in their places.
type notifier struct {
	dir  string
	log  *slog.Logger
	fsn  *fsnotify.Watcher // nil where the system gives none
	seen fs.FileInfo       // the directory that is watched; nil: none
}

func newNotifier(root string, log *slog.Logger) *notifier {
	n := &notifier{dir: filepath.Join(root, logDir), log: log}
	fsn, err := fsnotify.NewWatcher()
	if err != nil {
		log.Warn("no change notification, looking at the files from time to time", "error", err)
		return n
	}
	n.fsn = fsn
	n.follow()
	return n
}

// follow sees to it that the directory is watched that has the name now.
func (n *notifier) follow() {
	if n.fsn == nil {
		return
	}
	now, err := os.Lstat(n.dir)
	if err == nil && n.seen != nil && os.SameFile(now, n.seen) {
		return
	}
	if n.seen != nil {
		n.seen = nil
		if err := n.fsn.Remove(n.dir); err != nil && !errors.Is(err, fsnotify.ErrNonExistentWatch) {
			n.log.Debug("watch not removed", "dir", n.dir, "error", err)
		}
	}
	if err != nil || !now.IsDir() {
		return
	}
	if err := n.fsn.Add(n.dir); err != nil {
		n.log.Debug("directory not watched, looking at it from time to time", "dir", n.dir, "error", err)
		return
	}
	n.seen = now
}

// channels are nil, and so never ready, where there is no notification.
func (n *notifier) channels() (<-chan fsnotify.Event, <-chan error) {
	if n.fsn == nil {
		return nil, nil
	}
	return n.fsn.Events, n.fsn.Errors
}

// watcher tells transcripts that their files may have changed.
type watcher struct {
	s     *Service
	every time.Duration // between two looks at all files
}

func newWatcher(s *Service) *watcher { return &watcher{s, checkEvery} }

// run passes on notifications until the service is closed.
func (w *watcher) run(n *notifier) {
	events, errs := n.channels()
	tick := time.NewTicker(w.every)
	defer tick.Stop()
	for {
		select {
		case <-w.s.closed:
			if n.fsn != nil {
				if err := n.fsn.Close(); err != nil {
					n.log.Debug("change notification", "error", err)
				}
			}
			return
		case e := <-events:
			if e.Name == n.dir && (e.Has(fsnotify.Remove) || e.Has(fsnotify.Rename)) {
				n.seen = nil // the one that takes its place may have the same inode number
			}
			w.touch(filepath.Base(e.Name))
		case err := <-errs: // such as an overflow: the check finds what was missed
			n.log.Debug("change notification", "error", err)
		case <-tick.C:
			n.follow()
		}
	}
}

// touch passes on that a file has changed.
func (w *watcher) touch(file string) {
	base, ok := strings.CutSuffix(path.Base(file), ".md")
	if !ok {
		return
	}
	w.s.mu.Lock()
	t := w.s.transcripts[base]
	w.s.mu.Unlock()
	if t != nil {
		t.touch()
	}
}

// check looks at all files from time to time.
func (w *watcher) check() {
	tick := time.NewTicker(w.every)
	defer tick.Stop()
	for {
		select {
		case <-w.s.closed:
			return
		case <-tick.C:
		}
		for _, t := range w.s.all() {
			t.inspect()
		}
	}
}

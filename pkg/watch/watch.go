// Package watch reports changes in directories. It uses inotify where it is available,
// and polls for changes that inotify does not report: on network file systems, of the
// targets of symbolic links, and of created or replaced directories.
package watch

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"time"

	"github.com/fsnotify/fsnotify"
)

// Watcher watches directories by path: if a directory is replaced, or a symbolic link
// to it changes, the new directory is watched. It watches directories and not files,
// because editors replace files.
type Watcher struct {
	// C delivers the path of each file or directory that may have changed, and "" if
	// any of them may have changed: at every poll, and after lost notifications.
	// Notifications are not coalesced; the receiver debounces. Close closes C.
	C <-chan string

	dirs    []string
	log     *slog.Logger
	notify  *fsnotify.Watcher      // nil without notifications
	watched map[string]fs.FileInfo // the directory of each path when it was added
	stop    chan struct{}
}

// New watches dirs, which need not exist yet, and polls at the given interval.
// Every change made after New has returned is reported.
func New(dirs []string, interval time.Duration, log *slog.Logger) *Watcher {
	notify, err := fsnotify.NewWatcher()
	if err != nil {
		log.Warn("no change notifications from the system, polling instead", "interval", interval, "error", err)
		return Poll(interval)
	}
	return start(&Watcher{dirs: dirs, log: log, notify: notify, watched: map[string]fs.FileInfo{}}, interval)
}

// Poll returns a Watcher that uses no notifications and delivers "" at the given
// interval.
func Poll(interval time.Duration) *Watcher { return start(&Watcher{}, interval) }

func start(w *Watcher, interval time.Duration) *Watcher {
	c := make(chan string)
	w.C, w.stop = c, make(chan struct{})
	w.follow()
	go w.run(c, interval)
	return w
}

func (w *Watcher) run(c chan<- string, interval time.Duration) {
	defer close(c)
	var events <-chan fsnotify.Event // nil and thus never ready without notifications
	var errs <-chan error
	if w.notify != nil {
		events, errs = w.notify.Events, w.notify.Errors
	}
	poll := time.NewTicker(interval)
	defer poll.Stop()
	for {
		path := ""
		select {
		case <-w.stop:
			return
		case e := <-events:
			if path = e.Name; e.Has(fsnotify.Remove) || e.Has(fsnotify.Rename) {
				delete(w.watched, path) // a new directory may reuse the inode number
			}
		case err := <-errs: // such as an overflow of the queue
			w.log.Debug("change notification failed", "error", err)
		case <-poll.C:
			w.follow()
		}
		select {
		case c <- path:
		case <-w.stop:
			return
		}
	}
}

// follow adds watches for new directories and for directories that were replaced.
func (w *Watcher) follow() {
	if w.notify == nil {
		return
	}
	for _, dir := range w.dirs {
		now, err := os.Stat(dir)
		before := w.watched[dir]
		if err == nil && before != nil && os.SameFile(now, before) {
			continue
		}
		if before != nil {
			delete(w.watched, dir)
			if err := w.notify.Remove(dir); err != nil && !errors.Is(err, fsnotify.ErrNonExistentWatch) {
				w.log.Debug("cannot remove the watch of a replaced directory", "dir", dir, "error", err)
			}
		}
		if err != nil || !now.IsDir() {
			continue // the receiver gets the error when it reads the directory
		}
		if err := w.notify.Add(dir); err != nil {
			w.log.Debug("cannot watch directory, polling it instead", "dir", dir, "error", err)
			continue
		}
		w.watched[dir] = now
	}
}

// Close stops watching. C is closed when it returns. Close must be called once.
func (w *Watcher) Close() error {
	close(w.stop)
	for range w.C {
	}
	if w.notify == nil {
		return nil
	}
	return w.notify.Close()
}

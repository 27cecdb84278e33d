package catalog

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	// debounce is the quiet time after a change before the files are read:
	// editors save in several steps.
	debounce = 100 * time.Millisecond
	// pollEvery is the distance between two looks at the directories. They find
	// what fsnotify cannot see: network file systems, the targets of links,
	// directories that appear.
	pollEvery = 1500 * time.Millisecond
)

// watch calls its catalog's refresh after changes on disk.
type watch struct {
	catalog *Catalog
	log     *slog.Logger
	notify  *fsnotify.Watcher      // nil where the system gives none
	watched map[string]fs.FileInfo // the directory behind each watched path

	once sync.Once
	done chan struct{}
	idle chan struct{}
}

// newWatch starts to gather changes; run acts on them.
func newWatch(c *Catalog, log *slog.Logger) *watch {
	w := &watch{
		catalog: c, log: log, watched: map[string]fs.FileInfo{},
		done: make(chan struct{}), idle: make(chan struct{}),
	}
	notify, err := fsnotify.NewWatcher()
	if err != nil {
		log.Warn("no change notification, looking at the files from time to time", "error", err)
		return w
	}
	w.notify = notify
	w.follow()
	return w
}

// follow sees to it that the directories are watched that the paths lead to
// now.
func (w *watch) follow() {
	if w.notify == nil {
		return
	}
	for _, dir := range []string{w.catalog.tools.dir, w.catalog.skills.dir} {
		if dir != "" {
			w.followDir(dir)
		}
	}
}

func (w *watch) followDir(dir string) {
	now, err := os.Stat(dir)
	before := w.watched[dir]
	if err == nil && before != nil && os.SameFile(now, before) {
		return
	}
	if before != nil {
		delete(w.watched, dir)
		if err := w.notify.Remove(dir); err != nil && !errors.Is(err, fsnotify.ErrNonExistentWatch) {
			w.log.Debug("watch not removed", "dir", dir, "error", err)
		}
	}
	if err != nil || !now.IsDir() {
		return // reading the directory reports what is wrong with it
	}
	if err := w.notify.Add(dir); err != nil {
		w.log.Debug("directory not watched, looking at it from time to time", "dir", dir, "error", err)
		return
	}
	w.watched[dir] = now
}

// forget drops a directory that was deleted or moved away: the one that takes
// its place may have the same inode number.
func (w *watch) forget(event fsnotify.Event) {
	if event.Has(fsnotify.Remove) || event.Has(fsnotify.Rename) {
		delete(w.watched, event.Name)
	}
}

// run acts on changes until close.
func (w *watch) run() {
	defer close(w.idle)
	events, errs := w.channels()
	poll := time.NewTicker(pollEvery)
	defer poll.Stop()
	quiet := time.NewTimer(time.Hour)
	quiet.Stop()
	for {
		select {
		case <-w.done:
			return
		case event := <-events:
			w.forget(event)
			quiet.Reset(debounce)
		case err := <-errs:
			w.log.Debug("change notification", "error", err)
			quiet.Reset(debounce)
		case <-quiet.C:
			w.catalog.refresh()
		case <-poll.C:
			w.follow()
			w.catalog.refresh()
		}
	}
}

// channels are nil, and so never ready, where there is no notification.
func (w *watch) channels() (<-chan fsnotify.Event, <-chan error) {
	if w.notify == nil {
		return nil, nil
	}
	return w.notify.Events, w.notify.Errors
}

// close ends run, if it was started, and waits for it.
func (w *watch) close() error {
	var err error
	w.once.Do(func() {
		close(w.done)
		<-w.idle
		if w.notify != nil {
			err = w.notify.Close()
		}
	})
	return err
}

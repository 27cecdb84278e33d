// Package catalog keeps the definitions in the directories tools/ and skills/
// as one immutable snapshot, and reads them again when the files change.
//
// No file in these directories can stop a service: one that cannot be used is
// skipped, logged once and listed in [Snapshot.Problems].
package catalog

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"zino/pkg/watch"
)

const (
	// debounce is the quiet time after a change before the files are read:
	// editors save in several steps.
	debounce = 100 * time.Millisecond
	// pollEvery is the interval at which the directories are listed without a
	// notification.
	pollEvery = 1500 * time.Millisecond
)

// Catalog watches a directory of tools and one of skills.
type Catalog struct {
	log     *slog.Logger
	current atomic.Pointer[Snapshot]
	watch   *watch.Watcher
	done    chan struct{} // closed when follow returns
	once    sync.Once     // for Close

	mu        sync.Mutex // guards the following fields; Snapshot does not lock it
	tools     source
	skills    source
	logged    map[string]bool
	listeners []func(*Snapshot)
}

// Open reads both directories and watches them until Close. An empty path
// means no directory. A directory that does not exist is empty, and is read when it
// appears; one that cannot be read is an error.
func Open(toolsDir, skillsDir string, log *slog.Logger) (*Catalog, error) {
	c := &Catalog{log: log, tools: source{dir: clean(toolsDir)}, skills: source{dir: clean(skillsDir)}, done: make(chan struct{})}
	for section, dir := range map[string]string{"tools": c.tools.dir, "skills": c.skills.dir} {
		if _, err := list(dir); err != nil {
			return nil, fmt.Errorf("[%s] dir %s: %w: make it readable or set another one", section, dir, reason(err))
		}
	}
	c.current.Store(&Snapshot{})
	var dirs []string
	for _, dir := range []string{c.tools.dir, c.skills.dir} {
		if dir != "" {
			dirs = append(dirs, dir)
		}
	}
	// Watch before reading, so that no change in between is missed.
	c.watch = watch.New(dirs, pollEvery, log)
	c.Reload()
	go c.follow(c.watch.C)
	return c, nil
}

// follow reads the files after changes, until the channel is closed.
func (c *Catalog) follow(changes <-chan string) {
	defer close(c.done)
	quiet := time.NewTimer(time.Hour)
	quiet.Stop()
	for {
		select {
		case path, ok := <-changes:
			if !ok {
				return
			}
			if path != "" {
				quiet.Reset(debounce)
				continue
			}
			c.refresh()
		case <-quiet.C:
			c.refresh()
		}
	}
}

// clean is filepath.Clean, but keeps the empty path, which means no directory.
func clean(dir string) string {
	if dir == "" {
		return ""
	}
	return filepath.Clean(dir)
}

// Snapshot returns the definitions as last read. It does not lock.
func (c *Catalog) Snapshot() *Snapshot { return c.current.Load() }

// Reload reads both directories now and returns the new snapshot.
func (c *Catalog) Reload() *Snapshot {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.load()
}

// OnChange registers fn, which is called with every snapshot that differs from the
// one before, one call at a time. fn must not call Reload, OnChange or Close.
func (c *Catalog) OnChange(fn func(*Snapshot)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.listeners = append(c.listeners, fn)
}

// Close stops watching. The last snapshot stays usable.
func (c *Catalog) Close() error {
	var err error
	c.once.Do(func() {
		err = c.watch.Close()
		<-c.done
	})
	return err
}

// refresh reads the directories if their listing has changed.
func (c *Catalog) refresh() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.tools.changed() || c.skills.changed() {
		c.load()
	}
}

// load reads everything and publishes it. c.mu is locked.
func (c *Catalog) load() *Snapshot {
	next := &Snapshot{}
	var problems []problem
	collect(&c.tools, &next.Tools, parseTool, &problems)
	collect(&c.skills, &next.Skills, parseSkill, &problems)
	for _, p := range problems {
		next.Problems = append(next.Problems, p.String())
	}
	c.report(problems)
	old := c.current.Load()
	if reflect.DeepEqual(old, next) {
		return old
	}
	c.current.Store(next)
	for _, fn := range c.listeners {
		fn(next)
	}
	return next
}

// report logs the problems that the last reading did not have.
func (c *Catalog) report(problems []problem) {
	now := make(map[string]bool, len(problems))
	for _, p := range problems {
		line := p.String()
		now[line] = true
		if !c.logged[line] {
			c.log.Warn("definition skipped", "file", p.path, "line", p.line, "column", p.column, "reason", p.reason)
		}
	}
	c.logged = now
}

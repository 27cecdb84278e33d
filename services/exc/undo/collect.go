package undo

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"zino/pkg/durable"
)

const (
	// collectEvery is how often Run collects.
	collectEvery = 24 * time.Hour
	// grace is how long an image without a reference is kept: another process may be
	// about to write the reference.
	grace = time.Hour
)

// added returns the function that is called for each new image: it starts a
// collection when max_bytes more than at the last one may be there.
func (s *Store) added() func(int64) {
	var since atomic.Int64
	return func(n int64) {
		if since.Add(n) < s.cfg.MaxBytes/4 {
			return
		}
		since.Store(0)
		go s.collectLogged()
	}
}

// collectedName is the file whose time is that of the last collection.
const collectedName = "collected"

// Run collects daily, over all processes, until ctx is done.
func (s *Store) Run(ctx context.Context) {
	for {
		wait := time.Duration(0)
		if info, err := os.Stat(filepath.Join(s.dir, collectedName)); err == nil {
			wait = min(time.Until(info.ModTime().Add(collectEvery)), collectEvery)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		s.collectLogged()
		if err := os.WriteFile(filepath.Join(s.dir, collectedName), []byte("\n"), durable.FileMode); err != nil {
			s.log.Warn("undo: cannot record the time of a collection", "error", err)
			return
		}
	}
}

func (s *Store) collectLogged() {
	if err := s.Collect(time.Now()); err != nil {
		s.log.Warn("undo: cannot remove old records", "error", err)
	}
}

// kept is a file that refers to images.
type kept struct {
	path, session string // session: empty for an index
	time          time.Time
	images        map[string]bool
	bytes         int64 // its own size
}

// Collect removes records that are older than max_age, the oldest others beyond
// max_bytes, and the images that nothing refers to any more. Another process
// that collects makes it return at once.
func (s *Store) Collect(now time.Time) error {
	s.collecting.Lock()
	defer s.collecting.Unlock()
	s.objects.exclude.Lock()
	defer s.objects.exclude.Unlock()
	lock, err := os.Open(s.dir)
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := durable.TryLock(lock); err != nil {
		if errors.Is(err, durable.ErrLocked) {
			return nil
		}
		return err
	}
	list, err := s.kept()
	if err != nil {
		return err
	}
	sizes, err := s.imageSizes(now)
	if err != nil {
		return err
	}
	references, total := map[string]int{}, int64(0)
	for _, k := range list {
		total += k.bytes
		for sum := range k.images {
			if references[sum]++; references[sum] == 1 {
				total += sizes[sum].bytes
			}
		}
	}
	slices.SortFunc(list, func(a, b kept) int { return cmp.Or(a.time.Compare(b.time), strings.Compare(a.path, b.path)) })
	age := s.cfg.MaxAge.Value()
	for _, k := range list {
		old := age > 0 && now.Sub(k.time) > age
		if !old && total <= s.cfg.MaxBytes {
			break
		}
		removed, err := s.removeKept(k)
		if err != nil {
			return err
		}
		if !removed {
			continue
		}
		total -= k.bytes
		for sum := range k.images {
			if references[sum]--; references[sum] == 0 {
				total -= sizes[sum].bytes
			}
		}
	}
	for sum, image := range sizes {
		if references[sum] == 0 && image.old {
			if err := os.Remove(s.objects.path(sum)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	return nil
}

// removeKept removes a record or an index that nothing uses at the moment.
func (s *Store) removeKept(k kept) (bool, error) {
	locked := k.path
	if k.session != "" {
		locked = s.sessionDir(k.session)
	}
	f, err := os.Open(locked)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	if err := durable.TryLock(f); errors.Is(err, durable.ErrLocked) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	if err := os.Remove(k.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	if k.session != "" {
		if err := os.Remove(locked); err != nil && !errorIs(err, unix.ENOTEMPTY, unix.EEXIST, unix.ENOENT) {
			return true, err
		}
	}
	return true, nil
}

// kept lists the records, plans and indexes with the images that they refer to.
func (s *Store) kept() (list []kept, err error) {
	add := func(dir, session string, images func(data []byte) map[string]bool) error {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return err
		}
		for _, e := range entries {
			info, err := e.Info()
			if errors.Is(err, fs.ErrNotExist) || err == nil && !info.Mode().IsRegular() {
				continue
			}
			if err != nil {
				return err
			}
			path := filepath.Join(dir, e.Name())
			data, err := os.ReadFile(path)
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return err
			}
			list = append(list, kept{path, session, info.ModTime(), images(data), info.Size()})
		}
		return nil
	}
	if err := add(s.indexDir(), "", indexImages); err != nil {
		return nil, err
	}
	sessions, err := os.ReadDir(s.turnsDir())
	if err != nil {
		return nil, err
	}
	for _, session := range sessions {
		if err := add(s.sessionDir(session.Name()), session.Name(), recordImages); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	return list, nil
}

// indexImages are the images that an index refers to. Its root is not known here.
func indexImages(data []byte) map[string]bool {
	images := map[string]bool{}
	entries, err := parseIndex(data, rootOf(data))
	if err != nil {
		return images
	}
	for _, e := range entries {
		if e.sum != "" && e.blob == "" {
			images[e.sum] = true
		}
	}
	return images
}

// recordImages are the images that a record or a plan refers to.
func recordImages(data []byte) map[string]bool {
	images := map[string]bool{}
	changes, _ := parseRecord(data)
	if p, err := parsePlan(data); err == nil {
		for _, t := range p.Steps {
			changes = append(changes, t.change())
		}
	}
	for _, c := range changes {
		for _, state := range []*State{c.Before, c.After} {
			if state != nil && state.SHA256 != "" {
				images[state.SHA256] = true
			}
		}
	}
	return images
}

// image is a file below objects.
type image struct {
	bytes int64
	old   bool // it may be removed if nothing refers to it
}

// imageSizes lists the images. Files that a killed process left are removed.
func (s *Store) imageSizes(now time.Time) (map[string]image, error) {
	list := map[string]image{}
	dirs, err := os.ReadDir(s.objects.dir)
	if err != nil {
		return nil, err
	}
	for _, dir := range dirs {
		entries, err := os.ReadDir(filepath.Join(s.objects.dir, dir.Name()))
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			info, err := e.Info()
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return nil, err
			}
			old := now.Sub(info.ModTime()) > grace
			if _, err := hex.DecodeString(e.Name()); err == nil && len(e.Name()) == 64 {
				list[e.Name()] = image{info.Size(), old}
				continue
			}
			if old {
				if err := os.Remove(filepath.Join(s.objects.dir, dir.Name(), e.Name())); err != nil {
					return nil, err
				}
			}
		}
	}
	return list, nil
}

package undo

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"zino/pkg/mask"
)

// A Secret is an image with secrets, and a change that it belongs to.
type Secret struct {
	Session, Turn string // empty: what a file was before the next command
	Path          string // absolute
	Count         int    // of secrets
}

// Secrets calls found for each change whose images have secrets. With remove those
// images are deleted first: their changes cannot be taken back any more.
func (s *Store) Secrets(ctx context.Context, m *mask.Masker, remove bool, found func(Secret) error) error {
	if s == nil {
		return nil
	}
	images, err := s.imageSizes(time.Now())
	if err != nil {
		return err
	}
	secret := map[string]int{}
	for sum := range images {
		n, err := countIn(ctx, s.objects.path(sum), m)
		if err != nil {
			return err
		}
		if n > 0 {
			secret[sum] = n
		}
	}
	if len(secret) == 0 {
		return nil
	}
	list, err := s.usesOf(secret)
	if err != nil {
		return err
	}
	if remove {
		s.collecting.Lock()
		defer s.collecting.Unlock()
		s.objects.exclude.Lock()
		for sum := range secret {
			if err := os.Remove(s.objects.path(sum)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				s.objects.exclude.Unlock()
				return err
			}
		}
		s.objects.exclude.Unlock()
	}
	for _, use := range list {
		if err := found(use); err != nil {
			return err
		}
	}
	return nil
}

// countIn counts the secrets in a file.
func countIn(ctx context.Context, path string, m *mask.Masker) (int, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer f.Close()
	stream := m.Stream()
	buf := make([]byte, 64<<10)
	for {
		n, err := f.Read(buf)
		stream.Add(buf[:n])
		if errors.Is(err, io.EOF) {
			stream.Flush()
			return stream.Count(), nil
		}
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return 0, err
		}
	}
}

// usesOf lists the changes and the entries of indexes that refer to images. An image
// that nothing refers to any more is listed without a path.
func (s *Store) usesOf(images map[string]int) (list []Secret, err error) {
	used := map[string]bool{}
	add := func(session, turn, root, path, sum string) {
		if n := images[sum]; n > 0 {
			used[sum] = true
			list = append(list, Secret{session, turn, filepath.Join(root, path), n})
		}
	}
	sessions, err := os.ReadDir(s.turnsDir())
	if err != nil {
		return nil, err
	}
	for _, session := range sessions {
		turns, _, err := s.records(session.Name())
		if err != nil {
			return nil, err
		}
		for _, turn := range turns {
			for _, c := range turn.changes {
				for _, state := range []*State{c.Before, c.After} {
					if state != nil {
						add(session.Name(), turn.turn, c.Root, c.Path, state.SHA256)
					}
				}
			}
		}
	}
	indexes, err := os.ReadDir(s.indexDir())
	if err != nil {
		return nil, err
	}
	for _, file := range indexes {
		data, err := os.ReadFile(filepath.Join(s.indexDir(), file.Name()))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		root := rootOf(data)
		entries, err := parseIndex(data, root)
		if err != nil {
			continue // it is made anew
		}
		for path, e := range entries {
			add("", "", root, path, e.sum)
		}
	}
	for sum, n := range images {
		if !used[sum] {
			list = append(list, Secret{Count: n})
		}
	}
	return list, nil
}

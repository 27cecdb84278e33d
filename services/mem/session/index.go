package session

import (
	"encoding/json"
	"errors"
	"io/fs"
	"maps"

	"zino/pkg/durable"
)

const (
	indexFile    = ".index.json"
	indexVersion = 2 // counts up when digests change
)

// index is the file that holds the digests.
type index struct {
	Version  int               `json:"version"`
	Sessions map[string]digest `json:"sessions"`
}

// loadIndex reads what was known when somebody last looked. An index that is
// missing, damaged or of another version costs a look at every file, and
// whatever is in it counts only for a file that has not changed. mu is held.
func (s *Store) loadIndex() {
	if s.digests != nil {
		return
	}
	s.digests = map[string]digest{}
	data, err := s.root.ReadFile(indexFile)
	if err != nil {
		return
	}
	maps.Copy(s.digests, parseIndex(data))
}

func parseIndex(data []byte) map[string]digest {
	var x index
	if json.Unmarshal(data, &x) != nil || x.Version != indexVersion {
		return nil
	}
	for id, d := range x.Sessions {
		if !isID(id) || d.End < 0 || d.End > d.Size || d.Messages < 0 || d.Events < 0 {
			delete(x.Sessions, id)
		}
	}
	return x.Sessions
}

// saveIndex writes the digests of the sessions that are there, if they differ
// from what the file holds. It is no loss if that fails: the next list takes
// longer.
func (s *Store) saveIndex(there []entry) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.stale && len(there) >= len(s.digests) {
		return nil
	}
	kept := make(map[string]digest, len(there))
	for _, e := range there {
		if d, ok := s.digests[e.id]; ok {
			kept[e.id] = d
		}
	}
	s.digests = kept
	return s.writeIndex()
}

// writeIndex replaces the file. mu is held.
func (s *Store) writeIndex() error {
	data, err := json.Marshal(index{indexVersion, s.digests})
	if err != nil {
		return err
	}
	s.stale = false
	return durable.Replace(s.root, indexFile, data)
}

// forget drops what is known of a session that is gone, from the index too: it
// holds the session's first words.
func (s *Store) forget(id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.loadIndex()
	delete(s.digests, id)
	if _, err := s.root.Lstat(indexFile); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return s.writeIndex()
}

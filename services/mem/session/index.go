package session

import (
	"encoding/json"
	"errors"
	"io/fs"
	"maps"

	"zino/pkg/durable"
	"zino/proto"
)

const (
	indexFile    = ".index.json"
	indexVersion = 4 // raise with every change of digest
)

// index is the content of the index file.
type index struct {
	Version  int               `json:"version"`
	Sessions map[string]digest `json:"sessions"`
}

// loadIndex reads the index file, once. Without a valid one there are no digests, and
// every session is read. mu is locked.
func (s *Store) loadIndex() {
	if s.digests != nil {
		return
	}
	s.digests = map[string]digest{}
	if data, err := s.root.ReadFile(indexFile); err == nil {
		maps.Copy(s.digests, parseIndex(data))
	}
}

func parseIndex(data []byte) map[string]digest {
	var x index
	if json.Unmarshal(data, &x) != nil || x.Version != indexVersion {
		return nil
	}
	for id, d := range x.Sessions {
		if proto.CheckSessionID(id) != nil || d.End < 0 || d.End > d.Size+1 || d.Messages < 0 || d.Events < 0 {
			delete(x.Sessions, id)
		}
	}
	return x.Sessions
}

// saveIndex writes the digests of the existing sessions, if they differ from those in
// the index file. Callers may ignore the error: the index is a cache.
func (s *Store) saveIndex(all []entry) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.stale && len(all) >= len(s.digests) {
		return nil
	}
	kept := make(map[string]digest, len(all))
	for _, e := range all {
		if d, ok := s.digests[e.id]; ok {
			kept[e.id] = d
		}
	}
	s.digests = kept
	return s.writeIndex()
}

// writeIndex replaces the index file. mu is locked.
func (s *Store) writeIndex() error {
	data, err := json.Marshal(index{indexVersion, s.digests})
	if err != nil {
		return err
	}
	s.stale = false
	return durable.Replace(s.root, indexFile, data)
}

// forget removes a deleted session from the index, which contains texts of it.
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

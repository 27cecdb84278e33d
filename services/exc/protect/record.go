package protect

import (
	"encoding/json"
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// record is what is written down of a set while its run is open: what was not
// there, links, and what a scan has found. What was there is not in it: it could
// not be put back.
type record struct {
	Root    string
	Places  []*place
	Git     []string
	Layouts []string
	Agents  []string
}

// Record writes the set to a new file for the case that this process is killed
// before the run is over. Close removes it.
func (s *Set) Record(file string) error {
	r := record{Root: s.o.Root, Git: s.before.git, Layouts: s.before.layouts, Agents: s.before.agents}
	for _, p := range s.places {
		if p.info == nil || p.Link != "" {
			r.Places = append(r.Places, p)
		}
	}
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	s.record = file
	_, err = f.Write(text)
	return errors.Join(err, f.Close())
}

// Resume reads the set that a dead process has recorded.
func Resume(file string) (*Set, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var r record
	if err := json.Unmarshal(text, &r); err != nil {
		return nil, err
	}
	root, err := openAt(unix.AT_FDCWD, r.Root, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	return &Set{
		o: Options{Root: r.Root, Mounts: true}, root: root, places: r.Places, record: file,
		before: findings{git: r.Git, layouts: r.Layouts, agents: r.Agents},
	}, nil
}

// Root is the directory that the set belongs to.
func (s *Set) Root() string { return s.o.Root }

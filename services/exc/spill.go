package exc

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
)

const (
	spillMax  = 64 << 20 // bytes of an output that are kept in a file
	spillsMax = 32       // files that are kept
)

// outputs keeps long outputs of commands in files of the workspace, the last
// ones as long as it lives.
type outputs struct {
	files    *workspace
	bytesMax int64 // of one file
	filesMax int

	mu   sync.Mutex
	dirs []string // one for each file, the oldest first
}

func newOutputs(w *workspace) *outputs {
	return &outputs{files: w, bytesMax: spillMax, filesMax: spillsMax}
}

// create makes a file of that name in a directory of its own.
func (o *outputs) create(name string) (*os.File, error) {
	dir, err := o.files.newDir()
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		o.files.remove(dir)
	}
	return f, err
}

// keep keeps a file that is complete and drops the oldest one for it.
func (o *outputs) keep(file string) {
	o.mu.Lock()
	o.dirs = append(o.dirs, filepath.Dir(file))
	drop := o.dirs[:max(0, len(o.dirs)-o.filesMax)]
	o.dirs = o.dirs[len(drop):]
	o.mu.Unlock()
	for _, dir := range drop {
		o.files.remove(dir)
	}
}

// places are the directories of the files that are kept.
func (o *outputs) places() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.dirs)
}

// spill passes an output on to its capture and keeps all of it in a file if
// that is more than a result holds.
type spill struct {
	*capture
	place *outputs
	name  string
	limit int64    // bytes that fit into a result
	file  string   // the path, once there is one
	f     *os.File // open until the output is complete
	size  int64    // bytes in the file
	err   error    // why there is no file
}

// newSpill keeps the output that c captures up to that limit.
func newSpill(place *outputs, name string, c *capture, limit int) *spill {
	s := &spill{capture: c, place: place, name: name, limit: int64(limit)}
	c.note = s.remark
	return s
}

// Write takes p in. It never fails: a full disk is told in the remark.
func (s *spill) Write(p []byte) (int, error) {
	if s.file == "" && s.total+int64(len(p)) > s.limit {
		s.begin()
	}
	if s.f != nil {
		s.add(p)
	}
	return s.capture.Write(p)
}

// begin makes the file and writes what came so far, all of which the capture
// still has.
func (s *spill) begin() {
	if s.err != nil {
		return
	}
	if s.f, s.err = s.place.create(s.name); s.err == nil {
		s.file = s.f.Name()
		s.add(s.kept())
	}
}

// add writes as much of p as the file may hold.
func (s *spill) add(p []byte) {
	p = p[:min(int64(len(p)), s.place.bytesMax-s.size)]
	n, err := s.f.Write(p)
	s.size += int64(n)
	if err != nil {
		s.discard(err)
	}
}

// discard gives the file up: part of an output is no use, and the disk may be
// full.
func (s *spill) discard(why error) {
	closeAll(s.f)
	s.place.files.remove(filepath.Dir(s.file))
	s.f, s.file, s.err = nil, "", why
}

// remark completes the file and says where it is, for the line about what was
// left out. Where control characters make a result too long, there is no file
// yet.
func (s *spill) remark() string {
	if s.file == "" {
		s.begin()
	}
	if s.f != nil {
		if err := s.f.Close(); err != nil {
			s.discard(err)
		}
		s.f = nil
	}
	switch {
	case s.err != nil:
		return fmt.Sprintf("; the full output could not be kept: %v", cause(s.err))
	case s.total > s.size:
		return fmt.Sprintf("; the first %s are in %s", bytesText(s.size), s.file)
	}
	return "; the full output is in " + s.file
}

// end keeps the file if there is one, or removes it if nobody is told of it.
func (s *spill) end(keep bool) {
	switch {
	case s.file == "":
	case keep:
		s.place.keep(s.file)
	default:
		s.discard(nil)
	}
}

// cause is an error of the system without the path: that of a file that is no
// more.
func cause(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}

// bytesText is a number of bytes for people.
func bytesText(n int64) string {
	if n%(1<<20) == 0 {
		return fmt.Sprintf("%d MiB", n>>20)
	}
	return fmt.Sprintf("%d bytes", n)
}

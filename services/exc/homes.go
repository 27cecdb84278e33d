package exc

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"zino/pkg/durable"
	"zino/proto"
	"zino/services/exc/run"
)

// homeMax is how many bytes a home may take when its program starts.
const homeMax = 2 << 30

// homes are directories of programs with input that are kept for their next start. Each is
// named by a hash of its program's definition.
type homes struct {
	dir string
	max int64 // bytes of one when its program starts

	mu   sync.Mutex
	used map[string]int // programs that run, by home
}

// open makes a home, or finds it, and counts a program in it until close. The error is
// invalid if it is too large.
func (h *homes) open(name string) (dir string, err error) {
	dir = filepath.Join(h.dir, name)
	h.mu.Lock()
	h.used[name]++ // from now on it is not removed
	h.mu.Unlock()
	defer func() {
		if err != nil {
			h.close(name)
		}
	}()
	if err := os.MkdirAll(dir, durable.DirMode); err != nil {
		return "", err
	}
	fi, err := os.Lstat(dir)
	if err == nil && !fi.IsDir() {
		err = &fs.PathError{Op: "open", Path: dir, Err: syscall.ENOTDIR}
	}
	if err != nil {
		return "", err
	}
	if n := sizeOf(dir); n > h.max {
		return "", proto.Errorf(proto.CodeInvalid, "the home of this program, %s, takes %d MiB, more than %s: remove what it does not need, or all of it", dir, n>>20, run.ByteCount(h.max))
	}
	return dir, nil
}

// close counts a program less.
func (h *homes) close(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.used[name]--; h.used[name] == 0 {
		delete(h.used, name)
	}
}

// sizeOf is how many bytes on disk the files below dir take. What cannot be read, or is
// being removed, does not count.
func sizeOf(dir string) (n int64) {
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil
		}
		if fi, err := d.Info(); err == nil {
			if st, ok := fi.Sys().(*syscall.Stat_t); ok {
				n += st.Blocks * 512
			}
		}
		return nil
	})
	return n
}

// removeHome removes a home.
func (s *Service) removeHome(_ context.Context, req proto.RemoveHome) (proto.Empty, error) {
	if !isHash(req.Home) {
		return proto.Empty{}, badHome(req.Home)
	}
	s.homes.mu.Lock()
	defer s.homes.mu.Unlock()
	if s.homes.used[req.Home] > 0 {
		return proto.Empty{}, proto.Errorf(proto.CodeBusy, "a program with this home is running: end it first")
	}
	dir := filepath.Join(s.homes.dir, req.Home)
	err := os.RemoveAll(dir)
	if errors.Is(err, fs.ErrPermission) {
		err = errors.Join(grantAccess(dir), os.RemoveAll(dir))
	}
	return proto.Empty{}, err
}

func badHome(home string) error {
	return proto.Errorf(proto.CodeInvalid, "invalid home %q: want 64 hexadecimal digits in lower case", home)
}

package exc

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"zino/proto"
	"zino/services/exc/run"
	"zino/services/exc/sandbox"
)

// homeMax is how many bytes a home may take when its program starts.
const homeMax = 2 << 30

// homes are directories of programs with input that are kept for their next start. Each is
// named by a hash of its program's definition. Those of programs in units are the units'.
type homes struct {
	dir   string
	max   int64     // bytes of one when its program starts
	units [2]string // sockets of the units that keep homes: without the network, and with it

	mu   sync.Mutex
	used map[string]int // programs that run, by home
}

// use counts a program in a home until close: from now on it is not removed.
func (h *homes) use(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.used[name]++
}

// close counts a program less.
func (h *homes) close(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.used[name]--; h.used[name] == 0 {
		delete(h.used, name)
	}
}

// unitProblem returns why programs in units keep no home on this host, nil if they do.
// Such programs share a user: only Landlock separates their files and processes.
func (h *homes) unitProblem() error {
	if !sandbox.Scopes() {
		return errors.New("that needs Landlock of Linux 6.12 or later")
	}
	if _, err := os.Stat(h.units[0]); err != nil {
		return fmt.Errorf("%w: zino-home.socket of a system installation listens there", err)
	}
	return nil
}

// removeHome removes a home, and that of the same program in units.
func (s *Service) removeHome(ctx context.Context, req proto.RemoveHome) (proto.Empty, error) {
	if !run.IsHome(req.Home) {
		return proto.Empty{}, badHome(req.Home)
	}
	s.homes.mu.Lock()
	defer s.homes.mu.Unlock()
	if s.homes.used[req.Home] > 0 {
		return proto.Empty{}, proto.Errorf(proto.CodeBusy, "a program with this home is running: end it first")
	}
	err := run.RemoveAll(filepath.Join(s.homes.dir, req.Home))
	if _, missing := os.Stat(s.homes.units[0]); errors.Is(missing, fs.ErrNotExist) {
		return proto.Empty{}, err
	}
	return proto.Empty{}, errors.Join(err, run.RemoveUnitHome(ctx, s.homes.units[0], req.Home))
}

func badHome(home string) error {
	return proto.Errorf(proto.CodeInvalid, "invalid home %q: want 64 hexadecimal digits in lower case", home)
}

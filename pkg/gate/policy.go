// Package gate decides which calls of a model run: by the rules of the policy files and
// by the mode of the turn.
package gate

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"
)

// HostFile is the policy of the host, which root writes.
const HostFile = "/etc/zino/policy.toml"

// fileMax limits the bytes of a policy file.
const fileMax = 4 << 20

// Places are the files of a policy.
type Places struct {
	Host    string // HostFile, except in tests
	User    string // policy.toml in the user's directory; empty: none
	DataDir string // of the daemon, whose files no call may write; empty: none
	Env     []string
}

// Policy is the rules of the host and of a user. It reads the files again when they
// change.
type Policy struct {
	env     []string // see Places
	builtin *File

	mu         sync.Mutex // guards what follows
	host, user source
}

// New returns the policy of the files at places, which need not exist.
func New(places Places) *Policy {
	builtin := &File{Path: "built-in"}
	protect := Rule{Action: Deny, Reason: "tools do not change Zino's own files"}
	for _, tool := range []string{"write", "edit"} {
		protect.Tools = append(protect.Tools, toolPattern{text(tool)})
	}
	add := func(pattern string) { protect.Paths = append(protect.Paths, pathPattern{text(pattern)}) }
	add(filepath.Dir(HostFile) + "/**")
	if places.User != "" {
		add(escape(places.User))
		add(escape(filepath.Join(filepath.Dir(places.User), "config.toml")))
	}
	if places.DataDir != "" {
		add(escape(places.DataDir) + "/**")
	}
	builtin.Rules = []Rule{protect}
	return &Policy{
		env: places.Env, builtin: builtin,
		host: source{path: places.Host, host: true}, user: source{path: places.User},
	}
}

// Files returns the built-in rules and the files as they are now: that of the host, and
// that of the user. One that does not exist has no rules.
func (p *Policy) Files() (builtin, host, user *File) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.builtin, p.host.read(), p.user.read()
}

// Problems returns the mistakes in the files. While there are any, only reads are allowed.
func (p *Policy) Problems() []string {
	_, host, user := p.Files()
	return slices.Concat(host.Problems, user.Problems)
}

// source is a file that is read again after each change.
type source struct {
	path  string
	host  bool // of the host, whose file belongs to root
	stamp stamp
	file  *File
}

// stamp identifies the content and the owner of a file.
type stamp struct {
	dev, ino   uint64
	size       int64
	mod, state syscall.Timespec
	mode       uint32
	uid        uint32
}

func stampOf(st *syscall.Stat_t) stamp {
	return stamp{uint64(st.Dev), st.Ino, st.Size, st.Mtim, st.Ctim, st.Mode, st.Uid}
}

// unsettled is how long after a change another one may leave the times of a file as they
// are: the kernel's clock for them has a tick of up to 10 ms.
const unsettled = 20 * time.Millisecond

// read returns the file. The content is read only if the file has changed.
func (s *source) read() *File {
	var st syscall.Stat_t
	err := errors.New("no file")
	if s.path != "" {
		err = syscall.Stat(s.path, &st)
	}
	switch {
	case s.path == "", errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		s.stamp, s.file = stamp{}, nil
		return &File{Path: s.path}
	case err != nil:
		s.file = nil
		return broken(s.path, err)
	case s.file != nil && stampOf(&st) == s.stamp:
		return s.file
	}
	file, now, err := s.load()
	if err != nil {
		s.file = nil
		return broken(s.path, err)
	}
	s.file = nil
	if time.Since(time.Unix(now.state.Unix())) > unsettled {
		s.stamp, s.file = now, file
	}
	return file
}

// load reads and checks the file.
func (s *source) load() (*File, stamp, error) {
	f, err := os.OpenFile(s.path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a FIFO must not block
	if err != nil {
		return nil, stamp{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, stamp{}, err
	}
	st := info.Sys().(*syscall.Stat_t)
	owner, name := uint32(os.Geteuid()), "you"
	if s.host {
		owner, name = 0, "root"
	}
	switch {
	case !info.Mode().IsRegular():
		return nil, stamp{}, errors.New("it is not a regular file")
	case st.Uid != owner:
		return nil, stamp{}, fmt.Errorf("it must belong to %s, and belongs to uid %d: chown it", name, st.Uid)
	case info.Mode().Perm()&0o022 != 0:
		return nil, stamp{}, fmt.Errorf("other users can write to it: chmod go-w %s", s.path)
	case info.Size() > fileMax:
		return nil, stamp{}, fmt.Errorf("it is larger than %d bytes", fileMax)
	}
	data, err := io.ReadAll(io.LimitReader(f, fileMax))
	if err != nil {
		return nil, stamp{}, err
	}
	return parse(s.path, data, s.host), stampOf(st), nil
}

// broken is a file that cannot be used.
func broken(path string, err error) *File {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		err = e.Err
	}
	f := &File{Path: path}
	f.problem(1, 1, err.Error())
	return f
}

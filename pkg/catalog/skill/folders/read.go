package folders

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	// MaxMain is the size of the largest SKILL.md.
	MaxMain = 1 << 20

	// maxFiles and maxBytes limit a folder of a project, which is hashed whole.
	maxFiles = 2000
	maxBytes = 64 << 20

	// settled is the age from which a time stamp is trusted: a younger file may be
	// written again within the resolution of the clock.
	settled = 2 * time.Second
)

// Changed says that a folder differs from the one that a person trusted.
const Changed = "changed since it was trusted"

// Folder is a folder as it was hashed, of a skill or of scripts.
type Folder struct {
	// SHA256 is the hash, in hex, over the sorted lines "path NUL mode NUL
	// sha256(content)" of all files, the mode in octal as in stat(2). The content of a
	// symbolic link is its target.
	SHA256 string
	// Main is the content of SKILL.md that was hashed, nil if it is missing.
	Main []byte
	// Files are the paths of the other files, sorted.
	Files []string
}

// Read reads and hashes a folder with all below it. Symbolic links may lead to
// files within the folder only, and other special files are refused: the hash would
// not cover them. Sums may be nil.
func Read(dir string, sums *Sums) (Folder, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return Folder{}, WithoutPath(err)
	}
	defer root.Close()
	r := reader{root: root, sums: sums, left: maxBytes}
	err = fs.WalkDir(root.FS(), ".", r.visit)
	if err != nil {
		return Folder{}, err
	}
	slices.Sort(r.lines)
	slices.Sort(r.folder.Files)
	sum := sha256.Sum256([]byte(strings.Join(r.lines, "")))
	r.folder.SHA256 = hex.EncodeToString(sum[:])
	return r.folder, nil
}

type reader struct {
	root   *os.Root
	sums   *Sums
	left   int64 // bytes of maxBytes
	lines  []string
	folder Folder
}

func (r *reader) visit(path string, d fs.DirEntry, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", path, WithoutPath(err))
	}
	if d.IsDir() {
		return nil
	}
	if len(r.lines) == maxFiles {
		return fmt.Errorf("has more than %d files", maxFiles)
	}
	var mode uint32
	var sum string
	switch {
	case d.Type().IsRegular():
		mode, sum, err = r.file(path)
	case d.Type() == fs.ModeSymlink:
		mode, sum, err = r.link(path)
	default:
		err = errors.New("is not a regular file")
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, WithoutPath(err))
	}
	r.lines = append(r.lines, fmt.Sprintf("%s\x00%o\x00%s\n", path, mode, sum))
	if path != File {
		r.folder.Files = append(r.folder.Files, path)
	}
	return nil
}

// link returns the hash of a symbolic link, whose target must be in the folder.
func (r *reader) link(path string) (uint32, string, error) {
	target, err := r.root.Readlink(path)
	if err != nil {
		return 0, "", err
	}
	if _, err := r.root.Stat(path); err != nil {
		if _, kernel := errors.AsType[syscall.Errno](err); kernel {
			return 0, "", err
		}
		return 0, "", errors.New("is a link that leads out of the folder")
	}
	if path == File {
		return 0, "", errors.New("is a link: put the file there")
	}
	sum := sha256.Sum256([]byte(target))
	return syscall.S_IFLNK, hex.EncodeToString(sum[:]), nil
}

// file returns the hash of a regular file. It is read unless sums knows it.
func (r *reader) file(path string) (mode uint32, sum string, err error) {
	f, err := r.root.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return 0, "", err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return 0, "", err
	}
	if !info.Mode().IsRegular() {
		return 0, "", errors.New("is not a regular file")
	}
	if r.left -= info.Size(); r.left < 0 {
		return 0, "", fmt.Errorf("the folder has more than %d MiB", maxBytes>>20)
	}
	key := StampOf(info)
	if path != File { // else its content is wanted, too
		if sum, ok := r.sums.get(key); ok {
			return info.Sys().(*syscall.Stat_t).Mode, sum, nil
		}
	}
	h := sha256.New()
	w := io.Writer(h)
	var main strings.Builder
	if path == File {
		if info.Size() > MaxMain {
			return 0, "", fmt.Errorf("is larger than %d bytes", MaxMain)
		}
		w = io.MultiWriter(h, &main)
	}
	n, err := io.Copy(w, io.LimitReader(f, info.Size()+1))
	if err == nil && n != info.Size() {
		err = errors.New("changed while it was read")
	}
	if err != nil {
		return 0, "", err
	}
	if path == File {
		r.folder.Main = []byte(main.String())
	}
	sum = hex.EncodeToString(h.Sum(nil))
	r.sums.put(key, sum)
	return info.Sys().(*syscall.Stat_t).Mode, sum, nil
}

// WithoutPath removes the path from an error of package os.
func WithoutPath(err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err
	}
	return err
}

// Stamp identifies the content of a file: who writes it changes its ctime, which
// only the kernel sets.
type Stamp struct {
	dev, inode   uint64
	size         int64
	mtime, ctime syscall.Timespec
}

// StampOf returns the stamp of a file.
func StampOf(info fs.FileInfo) Stamp {
	s := info.Sys().(*syscall.Stat_t)
	return Stamp{uint64(s.Dev), s.Ino, s.Size, s.Mtim, s.Ctim}
}

// Young reports whether the content may be another one with the same stamp.
func (s Stamp) Young() bool { return time.Since(time.Unix(s.ctime.Unix())) < settled }

// Sums caches the hashes of files by inode, size, mtime and ctime. The zero value is
// ready for use; nil caches nothing.
type Sums struct {
	mu   sync.Mutex
	sums map[Stamp]string
}

// maxSums is the number of hashes after which the cache starts anew.
const maxSums = 10 * maxFiles

func (s *Sums) get(key Stamp) (string, bool) {
	if s == nil {
		return "", false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	sum, ok := s.sums[key]
	return sum, ok
}

// put stores a hash, unless the file is so young that a later change might not show
// in its stamp.
func (s *Sums) put(key Stamp, sum string) {
	if s == nil || key.Young() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sums == nil || len(s.sums) >= maxSums {
		s.sums = map[Stamp]string{}
	}
	s.sums[key] = sum
}

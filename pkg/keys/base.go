package keys

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// Base is where the user's files live: ZINO_HOME, else ZDX_HOME (the earlier
// program's variable), else zino below XDG_CONFIG_HOME, else below the home's
// .config. Without a home it lies below TempDir. The path is absolute and need
// not be there yet.
func Base(getenv func(string) string) (string, error) {
	for _, name := range []string{"ZINO_HOME", "ZDX_HOME"} {
		if dir := getenv(name); dir != "" {
			return absolute(dir), nil
		}
	}
	if dir := getenv("XDG_CONFIG_HOME"); dir != "" {
		return absolute(filepath.Join(dir, "zino")), nil
	}
	if home := getenv("HOME"); home != "" {
		return absolute(filepath.Join(home, ".config", "zino")), nil
	}
	dir, err := TempDir()
	return filepath.Join(dir, "home"), err
}

// TempDir is the user's place where there is neither a runtime directory nor a
// home. It lies in a directory that others can write to, so it must be a real
// directory of the caller's own with mode 0700. It need not be there yet.
func TempDir() (string, error) {
	dir := filepath.Join(os.TempDir(), "zino-"+strconv.Itoa(os.Getuid()))
	if err := CheckPrivate(dir); err != nil {
		return "", fmt.Errorf("%w: remove it, or set XDG_RUNTIME_DIR and HOME", err)
	}
	return dir, nil
}

// RuntimeDir is where the sockets of the user's own services are: zino below
// XDG_RUNTIME_DIR, else TempDir. It need not be there yet; if it is, it must be
// a real directory of the caller's own with mode 0700.
func RuntimeDir() (string, error) {
	parent := os.Getenv("XDG_RUNTIME_DIR")
	if parent == "" {
		return TempDir()
	}
	dir := filepath.Join(parent, "zino")
	if err := CheckPrivate(dir); err != nil {
		return "", fmt.Errorf("%w: remove it, or set XDG_RUNTIME_DIR to a directory of your own", err)
	}
	return dir, nil
}

// CheckPrivate is an error if there is something at path that is not a real
// directory of the caller's own, or one that others have a right to.
func CheckPrivate(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case info.IsDir() && ok && int(stat.Uid) == os.Getuid() && !exposed(info):
		return nil
	case !info.IsDir():
		err = errors.New("it is not a directory")
	case ok && int(stat.Uid) != os.Getuid():
		err = fmt.Errorf("it belongs to uid %d, and you are uid %d", stat.Uid, os.Getuid())
	default:
		err = fmt.Errorf("its mode is %04o", info.Mode().Perm())
	}
	return fmt.Errorf("%s is not a directory that only you can use (mode 0700), %w", path, err)
}

// exposed reports whether others than the owner have any right.
func exposed(info os.FileInfo) bool { return info.Mode().Perm()&0o077 != 0 }

func absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}

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
	info, err := os.Lstat(dir)
	if errors.Is(err, os.ErrNotExist) {
		return dir, nil
	}
	if err != nil {
		return "", err
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); !info.IsDir() || !ok || int(stat.Uid) != os.Getuid() || exposed(info) {
		return "", fmt.Errorf("%s is not a directory that only you can use (mode 0700): remove it, or set XDG_RUNTIME_DIR and HOME", dir)
	}
	return dir, nil
}

// exposed reports whether others than the owner have any right.
func exposed(info os.FileInfo) bool { return info.Mode().Perm()&0o077 != 0 }

func absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}

package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"zino/pkg/config"
)

// hostSocket is the daemon of the host's own installation. Tests put another
// in its place.
var hostSocket = "/run/zino/daemon.sock"

// place is a socket where a daemon may listen.
type place struct {
	socket string
	named  bool // the user named it: nothing is asked there but what was asked for
}

// places lists where to look for a daemon, in order. The host's daemon serves
// plain messages only: its tools cannot see the caller's files.
func (a *app) places(cfg *config.Config, plain bool) []place {
	if a.socket != "" {
		return []place{{a.socket, true}}
	}
	if cfg.IsSet("daemon.socket") {
		return []place{{cfg.Daemon.Socket, true}}
	}
	var list []place
	if dir, err := runtimeDir(); err == nil && !a.named() {
		list = append(list, place{filepath.Join(dir, "daemon.sock"), false})
	}
	if plain {
		list = append(list, place{hostSocket, false})
	}
	return list
}

// named reports whether the user named a configuration file.
func (a *app) named() bool { return a.config != "" || os.Getenv("ZINO_CONFIG") != "" }

// runtimeDir is where the user's own constellation has its sockets. Without
// XDG_RUNTIME_DIR it lies in a directory that others can write to, so it must
// be a real directory of the caller's own.
func runtimeDir() (string, error) {
	if dir := os.Getenv("XDG_RUNTIME_DIR"); dir != "" {
		return filepath.Join(dir, "zino"), nil
	}
	return ownTempDir()
}

// ownTempDir is the user's place where there is neither a runtime directory
// nor a home. It need not be there yet.
func ownTempDir() (string, error) {
	dir := filepath.Join(os.TempDir(), "zino-"+strconv.Itoa(os.Getuid()))
	info, err := os.Lstat(dir)
	if errors.Is(err, os.ErrNotExist) {
		return dir, nil
	}
	if err != nil {
		return "", err
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); !info.IsDir() || !ok || int(stat.Uid) != os.Getuid() || info.Mode().Perm()&0o077 != 0 {
		return "", fmt.Errorf("%s is not a directory that only you can use (mode 0700): remove it, or set XDG_RUNTIME_DIR and HOME", dir)
	}
	return dir, nil
}

// baseDir is where the user's files live. ZDX_HOME is the name of the earlier
// program's variable.
func baseDir() (string, error) {
	for _, name := range []string{"ZINO_HOME", "ZDX_HOME"} {
		if dir := os.Getenv(name); dir != "" {
			return absolute(dir), nil
		}
	}
	if dir := os.Getenv("XDG_CONFIG_HOME"); dir != "" {
		return absolute(filepath.Join(dir, "zino")), nil
	}
	if home := os.Getenv("HOME"); home != "" {
		return absolute(filepath.Join(home, ".config", "zino")), nil
	}
	dir, err := ownTempDir()
	return filepath.Join(dir, "home"), err
}

func absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}

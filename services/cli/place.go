package cli

import (
	"os"
	"path/filepath"

	"zino/pkg/config"
	keystore "zino/pkg/keys" // the type keys is the keyboard
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
	return keystore.TempDir()
}

// baseDir is where the user's files live.
func baseDir() (string, error) { return keystore.Base(os.Getenv) }

func absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}

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
	only   bool // on the command line: it is used or fails
}

// places lists where to look for a daemon, in order. The host's daemon serves
// plain messages only: its tools cannot see the caller's files.
func (a *app) places(cfg *config.Config, plain bool) []place {
	switch {
	case a.socket != "":
		return []place{{a.socket, true, true}}
	case a.host:
		return []place{{hostSocket, false, true}}
	case cfg.IsSet("daemon.socket"):
		return []place{{cfg.Daemon.Socket, true, false}}
	}
	var list []place
	if dir, err := runtimeDir(); err == nil && !a.named() {
		list = append(list, place{socket: filepath.Join(dir, "daemon.sock")})
	}
	if plain {
		list = append(list, place{socket: hostSocket})
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

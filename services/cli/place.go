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
func (a *app) places(cfg *config.Config, plain bool) (list []place, err error) {
	switch {
	case a.socket != "":
		return []place{{a.socket, true, true}}, nil
	case a.host:
		return []place{{hostSocket, false, true}}, nil
	case cfg.IsSet("daemon.socket"):
		return []place{{cfg.Daemon.Socket, true, false}}, nil
	case !a.named():
		dir, err := runtimeDir()
		if err != nil {
			return nil, err
		}
		list = append(list, place{socket: filepath.Join(dir, "daemon.sock")})
	}
	if plain {
		list = append(list, place{socket: hostSocket})
	}
	return list, nil
}

// named reports whether the user named a configuration file.
func (a *app) named() bool { return a.config != "" || os.Getenv("ZINO_CONFIG") != "" }

// runtimeDir is where the user's own constellation has its sockets.
func runtimeDir() (string, error) { return keystore.RuntimeDir() }

// baseDir is where the user's files live.
func baseDir() (string, error) { return keystore.Base(os.Getenv) }

func absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}

package cli

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"unicode/utf8"

	"zino/pkg/environ"
	"zino/proto"
)

// withEnvironment adds the environment of this process to a turn, for its tools:
// variables without secrets, directory and umask. The services that this run
// starts have all of it already, and those of other users don't get it.
func (d *daemon) withEnvironment(req proto.Chat) proto.Chat {
	if d.own != nil || !ownSocket(d.client.Path) {
		return req
	}
	req.Env = environ.Map(environ.ForCode(os.Environ(), d.passEnv))
	for name, value := range req.Env {
		if !utf8.ValidString(name) || !utf8.ValidString(value) { // JSON can't carry it unchanged
			delete(req.Env, name)
		}
	}
	if dir, err := os.Getwd(); err == nil {
		if dir, err = filepath.EvalSymlinks(dir); err == nil { // as rootDir has it
			req.Cwd = dir
		}
	}
	req.Umask = umask()
	return req
}

// ownSocket reports whether a socket belongs to a constellation of the user's
// own.
func ownSocket(path string) bool {
	info, err := os.Stat(path)
	if err != nil || path == hostSocket {
		return false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Geteuid()
}

// umask is the umask of this process, nil if the kernel doesn't tell (before
// Linux 4.7). To ask the system call for it would change it.
func umask() *int {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return nil
	}
	_, rest, _ := strings.Cut(string(status), "\nUmask:")
	line, _, _ := strings.Cut(rest, "\n")
	mask, err := strconv.ParseInt(strings.TrimSpace(line), 8, 32)
	if err != nil {
		return nil
	}
	return new(int(mask))
}

package exc

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"zino/pkg/environ"
	"zino/proto"
	"zino/services/exc/files"
	"zino/services/exc/run"
)

// client is the environment of the tools of a request.
type client struct {
	env   []string // without secrets
	root  string   // the working directory; empty: that of this process
	umask *int     // nil: that of this process
}

// clientOf is the environment in a request. Without one the tools run with that of
// this process.
func (s *Service) clientOf(env map[string]string, root, cwd string, umask *int) (client, error) {
	own := environ.ForCode(os.Environ(), s.passEnv)
	c := client{env: append(own, environ.InJob+"=1"), root: cmp.Or(root, cwd), umask: umask}
	if umask != nil && (*umask < 0 || *umask > 0o777) {
		return c, &proto.Error{Code: proto.CodeInvalid, Message: fmt.Sprintf("invalid umask %d: use 0 to 511 (0777)", *umask)}
	}
	if env == nil {
		return c, nil
	}
	list, err := environ.List(env)
	if err != nil {
		return c, &proto.Error{Code: proto.CodeInvalid, Message: "env: " + err.Error()}
	}
	own = slices.DeleteFunc(own, func(entry string) bool { // pass_env may name variables that clients don't send
		name, _, _ := strings.Cut(entry, "=")
		_, sent := env[name]
		return sent || !slices.Contains(s.passEnv, name)
	})
	c.env = append(append(own, environ.ForCode(list, s.passEnv)...), environ.InJob+"=1")
	return c, nil
}

// command is a command of the client.
func (s *Service) command(c client, argv ...string) *run.Cmd {
	return &run.Cmd{
		Args: argv, Env: c.env, Umask: c.umask, Grace: run.Grace, Limit: s.limit,
		Output: &run.Output{Max: s.outputMax},
	}
}

// locate finds a command as a shell of the client would.
func (c client) locate(command string) (string, error) {
	return locateIn(environ.Get(c.env, "PATH"), c.root, command)
}

// locate finds a command as a shell in the environment of this process would.
func locate(command string) (string, error) { return locateIn(os.Getenv("PATH"), "", command) }

// locateIn finds a command in the directories of path. Those that are relative
// start from dir: that they are in it is the user's decision.
func locateIn(path, dir, command string) (string, error) {
	if strings.Contains(command, "/") {
		return exec.LookPath(command)
	}
	for _, place := range filepath.SplitList(path) {
		if !filepath.IsAbs(place) {
			place = cmp.Or(dir, ".") + "/" + place
		}
		if found, err := exec.LookPath(place + "/" + command); err == nil {
			return found, nil
		}
	}
	return "", &exec.Error{Name: command, Err: exec.ErrNotFound}
}

// withUmask gives this goroutine's thread a umask of its own. The goroutine must
// end soon: its thread ends with it.
func withUmask(mask *int) error {
	if mask == nil {
		return nil
	}
	runtime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return os.NewSyscallError("unshare(CLONE_FS)", err)
	}
	unix.Umask(*mask)
	return nil
}

// directory is the directory to work in, that of this process if root is empty.
// A *files.Error says why it cannot be used.
func directory(root string) (string, error) {
	if root == "" {
		dir, err := os.Getwd()
		return dir, unusable("the directory that exc was started in", err)
	}
	if !filepath.IsAbs(root) {
		return "", unusable(root, fmt.Errorf("not an absolute path"))
	}
	err := unix.Access(root+"/.", unix.X_OK)
	return root, unusable(root, err)
}

// unusable makes err, if it is not nil, the result of a tool.
func unusable(root string, err error) error {
	if err == nil {
		return nil
	}
	return &files.Error{Code: files.PathError, Message: fmt.Sprintf("Cannot work in %s: %v", root, err)}
}

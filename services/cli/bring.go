package cli

import (
	"bufio"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"zino/pkg/config"
)

// brought is a constellation that this run brought along. A keeper process
// holds it; the pipe to the keeper is its lifeline: when this process ends,
// however it ends, the keeper takes the services and their directory down.
type brought struct {
	cfg      *config.Config
	dir      string
	passing  bool // its sessions lie in dir and go with it
	keeper   *exec.Cmd
	lifeline io.WriteCloser
}

// answers reports whether somebody listens on a socket.
func answers(socket string) bool {
	nc, err := net.DialTimeout("unix", socket, time.Second)
	if err != nil {
		return false
	}
	nc.Close()
	return true
}

// storage says what a run does with the user's data directories.
type storage int

const (
	storageRequired  storage = iota // the command is about what is stored: the services use the directories as they are
	storageOptional                 // a turn: it runs without storing where the directories cannot be written
	storageDiscarded                // sessions lie in the run's own directory and go with it
)

// bring starts a private constellation and returns when its sockets are open.
func (a *app) bring(ctx context.Context, given *config.Config, need storage) (*brought, error) {
	for _, warning := range given.Warnings {
		a.say("Warning: %s", warning)
	}
	dir, err := privateDir()
	if err != nil {
		return nil, err
	}
	cfg := *given // a run may bring several along, one after the other
	b := &brought{cfg: &cfg, dir: dir}
	for _, name := range config.Services {
		*cfg.SocketOf(name) = filepath.Join(dir, name+".sock")
	}
	if b.passing = need != storageRequired && !a.writable(&cfg, dir) || need == storageDiscarded; b.passing {
		cfg.Mem.SessionsDir = filepath.Join(dir, "sessions")
	}
	if err := b.start(ctx); err != nil {
		return nil, fmt.Errorf("cannot start the services: %w", err)
	}
	return b, nil
}

// privateDir names a directory for one run's sockets. The keeper makes it: what
// this process made would stay if it were killed before there is a keeper.
func privateDir() (string, error) {
	var errs error
	for _, parent := range []string{os.Getenv("XDG_RUNTIME_DIR"), os.TempDir(), "/tmp"} {
		if parent == "" || len(parent) > 60 { // a socket's path holds 107 bytes
			continue
		}
		const writeAndSearch = 2 | 1
		err := syscall.Access(parent+"/.", writeAndSearch)
		if err == nil {
			return filepath.Join(absolute(parent), "zino-"+strings.ToLower(rand.Text())[:12]), nil
		}
		errs = errors.Join(errs, fmt.Errorf("%s: %w", parent, err))
	}
	return "", fmt.Errorf("no place for the sockets of this run; set XDG_RUNTIME_DIR to a directory of your own: %w", errs)
}

// writable sees that there are places for what must last. Without them the run
// goes on, and nothing is kept.
func (a *app) writable(cfg *config.Config, dir string) bool {
	err := cmp.Or(probe(cfg.Mem.DataDir), probe(cfg.Mem.SessionsDir))
	if err != nil {
		a.say("Warning: nothing is kept of this run: %v", err)
		cfg.Mem.DataDir = filepath.Join(dir, "data")
		forgo(cfg, dir)
	}
	return err == nil
}

// forgo has what lies where it cannot be reached, and was not named by anybody,
// be looked for in dir, where there is none of it.
func forgo(cfg *config.Config, dir string) {
	for key, path := range map[string]*string{
		"tools.dir": &cfg.Tools.Dir, "skills.dir": &cfg.Skills.Dir, "sys.template": &cfg.Sys.Template, "sys.session_template": &cfg.Sys.SessionTemplate,
	} {
		if _, err := os.Stat(*path); err != nil && !errors.Is(err, os.ErrNotExist) && !cfg.IsSet(key) {
			*path = filepath.Join(dir, filepath.Base(*path))
		}
	}
}

// probe makes a directory, and sees that files can be made in it.
func probe(dir string) error {
	if dir == "" {
		return nil // it lies in another
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, ".probe-")
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		path.Path = dir // the person knows no .probe-
	}
	if err != nil {
		return err
	}
	f.Close()
	return os.Remove(f.Name())
}

// start runs the keeper. Its standard input is the lifeline: the keeper makes
// the directory and says so, a line tells it that the configuration lies there,
// and another line of its own says that the sockets are open.
func (b *brought) start(ctx context.Context) error {
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	b.keeper = exec.Command(exe, "up", "--private", b.dir)
	b.keeper.Env = keeperEnv(b.cfg)
	b.keeper.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is for us alone
	var said strings.Builder
	b.keeper.Stderr = &said
	if b.lifeline, err = b.keeper.StdinPipe(); err != nil {
		return err
	}
	out, err := b.keeper.StdoutPipe()
	if err != nil {
		return err
	}
	if err := b.keeper.Start(); err != nil {
		return err
	}
	hurry := context.AfterFunc(ctx, func() { b.lifeline.Close() }) // the keeper leaves then
	defer hurry()
	if err := b.agree(bufio.NewReader(out)); err != nil {
		b.lifeline.Close()
		why := b.keeper.Wait()
		text := strings.TrimSpace(said.String())
		if strings.HasPrefix(text, "Error [") { // the error of zino up
			_, text, _ = strings.Cut(text, "]: ")
		}
		if text != "" {
			why = errors.New(text)
		}
		return cmp.Or(why, err)
	}
	return nil
}

// agree hands the configuration over and waits for the sockets.
func (b *brought) agree(keeper *bufio.Reader) error {
	if _, err := keeper.ReadString('\n'); err != nil {
		return err
	}
	if err := b.cfg.Write(filepath.Join(b.dir, config.FileName)); err != nil {
		return err
	}
	if _, err := io.WriteString(b.lifeline, "\n"); err != nil {
		return err
	}
	_, err := keeper.ReadString('\n')
	return err
}

// keeperEnv is the caller's environment. A key that stands in the configuration
// travels in the variable that rtr alone will be given.
func keeperEnv(cfg *config.Config) []string {
	env := os.Environ()
	if cfg.API.Key != "" {
		env = append(env, "ZINO_API_KEY="+cfg.API.Key)
	}
	if os.Getenv("ZINO_LOG_LEVEL") == "" {
		env = append(env, "ZINO_LOG_LEVEL=WARN")
	}
	return env
}

// stop takes the constellation down and waits until nothing is left of it.
func (b *brought) stop() {
	b.lifeline.Close()
	b.keeper.Wait()     // its status says nothing that matters any more
	os.RemoveAll(b.dir) // only there if the keeper was killed
}

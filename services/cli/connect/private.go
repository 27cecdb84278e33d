package connect

import (
	"bufio"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"zino/pkg/config"
	"zino/pkg/rpc"
	"zino/pkg/service"
	"zino/pkg/supervise"
)

// private is a constellation that this run started for itself. A supervisor process
// (zino up --private) runs it and reads from a pipe: when this process ends in any
// way, the pipe closes, and the supervisor stops the services and
// removes their directory.
type private struct {
	cfg        *config.Config
	dir        string
	discards   bool // sessions are in dir and are removed with it
	supervisor *exec.Cmd
	lifeline   io.WriteCloser
}

// Storage is a run's requirement on the user's data directories.
type Storage int

const (
	StorageRequired  Storage = iota // fail if the data cannot be accessed
	StorageOptional                 // warn and store nothing if the directories cannot be written
	StorageDiscarded                // keep sessions in the run's directory, which is removed
)

// Spawn starts a constellation for this run and returns its daemon when the sockets
// are open.
func (t *Target) Spawn(ctx context.Context, given *config.Config, need Storage) (*Daemon, error) {
	for _, warning := range given.Warnings {
		t.Say("Warning: %s", warning)
	}
	dir, err := privateDir()
	if err != nil {
		return nil, err
	}
	cfg := *given // a run may start several, one after the other
	plainAudit(&cfg)
	p := &private{cfg: &cfg, dir: dir, discards: need == StorageDiscarded}
	for _, name := range supervised() {
		*cfg.SocketOf(name) = filepath.Join(dir, name+".sock")
	}
	if need != StorageRequired && !t.checkStorage(&cfg, dir) {
		p.discards = true
	}
	if p.discards {
		cfg.Mem.SessionsDir = filepath.Join(dir, "sessions")
	}
	if err := p.start(ctx); err != nil {
		return nil, fmt.Errorf("cannot start the services: %w", err)
	}
	return &Daemon{Client: &rpc.Client{Service: "daemon", Path: cfg.Daemon.Socket}, private: p}, nil
}

// privateDir returns a name for the directory of one run's sockets. The supervisor
// creates it, because it would remain if this process created it and were killed
// before the supervisor runs.
func privateDir() (string, error) {
	var errs error
	for _, parent := range []string{os.Getenv("XDG_RUNTIME_DIR"), os.TempDir(), "/tmp"} {
		if parent == "" || len(parent) > 60 { // a socket's path has at most 107 bytes
			continue
		}
		const writeAndSearch = 2 | 1
		err := syscall.Access(parent+"/.", writeAndSearch)
		if err == nil {
			return filepath.Join(Absolute(parent), "zino-"+strings.ToLower(rand.Text())[:12]), nil
		}
		errs = errors.Join(errs, fmt.Errorf("%s: %w", parent, err))
	}
	return "", fmt.Errorf("no place for the sockets of this run; set XDG_RUNTIME_DIR to a directory of your own: %w", errs)
}

// checkStorage reports whether the data directories can be written. If not, it warns
// and points cfg to dir.
func (t *Target) checkStorage(cfg *config.Config, dir string) bool {
	err := cmp.Or(Probe(cfg.Mem.DataDir), Probe(cfg.Mem.SessionsDir), Probe(cfg.Exc.DataDir), Probe(cfg.Daemon.DataDir))
	if err != nil {
		t.Say("Warning: nothing is kept of this run: %v", err)
		cfg.Mem.DataDir, cfg.Exc.DataDir, cfg.Daemon.DataDir = filepath.Join(dir, "data"), filepath.Join(dir, "data", "exc"), filepath.Join(dir, "data", "daemon")
		cfg.MCP.DataDir = filepath.Join(dir, "data", "mcp")
		skipUnreachable(cfg, dir)
	}
	return err == nil
}

// skipUnreachable replaces default paths that cannot be accessed by paths in dir that
// do not exist: missing files are ignored, other errors are not.
func skipUnreachable(cfg *config.Config, dir string) {
	for key, path := range map[string]*string{
		"tools.dir": &cfg.Tools.Dir, "skills.dir": &cfg.Skills.Dir, "sys.template": &cfg.Sys.Template, "sys.session_template": &cfg.Sys.SessionTemplate,
	} {
		if _, err := os.Stat(*path); err != nil && !errors.Is(err, os.ErrNotExist) && !cfg.IsSet(key) {
			*path = filepath.Join(dir, filepath.Base(*path))
		}
	}
}

// Probe creates a directory and checks that files can be created in it.
func Probe(dir string) error {
	if dir == "" {
		return nil // not configured: the data is in another directory
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, ".probe-")
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		path.Path = dir // in place of the temporary file's name
	}
	if err != nil {
		return err
	}
	f.Close()
	return os.Remove(f.Name())
}

// start runs the supervisor. The handshake on its pipes: it creates the directory and
// prints a line; start writes the configuration and sends a newline; it opens the
// sockets and prints a line.
func (p *private) start(ctx context.Context) error {
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	p.supervisor = exec.Command(exe, "up", "--private", p.dir)
	p.supervisor.Env = os.Environ()
	if p.cfg.API.Key != "" { // the configuration file on disk has no key; rtr alone gets the variable
		p.supervisor.Env = append(p.supervisor.Env, "ZINO_API_KEY="+p.cfg.API.Key)
	}
	if os.Getenv("ZINO_LOG_LEVEL") == "" {
		p.supervisor.Env = append(p.supervisor.Env, "ZINO_LOG_LEVEL=WARN")
	}
	p.supervisor.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // no SIGINT from the terminal
	var stderr strings.Builder
	p.supervisor.Stderr = &stderr
	if p.lifeline, err = p.supervisor.StdinPipe(); err != nil {
		return err
	}
	out, err := p.supervisor.StdoutPipe()
	if err != nil {
		return err
	}
	if err := p.supervisor.Start(); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { p.lifeline.Close() })
	defer stop()
	err = p.handshake(bufio.NewReader(out))
	if err == nil {
		return nil
	}
	p.lifeline.Close()
	why := p.supervisor.Wait()
	message := strings.TrimSpace(stderr.String())
	if strings.HasPrefix(message, "Error [") { // printed by zino up
		_, message, _ = strings.Cut(message, "]: ")
	}
	if message != "" {
		why = errors.New(message)
	}
	return cmp.Or(why, err)
}

func (p *private) handshake(supervisor *bufio.Reader) error {
	if _, err := supervisor.ReadString('\n'); err != nil {
		return err
	}
	if err := p.cfg.Write(filepath.Join(p.dir, config.FileName)); err != nil {
		return err
	}
	if _, err := io.WriteString(p.lifeline, "\n"); err != nil {
		return err
	}
	_, err := supervisor.ReadString('\n')
	return err
}

// stop stops the services and waits until they have ended.
func (p *private) stop() {
	p.lifeline.Close()
	p.supervisor.Wait()
	os.RemoveAll(p.dir) // left only if the supervisor was killed
}

// SupervisePrivate is the supervisor's side of Spawn. It returns when in ends.
func SupervisePrivate(ctx context.Context, dir string, in io.Reader, out io.Writer) error {
	// A write to a closed pipe must not kill this process: it has to stop the
	// services.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return fmt.Errorf("no place for the sockets of this run: %w", err)
	}
	defer os.RemoveAll(dir)
	lifeline := bufio.NewReader(in)
	fmt.Fprintln(out, "made")
	if _, err := lifeline.ReadString('\n'); err != nil {
		return nil // the other process ended
	}
	cfg, err := config.Load(filepath.Join(dir, config.FileName), "cli")
	if err != nil {
		return err
	}
	logs, closeLogs := privateLog()
	defer closeLogs()
	c, err := open(cfg, cfg.File, supervised())
	if err != nil {
		return err
	}
	for i := range c.programs {
		c.programs[i].Env = append(c.programs[i].Env, lifetimeVariable+"=private")
	}
	set := supervise.Start(c.programs, logs, service.Logger(logs, "up", cfg.Logging.Level))
	fmt.Fprintln(out, "ready")
	ended := make(chan struct{})
	go func() {
		io.Copy(io.Discard, lifeline) // until it ends or fails
		close(ended)
	}()
	select {
	case <-ended:
	case <-ctx.Done():
	}
	c.endJobs()
	set.Stop()
	return c.close()
}

// privateLog opens the log of private services, or discards it if that fails.
func privateLog() (io.Writer, func() error) {
	const limit = 1 << 20
	base, err := BaseDir()
	if err == nil {
		if f, err := supervise.OpenLog(filepath.Join(base, "log", "zino.log"), limit); err == nil {
			return f, f.Close
		}
	}
	return io.Discard, func() error { return nil }
}

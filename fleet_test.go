package zino_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"zino/pkg/config"
)

// fleet is a constellation of real processes that a test may kill: what dies is
// started again at once. The listening sockets are the fleet's own, so that no
// caller is refused meanwhile.
type fleet struct {
	t      *testing.T
	dir    string
	config string
	env    []string
	files  map[string]*os.File // the listening sockets

	mu      sync.Mutex
	running map[string]*exec.Cmd
	stopped bool
	keepers sync.WaitGroup
}

// startFleet starts all services with a configuration that begins with text.
func startFleet(t *testing.T, text string, env ...string) *fleet {
	t.Helper()
	dir, err := os.MkdirTemp("", "zf")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	f := &fleet{t: t, dir: dir, config: filepath.Join(dir, config.FileName), files: map[string]*os.File{}, running: map[string]*exec.Cmd{}}
	f.env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "ZINO_HOME=" + filepath.Join(dir, "home"), "TMPDIR=" + dir}, env...)
	text += fmt.Sprintf("\n[mem]\ndata_dir = %q\nsocket = %q\n", filepath.Join(dir, "data"), f.socket("mem"))
	for _, name := range config.Services {
		if name != "mem" {
			text += fmt.Sprintf("[%s]\nsocket = %q\n", name, f.socket(name))
		}
	}
	if err := os.WriteFile(f.config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range config.Services {
		f.listen(name)
	}
	for _, name := range config.Services {
		f.keepers.Go(func() { f.keep(name) })
	}
	t.Cleanup(f.stop)
	return f
}

func (f *fleet) socket(name string) string { return filepath.Join(f.dir, name+".sock") }

func (f *fleet) listen(name string) {
	f.t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: f.socket(name), Net: "unix"})
	if err != nil {
		f.t.Fatal(err)
	}
	if f.files[name], err = l.File(); err != nil {
		f.t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	l.Close()
	f.t.Cleanup(func() { f.files[name].Close() })
}

// keep runs a service again and again.
func (f *fleet) keep(name string) {
	for {
		cmd := exec.Command(filepath.Join(bin, "zino-"+name), "--config", f.config)
		cmd.Env = append(f.env[:len(f.env):len(f.env)], "LISTEN_FDS=1", "LISTEN_FDNAMES="+name)
		cmd.ExtraFiles = []*os.File{f.files[name]}
		if !f.start(name, cmd) {
			return
		}
		cmd.Wait() // killed, as likely as not
	}
}

func (f *fleet) start(name string, cmd *exec.Cmd) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stopped {
		return false
	}
	if err := cmd.Start(); err != nil {
		f.t.Errorf("zino-%s does not start: %v", name, err)
		return false
	}
	f.running[name] = cmd
	return true
}

// kill kills a service.
func (f *fleet) kill(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if cmd := f.running[name]; cmd != nil {
		cmd.Process.Kill() // one that is dead already is about to be started again
	}
}

// stop ends all services.
func (f *fleet) stop() {
	f.mu.Lock()
	f.stopped = true
	for _, cmd := range f.running {
		cmd.Process.Signal(syscall.SIGTERM) // one that is dead already does no harm
	}
	f.mu.Unlock()
	f.keepers.Wait()
}

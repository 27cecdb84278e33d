package service

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"zino/pkg/rpc"
)

// parent holds sockets that it hands over, as systemd or a supervisor does.
type parent struct {
	dir   string
	files []*os.File
	paths []string
}

func newParent(t *testing.T, names ...string) *parent {
	t.Helper()
	p := &parent{dir: shortDir(t)}
	for _, name := range names {
		path := filepath.Join(p.dir, name)
		l, err := net.Listen("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		f, err := l.(*net.UnixListener).File()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		p.files, p.paths = append(p.files, f), append(p.paths, path)
	}
	return p
}

// command is a service that the sockets are handed over to.
func (p *parent) command(t *testing.T, env ...string) *child {
	c := command(t, p.dir, socketOnly)
	c.ExtraFiles = p.files
	c.Env = append(c.Env, env...)
	return c
}

func TestHandedOver(t *testing.T) {
	for _, test := range []struct {
		name string
		env  []string
		want int // index of the socket that is served
	}{
		{"by short name", []string{"LISTEN_FDS=2", "LISTEN_FDNAMES=rtr:mem"}, 1},
		{"by the socket unit's name", []string{"LISTEN_FDS=2", "LISTEN_FDNAMES=zino-mem.socket:zino-rtr.socket"}, 0},
		{"by the file's name", []string{"LISTEN_FDS=2", "LISTEN_FDNAMES=x:mem.sock"}, 1},
		{"the only one, no names", []string{"LISTEN_FDS=1"}, 0},
		{"the only one, called unknown", []string{"LISTEN_FDS=1", "LISTEN_FDNAMES=unknown"}, 0},
		{"the first of two that have its name", []string{"LISTEN_FDS=2", "LISTEN_FDNAMES=mem:mem"}, 0},
		{"the second of them", []string{"LISTEN_FDS=2", "LISTEN_FDNAMES=mem:mem.sock"}, 1},
		{"beside one that it takes itself", []string{"LISTEN_FDS=2", "LISTEN_FDNAMES=http:mem"}, 1},
		{"one that it takes itself", []string{"LISTEN_FDS=2", "LISTEN_FDNAMES=http:mem"}, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			p := newParent(t, "a", "b")
			c := p.command(t, test.env...).start().listening()
			if err := call(p.paths[test.want], holdRequest{}); err != nil {
				t.Fatal(err)
			}
			c.signal(syscall.SIGTERM)
			if status := c.status(); status != 0 {
				t.Errorf("status %d: %s", status, c.said)
			}
			for _, path := range p.paths {
				if _, err := os.Lstat(path); err != nil {
					t.Errorf("a socket that was handed over is gone: %v", err)
				}
			}
			if _, err := os.Lstat(c.socket); !os.IsNotExist(err) {
				t.Errorf("it opened its own socket as well: %v", err)
			}
		})
	}
}

func TestHandedOverRefused(t *testing.T) {
	for _, test := range []struct {
		name string
		env  []string
		want string
	}{
		{"other names", []string{"LISTEN_FDS=2", "LISTEN_FDNAMES=rtr:exc"}, `zino-mem: no inherited socket is named "mem", only "rtr", "exc": see FileDescriptorName= of the socket unit`},
		{"the only one has another name", []string{"LISTEN_FDS=1", "LISTEN_FDNAMES=rtr"}, `zino-mem: no inherited socket is named "mem", only "rtr"`},
		{"two without names", []string{"LISTEN_FDS=2"}, `zino-mem: no inherited socket is named "mem", only "unknown", "unknown"`},
		{"no number", []string{"LISTEN_FDS=many"}, `zino-mem: invalid LISTEN_FDS="many": want the number of inherited sockets`},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			c := newParent(t, "a", "b").command(t, test.env...).start()
			if status := c.status(); status != 1 {
				t.Errorf("status %d, want 1", status)
			}
			oneLine(t, c.said.String())
			if !strings.HasPrefix(c.said.String(), test.want) {
				t.Errorf("said %q\nwant %q", c.said, test.want)
			}
		})
	}
}

// TestHandedOverNotASocket is given a file.
func TestHandedOverNotASocket(t *testing.T) {
	p := newParent(t)
	f, err := os.Create(filepath.Join(p.dir, "plain"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	p.files = []*os.File{f}
	c := p.command(t, "LISTEN_FDS=1", "LISTEN_FDNAMES=mem").start()
	if status := c.status(); status != 1 {
		t.Errorf("status %d, want 1", status)
	}
	oneLine(t, c.said.String())
}

// TestHandedOverTCP is given a socket whose callers have no uid.
func TestHandedOverTCP(t *testing.T) {
	p := newParent(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	f, err := l.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	p.files = []*os.File{f}
	c := p.command(t, "LISTEN_FDS=1", "LISTEN_FDNAMES=mem").start()
	if status := c.status(); status != 1 {
		t.Errorf("status %d, want 1", status)
	}
	if want := "zino-mem: the socket inherited for mem is a tcp socket, not a Unix one\n"; c.said.String() != want {
		t.Errorf("said %q, want %q", c.said, want)
	}
}

// TestHandedOverPid is handed a socket as systemd does it: with the pid.
func TestHandedOverPid(t *testing.T) {
	p := newParent(t, "a")
	c := p.command(t, "LISTEN_FDS=1", "LISTEN_FDNAMES=mem")
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Fatal(err)
	}
	c.Path, c.Args = sh, append([]string{"sh", "-c", `LISTEN_PID=$$ exec "$@"`, "sh"}, c.Args...)
	c.start().listening()
	if err := call(p.paths[0], holdRequest{}); err != nil {
		t.Error(err)
	}
}

// TestInheritedNone is nil where nothing has that name, and tells what is
// wrong with what was handed over.
func TestInheritedNone(t *testing.T) {
	if l, err := Inherited("http"); l != nil || err != nil {
		t.Errorf("%v, %v", l, err)
	}
	p := newParent(t)
	f, err := os.Create(filepath.Join(p.dir, "plain"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	p.files = []*os.File{f}
	c := p.command(t, "LISTEN_FDS=1", "LISTEN_FDNAMES=http").start()
	if status := c.status(); status != 1 {
		t.Errorf("status %d, want 1", status)
	}
	oneLine(t, c.said.String())
	if !strings.HasPrefix(c.said.String(), "zino-mem: the descriptor inherited for http is not a listening socket: ") {
		t.Errorf("said %q", c.said)
	}
}

// TestHandedOverToAnother leaves alone what was meant for another process.
func TestHandedOverToAnother(t *testing.T) {
	p := newParent(t, "a")
	c := p.command(t, "LISTEN_PID=1", "LISTEN_FDS=1", "LISTEN_FDNAMES=mem").start().listening()
	if err := call(c.socket, holdRequest{}); err != nil {
		t.Errorf("it does not listen on its own socket: %v", err)
	}
}

// TestHandedOverEnvironment holds that no child of the service takes the
// sockets for its own.
func TestHandedOverEnvironment(t *testing.T) {
	p := newParent(t, "mem")
	p.command(t, "LISTEN_FDS=1", "LISTEN_FDNAMES=mem").start().listening()
	client := &rpc.Client{Service: "mem", Path: p.paths[0]}
	defer client.Close()
	reply, err := rpc.Call(context.Background(), client, hold, holdRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range reply.Environment {
		if strings.HasPrefix(v, "LISTEN_") {
			t.Errorf("still set: %s", v)
		}
	}
	if len(reply.Environment) == 0 {
		t.Error("the environment was not told")
	}
}

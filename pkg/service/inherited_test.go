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
	"zino/pkg/zinotest"
)

// parent opens sockets for its child processes, like systemd.
type parent struct {
	dir   string
	files []*os.File
	paths []string
}

func newParent(t *testing.T, names ...string) *parent {
	t.Helper()
	p := &parent{dir: zinotest.Dir(t)}
	for _, name := range names {
		path := filepath.Join(p.dir, name)
		l, err := net.Listen("unix", path)
		zinotest.Must(t, err)
		t.Cleanup(func() { l.Close() })
		f, err := l.(*net.UnixListener).File()
		zinotest.Must(t, err)
		t.Cleanup(func() { f.Close() })
		p.files, p.paths = append(p.files, f), append(p.paths, path)
	}
	return p
}

// command prepares a service that inherits the sockets.
func (p *parent) command(t *testing.T, env ...string) *child {
	c := command(t, p.dir, socketOnly)
	c.ExtraFiles = p.files
	c.Env = append(c.Env, env...)
	return c
}

func TestInheritedSockets(t *testing.T) {
	for _, test := range []struct {
		name string
		env  []string
		want int // index of the socket that is served
	}{
		{"by short name", []string{"LISTEN_FDS=2", "LISTEN_FDNAMES=rtr:mem"}, 1},
		{"by the socket unit's name", []string{"LISTEN_FDS=2", "LISTEN_FDNAMES=zino-mem.socket:zino-rtr.socket"}, 0},
		{"by the file's name", []string{"LISTEN_FDS=2", "LISTEN_FDNAMES=x:mem.sock"}, 1},
		{"the only one, no names", []string{"LISTEN_FDS=1"}, 0},
		{"the only one, named unknown", []string{"LISTEN_FDS=1", "LISTEN_FDNAMES=unknown"}, 0},
		{"the first of two with its name", []string{"LISTEN_FDS=2", "LISTEN_FDNAMES=mem:mem"}, 0},
		{"the second by the file's name", []string{"LISTEN_FDS=2", "LISTEN_FDNAMES=mem:mem.sock"}, 1},
		{"beside a second listener", []string{"LISTEN_FDS=2", "LISTEN_FDNAMES=http:mem"}, 1},
		{"a second listener", []string{"LISTEN_FDS=2", "LISTEN_FDNAMES=http:mem"}, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			p := newParent(t, "a", "b")
			c := p.command(t, test.env...).start().listening()
			zinotest.Must(t, call(p.paths[test.want], holdRequest{}))
			c.Signal(syscall.SIGTERM)
			c.exits(0)
			for _, path := range p.paths {
				if _, err := os.Lstat(path); err != nil {
					t.Errorf("an inherited socket is gone: %v", err)
				}
			}
			if _, err := os.Lstat(c.socket); !os.IsNotExist(err) {
				t.Errorf("the configured socket was opened, too: %v", err)
			}
		})
	}
}

func TestInheritedSocketsOfOtherNames(t *testing.T) {
	for _, test := range []struct {
		name string
		env  []string
		want string
	}{
		{"other names", []string{"LISTEN_FDS=2", "LISTEN_FDNAMES=rtr:exc"}, `zino-mem: no inherited socket is named "mem", only "rtr", "exc": see FileDescriptorName= of the socket unit`},
		{"the only one has another name", []string{"LISTEN_FDS=1", "LISTEN_FDNAMES=rtr"}, `zino-mem: no inherited socket is named "mem", only "rtr"`},
		{"two without names", []string{"LISTEN_FDS=2"}, `zino-mem: no inherited socket is named "mem", only "unknown", "unknown"`},
		{"not a number", []string{"LISTEN_FDS=many"}, `zino-mem: invalid LISTEN_FDS="many": want the number of inherited sockets`},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			c := newParent(t, "a", "b").command(t, test.env...).start()
			c.exits(1)
			oneLine(t, c.output())
			if !strings.HasPrefix(c.output(), test.want) {
				t.Errorf("wrote %q\nwant %q", c.output(), test.want)
			}
		})
	}
}

// TestInheritedFileIsRefused checks a file as the service's socket and as a second
// listener.
func TestInheritedFileIsRefused(t *testing.T) {
	for _, name := range []string{"mem", "http"} {
		p := newParent(t)
		f, err := os.Create(filepath.Join(p.dir, "plain"))
		zinotest.Must(t, err)
		defer f.Close()
		p.files = []*os.File{f}
		c := p.command(t, "LISTEN_FDS=1", "LISTEN_FDNAMES="+name).start()
		c.exits(1)
		oneLine(t, c.output())
		if want := "zino-mem: the descriptor inherited for " + name + " is not a listening socket: "; !strings.HasPrefix(c.output(), want) {
			t.Errorf("wrote %q, want %q", c.output(), want)
		}
	}
}

// TestInheritedTCPSocketIsRefused: callers over TCP have no uid.
func TestInheritedTCPSocketIsRefused(t *testing.T) {
	p := newParent(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	zinotest.Must(t, err)
	defer l.Close()
	f, err := l.(*net.TCPListener).File()
	zinotest.Must(t, err)
	defer f.Close()
	p.files = []*os.File{f}
	c := p.command(t, "LISTEN_FDS=1", "LISTEN_FDNAMES=mem").start()
	c.exits(1)
	if want := "zino-mem: the socket inherited for mem is a tcp socket, not a Unix one\n"; c.output() != want {
		t.Errorf("wrote %q, want %q", c.output(), want)
	}
}

// TestInheritedWithPID sets LISTEN_PID, like systemd.
func TestInheritedWithPID(t *testing.T) {
	p := newParent(t, "a")
	c := p.command(t, "LISTEN_FDS=1", "LISTEN_FDNAMES=mem")
	sh, err := exec.LookPath("sh")
	zinotest.Must(t, err)
	c.Path, c.Args = sh, append([]string{"sh", "-c", `LISTEN_PID=$$ exec "$@"`, "sh"}, c.Args...)
	c.start().listening()
	zinotest.Must(t, call(p.paths[0], holdRequest{}))
}

func TestInheritedWithoutSockets(t *testing.T) {
	if l, err := Inherited("http"); l != nil || err != nil {
		t.Errorf("%v, %v", l, err)
	}
}

func TestSocketsOfAnotherPIDAreIgnored(t *testing.T) {
	p := newParent(t, "a")
	c := p.command(t, "LISTEN_PID=1", "LISTEN_FDS=1", "LISTEN_FDNAMES=mem").start().listening()
	if err := call(c.socket, holdRequest{}); err != nil {
		t.Errorf("no answer on the configured socket: %v", err)
	}
}

// TestInheritedVariablesAreUnset: a child of the service must not use the sockets.
func TestInheritedVariablesAreUnset(t *testing.T) {
	p := newParent(t, "mem")
	p.command(t, "LISTEN_FDS=1", "LISTEN_FDNAMES=mem").start().listening()
	client := &rpc.Client{Service: "mem", Path: p.paths[0]}
	defer client.Close()
	reply, err := rpc.Call(context.Background(), client, hold, holdRequest{})
	zinotest.Must(t, err)
	for _, v := range reply.Environment {
		if strings.HasPrefix(v, "LISTEN_") {
			t.Errorf("still set: %s", v)
		}
	}
	if len(reply.Environment) == 0 {
		t.Error("the environment is empty")
	}
}

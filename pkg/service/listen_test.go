package service

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"zino/pkg/zinotest"
)

func TestListen(t *testing.T) {
	path := filepath.Join(zinotest.Dir(t), "a", "b", "mem.sock")
	l, err := Listen(path)
	zinotest.Must(t, err)
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o660 || info.Mode()&os.ModeSocket == 0 {
		t.Errorf("mode %v, want a socket with 0660", info.Mode())
	}
	zinotest.Must(t, l.Close())
	if _, err := os.Lstat(path); !os.IsNotExist(err) {
		t.Errorf("the socket's file is still there: %v", err)
	}
}

func TestListenReplacesStaleSocket(t *testing.T) {
	path := filepath.Join(zinotest.Dir(t), "mem.sock")
	dead, err := net.Listen("unix", path)
	zinotest.Must(t, err)
	dead.(*net.UnixListener).SetUnlinkOnClose(false)
	zinotest.Must(t, dead.Close())
	l, err := Listen(path)
	if err != nil {
		t.Fatalf("a stale socket was not replaced: %v", err)
	}
	defer l.Close()
	nc, err := net.Dial("unix", path)
	zinotest.Must(t, err)
	nc.Close()
}

func TestListenRefuses(t *testing.T) {
	dir := zinotest.Dir(t)
	file := filepath.Join(dir, "file")
	zinotest.Write(t, file, "kept")
	link := filepath.Join(dir, "link")
	zinotest.Must(t, os.Symlink(file, link))
	live := filepath.Join(dir, "live")
	l, err := Listen(live)
	zinotest.Must(t, err)
	defer l.Close()
	for _, test := range []struct{ name, path, want string }{
		{"a file", file, file + " exists and is not a socket: remove it or name another path"},
		{"a link", link, link + " exists and is not a socket: remove it or name another path"},
		{"a directory", dir, dir + " exists and is not a socket: remove it or name another path"},
		{"a live socket", live, "another process is listening on " + live + ": stop it first, or name another socket"},
		{"a long path", dir + "/" + strings.Repeat("x", 107-len(dir)), "socket path longer than the 107 bytes that the system allows: " + dir},
		{"below a file", filepath.Join(file, "x"), "create the socket's directory: "},
	} {
		t.Run(test.name, func(t *testing.T) {
			l, err := Listen(test.path)
			if err == nil {
				l.Close()
				t.Fatal("no error")
			}
			if !strings.HasPrefix(err.Error(), test.want) {
				t.Errorf("got  %v\nwant %s", err, test.want)
			}
		})
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != "kept" {
		t.Errorf("the existing file was changed: %q, %v", text, err)
	}
}

func TestListenOnLongestPath(t *testing.T) {
	dir := zinotest.Dir(t)
	l, err := Listen(dir + "/" + strings.Repeat("x", 106-len(dir)))
	zinotest.Must(t, err)
	l.Close()
}

func TestOneListenerReplacesStaleSocket(t *testing.T) {
	path := filepath.Join(zinotest.Dir(t), "mem.sock")
	dead, err := net.Listen("unix", path)
	zinotest.Must(t, err)
	dead.(*net.UnixListener).SetUnlinkOnClose(false)
	dead.Close()
	const rivals = 16
	got := make(chan net.Listener, rivals)
	for range rivals {
		go func() {
			l, err := Listen(path)
			if err != nil && !strings.Contains(err.Error(), "another process is listening") {
				t.Errorf("Listen: %v", err)
			}
			got <- l
		}()
	}
	winners := 0
	for range rivals {
		if l := <-got; l != nil {
			defer l.Close()
			winners++
		}
	}
	if winners != 1 {
		t.Errorf("%d listeners on one socket", winners)
	}
}

func TestSecondInstance(t *testing.T) {
	first := serve(t)
	second := command(t, first.Dir, socketOnly).start()
	if status := second.Exit(); status != 1 {
		t.Errorf("status %d, want 1", status)
	}
	oneLine(t, second.output())
	if want := "zino-mem: another process is listening on " + first.socket; !strings.HasPrefix(second.output(), want) {
		t.Errorf("wrote %q, want %s …", second.output(), want)
	}
	if err := call(first.socket, holdRequest{}); err != nil {
		t.Errorf("the first instance does not answer: %v", err)
	}
}

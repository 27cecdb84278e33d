package main

import (
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"zino/pkg/rpc"
	"zino/proto"
)

// TestHandedOver is given both of its sockets.
func TestHandedOver(t *testing.T) {
	p, pages := handover(t)
	if _, err := rpc.Call(t.Context(), p.client, proto.Ping, proto.PingRequest{}); err != nil {
		t.Errorf("on its socket: %v: %s", err, p.said.String())
	}
	client := http.Client{Timeout: 20 * time.Second}
	res, err := client.Get("http://" + pages.String() + "/zino.js")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		t.Errorf("over HTTP: %s", res.Status)
	}
	if _, err := os.Stat(filepath.Join(p.dir, "none")); !os.IsNotExist(err) {
		t.Errorf("it opened a socket of its own as well: %v", err)
	}
}

// TestIdleExit: nobody uses it, and it ends. Both addresses still take
// connections, for the next process.
func TestIdleExit(t *testing.T) {
	p, pages := handover(t, "--idle-exit", "50ms")
	if status := p.status(); status != 0 {
		t.Errorf("status %d: %s", status, p.said.String())
	}
	for network, address := range map[string]string{"tcp": pages.String(), "unix": p.client.Path} {
		c, err := net.Dial(network, address)
		if err != nil {
			t.Errorf("afterwards: %v", err)
			continue
		}
		c.Close()
	}
}

// handover starts it with both of its sockets handed over.
func handover(t *testing.T, args ...string) (p *program, pages net.Addr) {
	t.Helper()
	dir, err := os.MkdirTemp("", "z")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	text := "[repl]\nsocket = \"none/s\"\nhttp = \"127.0.0.1:1\"\ndir = \".\"\n"
	if err := os.WriteFile(filepath.Join(dir, "ZINO.toml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	own, ownFile := handed(t, "unix", filepath.Join(dir, "own"))
	pages, pagesFile := handed(t, "tcp", "127.0.0.1:0")
	p = &program{t: t, dir: dir, done: make(chan struct{}), client: &rpc.Client{Service: "repl", Path: own.String()}}
	p.cmd = exec.Command(os.Args[0], args...)
	p.cmd.Dir, p.cmd.Stderr, p.cmd.ExtraFiles = dir, &p.said, []*os.File{pagesFile, ownFile}
	p.cmd.Env = []string{"ZINO_REPL_TEST=1", "HOME=" + dir, "ZINO_HOME=" + dir, "LISTEN_FDS=2", "LISTEN_FDNAMES=http:repl"}
	p.run()
	return p, pages
}

// handed is a listening socket that can be handed over.
func handed(t *testing.T, network, address string) (net.Addr, *os.File) {
	t.Helper()
	l, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	f, err := l.(interface{ File() (*os.File, error) }).File()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return l.Addr(), f
}

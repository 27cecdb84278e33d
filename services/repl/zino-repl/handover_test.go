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
	p := &program{t: t, dir: dir, done: make(chan struct{}), client: &rpc.Client{Service: "repl", Path: own.String()}}
	p.cmd = exec.Command(os.Args[0])
	p.cmd.Dir, p.cmd.Stderr, p.cmd.ExtraFiles = dir, &p.said, []*os.File{pagesFile, ownFile}
	p.cmd.Env = []string{"ZINO_REPL_TEST=1", "HOME=" + dir, "ZINO_HOME=" + dir, "LISTEN_FDS=2", "LISTEN_FDNAMES=http:repl"}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.done)
		_ = p.cmd.Wait() // its status says nothing here
	}()
	t.Cleanup(func() {
		p.client.Close()
		p.cmd.Process.Kill()
		<-p.done
	})
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
	if _, err := os.Stat(filepath.Join(dir, "none")); !os.IsNotExist(err) {
		t.Errorf("it opened a socket of its own as well: %v", err)
	}
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

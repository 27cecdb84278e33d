// Command minimal is a minimal service in Go: it inherits its socket as descriptor 3
// and answers every frame with a pong. It is the floor of the services' start time and
// memory.
package main

import (
	"fmt"
	"net"
	"os"
)

const pong = "\x00\x00\x00\x0f" + `{"type":"pong"}`

func main() {
	fmt.Fprintln(os.Stderr, "minimal:", serve(os.NewFile(3, "socket")))
	os.Exit(1)
}

// serve answers until something fails.
func serve(socket *os.File) error {
	l, err := net.FileListener(socket)
	if err != nil {
		return err
	}
	for {
		nc, err := l.Accept()
		if err != nil {
			return err
		}
		go answer(nc)
	}
}

// answer treats each read as a frame: the benchmark sends one at a time.
func answer(nc net.Conn) {
	defer nc.Close()
	buf := make([]byte, 4096)
	for {
		if _, err := nc.Read(buf); err != nil {
			return
		}
		if _, err := nc.Write([]byte(pong)); err != nil {
			return
		}
	}
}

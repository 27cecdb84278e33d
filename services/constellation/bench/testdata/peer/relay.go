package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
)

// relay copies bytes between its socket and $TARGET: the floor of a hop.
func relay() error {
	l, err := listener()
	if err != nil {
		return err
	}
	for {
		nc, err := l.Accept()
		if err != nil {
			return err
		}
		next, err := net.Dial("unix", os.Getenv("TARGET"))
		if err != nil {
			return errors.Join(err, nc.Close())
		}
		go carry(next, nc)
		go carry(nc, next)
	}
}

// carry copies in user space: io.Copy would use splice(2).
func carry(to, from net.Conn) {
	defer to.Close()
	buf := make([]byte, 256<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				return // the other direction ends by itself
			}
		}
		if err != nil {
			if err != io.EOF && !errors.Is(err, net.ErrClosed) {
				fmt.Fprintln(os.Stderr, "peer relay:", err)
			}
			return
		}
	}
}

// Package peer is the common part of the programs that are compared: each is a server
// and a client of one protocol. As a server it accepts on descriptor 3. As a client it
// reads tasks from standard input, and prints what each cost.
package peer

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Chunks is the number of chunks of a stream.
const Chunks = 100

// Chunk is the text of a chunk: 30 bytes.
const Chunk = "The bread is in the oven now. "

// How the chunks of a stream are sent.
const (
	Flushed = "flushed" // each as soon as it is known, like the tokens of a model
	AtOnce  = "at once" // as the protocol likes, when all are known
)

// Service is what a server with one method says in answer to a ping.
type Service struct {
	Type    string `json:"type"`
	Service string `json:"service"`
	Version string `json:"version"`
	Proto   int    `json:"proto"`
	Uptime  int    `json:"uptime_s"`
}

// Pong is the answer to a ping.
var Pong = Service{"pong", "exc", "0123456", 1, 0}

// Conn is a client's connection.
type Conn interface {
	Ping() error
	// Stream reads a stream and returns the number of its bytes of text.
	Stream(how string) (int, error)
	Close() error
}

// Task is what a client does N times.
type Task struct {
	Do string // "ping", "dial", Flushed or AtOnce
	N  int
}

// Cost is what a task cost the client, in nanoseconds.
type Cost struct{ CPU, Wall float64 }

// Main runs the server or the client.
func Main(serve func(net.Listener) error, dial func(path string) (Conn, error)) {
	if err := run(serve, dial); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(serve func(net.Listener) error, dial func(path string) (Conn, error)) error {
	if len(os.Args) == 1 {
		l, err := net.FileListener(os.NewFile(3, "socket"))
		if err != nil {
			return err
		}
		return serve(l)
	}
	path := os.Args[1]
	kept, err := dial(path)
	if err != nil {
		return err
	}
	tasks, costs := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	for {
		var t Task
		if err := tasks.Decode(&t); errors.Is(err, io.EOF) {
			return kept.Close()
		} else if err != nil {
			return err
		}
		cpu, began := CPU(os.Getpid()), time.Now()
		for range t.N {
			if err := t.do(kept, path, dial); err != nil {
				return fmt.Errorf("%s: %w", t.Do, err)
			}
		}
		if err := costs.Encode(Cost{CPU(os.Getpid()) - cpu, float64(time.Since(began))}); err != nil {
			return err
		}
	}
}

func (t Task) do(kept Conn, path string, dial func(path string) (Conn, error)) error {
	switch t.Do {
	case "ping":
		return kept.Ping()
	case "dial":
		c, err := dial(path)
		if err != nil {
			return err
		}
		return errors.Join(c.Ping(), c.Close())
	}
	n, err := kept.Stream(t.Do)
	if err == nil && n != Chunks*len(Chunk) {
		err = fmt.Errorf("%d bytes of text", n)
	}
	return err
}

// CPU returns the CPU time of all threads of a process in nanoseconds, from the clock
// that getcpuclockid(3) returns, and 0 for a process that has ended.
func CPU(pid int) float64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|2), &ts); err != nil {
		return 0
	}
	return float64(ts.Nano())
}

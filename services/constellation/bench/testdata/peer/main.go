// Command peer contains the clients and servers of the benchmarks: clients that
// measure, a raw echo as the floor of pings, and a source of chunks in the router's
// place. It is a separate process so that it can be pinned to the core of what it
// measures.
//
// The clients read their task as JSON from standard input and print the result as
// JSON. The servers inherit their socket as descriptor 3.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
)

func main() {
	commands := map[string]func() error{"pair": pair, "stream": stream, "echo": echo, "source": source, "relay": relay}
	name := strings.Join(os.Args[1:], " ")
	command, ok := commands[name]
	if !ok {
		fmt.Fprintf(os.Stderr, "peer: no command %q\n", name)
		os.Exit(2)
	}
	if err := command(); err != nil {
		fmt.Fprintf(os.Stderr, "peer %s: %v\n", name, err)
		os.Exit(1)
	}
}

// task reads the task from standard input.
func task(v any) error {
	text, err := io.ReadAll(os.Stdin)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, v)
}

// found prints the result.
func found(v any) error { return json.NewEncoder(os.Stdout).Encode(v) }

// listener returns the inherited socket.
func listener() (net.Listener, error) { return net.FileListener(os.NewFile(3, "socket")) }

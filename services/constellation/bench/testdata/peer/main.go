// Command peer is the other end in the benchmark table: clients that measure,
// a raw echo that is the floor under every ping, and a source of chunks in the
// router's place. It runs as a process of its own so that it can be pinned to
// a core together with what it measures.
//
// The clients read their task as JSON from standard input and print what they
// found as JSON. The servers take their socket as descriptor 3.
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

// listener is the socket handed over.
func listener() (net.Listener, error) { return net.FileListener(os.NewFile(3, "socket")) }

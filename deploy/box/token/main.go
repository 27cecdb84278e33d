// Command token prints a token of the host's daemon, for calls that a check of the box
// makes itself. Root only.
package main

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"time"

	"zino/pkg/gate"
	"zino/proto"
)

func main() {
	dir := flag.String("dir", "/var/lib/zino-daemon", "directory of the private key, which is made if missing")
	session := flag.String("session", "", "session of the turn; empty: a plain request")
	mode := flag.String("mode", string(gate.Yolo), "mode of the turn")
	level := flag.String("sandbox", "", "sandbox level; empty: that of the configuration")
	network := flag.Bool("network", false, "whether its code may use the network; default: that of the configuration")
	server := flag.Bool("server", false, "the token of an MCP server at -sandbox, with the network, whose program is the arguments")
	env := flag.String("env", "", "a variable of that server")
	age := flag.Duration("age", 0, "how long ago the token of a server was signed")
	flag.Parse()
	turn := gate.Turn{Session: *session, Mode: gate.Mode(*mode), Sandbox: proto.Level(*level)}
	if *network {
		turn.Network = network
	}
	if err := token(*dir, turn, *server, *age, *env, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "token:", err)
		os.Exit(1)
	}
}

func token(dir string, turn gate.Turn, server bool, age time.Duration, env string, argv []string) error {
	signer, err := gate.OpenSigner(dir, "")
	if err != nil {
		return err
	}
	text, err := signer.Sign(turn, time.Now())
	if server {
		text, err = signer.SignServer(gate.Server{Definition: gate.ServerDefinition(argv, strings.Fields(env), ""), Sandbox: turn.Sandbox, Network: true}, time.Now().Add(-age))
	}
	if err == nil {
		fmt.Println(text)
	}
	return err
}

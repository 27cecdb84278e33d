// Command token prints a token of the host's daemon, for calls that a check of the box
// makes itself. Root only.
package main

import (
	"flag"
	"fmt"
	"os"
	"time"

	"zino/pkg/gate"
	"zino/proto"
)

func main() {
	dir := flag.String("dir", "/var/lib/zino-daemon", "directory of the private key, which is made if missing")
	session := flag.String("session", "", "session of the turn; empty: a plain request")
	mode := flag.String("mode", string(gate.Yolo), "mode of the turn")
	level := flag.String("sandbox", "", "sandbox level; empty: that of the configuration")
	flag.Parse()
	if err := token(*dir, gate.Turn{Session: *session, Mode: gate.Mode(*mode), Sandbox: proto.Level(*level)}); err != nil {
		fmt.Fprintln(os.Stderr, "token:", err)
		os.Exit(1)
	}
}

func token(dir string, turn gate.Turn) error {
	signer, err := gate.OpenSigner(dir, "")
	if err != nil {
		return err
	}
	text, err := signer.Sign(turn, time.Now())
	if err == nil {
		fmt.Println(text)
	}
	return err
}

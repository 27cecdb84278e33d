// Command fakellm runs a scripted provider: it prints its base URL as one line
// and serves until SIGINT or SIGTERM. The script's format is described in
// package fakellm. Besides the provider's paths, GET /requests returns the recorded
// requests, and POST /open/NAME opens a gate.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"zino/pkg/fakellm"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:0", "TCP `address` to listen on")
	script := flag.String("script", "", "`file` with the script; without one every question is answered with \"ok\"")
	flag.Parse()
	if err := run(*listen, *script); err != nil {
		fmt.Fprintln(os.Stderr, "fakellm:", err)
		os.Exit(1)
	}
}

func run(listen, script string) error {
	turns := []fakellm.Turn{{Text: "ok", Times: fakellm.Forever}}
	if script != "" {
		var err error
		if turns, err = fakellm.Load(script); err != nil {
			return err
		}
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, os.Interrupt, syscall.SIGTERM)
	server, err := fakellm.Listen(listen, turns...)
	if err != nil {
		return err
	}
	defer server.Close()
	fmt.Println(server.URL)
	<-stop
	return nil
}

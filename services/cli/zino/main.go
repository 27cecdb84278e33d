// Command zino is the client in front of the constellation.
package main

import (
	"os"

	"zino/services/cli"
)

func main() { os.Exit(cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

// Command zino is the client in front of the constellation.
//
// It is never busy on many CPUs: to read the CPU limit of its cgroup at each start costs more
// than the limit saves.
//
//go:debug containermaxprocs=0
//go:debug updatemaxprocs=0
package main

import (
	"os"

	"zino/services/cli"
)

func main() { os.Exit(cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

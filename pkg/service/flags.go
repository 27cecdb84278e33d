package service

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"zino/pkg/rpc"
)

// options are what a unit, or a person, asks of a service's life.
type options struct {
	config   string
	callers  string        // who may call besides root and the own user; see [callersOf]
	idleExit time.Duration // of not being used, after which the process ends; 0: never
}

// asked is what Start read.
var asked options

const usage = `Usage: %[1]s [--config PATH]

One of Zino's services. It listens on the socket that ZINO.toml names, or on
the one that systemd or "zino up" hands over. SIGTERM lets requests in flight
finish, for 20 s at most; a second one cancels them. SIGHUP reads the
configuration again, for the log's level.

  -c, --config PATH     configuration (default: $ZINO_CONFIG, else ./ZINO.toml)
      --callers LIST    who may call, besides root and the service's own user:
                        users, and groups as group:NAME, with commas between
      --idle-exit TIME  end after so long without a request, such as 10m, if the
                        socket was handed over: the next connection is for the
                        next process (default: 0, never)
      --version         print the version
  -h, --help            print this
`

// readFlags reads the arguments. What they ask for beyond a start ends the
// process, and so does a mistake.
func readFlags(program string, args []string) (o options) {
	flags := flag.NewFlagSet(program, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&o.config, "config", "", "")
	flags.StringVar(&o.config, "c", "", "")
	flags.StringVar(&o.callers, "callers", "", "")
	flags.DurationVar(&o.idleExit, "idle-exit", 0, "")
	version := flags.Bool("version", false, "")
	err := flags.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Printf(usage, program)
		os.Exit(0)
	case err != nil:
		exit(2, program, fmt.Errorf("%w; try %s --help", err, program))
	case flags.NArg() > 0:
		exit(2, program, fmt.Errorf("unexpected argument %q; try %s --help", flags.Arg(0), program))
	case o.idleExit < 0:
		exit(2, program, fmt.Errorf("--idle-exit %v: it must not be negative; try %s --help", o.idleExit, program))
	case *version:
		fmt.Println(program, rpc.VersionText())
		os.Exit(0)
	}
	return o
}

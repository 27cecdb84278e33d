package service

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"zino/pkg/rpc"
)

// options are the values of the flags.
type options struct {
	config   string
	callers  string        // see [callersOf]
	idleExit time.Duration // exit after this time without use; 0: never
}

// flags are the options that Start read.
var flags options

// AddCaller adds an entry to the callers of a service that was started with --callers. Call
// it before Serve.
func AddCaller(entry string) {
	if flags.callers != "" {
		flags.callers += "," + entry
	}
}

// Flags are flags of one service, besides those of all services.
type Flags struct {
	Usage  string // the lines that --help prints
	Define func(*flag.FlagSet)
}

const usage = `Usage: %[1]s [--config PATH]

One of Zino's services. It listens on the socket that ZINO.toml names, or on
a socket passed by systemd or "zino up". SIGTERM lets requests in flight finish
within 20 s; a second one cancels them. SIGHUP reloads the log level from the
configuration.

  -c, --config PATH     configuration (default: $ZINO_CONFIG, else ./ZINO.toml)
      --callers LIST    users that may call, besides root and the service's own
                        user, separated by commas; groups as group:NAME,
                        those of some methods only as NAME=METHOD+METHOD
      --idle-exit TIME  exit after so long without a request, such as 10m, if the
                        socket was passed: the next connection starts the
                        service again (default: 0, never)
%[2]s      --version         print the version
  -h, --help            print this
`

// readFlags parses the arguments. It exits after --help and --version, and on an error.
func readFlags(program string, args []string, own ...Flags) (o options) {
	set := flag.NewFlagSet(program, flag.ContinueOnError)
	set.SetOutput(io.Discard)
	set.StringVar(&o.config, "config", "", "")
	set.StringVar(&o.config, "c", "", "")
	set.StringVar(&o.callers, "callers", "", "")
	set.DurationVar(&o.idleExit, "idle-exit", 0, "")
	version := set.Bool("version", false, "")
	var ownUsage strings.Builder
	for _, f := range own {
		f.Define(set)
		ownUsage.WriteString(f.Usage)
	}
	err := set.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Printf(usage, program, ownUsage.String())
		os.Exit(0)
	case err != nil:
		exit(2, program, fmt.Errorf("%w; try %s --help", err, program))
	case set.NArg() > 0:
		exit(2, program, fmt.Errorf("unexpected argument %q; try %s --help", set.Arg(0), program))
	case o.idleExit < 0:
		exit(2, program, fmt.Errorf("--idle-exit %v: it must not be negative; try %s --help", o.idleExit, program))
	case *version:
		fmt.Println(program, rpc.VersionText())
		os.Exit(0)
	}
	return o
}

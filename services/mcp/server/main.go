package server

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"zino/pkg/rpc"
	"zino/proto"
)

// Main is zino-mcp --serve: it answers an MCP client on standard input and output, and
// returns the exit status. The log goes to standard error.
func Main(args []string) int {
	var o Options
	set := flag.NewFlagSet("zino-mcp --serve", flag.ContinueOnError)
	set.SetOutput(io.Discard)
	set.StringVar(&o.Daemon, "daemon", "", "")
	set.StringVar(&o.Repl, "repl", "", "")
	set.StringVar(&o.Root, "root", "", "")
	sandbox := set.String("sandbox", "", "")
	network := set.String("network", "", "")
	tools := set.String("tools", "", "")
	err := set.Parse(args)
	switch {
	case err != nil:
	case o.Daemon == "":
		err = errors.New("--daemon SOCKET is missing")
	case set.NArg() > 0:
		err = fmt.Errorf("unexpected argument %q", set.Arg(0))
	case o.Root != "" && !filepath.IsAbs(o.Root):
		err = fmt.Errorf("--root %q is not an absolute path", o.Root)
	case *network != "":
		allowed := *network == "true"
		o.Network = &allowed
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "zino-mcp: %v; zino mcp serve passes the right ones\n", err)
		return 2
	}
	o.Sandbox = proto.Level(*sandbox)
	if *tools != "" {
		o.Tools = strings.Split(*tools, ",")
	}
	level := slog.LevelWarn
	if os.Getenv("ZINO_LOG_LEVEL") == "DEBUG" {
		level = slog.LevelDebug
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level})).With("version", rpc.Build)
	s, err := New(o, log)
	if err != nil {
		fmt.Fprintf(os.Stderr, "zino-mcp: %v\n", err)
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := s.Serve(ctx, os.Stdin, os.Stdout); err != nil {
		fmt.Fprintf(os.Stderr, "zino-mcp: %v\n", err)
		return 1
	}
	return 0
}

// Package service is the life of a process: flags, log, sockets, readiness,
// watchdog, drain. It knows that services exist and nothing of what they do.
package service

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"zino/pkg/config"
	"zino/pkg/rpc"
	"zino/proto"
)

// drainLimit is how long requests in flight may go on after SIGTERM.
const drainLimit = 20 * time.Second

// Start reads the flags --config/-c and --version of the service of that short
// name, its configuration, and opens its log. What cannot go on ends the
// process: status 1 for the configuration, 2 for the flags.
func Start(name string) (*config.Config, *slog.Logger) {
	program := "zino-" + name
	flags := flag.NewFlagSet(program, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	var file string
	flags.StringVar(&file, "config", "", "")
	flags.StringVar(&file, "c", "", "")
	version := flags.Bool("version", false, "")
	err := flags.Parse(os.Args[1:])
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Printf(usage, program)
		os.Exit(0)
	case err != nil:
		exit(2, program, fmt.Errorf("%w; try %s --help", err, program))
	case flags.NArg() > 0:
		exit(2, program, fmt.Errorf("unexpected argument %q; try %s --help", flags.Arg(0), program))
	case *version:
		fmt.Println(program, rpc.Build)
		os.Exit(0)
	}
	cfg, err := load(name, file)
	if err != nil {
		exit(1, program, err)
	}
	return cfg, openLog(name, file, cfg)
}

// openLog opens the log, whose level SIGHUP can change, and logs what is odd
// about the configuration.
func openLog(name, file string, cfg *config.Config) *slog.Logger {
	var current slog.LevelVar
	current.Set(level(cfg.Logging.Level))
	log := newLogger(os.Stderr, name, &current)
	OnReload(func(cfg *config.Config) { current.Set(level(cfg.Logging.Level)) })
	reloadOnHangup(name, file, log)
	if env := os.Getenv("ZINO_LOG_LEVEL"); env != "" {
		if _, ok := levelOf(env); !ok {
			log.Warn("ZINO_LOG_LEVEL is none of DEBUG, INFO, WARN, ERROR: not used", "value", env)
		}
	}
	for _, warning := range cfg.Warnings {
		log.Warn(warning)
	}
	return log
}

const usage = `Usage: %[1]s [--config PATH]

One of Zino's services. It listens on the socket that ZINO.toml names, or on
the one that systemd or "zino up" hands over. SIGTERM lets requests in flight
finish; SIGHUP reads the configuration again, for the log's level.

  -c, --config PATH  configuration (default: $ZINO_CONFIG, else ./ZINO.toml)
      --version      print the version
  -h, --help         print this
`

// exit ends the process with one line on stderr.
func exit(status int, program string, err error) {
	fmt.Fprintf(os.Stderr, "%s: %s\n", program, strings.ReplaceAll(err.Error(), "\n", "; "))
	os.Exit(status)
}

// Fail ends the process if err is not nil: one line on stderr, status 1.
func Fail(name string, err error) {
	if err != nil {
		exit(1, "zino-"+name, err)
	}
}

// Serve answers requests on the service's socket until SIGTERM or SIGINT, then
// drains. The socket at path is used unless one was handed over.
func Serve(s *rpc.Server, name, path string, log *slog.Logger) error {
	signals, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	l, err := listen(name, path)
	if err != nil {
		return err
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	log.Info("listening", "socket", l.Addr().String(), "version", rpc.Build)
	notify(log, daemon.SdNotifyReady)
	go watchdog(signals, name, l.Addr().String(), log)
	select {
	case err := <-served:
		return err
	case <-signals.Done():
	}
	stop() // a second signal ends the process at once
	notify(log, daemon.SdNotifyStopping)
	return drain(s, log)
}

func drain(s *rpc.Server, log *slog.Logger) error {
	ctx, cancel := context.WithTimeout(context.Background(), drainLimit)
	defer cancel()
	if err := s.Shutdown(ctx); err != nil {
		log.Warn("requests were cancelled at the end of the drain", "limit", drainLimit.String())
	}
	log.Info("stopped")
	return nil
}

// notify tells the supervisor, if there is one.
func notify(log *slog.Logger, state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		log.Warn("the supervisor cannot be told", "state", state, "error", err)
	}
}

// watchdog feeds the supervisor's watchdog as long as the service answers a
// ping on its own socket: a process that lives but hangs is not fed.
func watchdog(ctx context.Context, name, path string, log *slog.Logger) {
	every, err := daemon.SdWatchdogEnabled(true)
	if err != nil || every <= 0 {
		return
	}
	tick := time.NewTicker(every / 2)
	defer tick.Stop()
	for {
		if err := ping(ctx, name, path, every/2); err == nil {
			notify(log, daemon.SdNotifyWatchdog)
		} else if ctx.Err() == nil {
			log.Error("no answer on the own socket", "error", err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// ping asks as a caller would that comes for the first time: a connection that
// is kept says nothing of a server that accepts no more.
func ping(ctx context.Context, name, path string, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	self := &rpc.Client{Service: name, Path: path}
	defer self.Close()
	_, err := rpc.Call(ctx, self, proto.Ping, proto.PingRequest{})
	return err
}

// ListenAndServe is Serve in this process without signals, for tests and for
// several services in one process: it returns when the listener fails or the
// server is shut down.
func ListenAndServe(s *rpc.Server, name, path string) (net.Listener, error) {
	l, err := listen(name, path)
	if err != nil {
		return nil, err
	}
	go s.Serve(l)
	return l, nil
}
